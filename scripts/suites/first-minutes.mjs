// `npm run suite -- first-minutes`: what README.md promises for the first minutes, as a newcomer does it. Packs the packages,
// and for each of the four things makes a home without files, settings or npm's cache, installs the packages there with the
// command of docs/install.md, and runs the commands of README.md. Prints the seconds of each. Needs a network, Python and curl.

import { spawn } from 'node:child_process';
import { cpSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { basename, dirname, join } from 'node:path';
import { parseArgs } from 'node:util';
import { blocksOf } from '../../__test__/documentation/page.mjs';
import { isShown } from '../../__test__/documentation/program.mjs';
import { writeFolder } from '../../__test__/examples/model-folder.mjs';
import { endOf } from '../../__test__/lib/processes.mjs';
import { packThisPlatform } from '../pack-local.mjs';
import { entry, Failure, root, say, withUsage } from '../process.mjs';
import { freePort } from '../services.mjs';
import { environmentWithoutRust } from '../smoke-tests.mjs';

/** @typedef {import('../../__test__/documentation/page.mjs').Block} Block */

const OUTPUT = join(root, 'target', 'first-minutes');

const README = readFileSync(join(root, 'README.md'), 'utf8');

/** What README.md says of its own accord outside of blocks. */
const SERVER = 'npx webnn-node-serve';

/** Where the curl of README.md expects the server. */
const PORT = '8080';

/** Variables without which nothing is found or downloaded; all others stay outside. */
const KEPT = /^(PATH|LANG|.*_proxy|npm_config_(registry|cafile)|PIP_.*|SSL_CERT_.*|NODE_EXTRA_CA_CERTS)$/i;

/** A block of a page. @param {string} page @param {(block: Block) => boolean} isIt @returns {Block} */
function blockOf(page, isIt) {
  const found = blocksOf(readFileSync(join(root, page), 'utf8'), page).filter(isIt);
  if (found.length !== 1) throw new Failure(`${page} has ${found.length} such blocks, expected one: ${isIt}`);
  return found[0];
}

const INSTALLATION = blockOf('docs/install.md', ({ text }) => text.startsWith('npm install ../webnn-node/dist/'));

/** An empty home with the files of `npm run pack:local` where docs/install.md has them. */
class Home {
  folder = mkdtempSync(join(tmpdir(), 'webnn-home-'));
  project = join(this.folder, 'my-project');

  /** @param {ReturnType<typeof packThisPlatform>} packed */
  constructor(packed) {
    mkdirSync(this.project);
    for (const { file } of packed) cpSync(file, join(this.folder, 'webnn-node', 'dist', basename(file)));
    const kept = Object.entries(environmentWithoutRust()).filter(([name]) => KEPT.test(name));
    this.environment = { ...Object.fromEntries(kept), HOME: this.folder, NO_COLOR: '1' };
  }

  /**
   * Starts a command line in the project.
   *
   * @param {string} command
   * @param {string} [input]
   */
  start(command, input = '') {
    // A group of its own: a signal reaches what npx starts, too.
    const child = spawn('sh', ['-eu', '-c', command], { cwd: this.project, env: this.environment, detached: true });
    child.stdin.end(input);
    return { child, ended: endOf(child) };
  }

  /**
   * Runs a command line to its end.
   *
   * @param {string} command
   * @param {string} [input]
   * @returns {Promise<string>} what it printed
   */
  async run(command, input) {
    const { code, stdout, stderr } = await this.start(command, input).ended;
    if (code !== 0) throw new Failure(`${command}\nended with ${code}\n${stdout.slice(-4000)}${stderr.slice(-4000)}`);
    return stdout;
  }

  /** @param {Record<string, string>} files paths in the repository by names in the project */
  copy(files) {
    for (const [name, source] of Object.entries(files)) {
      mkdirSync(dirname(join(this.project, name)), { recursive: true });
      cpSync(join(root, source), join(this.project, name), { recursive: true });
    }
  }
}

/** @param {string} command @param {string} shown @param {string} printed */
function compare(command, shown, printed) {
  if (!isShown(shown, printed)) throw new Failure(`${command}\nprinted\n${printed}\nbut README.md shows\n${shown}`);
}

/** Runs a block of README.md that has an output. @param {Home} home @param {Block} block @param {string} command */
async function runBlock(home, { output }, command) {
  compare(command, /** @type {Block} */ (output).text, await home.run(command));
}

/** @param {Home} home */
async function runModel(home) {
  const block = blockOf('README.md', ({ language }) => language === 'js');
  home.copy(block.files);
  writeFileSync(join(home.project, 'program.mjs'), block.text);
  await runBlock(home, block, 'node program.mjs');
}

/** @param {Home} home */
async function runProgram(home) {
  const block = blockOf('README.md', ({ text }) => text.includes('webnn-node-ort/register'));
  home.copy(block.files);
  await runBlock(home, block, block.text);
}

/** @param {Home} home */
async function serve(home) {
  if (!README.includes(`\`${SERVER}\``)) throw new Failure(`README.md does not say ${SERVER}`);
  const block = blockOf('README.md', ({ serves }) => serves !== undefined);
  const port = String(await freePort());
  const server = home.start(`${SERVER} --http ${port}`);
  try {
    const ready = async () => (await fetch(`http://127.0.0.1:${port}/v2/health/ready`).catch(() => undefined))?.ok;
    while (!(await ready())) {
      if (server.child.exitCode !== null) throw new Failure(`${SERVER} ended: ${(await server.ended).stderr}`);
      await new Promise((resolve) => setTimeout(resolve, 50));
    }
    await runBlock(home, block, block.text.replaceAll(PORT, port));
  } finally {
    process.kill(-(/** @type {number} */ (server.child.pid)), 'SIGTERM');
    await server.ended;
  }
}

/** A line of the examples in README.md, after the folders of the lines before it. @param {number} index */
function exampleLine(index) {
  const lines = blockOf('README.md', ({ text }) => text.includes('examples/text-generation')).text.split('\n');
  const before = lines.slice(0, index).flatMap((line) => /^cd \S+/.exec(line)?.[0] ?? []);
  return [...before, lines[index]].join(' && ');
}

/** @param {Home} home @param {number} index @param {string} example */
async function runExample(home, index, example) {
  home.copy({ 'examples/text-generation': 'examples/text-generation', [`examples/${example}`]: `examples/${example}` });
  // A model that was fetched in the checkout is not there for a newcomer.
  for (const left of ['model', 'node_modules']) rmSync(join(home.project, 'examples', example, left), { recursive: true, force: true });
  const printed = await home.run(exampleLine(index));
  const expected = readFileSync(join(root, 'examples', example, 'expected.txt'), 'utf8');
  if (!printed.endsWith(expected)) throw new Failure(`examples/${example} printed\n${printed}\nexpected\n${expected}`);
}

/** @param {Home} home */
async function chat(home) {
  home.copy({ 'examples/text-generation': 'examples/text-generation' });
  const folder = await writeFolder(join(home.folder, 'model'), { models: ['model_q4.onnx'] });
  const printed = await home.run(exampleLine(1).replace('FOLDER', folder), 'Hello\n');
  if (printed.trim() === '') throw new Failure('the chat gives no response');
}

/** @type {Record<string, (home: Home) => Promise<void>>} */
const THINGS = {
  'an ONNX model': runModel,
  'a program for onnxruntime-node': runProgram,
  'a sentence by a tiny model': (home) => runExample(home, 0, 'text-generation'),
  'a chat with a model of yours': chat,
  'search by meaning': (home) => runExample(home, 2, 'semantic-search'),
  'the server': serve,
};

/** The seconds that something takes. @param {() => Promise<unknown>} work */
async function secondsOf(work) {
  const start = performance.now();
  await work();
  return (performance.now() - start) / 1000;
}

await entry(async () => {
  withUsage('usage: npm run suite -- first-minutes', parseArgs);
  const packed = packThisPlatform(join(OUTPUT, 'staged'), join(OUTPUT, 'packed'));
  for (const [name, work] of Object.entries(THINGS)) {
    const home = new Home(packed);
    try {
      say(`${name} in ${home.folder}`);
      const installation = await secondsOf(() => home.run(INSTALLATION.text));
      const rest = await secondsOf(() => work(home));
      console.log(`${name}: ${(installation + rest).toFixed(1)} s, of which the installation takes ${installation.toFixed(1)} s`);
    } finally {
      rmSync(home.folder, { recursive: true, force: true });
    }
  }
});
