import assert from 'node:assert/strict';
import test from 'node:test';
import { layout, panel } from '../../examples/digits/render.mjs';
import { colorDepth, columnChart, horizontalBar, paint, PALETTE, percent, picture, PLAIN, TRUECOLOR } from '../../examples/digits/terminal.mjs';

const DEPTHS = [PLAIN, PALETTE, TRUECOLOR];
const visible = (text) => text.replace(/\x1b\[[\d;]*m/g, '');

test('colour is for terminals whose user wants it', () => {
  const terminal = (bits) => /** @type {any} */ ({ isTTY: true, getColorDepth: () => bits });
  assert.equal(colorDepth(terminal(24), {}), TRUECOLOR);
  assert.equal(colorDepth(terminal(8), {}), PALETTE);
  assert.equal(colorDepth(terminal(4), {}), PLAIN);
  assert.equal(colorDepth(terminal(24), { NO_COLOR: '1' }), PLAIN);
  assert.equal(colorDepth(terminal(24), { NO_COLOR: '' }), TRUECOLOR);
  assert.equal(colorDepth(/** @type {any} */ ({ isTTY: undefined }), {}), PLAIN);
});

test('paint writes truecolor, the palette, or nothing', () => {
  const style = { color: [255, 0, 0], background: [8, 8, 8], bold: true };
  assert.equal(paint('x', TRUECOLOR, style), '\x1b[1;38;2;255;0;0;48;2;8;8;8mx\x1b[0m');
  assert.equal(paint('x', PALETTE, style), '\x1b[1;38;5;196;48;5;232mx\x1b[0m');
  assert.equal(paint('x', PLAIN, style), 'x');
});

test('percentages align', () => {
  assert.deepEqual([0, 0.0004, 0.5, 1].map(percent), ['  0.0 %', '  0.0 %', ' 50.0 %', '100.0 %']);
});

test('a horizontal bar is as long as its fraction', () => {
  assert.equal(horizontalBar(0, 10, PLAIN, [1, 2, 3]), '');
  assert.equal(horizontalBar(0.5, 10, PLAIN, [1, 2, 3]), '#####');
  assert.equal(horizontalBar(1, 10, PLAIN, [1, 2, 3]), '##########');
  assert.equal(horizontalBar(0, 10, TRUECOLOR, [1, 2, 3]), '');
  assert.equal(visible(horizontalBar(0.25, 10, TRUECOLOR, [1, 2, 3])), '██▌');
  assert.equal(visible(horizontalBar(1, 10, PALETTE, [1, 2, 3])), '██████████');
});

test('a column chart grows from the bottom and shows empty bars', () => {
  const gray = () => [9, 9, 9];
  assert.deepEqual(columnChart([0, 0.5, 1], 2, PLAIN, gray), ['    # ', '. # # ']);
  assert.deepEqual(columnChart([0, 0.75, 1], 2, TRUECOLOR, gray).map(visible), ['  ▄ █ ', '▁ █ █ ']);
});

test('a picture shows every pixel', () => {
  assert.deepEqual(picture([0, 1, 1, 0], 2, PLAIN), ['  @@', '@@  ']);
  const lines = picture([0, 1, 1, 0], 2, TRUECOLOR);
  assert.deepEqual(lines.map(visible), ['▀▀▀▀', '▀▀▀▀']);
  // The corners of the doubled picture are the pixels themselves: paper and ink.
  assert.ok(lines[0].startsWith('\x1b[38;2;26;28;38;'), JSON.stringify(lines[0]));
  assert.ok(lines[1].startsWith('\x1b[38;2;'), JSON.stringify(lines[1]));
  assert.ok(lines[1].includes('48;2;255;244;214m'), JSON.stringify(lines[1]));
});

test('panels have equal lines and fill the width they are given', () => {
  const pixels = Float32Array.from({ length: 64 }, (_, i) => i % 17);
  const probabilities = Float32Array.from({ length: 10 }, (_, i) => (i === 7 ? 1 : 0));
  const shown = { name: '0042-is-7.png', index: 42, label: 7, pixels };
  for (const depth of DEPTHS) {
    const lines = panel(shown, probabilities, depth);
    assert.deepEqual(
      lines.map((line) => visible(line).length),
      Array(8).fill(38),
      `depth ${depth}`,
    );
    for (const [columns, perRow] of [
      [20, 1],
      [78, 1],
      [79, 2],
      [80, 2],
      [120, 3],
    ]) {
      const text = layout([lines, lines, lines], columns);
      const rows = Math.ceil(3 / perRow);
      assert.equal(text.split('\n').length, 9 * rows + 1, `${columns} columns`);
      const widest = Math.max(...text.split('\n').map((line) => visible(line).trimEnd().length));
      assert.ok(widest <= Math.max(38, columns), `${columns} columns`);
    }
  }
});
