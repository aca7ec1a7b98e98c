// Runs the code blocks of a page in a project of their own, and compares what they print with what the page shows.

import { spawn } from 'node:child_process';
import { copyFileSync, mkdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs';
import { delimiter, dirname, join } from 'node:path';
import { endOf, runCommand } from '../lib/processes.mjs';
import { temporaryFolder } from '../lib/folders.mjs';
import { until } from '../lib/wait.mjs';
import { root, WORKSPACES } from '../../scripts/process.mjs';
import { freePort } from '../../scripts/services.mjs';

/** A line that separates the outputs of a program's parts. */
const SEPARATOR = '\u0000';

/** Stands for any text within a line of a shown output, and for any lines where it is a line. */
const ELLIPSIS = '…';

/**
 * The programs of a page: `js` blocks that continue each other, or one `sh` block.
 *
 * @param {import('./page.mjs').Block[]} blocks
 * @returns {import('./page.mjs').Block[][]}
 * @throws {Error} for a block that continues nothing
 */
export function programsOf(blocks) {
  const programs = [];
  for (const block of blocks) {
    const last = programs.at(-1);
    if (!block.continues) {
      programs.push([block]);
    } else if (last?.[0].language !== 'js') {
      throw new Error(`line ${block.line}: there is no program above that could go on`);
    } else {
      last.push(block);
    }
  }
  return programs;
}

/** The packages of this checkout: their folders, names and commands. */
const PACKAGES = ['.', ...WORKSPACES].map((path) => {
  const folder = join(root, path);
  const { name, bin = {} } = JSON.parse(readFileSync(join(folder, 'package.json'), 'utf8'));
  return { folder, name, bin };
});

/** Packages of the development setup that guides use beside those of this checkout. */
const LIBRARIES = ['@huggingface/tokenizers', 'fastify', 'openai', 'sharp'];

/** An empty project that has the packages of this checkout, commands included, and the libraries. @param {import('node:test').TestContext} t */
export function createProject(t) {
  const project = temporaryFolder(t);
  const modules = join(project, 'node_modules');
  mkdirSync(join(modules, '.bin'), { recursive: true });
  // Two packages have a command called webnn-node; npm links only one of them.
  const commands = new Map();
  for (const { folder, name, bin } of PACKAGES) {
    symlinkSync(folder, join(modules, name), 'junction');
    for (const [command, program] of Object.entries(bin)) commands.set(command, join(folder, program));
  }
  for (const [command, program] of commands) linkCommand(join(modules, '.bin', command), program);
  for (const library of LIBRARIES) {
    mkdirSync(dirname(join(modules, library)), { recursive: true });
    symlinkSync(join(root, 'node_modules', library), join(modules, library), 'junction');
  }
  writeFileSync(join(project, 'package.json'), '{ "private": true }\n');
  return project;
}

/** Makes a program a command, as npm does. @param {string} command @param {string} program */
function linkCommand(command, program) {
  if (process.platform === 'win32') {
    writeFileSync(`${command}.cmd`, `@node "${program}" %*\r\n`);
  } else {
    symlinkSync(program, command);
  }
}

/** The environment of a block: no colors, nothing that changes what is computed, this Node. @param {string} project */
function environment(project) {
  const removed = Object.keys(process.env).filter((name) => /^(WEBNN_|FORCE_COLOR$|PATH$)/i.test(name));
  return {
    ...Object.fromEntries(removed.map((name) => [name, undefined])),
    PATH: [dirname(process.execPath), join(project, 'node_modules', '.bin'), process.env.PATH].join(delimiter),
    NO_COLOR: '1',
    // What pages keep or prune is not the user's.
    WEBNN_CACHE_DIR: join(project, 'cache'),
    // sharp imports JSON, which early versions of Node 20 warn about.
    NODE_OPTIONS: '--disable-warning=ExperimentalWarning',
    npm_config_loglevel: 'error',
    npm_config_update_notifier: 'false',
  };
}

/**
 * Runs a command to its end.
 *
 * @param {string} project
 * @param {string} command
 * @param {string[]} args
 * @returns {Promise<string>} its standard output
 * @throws {Error} with what went wrong
 */
async function output(project, command, args) {
  const { code, signal, stdout, stderr } = await runCommand(command, args, { cwd: project, env: environment(project) });
  if (code !== 0 || stderr !== '') {
    throw new Error(`it ended with ${code ?? signal}\n${stdout}${stderr}`);
  }
  return stdout;
}

/** The port of servers in pages. Those that tests start have free ones. */
const PORT = '8080';

/**
 * Starts `webnn-node-serve`.
 *
 * @param {string} project
 * @param {string} args its arguments, with spaces between
 * @returns {Promise<{ port: string, stop: () => Promise<void> }>} when it is ready
 */
async function startServer(project, args) {
  const port = String(await freePort());
  const program = join(root, 'packages', 'serve', 'bin', 'webnn-node-serve.js');
  const words = args.split(' ').filter((word) => word !== '');
  // Without the limit of load: a busy machine is no error of the page.
  const options = ['--http', port, '--log-level', 'silent', '--limit', 'maxEventLoopDelayMs=0'];
  const child = spawn(process.execPath, [program, ...words, ...options], {
    cwd: project,
    env: { ...process.env, ...environment(project), NODE_TEST_CONTEXT: undefined },
  });
  const ended = endOf(child);
  await until(async () => {
    if (child.exitCode !== null) throw new Error(`the server ended: ${(await ended).stderr}`);
    return (await fetch(`http://127.0.0.1:${port}/v2/health/ready`).catch(() => null))?.ok;
  }, `webnn-node-serve ${args} is ready`);
  return {
    port,
    async stop() {
      child.kill();
      await ended;
    },
  };
}

/** Without spaces at the ends of lines and empty lines at the end. @param {string} lines */
const tidy = (lines) => lines.replaceAll(/[ \t\r]+$/gm, '').trimEnd();

/** The TypeScript compiler with strict settings, for programs without the types of Node or browsers. */
const COMPILER = [join(root, 'node_modules/typescript/bin/tsc'), '--strict', '--noEmit', '--target', 'es2024', '--module', 'nodenext', '--types', ''];

/**
 * Runs the parts of a program in one process; compiles TypeScript instead.
 *
 * @param {string} project folder that {@link createProject} made
 * @param {import('./page.mjs').Block[]} parts of which all are run
 * @returns {Promise<string[]>} what each of them printed
 * @throws {Error} when it fails or writes to standard error
 */
export async function runProgram(project, parts) {
  for (const [name, source] of parts.flatMap(({ files }) => Object.entries(files))) {
    mkdirSync(dirname(join(project, name)), { recursive: true });
    copyFileSync(join(root, source), join(project, name));
  }
  const [{ serves }] = parts;
  if (serves !== undefined) {
    const server = await startServer(project, serves);
    const move = (/** @type {string} */ text) => text.replaceAll(PORT, server.port);
    try {
      const printed = await runParts(
        project,
        parts.map((part) => ({ ...part, text: move(part.text) })),
      );
      return printed.map((text) => text.replaceAll(server.port, PORT));
    } finally {
      await server.stop();
    }
  }
  return runParts(project, parts);
}

/** Runs what needs no more files and servers. @type {typeof runProgram} */
async function runParts(project, parts) {
  const [{ language, line, text: commands }] = parts;
  if (language === 'sh') {
    return [tidy(await output(project, 'sh', ['-eu', '-c', commands]))];
  }
  if (language === 'ts') {
    writeFileSync(join(project, `line-${line}.mts`), commands);
    return [tidy(await output(project, process.execPath, [...COMPILER, `line-${line}.mts`]))];
  }
  const file = `line-${line}.mjs`;
  const separator = `;console.log(${JSON.stringify(SEPARATOR)});\n`;
  writeFileSync(join(project, file), `${parts.map((part) => part.text).join(`\n${separator}`)}\n`);
  return (await output(project, process.execPath, [file])).split(`${SEPARATOR}\n`).map(tidy);
}

/**
 * @param {string} project
 * @param {import('./page.mjs').Block} block
 * @throws {Error} when a block that is not run is not a valid module
 */
export async function checkSyntax(project, block) {
  const file = join(project, `line-${block.line}.mjs`);
  writeFileSync(file, block.text);
  await output(project, process.execPath, ['--check', file]);
}

const escape = (/** @type {string} */ part) => part.replaceAll(/[\\^$.*+?()[\]{}|]/g, '\\$&');

/** A pattern for a part of a line. Columns of a table stand wherever the longest cell puts them. */
const partPattern = (/** @type {string} */ part) => part.split(/ {2,}/).map(escape).join(' {2,}');

/** Whether a program printed what a page shows, in which {@link ELLIPSIS} stands for anything. @param {string} shown @param {string} printed */
export function isShown(shown, printed) {
  const lines = tidy(shown).split('\n');
  const pattern = lines.map((line) => (line.trim() === ELLIPSIS ? '(?:.*\n)*' : `${line.split(ELLIPSIS).map(partPattern).join('.*')}\n`));
  return new RegExp(`^${pattern.join('')}$`).test(`${tidy(printed)}\n`);
}
