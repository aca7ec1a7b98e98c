import assert from 'node:assert/strict';
import test from 'node:test';
import { layOut } from '../../lib/pages/layout.mjs';
import { defined } from '../../../../__test__/lib/types.mjs';

const item = (key) => ({ key: String(key), width: 100, height: 40 });
const edge = (from, to) => ({ from: String(from), to: String(to), value: from });

/** No two boxes overlap, and all lie within the drawing. */
function checkBoxes(items, { boxes, width, height }) {
  const placed = items.map(({ key, ...size }) => ({ key, ...size, ...boxes.get(key) })).sort((a, b) => a.y - b.y);
  for (const [i, a] of placed.entries()) {
    assert.ok(a.x >= 0 && a.y >= 0 && a.x + a.width <= width && a.y + a.height <= height, a.key);
    for (let j = i + 1; j < placed.length && placed[j].y < a.y + a.height; j++) {
      assert.ok(a.x + a.width <= placed[j].x || placed[j].x + placed[j].width <= a.x, `${a.key} and ${placed[j].key} overlap`);
    }
  }
}

/** The box of an item. */
const box = (layout, key) => defined(layout.boxes.get(key));

test('a reader stands below what it reads, and the edge goes from one to the other', () => {
  const items = ['a', 'b', 'c', 'd'].map(item);
  const edges = [edge('a', 'b'), edge('a', 'c'), edge('b', 'd'), edge('c', 'd')];
  const layout = layOut(items, edges);
  checkBoxes(items, layout);
  edges.forEach(({ from, to }, i) => {
    const [upper, lower] = [box(layout, from), box(layout, to)];
    assert.ok(lower.y >= upper.y + 40);
    const numbers = defined(layout.paths[i]?.match(/-?\d+/g)).map(Number);
    assert.deepEqual(numbers.slice(0, 2), [Math.round(upper.x + 50), Math.round(upper.y + 40)]);
    assert.equal(numbers.at(-1), Math.round(lower.y));
  });
});

test('the order in which boxes are given does not matter', () => {
  const layout = layOut(['c', 'b', 'a'].map(item), [edge('a', 'b'), edge('b', 'c')]);
  assert.ok(box(layout, 'a').y < box(layout, 'b').y && box(layout, 'b').y < box(layout, 'c').y);
});

test('what needs several bands is still laid out without overlaps, top down, and edges between bands are drawn', () => {
  const count = 1500;
  const items = Array.from({ length: count }, (_, i) => item(i));
  // A chain with residual connections, as in most networks.
  const edges = Array.from({ length: count - 1 }, (_, i) => edge(i, i + 1));
  for (let i = 0; i + 7 < count; i += 7) {
    edges.push(edge(i, i + 7));
  }
  // Wide in one place, so that the bands do not begin at the same x.
  for (let i = 0; i < 30; i++) {
    items.push(item(`leaf ${i}`));
    edges.push(edge(800, `leaf ${i}`));
  }
  const layout = layOut(items, edges);
  checkBoxes(items, layout);
  assert.ok(edges.every(({ from, to }) => box(layout, from).y < box(layout, to).y));
  assert.ok(layout.paths.every((path) => path !== null));
});

test('an edge past hundreds of rows is left to a stub, and a source stands near to its first reader', () => {
  const count = 400;
  const items = [item('mask'), ...Array.from({ length: count }, (_, i) => item(i))];
  const edges = [...Array.from({ length: count - 1 }, (_, i) => edge(i, i + 1)), edge('mask', 200), edge('mask', 390)];
  const layout = layOut(items, edges);
  assert.notEqual(layout.paths.at(-2), null);
  assert.equal(layout.paths.at(-1), null);
  assert.ok(box(layout, 'mask').y > box(layout, '150').y);
});

test('an early result stands below what gives it', () => {
  const count = 400;
  const items = [...Array.from({ length: count }, (_, i) => item(i)), item('early'), item('last')];
  const edges = [...Array.from({ length: count - 1 }, (_, i) => edge(i, i + 1)), edge(20, 'early'), edge(count - 1, 'last')];
  const layout = layOut(items, edges);
  assert.ok(layout.paths.every((path) => path !== null));
  assert.equal(box(layout, 'early').y, box(layout, '21').y);
});

test('a source stands beside the late layer that reads it, and its edge is drawn', () => {
  const count = 90;
  const items = [item('cache'), ...Array.from({ length: count }, (_, i) => item(i))];
  const edges = [...Array.from({ length: count - 1 }, (_, i) => edge(i, i + 1)), edge('cache', 80)];
  const layout = layOut(items, edges);
  assert.notEqual(layout.paths.at(-1), null);
  assert.equal(box(layout, 'cache').y, box(layout, '79').y);
});

test('a graph without edges, and one with nothing at all, have a drawing', () => {
  const alone = layOut([item('a')], []);
  checkBoxes([item('a')], alone);
  const empty = layOut([], []);
  assert.ok(Number.isFinite(empty.width) && Number.isFinite(empty.height));
});
