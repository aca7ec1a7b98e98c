// Smoke tests of each package, used as a user would, in an empty project outside the repository: for `npm run pack:local`
// and `npm test`. A package of packages/ needs an entry here.

import { spawnSync } from 'node:child_process';
import { cpSync, existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { delimiter, join } from 'node:path';
import { Failure, npmOutput, root } from './process.mjs';
import { thisPlatform } from './setup.mjs';

/**
 * Returns the programs of a page that need no file, and their output according to the blocks below them.
 *
 * @param {string} page
 * @returns {{ program: string, printed: string }[]}
 */
export function programsOf(page) {
  const blocks = readFileSync(join(root, page), 'utf8').matchAll(/(<!-- files.*?-->\n\n)?```js\n(.*?)```.*?```text\n(.*?)\n```/gs);
  return [...blocks].filter(([, files]) => files === undefined).map(([, , program, printed]) => ({ program, printed }));
}

/** Returns this process's environment without the Rust toolchain on the PATH. */
export function environmentWithoutRust() {
  const name = Object.keys(process.env).find((key) => key.toUpperCase() === 'PATH') ?? 'PATH';
  const tools = ['cargo', 'rustc', 'cargo.exe', 'rustc.exe'];
  const holdsRust = (/** @type {string} */ folder) => tools.some((tool) => existsSync(join(folder, tool)));
  const folders = (process.env[name] ?? '').split(delimiter).filter((folder) => !holdsRust(folder));
  return { ...process.env, [name]: folders.join(delimiter) };
}

/** An empty project of a user, without Rust on the PATH. */
export class Project {
  folder = mkdtempSync(join(tmpdir(), 'webnn-user-'));

  /**
   * Installs packages.
   *
   * @param {string[]} sources tarballs, or names of packages of the registry
   * @param {object} [manifest] of the project
   * @param {string[]} [flags] of `npm install`
   * @throws {Failure}
   */
  install(sources, manifest = {}, flags = []) {
    writeFileSync(join(this.folder, 'package.json'), JSON.stringify({ private: true, ...manifest }));
    // What the packages depend on is in npm's cache since it was installed in the checkout.
    const args = ['install', '--prefer-offline', '--no-audit', '--no-fund', ...flags, ...sources];
    npmOutput('installation', args, { cwd: this.folder, env: environmentWithoutRust() });
  }

  /** Names of the installed packages and scopes. */
  get packages() {
    return readdirSync(join(this.folder, 'node_modules'))
      .filter((name) => !name.startsWith('.'))
      .sort();
  }

  /**
   * @param {string} name of a command in node_modules/.bin, or a path
   * @param {string[]} args
   */
  start(name, args) {
    const program = join(this.folder, 'node_modules', '.bin', name);
    const isCommand = existsSync(program);
    // On Windows npm's commands are .cmd files, which only a shell can start.
    const shell = isCommand && process.platform === 'win32';
    return spawnSync(isCommand ? program : name, args, { cwd: this.folder, shell, env: environmentWithoutRust(), encoding: 'utf8' });
  }

  /**
   * Runs a command.
   *
   * @param {string} name
   * @param {...string} args
   * @returns {string} what it printed, trimmed
   * @throws {Failure} with its error
   */
  command(name, ...args) {
    const { status, stdout, stderr, error } = this.start(name, args);
    if (status !== 0) {
      throw new Failure(`${[name, ...args].join(' ')} failed in ${this.folder}:\n${error?.message ?? stderr}`);
    }
    return stdout.trim();
  }

  /**
   * Runs a program.
   *
   * @param {string} name of its file
   * @param {string} program
   * @returns {string} what it printed, trimmed
   * @throws {Failure} with its error
   */
  run(name, program) {
    writeFileSync(join(this.folder, name), program);
    return this.command(process.execPath, name);
  }

  remove() {
    rmSync(this.folder, { recursive: true, force: true });
  }
}

/**
 * @param {string} what
 * @param {unknown} got
 * @param {unknown} expected
 * @throws {Failure} unless both are the same as JSON
 */
function expect(what, got, expected) {
  const [one, other] = [got, expected].map((value) => JSON.stringify(value));
  if (one !== other) {
    throw new Failure(`${what}: got ${one}, expected ${other}`);
  }
}

/**
 * Checks that the programs of a page print the shown output.
 *
 * @param {Project} project
 * @param {string} page
 */
function tryPage(project, page) {
  const programs = programsOf(page);
  programs.forEach(({ program, printed }, i) => expect(`program ${i + 1} of ${page}`, project.run(`program-${i}.mjs`, program), printed));
  return `prints what ${page} shows, in programs: ${programs.length}`;
}

/** A model that averages the channels of a picture. */
const MODEL = join(root, 'packages', 'cli', '__test__', 'files', 'colors.onnx');

/** @param {Project} project */
function tryCommandLine(project) {
  const { version } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8'));
  expect('webnn-node --version', project.command('webnn-node', '--version'), version);
  const [{ name, shape, first }] = JSON.parse(project.command('webnn-node', 'run', MODEL, '--input', 'ones', '--json')).outputs;
  expect('webnn-node run', { name, shape, first }, { name: 'scores', shape: [1, 3], first: [1, 1, 1] });
  // These need further files: the engine's process, the page's scripts and styles.
  const [engine] = JSON.parse(project.command('webnn-node', 'bench', MODEL, '--runs', '3', '--json')).engines;
  expect('webnn-node bench', [engine.name, engine.runs], ['webnn-node', 3]);
  const page = join(project.folder, 'model.html');
  project.command('webnn-node', 'view', MODEL, '--output', page);
  expect('webnn-node view', readFileSync(page, 'utf8').slice(0, 15), '<!doctype html>');
  return `webnn-node ${version} runs, measures and shows a model`;
}

/**
 * Tries the examples of webnn-node-ort: a program with a Node flag, and one whose library gets the package through an
 * override.
 *
 * @param {Project} project
 * @param {Record<string, string>} tarballs
 */
function tryStandIn(project, tarballs) {
  const examples = join(root, 'packages', 'ort', 'examples');
  const printed = 'Float32Array(3) [ 101, 7592, 0 ]';
  const copy = (/** @type {string} */ name, /** @type {string} */ folder) => cpSync(join(examples, name), folder, { recursive: true });
  copy('flag', project.folder);
  const { start } = JSON.parse(readFileSync(join(examples, 'flag', 'package.json'), 'utf8')).scripts;
  const [, ...args] = start.split(' ');
  expect('the example with a flag', project.command(process.execPath, ...args), printed);

  const other = new Project();
  try {
    copy('override', other.folder);
    copy(join('flag', 'tokens.onnx'), join(other.folder, 'tokens.onnx'));
    const { dependencies, overrides } = JSON.parse(readFileSync(join(examples, 'override', 'package.json'), 'utf8'));
    expect('the overrides of the example', Object.keys(overrides), ['onnxruntime-node']);
    const needed = ['webnn-node', `webnn-node-${thisPlatform()}`].map((name) => tarballs[name]);
    other.install(needed, { dependencies, overrides: { 'onnxruntime-node': `file:${tarballs['webnn-node-ort']}` } });
    expect('the example with an override', other.command(process.execPath, 'app.mjs'), printed);
    const { name } = JSON.parse(readFileSync(join(other.folder, 'node_modules', 'onnxruntime-node', 'package.json'), 'utf8'));
    expect('what is installed as onnxruntime-node', name, 'webnn-node-ort');
  } finally {
    other.remove();
  }
  return 'a program and a library that load onnxruntime-node run, by a flag and by an override';
}

/** Starts the server as a user does, asks it for an embedding, and stops it. @param {Project} project */
function tryServer(project) {
  const { version } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8'));
  expect('webnn-node-serve --version', project.command('webnn-node-serve', '--version'), version);
  const program = `
    import { spawn } from 'node:child_process';
    import { once } from 'node:events';
    import { createInterface } from 'node:readline';
    const child = spawn(process.execPath, ['node_modules/webnn-node-serve/bin/webnn-node-serve.js', '--http', '0'], { stdio: ['ignore', 'pipe', 'ignore'] });
    const ended = once(child, 'exit');
    for await (const line of createInterface({ input: child.stdout })) {
      const { msg, http } = JSON.parse(line);
      if (msg !== 'ready') continue;
      const body = JSON.stringify({ model: 'embeddings', input: 'Hello, world' });
      const response = await fetch(\`\${http}/v1/embeddings\`, { method: 'POST', body });
      const { data: [{ embedding }] } = await response.json();
      child.kill('SIGTERM');
      const [code, signal] = await ended;
      console.log(JSON.stringify([embedding.length, Math.hypot(...embedding).toFixed(4), code ?? signal]));
    }`;
  // Windows has no signals: there, a process is ended as it is.
  expect('an embedding', JSON.parse(project.run('ask.mjs', program)), [96, '1.0000', process.platform === 'win32' ? 'SIGTERM' : 0]);
  return `webnn-node-serve ${version} answers with an embedding and drains`;
}

/**
 * Smoke tests by package name: each tries the package in a project in which it is installed, and returns a line about it.
 * The tarballs of all packages, by name, are for other projects.
 *
 * @type {Record<string, (project: Project, tarballs: Record<string, string>) => string>}
 */
export const SMOKE_TESTS = {
  'webnn-node': (project) => tryPage(project, 'docs/get-started.md'),
  'webnn-node-cli': tryCommandLine,
  'webnn-node-compat': (project) => tryPage(project, 'packages/compat/README.md'),
  'webnn-node-ort': tryStandIn,
  'webnn-node-serve': tryServer,
  'webnn-node-text': (project) => tryPage(project, 'packages/text/README.md'),
};
