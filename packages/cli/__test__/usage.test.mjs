import assert from 'node:assert/strict';
import { closeSync, existsSync, openSync, readFileSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import test, { describe } from 'node:test';
import { endOf } from '../../../__test__/lib/processes.mjs';
import { root } from '../../../scripts/process.mjs';
import { file, start, webnn, webnnJson, webnnWith } from './command.mjs';

const { version } = JSON.parse(readFileSync(path.join(root, 'package.json'), 'utf8'));

const COMMON = ['--json', '--no-color', '--verbose', '--help'];
const INPUTS = ['--input', '--random-range', '--mean', '--std', '--scale', '--layout', '--resize', '--crop', '--stretch'];
const MODEL = ['--free-dimension'];

/** The options of each command. */
const OPTIONS = {
  info: [],
  inspect: [...MODEL, '--missing'],
  compile: [...MODEL, '--cache', '--isa'],
  cache: ['--cache', '--bytes'],
  run: [...MODEL, ...INPUTS, '--device', '--threads', '--cache', '--output-dir', '--labels', '--top'],
  bench: [...MODEL, ...INPUTS, '--generate', '--device', '--threads', '--cache', '--against', '--against-from', '--runs', '--seconds', '--warmup', '--svg'],
  profile: [...MODEL, ...INPUTS, '--device', '--threads', '--cache', '--runs', '--warmup', '--top', '--trace', '--html'],
  view: [...MODEL, ...INPUTS, '--device', '--threads', '--cache', '--output', '--profile', '--runs', '--warmup'],
};

/** Runs the program to its end with its standard output or standard error at a device that is always full. */
async function intoFull(stream, ...args) {
  const full = openSync('/dev/full', 'w');
  try {
    const child = start(args, { stdio: ['ignore', ...['stdout', 'stderr'].map((name) => (name === stream ? full : 'pipe'))] });
    const { code, stdout, stderr } = await endOf(child);
    return { code, text: stdout + stderr };
  } finally {
    closeSync(full);
  }
}

/** The program must refuse with one message on standard error and nothing on standard output. */
async function refused(code, message, ...args) {
  const got = await webnn(...args);
  assert.match(got.stderr, message);
  assert.match(got.stderr, /^webnn-node: /);
  assert.doesNotMatch(got.stderr, /\n +at /, 'a stack');
  assert.equal(got.stdout, '');
  assert.equal(got.code, code);
}

describe('help', () => {
  test('names all commands, and is an error where no command is given', async () => {
    const help = await webnn('--help');
    assert.equal(help.code, 0);
    assert.equal(help.stderr, '');
    for (const command of Object.keys(OPTIONS)) assert.match(help.stdout, new RegExp(`^  ${command} `, 'm'));
    assert.match(help.stdout, /^Examples:\n  webnn-node /m);
    const none = await webnn();
    assert.equal(none.code, 2);
    assert.equal(none.stdout, '');
    assert.equal(none.stderr, help.stdout);
  });

  for (const [command, options] of Object.entries(OPTIONS)) {
    test(`${command} explains each of its options, and no others`, async () => {
      const { code, stdout } = await webnn(command, '--help');
      assert.equal(code, 0);
      const explained = [...stdout.matchAll(/^  (?:-\w, )?(--[\w-]+)/gm)].map(([, name]) => name);
      assert.deepEqual(explained.sort(), [...options, ...COMMON].sort());
      assert.match(stdout, new RegExp(`^Examples:\\n(?:.*\\n)*  webnn-node ${command}`, 'm'));
      for (const line of stdout.split('\n')) assert.ok(line.length <= 80, line);
      assert.equal((await webnn('help', command)).stdout, stdout);
    });
  }

  test('--version', async () => {
    assert.equal((await webnn('--version')).stdout, `${version}\n`);
  });
});

describe('wrong usage is exit code 2', () => {
  const conv = file('conv.onnx');

  test('unknown commands and options are named, with the nearest one', async () => {
    await refused(2, /unknown command 'rnu'\n\(Did you mean run\?\)/, 'rnu');
    await refused(2, /unknown option '--inptu'\n\(Did you mean --input\?\)/, 'run', conv, '--inptu', 'random');
    await refused(2, /missing required argument 'model'/, 'run');
    await refused(2, /too many arguments/, 'inspect', conv, conv);
    await refused(2, /required option '-o, --output <FILE>' not specified/, 'view', conv);
  });

  test('values of options', async () => {
    const bad = (option, value, message) => refused(2, message, 'bench', conv, option, value);
    await bad('--runs', '0', /--runs <N>' argument '0' is invalid\. Expected a whole number from 1 to 10000/);
    await bad('--threads', 'many', /Expected a whole number from 1 to 1024/);
    await bad('--seconds', '-1', /Expected seconds, above 0/);
    for (const lengths of ['8', '0,8', '8,1', '8,x', '8,,8', '8,2.5', '1,2,3']) await bad('--generate', lengths, /Expected PROMPT,TOKENS, as in 128,32/);
    await bad('--against', 'tensorflow', /Allowed choices are onnxruntime-node/);
    await bad('--mean', '1,2', /Expected 1 or 3 numbers/);
    await bad('--std', '0', /Expected 1 or 3 numbers above 0/);
    await bad('--scale', '1/0', /Expected a number above 0/);
    await bad('--crop', '8x8x8', /Expected N or HEIGHTxWIDTH/);
    await bad('--random-range', '3,1', /MIN not above MAX/);
    await bad('--free-dimension', 'batch', /Expected NAME=N/);
    await bad('--free-dimension', 'batch=0', /Expected a whole number from 1/);
    for (const bytes of ['-1', 'much', '1.5 apples', ''])
      await refused(2, /Expected bytes, as in 1000000, 500MiB or 2GiB/, 'cache', 'prune', `--bytes=${bytes}`);
    await refused(2, /value 'lst' is invalid for argument 'action'\. Allowed choices are list, prune, verify/, 'cache', 'lst');
    await refused(2, /"batch" is given twice/, 'bench', conv, '--free-dimension', 'batch=1', '--free-dimension', 'batch=2');
    await refused(2, /cannot be used with option '--runs/, 'bench', conv, '--runs', '1', '--seconds', '1');
  });

  test('options that would change nothing', async () => {
    const idle = (option, why, ...args) => refused(2, new RegExp(`${option} has no effect: ${why}`), ...args);
    const tokens = [file('tokens.onnx'), '--free-dimension', 'batch=1', '--free-dimension', 'sequence=3'];
    await idle('--top', 'classes are printed with --labels', 'run', conv, '--input', 'ones', '--top', '3');
    await idle('--top', 'the document of --json has all steps', 'profile', conv, '--json', '--top', '3');
    for (const [option, ...value] of [['mean', '0'], ['std', '1'], ['scale', '1'], ['layout', 'nchw'], ['resize', '8'], ['crop', '8'], ['stretch']]) {
      await idle(`--${option}`, 'no input is a picture', 'run', conv, '--input', 'ones', `--${option}`, ...value);
    }
    await idle('--mean', 'no input is a picture', 'bench', conv, '--mean', '0');
    await idle('--against-from', 'no engine is measured --against this one', 'bench', conv, '--against-from', '.');
    for (const [command, ...others] of [['bench'], ['profile'], ['run', '--input', 'ones'], ['view', '-o', 'x.html']]) {
      await idle('--threads', 'the GPU computes', command, conv, ...others, '--device', 'gpu', '--threads', '1');
    }
    for (const [option, value] of [
      ['input', 'random'],
      ['mean', '0'],
      ['random-range', '0,5'],
      ['free-dimension', 'batch=1'],
    ]) {
      await idle(`--${option}`, '--generate makes the inputs', 'bench', conv, '--generate', '8,4', `--${option}`, value);
    }
    await idle('--random-range', 'no input is random integers', 'bench', conv, '--random-range', '0,5');
    await idle('--random-range', 'no input is random integers', 'run', ...tokens, '--input', 'ids=ones', '--input', 'mask=ones', '--random-range', '0,5');
    await idle('--warmup', 'the page has a profile with --profile', 'view', conv, '-o', 'x.html', '--warmup', '3');
    for (const action of ['list', 'verify']) await idle('--bytes', 'it is for prune', 'cache', action, '--bytes', '1');
    await idle('--random-range', 'the page has a profile with --profile', 'view', ...tokens, '-o', 'x.html', '--random-range', '0,5');
  });

  test('-o is the page to write, in each command that has it', async () => {
    await refused(2, /unknown option '-o'/, 'run', conv, '--input', 'ones', '-o', 'x');
    await refused(2, /unknown option '--output'\n/, 'run', conv, '--input', 'ones', '--output', 'x');
    for (const command of Object.keys(OPTIONS)) {
      const { stdout } = await webnn(command, '--help');
      assert.match(stdout, /^(?![^]*^  -o)|^  -o, --output <FILE> +the page to write$/m, command);
    }
  });

  test('names of inputs and dimensions', async () => {
    const tokens = file('tokens.onnx');
    await refused(2, /no value for x \(float32 \[1, 16, 4, 4\]\); give --input x=FILE, or --input x=random$/m, 'run', conv);
    await refused(2, /give --input ids=FILE, or --input ids=random --free-dimension batch=1 --free-dimension sequence=1$/m, 'run', tokens);
    await refused(2, /the model has no input "z"; its inputs: x/, 'run', conv, '--input', 'z=random');
    await refused(2, /names no input, and the model has 2: ids, mask/, 'run', tokens, '--input', 'random');
    await refused(2, /--input x is given twice/, 'run', conv, '--input', 'random', '--input', 'x=zeros');
    await refused(2, /nothing after "="/, 'run', conv, '--input', 'x=');
    await refused(2, /--free-dimension: there is no free dimension "bach", the model has "batch", "sequence"/, 'inspect', tokens, '--free-dimension', 'bach=1');
    await refused(2, /there is no free dimension "batch", the model has none/, 'inspect', conv, '--free-dimension', 'batch=1');
    await refused(2, /give them, as in --free-dimension batch=1 --free-dimension sequence=1$/m, 'run', tokens, '--input', 'ids=random', '--input', 'mask=ones');
  });
});

describe('failures are exit code 1', () => {
  test('files that are missing or no models', async () => {
    await refused(1, /cannot read the model absent\.onnx: there is no such file/, 'inspect', 'absent.onnx');
    await refused(1, /cannot read the model .*files.?: it is not a file/, 'inspect', file(''));
    await refused(1, /bool\.npy": not an ONNX file: it seems to be an array of NumPy$/m, 'inspect', file('bool.npy'));
    await refused(1, /package\.json": not an ONNX file: it seems to be JSON$/m, 'run', path.join(root, 'package.json'), '--input', 'ones');
    await refused(1, /auto\.js": not an ONNX file: it seems to be text$/m, 'bench', path.join(root, 'auto.js'));
    await refused(1, /input x: cannot read absent\.npy: there is no such file/, 'run', file('conv.onnx'), '--input', 'absent.npy');
    await refused(1, /cannot read the labels absent\.txt: there is no such file/, 'run', file('conv.onnx'), '--input', 'ones', '--labels', 'absent.txt');
  });

  test('files that cannot be written', async () => {
    const absent = path.join('no', 'such', 'folder', 'x.html');
    await refused(1, /cannot write no.such.folder.x\.html: there is no such folder/, 'view', file('conv.onnx'), '-o', absent);
    await refused(1, /cannot write no.such.folder.x\.html: there is no such folder/, 'profile', file('conv.onnx'), '--runs', '1', '--html', absent);
  });

  test('an error with a code ends with the address that explains it, others do not', async () => {
    await refused(
      1,
      /: there is no translation .*\nSee https:.*\/docs\/errors\.md#err_webnn_unsupported_operator\n$/,
      'run',
      file('unsupported.onnx'),
      '--input',
      'ones',
    );
    // Before it asks for inputs.
    await refused(1, /: there is no translation .*\nSee /, 'run', file('unsupported.onnx'));
    await refused(2, /bacth.*\nSee https:.*#err_webnn_unknown_dimension\n$/, 'inspect', file('tokens.onnx'), '--free-dimension', 'bacth=2');
    await refused(1, /^[^\n]*no such file\n$/, 'inspect', 'absent.onnx');
  });

  test('--verbose prints the stack', async () => {
    const { code, stderr } = await webnn('inspect', 'absent.onnx', '--verbose');
    assert.equal(code, 1);
    assert.match(stderr, /^webnn-node: Failure: cannot read the model .*\n +at /);
  });
});

describe('ends', () => {
  test('a full disk behind standard output is one line and exit code 1', { skip: !existsSync('/dev/full') }, async () => {
    const conv = file('conv.onnx');
    for (const args of [
      ['info'],
      ['info', '--json'],
      ['inspect', conv],
      ['run', conv, '--input', 'ones'],
      ['bench', conv, '--runs', '1'],
      ['profile', conv, '--runs', '1'],
      ['view', conv, '-o', os.devNull],
      ['--help'],
      ['--version'],
    ]) {
      const { code, text } = await intoFull('stdout', ...args);
      assert.match(text, /^(note: .*\n)?webnn-node: cannot write to standard output: .*no space left on device.*\n$/, args[0]);
      assert.equal(code, 1, args[0]);
    }
  });

  test('a full disk behind standard error shows in the exit code', { skip: !existsSync('/dev/full') }, async () => {
    assert.deepEqual(await intoFull('stderr', 'inspect', 'absent.onnx'), { code: 1, text: '' });
    assert.deepEqual(await intoFull('stderr', 'run', '--wrong'), { code: 2, text: '' });
  });

  test('a reader that closes its end early is no error', async () => {
    const child = start(['inspect', file('conv.onnx')]);
    child.stdout.destroy();
    const { code, stderr } = await endOf(child);
    assert.equal(stderr, '');
    assert.equal(code, 0);
  });
});

describe('environment variables that make no sense', () => {
  test('info diagnoses each of them beside everything else that it tells', async () => {
    const env = { ...process.env, WEBNN_NUM_THREADS: 'abc', WEBNN_FILL_ARENA: '2' };
    const { code, stdout, stderr } = await webnnWith({ env }, 'info');
    assert.deepEqual(stderr.split('\n'), [
      'webnn-node: WEBNN_FILL_ARENA is "2", expected 0 or 1; models do not run until it is changed or unset',
      'webnn-node: WEBNN_NUM_THREADS is "abc", expected a number between 1 and 1024; models do not run until it is changed or unset',
      '',
    ]);
    assert.match(stdout, /^threads +unknown of \d+ logical cores$/m);
    assert.match(stdout, /^WEBNN_NUM_THREADS: abc$/m);
    assert.match(stdout, /^maxRank +8$/m);
    assert.equal(code, 1);
  });

  test('info tells programs', async () => {
    const { threads, environment } = await webnnJson('info');
    assert.ok(threads >= 1);
    assert.ok(environment.every(({ problem }) => problem === null));
  });

  test('what needs a thread is refused', async () => {
    const env = { ...process.env, WEBNN_NUM_THREADS: 'abc' };
    const { code, stderr } = await webnnWith({ env }, 'run', file('conv.onnx'), '--input', 'ones');
    assert.equal(stderr, 'webnn-node: WEBNN_NUM_THREADS is "abc", expected a number between 1 and 1024\n');
    assert.equal(code, 1);
  });
});
