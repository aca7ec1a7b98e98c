import assert from 'node:assert/strict';
import { existsSync, mkdirSync, readdirSync, readFileSync, utimesSync, writeFileSync } from 'node:fs';
import { availableParallelism } from 'node:os';
import { join } from 'node:path';
import test, { describe } from 'node:test';
import { fileURLToPath } from 'node:url';
import { Command } from 'commander';
import { runNode } from './lib/processes.mjs';
import { temporaryFolder } from './lib/folders.mjs';
import { COMMANDS, subjectOf } from '../scripts/subjects.mjs';
import { releaseNotes } from '../scripts/release-notes.mjs';
import { isAtLeast, packagesAreStale, platformName, replaceFile } from '../scripts/setup.mjs';
import { readResults, speedClaim, speedLoss, speedTable } from '../scripts/speed-table.mjs';
import { environmentTable, errorsTable, insertTable, onnxTable, optionTables, shortTypes, supportTable } from '../scripts/support-table.mjs';

test('versions are compared number by number', () => {
  for (const [actual, wanted] of [
    ['1.90.0', '1.90'],
    ['1.100.0', '1.90'],
    ['2.0.0', '1.90'],
    ['v20.0.0', '20'],
    ['1.90.0-nightly', '1.90'],
    ['1.90', '1.90.0'],
  ]) {
    assert.ok(isAtLeast(actual, wanted), `${actual} >= ${wanted}`);
  }
  for (const [actual, wanted] of [
    ['1.89.9', '1.90'],
    ['1.9.0', '1.90'],
    ['v18.20.1', '20'],
    ['1.90.0', '1.90.1'],
  ]) {
    assert.ok(!isAtLeast(actual, wanted), `${actual} < ${wanted}`);
  }
});

test('a platform is named after system and architecture, on Linux also after the C library', () => {
  assert.equal(platformName('linux', 'x64', true), 'linux-x64-gnu');
  assert.equal(platformName('linux', 'arm64', false), 'linux-arm64-musl');
  assert.equal(platformName('darwin', 'arm64', false), 'darwin-arm64');
  assert.equal(platformName('win32', 'x64', false), 'win32-x64');
});

test('npm packages are stale when they are missing or older than the lock file', (t) => {
  const directory = temporaryFolder(t);
  const [lock, installed] = [join(directory, 'package-lock.json'), join(directory, 'node_modules', '.package-lock.json')];
  writeFileSync(lock, '');
  assert.equal(packagesAreStale(directory), true);
  mkdirSync(join(directory, 'node_modules'));
  assert.equal(packagesAreStale(directory), true, 'an installation that was broken off');
  writeFileSync(installed, '');
  utimesSync(lock, 1000, 1000);
  utimesSync(installed, 2000, 2000);
  assert.equal(packagesAreStale(directory), false);
  utimesSync(lock, 3000, 3000);
  assert.equal(packagesAreStale(directory), true);
});

test('the addon is replaced only where it changes, and nothing else is left', (t) => {
  const directory = temporaryFolder(t);
  const [source, target] = [join(directory, 'built'), join(directory, 'addon.node')];
  writeFileSync(source, 'one');
  assert.equal(replaceFile(source, target), true);
  assert.equal(replaceFile(source, target), false);
  writeFileSync(source, 'two');
  assert.equal(replaceFile(source, target), true);
  assert.equal(readFileSync(target, 'utf8'), 'two');
  assert.deepEqual(readdirSync(directory), ['addon.node', 'built']);
});

test('an addon that cannot be written is an error with advice', (t) => {
  const directory = temporaryFolder(t);
  writeFileSync(join(directory, 'built'), 'one');
  assert.throws(() => replaceFile(join(directory, 'built'), join(directory, 'missing', 'addon.node')), /cannot write .*ENOENT.*\n.*end it first/);
});

const ALL = ['float32', 'float16', 'int32', 'uint32', 'int64', 'uint64', 'int8', 'uint8'];
const limits = (dataTypes, min, max) => ({ dataTypes, rankRange: { min, max } });

test('data types are shortened in a fixed order', () => {
  assert.equal(shortTypes([...ALL].reverse()), 'any');
  assert.equal(shortTypes(['uint8', 'float16', 'float32']), 'f32 f16 u8');
  assert.throws(() => shortTypes(['int4']), /unknown data type "int4"/);
});

test('the support table has one row per operator, with equal neighbours put together', () => {
  const floats = limits(['float32', 'float16'], 4, 4);
  const any = limits(ALL, 0, 8);
  /** @type {any} limits with two operators */
  const some = {
    preferredInputLayout: 'nchw',
    maxTensorByteLength: 1024,
    input: any,
    constant: any,
    output: any,
    split: { input: any, outputs: any },
    conv2d: { input: floats, filter: floats, bias: limits(['float32', 'float16'], 1, 1), output: floats },
  };
  const table = supportTable(some);
  const lines = table.split('\n');
  assert.match(lines[0], /^2 operators\. Graph inputs: any, rank 0–8; .*at most 1024 bytes; the preferred layout is `nchw`\.$/);
  assert.deepEqual(lines.slice(-2), [
    '| `conv2d` | `input` `filter` f32 f16, rank 4<br>`bias` f32 f16, rank 1 | `output` f32 f16, rank 4 |',
    '| `split` | `input` any, rank 0–8 | `outputs` any, rank 0–8 |',
  ]);
});

test('the table of variables has one row per variable', () => {
  const table = environmentTable([{ name: 'WEBNN_A', meaning: '`1` or `2`' }]);
  assert.equal(table, '| Variable | Meaning |\n|---|---|\n| `WEBNN_A` | `1` or `2` |');
});

test('the table of error codes leads to their sections', () => {
  const table = errorsTable([{ code: 'ERR_WEBNN_A', exception: 'TypeError', meaning: 'It is wrong.' }]);
  assert.equal(table.split('\n').at(-1), '| [`ERR_WEBNN_A`](#err_webnn_a) | `TypeError` | It is wrong. |');
});

test('options of the command line are those of its help', () => {
  const program = new Command('tool');
  program.command('go').description('Goes.').option('-n, --number <A|B>', 'how often <or> not', '1').helpOption('-h, --help', 'print this text');
  const rows = ['| `-n, --number <A\\|B>` | how often &lt;or> not (default: "1") |', '| `-h, --help` | print this text |'];
  assert.equal(optionTables(program), `### tool go\n\nGoes.\n\n| Option | Meaning |\n|---|---|\n${rows.join('\n')}`);
});

test('ONNX operators are listed by domain, those with limits in a table', () => {
  const operators = [
    { domain: '', operator: 'Abs', notes: '' },
    { domain: '', operator: 'Add', notes: '' },
    { domain: '', operator: 'TopK', notes: 'constant K' },
    { domain: 'com.microsoft', operator: 'Gelu', notes: '' },
  ];
  const unsupported = [
    { domain: '', operator: 'Beam', reason: 'it shines' },
    { domain: '', operator: 'Lamp', reason: 'it shines' },
  ];
  const [first, second] = onnxTable(operators, unsupported).split('\n\n## com.microsoft\n\n');
  assert.match(first, /^## ai\.onnx\n\n3 operators\..*:\n\n`Abs` `Add`\n\n/);
  assert.ok(first.includes('| Operator | Limits |\n|---|---|\n| `TopK` | constant K |\n\n'), first);
  assert.ok(first.endsWith('| Operators | Reason |\n|---|---|\n| `Beam` `Lamp` | it shines |'), first);
  assert.match(second, /^1 operators\..*:\n\n`Gelu`/);
});

test('the table is put between its markers, again and again', () => {
  const [begin, end] = ['<!-- support-table:begin -->', '<!-- support-table:end -->'];
  const once = insertTable(`before ${begin}old${end} after`, 'support-table', 'T');
  assert.equal(once, `before ${begin}\n\nT\n\n${end} after`);
  assert.equal(insertTable(once, 'support-table', 'T'), once);
  for (const text of ['', begin, `${end}${begin}`, `${begin}${end}${begin}${end}`, `${begin}${end}${end}`]) {
    assert.throws(() => insertTable(text, 'support-table', 'T'), /exactly one/);
  }
});

const REPORT = `# Results

## Times with 1 thread

| model | webnn-node | limit | onnxruntime-node | × | openvino | × | clean |
|---|--:|--:|--:|--:|--:|--:|--:|
| one | 2 / 2 | 1 % | 4 / 4 | 2.00× | 3 / 3 | 1.50× | 15/15 |
| two | 2 / 2 | 1 % | 1 / 1 | 0.50× | not supported | – | 15/15 |
| geometric mean |  |  |  | 1.00× |  | 1.50× |  |
| not slower |  |  |  | 1 of 2 |  | 1 of 1 |  |

## Times with 2 threads

| model | webnn-node | limit | onnxruntime-node | × | openvino | × | clean |
|---|--:|--:|--:|--:|--:|--:|--:|
| one | 2 / 2 | 1 % | 1 / 1 | 0.50× | 3 / 3 | 1.50× | 15/15 |
| two | 2 / 2 | 1 % | 1 / 1 | 0.50× | not supported | – | 15/15 |
| geometric mean |  |  |  | 0.50× |  | 1.50× |  |

## Loading and memory

| model | weights | engine | load | loaded | in all | after runs | in all |
|---|--:|---|--:|--:|--:|--:|--:|
| one | 1 MiB | webnn-node | 1 / 1 | 1 MiB | 2 MiB | 512 MiB | 2 MiB |
|  |  | onnxruntime-node | 1 / 1 | 1 MiB | 2 MiB | 1.00 GiB | 2 MiB |
|  |  | ncnn | – | – | – | – | – |
| two | 1 MiB | webnn-node | 1 / 1 | 1 MiB | 2 MiB | 1.00 MiB | 2 MiB |
|  |  | onnxruntime-node | 1 / 1 | 1 MiB | 2 MiB | 8.00 MiB | 2 MiB |
`;

test('the table of speeds and the claims about them are those of the report', () => {
  const results = readResults(REPORT);
  assert.deepEqual(speedTable(results).split('\n').slice(2), [
    '| one | 2.00× | 0.50× | 1.50× | 1.50× | 50 % |',
    '| two | 0.50× | 0.50× | – | – | 13 % |',
    '| geometric mean | 1.00× | 0.50× | 1.50× | 1.50× | 25 % |',
  ]);
  assert.equal(speedClaim(results), '1.00 times as fast as onnxruntime-node in 25 % of its memory (geometric means of 2 models with random weights');
  assert.match(speedLoss(results), /faster on 2 of 2 models; overall, webnn-node runs at 0\.50 times its speed/);
  assert.throws(() => readResults('# Results\n'), /has no table below "Times with 1 thread"/);
  assert.throws(() => readResults(REPORT.replaceAll('openvino', 'other')), /has no column "openvino"/);
  assert.throws(() => readResults(REPORT.replace('512 MiB', '512 MB')), /"512 MB" is not a memory size/);
  assert.throws(() => readResults(REPORT.replace('8.00 MiB', '–')), /has no value for two onnxruntime-node/);
});

test('suites of tests that do not go together are refused', async () => {
  const program = fileURLToPath(new URL('../scripts/test.mjs', import.meta.url));
  for (const [args, message] of /** @type {[string[], RegExp][]} */ ([
    [['--gpu', '--models'], /--models goes with no other suite, --only or files/],
    [['--gpu', '__test__/scripts.test.mjs'], /--gpu goes with no other suite or files/],
    [['--browser', '--only', 'js'], /--browser goes with no other suite, --only or files/],
    [['--only', 'gpu'], /--only is "gpu", expected rust or js/],
  ])) {
    const { code, stderr } = await runNode([program, ...args]);
    assert.equal(code, 2, stderr);
    assert.match(stderr, message);
    assert.match(stderr, /usage: npm test -- .*--gpu/);
  }
});

test('commands with subjects are scripts of npm, and list their subjects without one or with an unknown one', () => {
  const { scripts } = JSON.parse(readFileSync(new URL('../package.json', import.meta.url), 'utf8'));
  for (const [command, subjects] of Object.entries(COMMANDS)) {
    assert.equal(scripts[command], `node scripts/subjects.mjs ${command}`);
    const list = Object.keys(subjects).join('[^]*\\n  ');
    assert.throws(() => subjectOf(command, undefined), { message: new RegExp(`^usage: npm run ${command} -- SUBJECT[^]*\n  ${list}`), exitCode: 2 });
    assert.throws(() => subjectOf(command, 'toString'), { message: /^There is no subject "toString"\.\nusage: npm run /, exitCode: 2 });
    assert.throws(() => subjectOf(command, '--help'), { message: /^usage: /, exitCode: 0 });
    for (const [name, { run }] of Object.entries(subjects)) {
      assert.equal(subjectOf(command, name), subjects[name]);
      for (const path of run.filter((word) => word.includes('/')))
        assert.ok(path.startsWith('target/') || existsSync(new URL(`../${path}`, import.meta.url)), path);
    }
  }
});

describe('--help prints the options of', { concurrency: availableParallelism() }, () => {
  // Programs in Rust have no --help, and site and onnx-node prepare much before they pass options on.
  const subjects = ['bench', 'soak', 'suite'].flatMap((command) => Object.entries(COMMANDS[command]).map(([name, { run }]) => ({ command, name, run })));
  for (const { command, name, run } of subjects.filter(({ name, run }) => run[0] === 'node' && !['site', 'onnx-node'].includes(name))) {
    test(`${command} ${name}`, async () => {
      const { code, stdout, stderr } = await runNode([...run.slice(1), '--help'], { cwd: fileURLToPath(new URL('..', import.meta.url)) });
      assert.match(stdout + stderr, run.includes('scripts/test.mjs') ? /^\s*usage: npm test / : new RegExp(`^\\s*usage: npm run ${command} -- ${name}\\b`));
      assert.equal(code, 0);
    });
  }
});

test('a subject gets its arguments, and the addon as it is with --prebuilt', async () => {
  const program = fileURLToPath(new URL('../scripts/subjects.mjs', import.meta.url));
  const { code, stdout, stderr } = await runNode([program, 'bench', 'models', '--prebuilt', '--help']);
  assert.equal(code, 0, stderr);
  assert.match(stderr + stdout, /usage: npm run bench -- models \[OPTION/);
  assert.doesNotMatch(stderr, /cargo/);
});

test('release notes are what the changelog says about a version', () => {
  const changelog = '# Changelog\n\n## [Unreleased]\n\n### Added\n\n- c\n\n## [0.2.0] - 2027-01-01\n\n### Fixed\n\n- b\n\n## [0.1.0] - 2026-12-01\n\n- a\n';
  assert.equal(releaseNotes(changelog, '0.2.0'), '### Fixed\n\n- b');
  assert.equal(releaseNotes(changelog, '0.1.0'), '- a');
  assert.throws(() => releaseNotes(changelog, '0.3.0'), { message: 'CHANGELOG.md says nothing about version 0.3.0' });
});
