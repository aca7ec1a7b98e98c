import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import test, { describe } from 'node:test';
import { Script } from 'node:vm';
import { escapeHtml, escapeJson } from '../../lib/pages/html.mjs';
import { profilePage } from '../../lib/pages/profile.mjs';
import { viewPage } from '../../lib/pages/view.mjs';
import { description, HOSTILE, profile } from './by-hand.mjs';
import { defined } from '../../../../__test__/lib/types.mjs';

const pages = {
  view: viewPage({ title: HOSTILE, description, profile }),
  profile: profilePage({ title: HOSTILE, profile }),
};

/** The data that a page carries. */
const dataOf = (page) => JSON.parse(defined(/<script type="application\/json" id="data">(.*?)<\/script>/s.exec(page))[1]);

for (const [name, page] of Object.entries(pages)) {
  describe(`the page of ${name}`, () => {
    test('shows hostile names as text only', () => {
      assert.ok(!page.includes('alert(1)</script>'));
      assert.ok(!page.includes('<!--'));
      assert.equal(page.match(/<script\b/g)?.length, 2, 'its data and its script');
      assert.equal(dataOf(page).title, HOSTILE);
    });

    test('allows its own script and style and nothing else', () => {
      const policy = defined(/http-equiv="Content-Security-Policy" content="([^"]*)"/.exec(page))[1];
      const hash = (tag) => createHash('sha256').update(tag.exec(page)[1]).digest('base64');
      assert.ok(policy.includes("default-src 'none'"));
      assert.ok(policy.includes(`script-src 'sha256-${hash(/<script type="module">(.*?)<\/script>/s)}'`));
      assert.ok(policy.includes(`style-src 'sha256-${hash(/<style>(.*?)<\/style>/s)}'`));
    });

    test('has a script whose joined modules share one scope without clashes', () => {
      assert.doesNotThrow(() => new Script(defined(/<script type="module">(.*?)<\/script>/s.exec(page))[1]));
    });

    test('loads nothing', () => {
      assert.doesNotMatch(page, /\b(src|href)="(?!data:)/);
      assert.doesNotMatch(page, /@import|url\(["']?(http|\/)/);
      assert.doesNotMatch(page, /^import /m);
    });
  });
}

test('text for HTML and for scripts is escaped', () => {
  assert.equal(escapeHtml(`<a href="x" title='&'>`), '&#60;a href=&#34;x&#34; title=&#39;&#38;&#39;&#62;');
  const data = { name: HOSTILE, separators: '\u2028\u2029' };
  assert.ok(!escapeJson(data).includes('<'));
  assert.deepEqual(JSON.parse(escapeJson(data)), data);
});

describe('what the page of a graph says', () => {
  const { sides, subtitle } = dataOf(pages.view);
  const find = (side, kind, operator) => sides[side].items.find((item) => item.kind === kind && item.operator === operator);

  test('what became of the nodes', () => {
    assert.equal(subtitle, '4 nodes became 2, run in 2 steps');
    assert.equal(find('source', 'node', 'neg').mark, 'folded');
    assert.deepEqual(find('source', 'node', 'neg').related, []);
    assert.equal(find('source', 'node', 'reshape').mark, 'view');
    assert.equal(find('compiled', 'node', 'reshape').mark, 'view');
    const fused = find('compiled', 'node', 'matmul');
    assert.deepEqual(fused.related, ['n2', 'n3']);
    assert.deepEqual(find('source', 'node', 'relu').related, [fused.key]);
    assert.deepEqual(fused.lines.slice(0, 2), ['matmul', '+ relu']);
  });

  test('where the time went: a fused node and its parts have the same share', () => {
    assert.equal(find('compiled', 'node', 'matmul').shareText, '66.7 %');
    assert.equal(find('source', 'node', 'relu').shareText, '66.7 %');
    assert.ok(find('source', 'node', 'relu').facts.some(([, text]) => text.includes('fused')));
    assert.equal(find('source', 'node', 'neg').shareText, undefined);
  });

  test('nodes that one step computes have its facts', () => {
    const steps = description.steps.map((step) => (step.node === 1 ? { ...step, node: 0, beside: [1] } : step));
    const { items } = dataOf(viewPage({ title: 'x', description: { ...description, steps } })).sides.compiled;
    const nodes = items.filter(({ kind }) => kind === 'node');
    assert.equal(nodes.length, 2);
    for (const { mark, facts } of nodes) {
      assert.equal(mark, undefined);
      assert.deepEqual(facts.slice(0, 2), [
        ['Kernel', 'gemm'],
        ['Step', 'computes 2 nodes together'],
      ]);
    }
  });

  test('types, constants, attributes and readers', () => {
    const matmul = find('compiled', 'node', 'matmul');
    assert.deepEqual(matmul.inputs, [
      { type: 'float32 2×3', from: 'n0', note: '' },
      { type: 'float32 3×4', from: null, note: 'constant, 48 B' },
    ]);
    assert.deepEqual(matmul.outputs, [{ type: 'float32 2×4', readers: ['o0'] }]);
    assert.deepEqual(find('source', 'node', 'reshape').attributes, [['newShape', '[2,3]']]);
  });

  test('graph inputs and outputs of both sides belong together by name', () => {
    assert.deepEqual(find('source', 'input', 'input').related, [find('compiled', 'input', 'input').key]);
    assert.deepEqual(find('compiled', 'output', 'output').related, [find('source', 'output', 'output').key]);
  });

  test('without a profile nothing is timed', () => {
    const data = dataOf(viewPage({ title: 'x', description }));
    assert.equal(data.timed, false);
    assert.ok(data.sides.compiled.items.every(({ share }) => share === undefined));
  });

  test('a model that is cut says what the page shows of it, and where and why it is cut', () => {
    const cut = { name: HOSTILE, operator: 'Find', domain: 'org.example', opset: 1, reason: 'data decide' };
    const data = dataOf(viewPage({ title: 'x', description, cuts: [cut, { ...cut, name: 'b', domain: '' }], nodesLeft: 7 }));
    assert.match(data.subtitle, /^First stage: /);
    assert.deepEqual(
      data.overview.map(({ heading }) => heading),
      ['Graph of the first stage', 'Cuts'],
    );
    assert.deepEqual(data.overview[1].facts, [
      [HOSTILE, 'org.example.Find: data decide'],
      ['b', 'Find: data decide'],
      ['Nodes that run later', '7'],
    ]);
    const whole = dataOf(viewPage({ title: 'x', description }));
    assert.deepEqual(
      whole.overview.map(({ heading }) => heading),
      ['Graph'],
    );
    assert.doesNotMatch(whole.subtitle, /stage/);
  });

  test('the metadata of a model, what says nothing left out', () => {
    const metadata = {
      irVersion: 8,
      producerName: 'exporter',
      producerVersion: '2',
      domain: '',
      modelVersion: 0,
      description: '',
      graphName: 'g',
      opsets: { '': 17 },
      properties: { key: HOSTILE },
    };
    const { overview } = dataOf(viewPage({ title: 'x', description, model: { metadata } }));
    assert.deepEqual(overview[1].facts, [
      ['Graph', 'g'],
      ['Producer', 'exporter 2'],
      ['IR version', '8'],
      ['Operator sets', 'ai.onnx 17'],
      ['key', HOSTILE],
    ]);
  });
});

test('a graph that is too large to be drawn is listed, and says so', () => {
  const count = 10001;
  /** @type {import('webnn-node/inspect').ListedValue[]} */
  const values = Array.from({ length: count + 1 }, (_, id) => ({ id, dataType: 'float32', shape: [1], kind: id === 0 ? 'input' : 'node', bytes: 4 }));
  const nodes = Array.from({ length: count }, (_, id) => ({
    id,
    operator: 'neg',
    label: '',
    inputs: [id],
    outputs: [id + 1],
    attributes: {},
    prologues: [],
    epilogue: [],
    origins: [id],
  }));
  const source = { values, nodes, inputs: [{ name: 'x', value: 0 }], outputs: [{ name: 'y', value: count }] };
  const data = dataOf(
    viewPage({
      title: 'x',
      description: { ...description, source, compiled: { ...source, nodes: [], values: values.slice(0, 1), outputs: [{ name: 'y', value: 0 }] } },
    }),
  );
  assert.equal(data.sides.source.drawn, false);
  assert.equal(data.sides.source.items.length, count + 2);
  assert.equal(data.sides.compiled.drawn, true);
});

describe('what the page of a profile says', () => {
  const data = dataOf(pages.profile);

  test('the tables', () => {
    const texts = (table) => table.rows.map(({ cells }) => cells.map(({ text }) => text));
    assert.deepEqual(texts(data.operators)[0], ['matmul', 'gemm', '1', '80.0 ns', '66.7 %', '24', '0.600', '104 B', '1.30']);
    assert.deepEqual(texts(data.steps)[1], ['1', 'copy', '', 'copy', '', '20.0 ns', '16.7 %', '–', '–', '64 B', '3.20']);
  });

  test('each run is in one bin of the histogram', () => {
    assert.equal(
      data.histogram.reduce((total, { count }) => total + count, 0),
      3,
    );
    assert.ok(data.histogram.length > 1);
  });

  test('the timeline has the median, the fastest and the slowest run', () => {
    assert.deepEqual(
      data.timeline.runs.map(({ name }) => name),
      ['median (run 2): 120 ns', 'fastest (run 0): 100 ns', 'slowest (run 1): 200 ns'],
    );
    assert.deepEqual(data.timeline.runs[0].slices, [
      [10, 80, '80.0 ns'],
      [95, 16, '16.0 ns'],
    ]);
    const alone = dataOf(profilePage({ title: 'x', profile: { description, runs: profile.runs.slice(0, 1) } }));
    assert.deepEqual(
      alone.timeline.runs.map(({ name }) => name),
      ['median (run 0): 100 ns'],
    );
    assert.deepEqual(alone.histogram, [{ from: '100 ns', to: '100 ns', count: 1 }]);
  });
});
