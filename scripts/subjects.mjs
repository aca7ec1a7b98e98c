// `npm run bench -- SUBJECT`, and likewise soak, suite, docs and generate: one command for each kind of work. Without a
// subject, or with an unknown one, it lists the subjects. Further arguments go to the subject's program; --help shows them.
//
//   npm run suite -- clients --prebuilt    with the addon that lies in the repository root, whatever built it

import { entry, Failure, isProgram, root, run } from './process.mjs';
import { buildAddon, installPackages } from './setup.mjs';

/**
 * @typedef {object} Subject
 * @property {string} title
 * @property {string[]} run a command; of `node`, a program and its arguments
 * @property {Record<string, string>} [env]
 * @property {boolean} [withoutAddon] whether it needs no addon
 */

/** In arenas of their own, threads that have ended leave memory that is free and still resident. */
const ONE_ARENA = { MALLOC_ARENA_MAX: '1' };

/** A benchmark of Cargo.toml. @param {string} name @returns {Omit<Subject, 'title'>} */
const cargoBench = (name) => ({ run: ['cargo', 'bench', '--no-default-features', '--bench', name, '--'], withoutAddon: true });

/** @type {Subject} */
const SITE = { title: 'the site of the documentation, built and checked in Chromium', run: ['node', 'scripts/suites/site.mjs'] };

/** @type {Record<string, Record<string, Subject>>} */
export const COMMANDS = {
  bench: {
    models: { title: 'models, beside other engines and the limits of the machine', run: ['node', 'bench/run.mjs'] },
    kernels: { title: 'single kernels; part of a name selects some', ...cargoBench('kernels') },
    'gpu-kernels': { title: 'products of matrices on a GPU', ...cargoBench('gpu-kernels') },
    'graph-loading': { title: 'loading a graph of a language model’s size', ...cargoBench('graph-loading') },
    plans: { title: 'what new sizes of a model cost, beside known ones; a model', ...cargoBench('plans') },
    'instruction-sets': { title: 'models with each instruction set of this processor', run: ['node', 'bench/instruction-sets/run.mjs'] },
    limits: {
      title: 'what the processor and the memory of this machine can do at most; numbers of threads',
      run: ['cargo', 'run', '--release', '--manifest-path', 'bench/limits/Cargo.toml', '--target-dir', 'target/bench/limits', '--'],
      withoutAddon: true,
    },
    calls: { title: 'what a run costs beside its operators, beside onnxruntime-node', run: ['node', 'bench/calls/run.mjs'] },
    border: { title: 'what a token with many caches costs the JavaScript thread, and its heap', run: ['node', 'bench/border/run.mjs'] },
    generate: { title: 'text generation, beside llama.cpp, too', run: ['node', 'bench/generate/run.mjs'] },
    loader: { title: 'models of many nodes, cuts, branches or tables: loading and running', run: ['node', 'bench/loader/run.mjs'] },
    loading: { title: 'what loading costs for each type of weights', run: ['node', 'bench/loading/run.mjs'] },
    operators: { title: 'single operators in the shapes of real networks, beside onnxruntime-node', run: ['node', 'bench/operators/run.mjs'] },
    ort: { title: 'Transformers.js with webnn-node-ort in place of onnxruntime-node; a folder', run: ['node', 'bench/ort/run.mjs'] },
    rounds: { title: 'recurrent cells in a Loop or a Scan', run: ['node', 'bench/rounds/run.mjs'] },
    serve: { title: 'the server, over a model’s own run()', run: ['node', 'bench/serve/run.mjs'] },
    sizes: { title: 'texts of many lengths with a published embedder; its folder', run: ['node', 'bench/sizes/run.mjs'] },
    store: { title: 'packed weights on disk, shared by processes, beside other engines', run: ['node', 'bench/store/run.mjs'] },
    threads: { title: 'more threads than cores, a busy neighbor, several contexts', run: ['node', 'bench/threads/run.mjs'] },
  },
  soak: {
    api: { title: 'contexts, tensors and graphs at random, with memory watched', run: ['node', '--expose-gc', 'scripts/soak/api.mjs'], env: ONE_ARENA },
    hostile: { title: 'a server with a small heap, and hostile messages', run: ['node', 'scripts/soak/hostile.mjs'] },
    queue: { title: 'jobs that take longer than their locks', run: ['node', 'scripts/soak/queue.mjs'] },
    serve: { title: 'requests to a server, with its memory watched', run: ['node', 'scripts/soak/serve.mjs'] },
    text: { title: 'conversations with a small language model, with memory watched', run: ['node', '--expose-gc', 'scripts/soak/text.mjs'], env: ONE_ARENA },
  },
  suite: {
    browser: { title: 'HTML pages in Chromium', run: ['node', 'scripts/test.mjs', '--prebuilt', '--browser'] },
    clients: { title: 'onnxruntime-web and Transformers.js from npm', run: ['node', 'scripts/suites/clients.mjs'] },
    examples: { title: 'each example in an empty project', run: ['node', 'scripts/suites/examples.mjs'] },
    'first-minutes': { title: 'what README.md promises, in homes without files, timed', run: ['node', 'scripts/suites/first-minutes.mjs'] },
    models: { title: 'trained models in ../shared/models', run: ['node', 'scripts/test.mjs', '--prebuilt', '--models'] },
    'onnx-contrib': { title: 'com.microsoft, optimized models and Resize, against onnxruntime', run: ['node', 'scripts/suites/onnx-contrib.mjs'] },
    'onnx-models': { title: 'the models of the benchmark, against onnxruntime', run: ['node', 'scripts/suites/onnx-models.mjs'] },
    'onnx-node': { title: 'the single-operator tests of the onnx package', run: ['node', 'scripts/suites/onnx-node.mjs'] },
    'ort-programs': { title: 'programs for onnxruntime-node, on webnn-node-ort', run: ['node', 'scripts/suites/ort-programs.mjs'] },
    'packaged-models': { title: 'models in packages of PyPI and npm, against onnxruntime', run: ['node', 'scripts/suites/packaged-models.mjs'] },
    polyfill: { title: 'the tests of webnn-polyfill on the earlier drafts, from a checkout', run: ['node', '__test__/external/polyfill/run.mjs'] },
    runtimes: { title: 'Node 20 to 26, Deno and Bun', run: ['node', 'scripts/suites/runtimes.mjs'] },
    search: { title: 'semantic search with the real model, against onnxruntime', run: ['node', 'scripts/suites/search.mjs'] },
    serve: { title: 'the server with other projects’ clients, Redis, Prometheus, nginx and Caddy', run: ['node', 'scripts/suites/serve.mjs'] },
    site: SITE,
    text: { title: 'text generation with all types of weights, against onnxruntime-node', run: ['node', 'scripts/suites/text.mjs'] },
  },
  docs: {
    tables: { title: 'writes the generated tables of the pages', run: ['node', 'scripts/support-table.mjs'] },
    site: { title: 'builds the site', run: ['node', 'scripts/site.mjs'] },
    dev: { title: 'serves the site, and shows changes at once', run: ['node', 'scripts/site.mjs', '--dev'] },
    check: SITE,
    pictures: { title: 'screenshots of the pages that the command line writes', run: ['node', 'scripts/screenshots.mjs'] },
  },
  generate: {
    operators: { title: 'index.d.ts and lib/operators.js, from spec/webnn.idl', run: ['node', 'scripts/generate-operators.mjs'], withoutAddon: true },
    limits: { title: 'spec/limits.json, from a checkout of the draft', run: ['node', 'scripts/draft-limits.mjs'], withoutAddon: true },
    protobuf: { title: 'the JavaScript of the .proto files', run: ['node', 'scripts/generate-protobuf.mjs'], withoutAddon: true },
  },
};

/**
 * @param {string} command
 * @returns {string}
 */
function usage(command) {
  const subjects = Object.entries(COMMANDS[command]);
  const width = Math.max(...subjects.map(([name]) => name.length));
  const lines = subjects.map(([name, { title }]) => `  ${name.padEnd(width)}  ${title}`);
  return `usage: npm run ${command} -- SUBJECT [OPTION...]\n\n${lines.join('\n')}`;
}

/**
 * Finds the subject that a command line names.
 *
 * @param {string} command
 * @param {string | undefined} name
 * @returns {Subject}
 * @throws {Failure} with the list of subjects
 */
export function subjectOf(command, name) {
  if (name === undefined || name === '--help' || name === '-h') throw new Failure(usage(command), name === undefined ? 2 : 0);
  if (!Object.hasOwn(COMMANDS[command], name)) throw new Failure(`There is no subject "${name}".\n${usage(command)}`, 2);
  return COMMANDS[command][name];
}

if (isProgram(import.meta.url)) {
  await entry(async () => {
    const [command, name, ...options] = process.argv.slice(2);
    const { run: words, env, withoutAddon = false } = subjectOf(command, name);
    await installPackages();
    if (!withoutAddon && !options.includes('--prebuilt')) await buildAddon();
    const [program, ...args] = [...words, ...options.filter((option) => option !== '--prebuilt')];
    await run(`${command} ${name}`, program === 'node' ? process.execPath : program, args, { cwd: root, env });
  });
}
