import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import test, { after, before, describe } from 'node:test';
import { root } from '../scripts/process.mjs';
import { binaryName } from '../scripts/setup.mjs';

const read = (file) => readFileSync(join(root, file), 'utf8');
const manifest = JSON.parse(read('package.json'));

/** Runs a command to its end; its standard output. */
function output(command, args, cwd) {
  // npm is a .cmd file on Windows, which only a shell can start.
  const shell = process.platform === 'win32' && command === 'npm';
  const { status, stdout, stderr, error } = spawnSync(command, args, { cwd, shell, encoding: 'utf8' });
  assert.equal(status, 0, error?.message ?? `${command} ${args.join(' ')}\n${stdout}${stderr}`);
  return stdout;
}

describe('package.json', () => {
  test('what a user installs is plain JavaScript, and nothing runs while installing', () => {
    const { packages } = JSON.parse(read('package-lock.json'));
    for (const [name, entry] of Object.entries(packages)) {
      assert.ok(entry.dev || entry.optional || entry.peer || (!entry.hasInstallScript && !entry.os && !entry.cpu), name);
    }
    for (const script of ['preinstall', 'install', 'postinstall', 'prepare', 'prepublish']) {
      assert.equal(manifest.scripts[script], undefined, script);
    }
  });

  test('has the version and the licence of Cargo.toml', () => {
    const cargo = read('Cargo.toml');
    assert.equal(/^version = "(.*)"$/m.exec(cargo)[1], manifest.version);
    assert.equal(/^license = "(.*)"$/m.exec(cargo)[1], manifest.license);
  });

  test('the lock file is of this version, pins every package by its content and names no download address', () => {
    const lock = JSON.parse(read('package-lock.json'));
    assert.equal(lock.version, manifest.version);
    for (const [name, entry] of Object.entries(lock.packages)) {
      assert.equal(entry.resolved, undefined, name);
      assert.ok(name === '' || entry.integrity !== undefined, name);
    }
  });
});

describe('the packed package', () => {
  let project;
  let files;

  before(() => {
    project = mkdtempSync(join(tmpdir(), 'webnn-package-'));
    const [packed] = JSON.parse(output('npm', ['pack', '--json', '--ignore-scripts', '--pack-destination', project], root));
    files = packed.files.map(({ path }) => path);
    writeFileSync(join(project, 'package.json'), '{"name": "user", "private": true}');
    // The dependencies are in npm's cache since they were installed here.
    output('npm', ['install', '--prefer-offline', '--no-audit', '--no-fund', join(project, packed.filename)], project);
  });

  after(() => rmSync(project, { recursive: true, force: true }));

  /** Runs a program of the user's project; its standard output, trimmed. */
  const run = (name, program) => {
    writeFileSync(join(project, name), program);
    return output(process.execPath, [join(project, name)], project).trim();
  };

  test('holds the API, the command line, the addon, documentation and licences, and nothing else', () => {
    const { glibcVersionRuntime } = process.report.getReport().header;
    const addon = binaryName(process.platform, process.arch, glibcVersionRuntime !== undefined);
    const expected = ['CHANGELOG.md', 'LICENSE-APACHE', 'LICENSE-MIT', 'README.md', 'auto.d.ts', 'auto.js', 'bin/webnn-node.js', 'compat.d.ts', 'compat.js', 'index.d.ts', 'index.js', 'inspect.d.ts', 'inspect.js', 'onnx.d.ts', 'onnx.js', 'package.json', addon];
    assert.deepEqual(files.filter((file) => !/^(lib\/.+\.js|cli\/.+\.(mjs|js|css))$/.test(file)).sort(), expected.sort());
    for (const file of ['lib/native.js', 'cli/main.mjs', 'cli/bench/worker.mjs', 'cli/pages/client/view.css']) assert.ok(files.includes(file), file);
  });

  test('is imported and required as the same module', () => {
    const program = `
      import { createRequire } from 'node:module';
      import * as imported from 'webnn-node';
      const required = createRequire(import.meta.url)('webnn-node');
      console.log(Object.keys(required).every((name) => imported[name] === required[name]), Object.keys(required).sort().join(' '));`;
    assert.equal(run('modules.mjs', program), 'true ML MLContext MLGraph MLGraphBuilder MLOperand MLTensor ml');
  });

  test('webnn-node/auto defines navigator.ml', () => {
    const program = `
      import 'webnn-node/auto';
      import { ml } from 'webnn-node';
      console.log(navigator.ml === ml, typeof MLGraphBuilder);`;
    assert.equal(run('auto.mjs', program), 'true function');
  });

  test('brings the command line, which says what is missing for pictures', () => {
    const program = join(project, 'node_modules', '.bin', 'webnn-node');
    const shell = process.platform === 'win32';
    const start = (...args) => spawnSync(program, args, { cwd: project, shell, encoding: 'utf8' });
    assert.equal(start('--version').stdout, `${manifest.version}\n`);
    writeFileSync(join(project, 'picture.png'), '');
    const { status, stdout, stderr } = start('run', join(root, '__test__', 'cli', 'files', 'colors.onnx'), '--input', 'picture.png');
    assert.equal(stderr, 'webnn-node: pictures are decoded by the npm package sharp, which is not installed: npm install sharp\n');
    assert.equal(stdout, '');
    assert.equal(status, 1);
  });

  test('webnn-node/inspect is imported and required as the same module', () => {
    const program = `
      import { createRequire } from 'node:module';
      import { describeGraph, profileGraph, systemInfo } from 'webnn-node/inspect';
      const required = createRequire(import.meta.url)('webnn-node/inspect');
      console.log(required.describeGraph === describeGraph, required.profileGraph === profileGraph, systemInfo().version);`;
    assert.equal(run('inspect.mjs', program), `true true ${manifest.version}`);
  });

  test('webnn-node/compat brings both earlier drafts, and the README shows how', () => {
    const program = /## Earlier drafts\n.*?```js\n(.*?)```/s.exec(read('README.md'))[1];
    const both = `${program}console.log(draft2024.ml instanceof draft2024.ML);`;
    assert.equal(run('compat.mjs', both), `${/ \/\/ (Float32Array.*)/.exec(program)[1]}\ntrue`);
  });

  test('keeps its insides to itself', () => {
    const program = `import('webnn-node/lib/native.js').catch((error) => console.log(error.code));`;
    assert.equal(run('insides.mjs', program), 'ERR_PACKAGE_PATH_NOT_EXPORTED');
  });

  test('runs the first program of the README', () => {
    const program = /## A first program\n\n```js\n(.*?)```/s.exec(read('README.md'))[1];
    const printed = /prints `([^`]*)`/.exec(read('README.md'))[1];
    assert.equal(run('readme.mjs', program), printed);
  });
});
