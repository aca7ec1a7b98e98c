// What reads and runs the pages notices what is wrong with them.

import assert from 'node:assert/strict';
import test from 'node:test';
import { anchorsOf, blocksOf } from './page.mjs';
import { checkSyntax, createProject, isShown, programsOf, runProgram } from './program.mjs';

const fence = (language, text) => `\`\`\`${language}\n${text}\n\`\`\`\n`;

/** Runs the only program of a page. */
async function runPage(t, markdown) {
  const project = createProject(t);
  const [parts] = programsOf(blocksOf(markdown, 'page.md'));
  return runProgram(project, parts);
}

test('a block has its line, its language, its files and its output', () => {
  const page = `# Title\n\n<!-- files: a.onnx = x/a.onnx, b.png = y/b.png -->\n\n${fence('js', 'run();')}\nIt prints:\n\n${fence('text', '1')}`;
  const [block, ...others] = blocksOf(page, 'page.md');
  assert.deepEqual(others, []);
  assert.deepEqual(
    { ...block, output: block.output?.text },
    {
      line: 5,
      language: 'js',
      text: 'run();',
      files: { 'a.onnx': 'x/a.onnx', 'b.png': 'y/b.png' },
      serves: undefined,
      continues: false,
      notRun: undefined,
      output: '1',
    },
  );
});

test('blocks that continue each other are one program', () => {
  const page = `${fence('js', 'a')}\n<!-- continues -->\n\n${fence('js', 'b')}\n${fence('sh', 'c')}\n${fence('js', 'd')}`;
  const programs = programsOf(blocksOf(page, 'page.md'));
  assert.deepEqual(
    programs.map((parts) => parts.map(({ text }) => text)),
    [['a', 'b'], ['c'], ['d']],
  );
  assert.throws(() => programsOf(blocksOf(`${fence('sh', 'a')}\n<!-- continues -->\n\n${fence('js', 'b')}`, 'page.md')), /no program above/);
});

test('pages that no test could run as they are meant are refused', () => {
  for (const [page, message] of /** @type {[string, RegExp][]} */ ([
    [fence('bash', 'ls'), /page\.md:1: a code block is in "bash", expected one of js, ts, sh, python, text/],
    [fence('python', 'print(1)'), /page\.md:1: say why the block is not run/],
    [fence('', 'ls'), /page\.md:1: a code block is in ""/],
    [fence('text', '1'), /page\.md:1: this output follows no block that is run/],
    [`${fence('js', 'a')}\n# Next\n\n${fence('text', '1')}`, /page\.md:7: this output follows no block/],
    [`<!-- not run: why -->\n\n${fence('js', 'a')}\n${fence('text', '1')}`, /this output follows no block that is run/],
    [`<!-- not run -->\n\n${fence('js', 'a')}`, /say why the block is not run/],
    [`<!-- not run: -->\n\n${fence('js', 'a')}`, /say why the block is not run/],
    [`<!-- not compared -->\n\n${fence('text', '1')}`, /say why the block is not run/],
    [`<!-- continues -->\n\n${fence('sh', 'a')}`, /"continues" says nothing about a block in sh/],
    [`<!-- continues -->\n\nWords.\n\n${fence('js', 'a')}`, /"continues" stands above no code block/],
    [`<!-- files: a.onnx -->\n\n${fence('js', 'a')}`, /"a\.onnx" is not NAME = PATH/],
    [`- item\n\n  ${fence('js', 'a').replaceAll('\n', '\n  ')}`, /1 code blocks stand in lists or quotes/],
  ])) {
    assert.throws(() => blocksOf(page, 'page.md'), message, page);
  }
});

test('the parts of a program have outputs of their own', async (t) => {
  const page = `${fence('js', "import os from 'node:os';\nconst a = 1;\nconsole.log(a);\nconsole.log('x');")}\n<!-- continues -->\n\n${fence('js', 'console.log(a + 1, typeof os.cpus)')}`;
  assert.deepEqual(await runPage(t, page), ['1\nx', '2 function']);
});

test('programs that fail or complain are errors', async (t) => {
  await assert.rejects(runPage(t, fence('js', "console.log('first'); throw new Error('broken');")), /ended with 1\nfirst\n[^]*broken/);
  await assert.rejects(runPage(t, fence('ts', "export const a: number = 'x';")), /ended with [12]\nline-1\.mts\(1,14\): error TS2322/);
  await assert.rejects(runPage(t, fence('js', "console.error('a warning');")), /ended with 0\na warning/);
  await assert.rejects(runPage(t, fence('sh', 'false\necho unreachable')), /ended with 1\n$/);
  await assert.rejects(runPage(t, fence('js', "import 'webnn-node/nothing';")), /ERR_PACKAGE_PATH_NOT_EXPORTED/);
  const project = createProject(t);
  const [block] = blocksOf(`<!-- not run: why -->\n\n${fence('js', 'const = 1;')}`, 'page.md');
  await assert.rejects(checkSyntax(project, block), /SyntaxError/);
});

test('a shown output is compared but for what it leaves out', () => {
  for (const [shown, printed] of [
    ['a\nb', 'a\nb\n'],
    ['took … ms, 2 threads', 'took 1.5 ms, 2 threads'],
    ['a\n…\nz', 'a\nb\nc\nz'],
    ['a\n…\nz', 'a\nz'],
    ['name     size', 'name  size'],
    ['[1] (x) $', '[1] (x) $'],
  ]) {
    assert.ok(isShown(shown, printed), `${shown} shows ${printed}`);
  }
  for (const [shown, printed] of [
    ['a', 'a\nb'],
    ['a\nb', 'a'],
    ['a b', 'a  b'],
    ['took … ms', 'took 1\n2 ms'],
    ['took … ms, 2 threads', 'took 1.5 ms, 4 threads'],
    ['a\n…\nz', 'a\nb\nc'],
    ['1.5', '1x5'],
    ['', 'a'],
  ]) {
    assert.ok(!isShown(shown, printed), `${shown} does not show ${printed}`);
  }
});

test('a server serves while a block runs, and the page shows its port', async (t) => {
  const page = `<!-- serves -->\n\n${fence('js', "const url = 'http://127.0.0.1:8080/v2/models/embeddings';\nconst { status } = await fetch(url);\nconsole.log(url, status);")}`;
  assert.deepEqual(await runPage(t, page), ['http://127.0.0.1:8080/v2/models/embeddings 200']);
  await assert.rejects(runPage(t, page.replace('serves', 'serves: nowhere')), /the server ended: webnn-node-serve: there is no folder nowhere/);
});

test('headings have the addresses that GitHub gives them', () => {
  const anchors = anchorsOf('# A `b()` & *c*, d\n\n## Twice\n\n## Twice\n\n### [Link](x.md): here\n');
  assert.deepEqual([...anchors], ['a-b--c-d', 'twice', 'twice-1', 'link-here']);
});
