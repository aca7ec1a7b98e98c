// The steps of the gate, in order: cheap ones first.

import { readdirSync } from 'node:fs';
import { dirname, join, relative, resolve } from 'node:path';
import { DRIVER_CRATE } from '../gpu/driver.mjs';
import { KERNELS, writeKernels } from '../gpu/kernels.mjs';
import { root, run } from '../process.mjs';
import { pythonEnvironment } from '../python.mjs';
import { thisPlatform } from '../setup.mjs';

/** The tiers: each has its own steps and those of the tiers before it. */
export const TIERS = /** @type {const} */ (['quick', 'full', 'all']);

/** Data outside of the repository, relative to its root. */
export const OUTSIDE = {
  vectors: '../shared/conformance',
  models: '../shared/models',
  wpt: relative(root, resolve(root, process.env.WPT_DIR ?? '../wpt')),
  draft: relative(root, resolve(root, process.env.WEBNN_DRAFT_DIR ?? '../webnn')),
};

/** Steps that test the same with data that anybody can have. */
export const INSTEAD = { vectors: 'wpt', models: 'search' };

/** Lets contexts on GPUs use software Vulkan. */
const SOFTWARE_GPU = { WEBNN_GPU_SOFTWARE: '1' };

/** Crates with lock files and profiles of their own. */
const LIMITS = '--manifest-path bench/limits/Cargo.toml';
const LOOM = '--manifest-path loom/Cargo.toml';
const GPU_FAULTS = '--manifest-path __test__/gpu-faults/layer/Cargo.toml';

/** Commands for other platforms. */
const ARM64 = 'scripts/cross/arm64.sh';
const WINDOWS = 'scripts/cross/windows.sh';

/** Files, as patterns of Git, that the addon and its unit tests are made of. */
const RUST = ['src', 'build.rs', 'Cargo.*', 'rustfmt.toml', 'spec', 'proptest-regressions', 'bench/limits', 'fuzz/corpus.tar.gz'];

/** All files but pages, and what only GitHub and containers read. */
const CODE = ['.', ':!docs', ':!*.md', ':!.github', ':!deploy'];

/** Checks the files that GitHub and Docker read, and workflows for unsafe constructs. */
async function checkSchemas() {
  const programs = dirname(await pythonEnvironment('workflows'));
  const filesOf = (/** @type {string} */ folder) => readdirSync(join(root, folder)).map((name) => `${folder}/${name}`);
  const schemas = [
    ['vendor.github-workflows', ...filesOf('.github/workflows')],
    ['vendor.github-actions', '.github/actions/toolchain/action.yml'],
    ['vendor.github-issue-forms', ...filesOf('.github/ISSUE_TEMPLATE').filter((file) => !file.endsWith('/config.yml'))],
    ['vendor.github-issue-config', '.github/ISSUE_TEMPLATE/config.yml'],
    ['vendor.dependabot', '.github/dependabot.yml'],
    ['vendor.citation-file-format', 'CITATION.cff'],
    ['vendor.compose-spec', 'deploy/compose.yaml'],
  ];
  for (const [schema, ...files] of schemas) {
    await run(`schema of ${files.join(', ')}`, join(programs, 'check-jsonschema'), ['--builtin-schema', schema, ...files]);
  }
  await run('check of the image', join(programs, 'hadolint'), ['deploy/Dockerfile']);
  await run('safety of the workflows', join(programs, 'zizmor'), ['--offline', '.github']);
}

/**
 * @typedef {object} Step
 * @property {string} name
 * @property {string} title
 * @property {'quick' | 'full' | 'all'} [tier] the smallest tier that has it; without one, it runs only if it is named
 * @property {(string | (() => Promise<void>))[]} run command lines, one after the other
 * @property {Record<string, string>} [env]
 * @property {string[]} [needs] steps that must have passed
 * @property {string} [within] a step that does all of this: if both are of the tier, this one does not run
 * @property {string[]} [inputs] files on which the result depends, as patterns of Git; all if absent
 * @property {string[]} [products] files and folders, relative to the root, that later steps use
 * @property {boolean} [always] runs even if it has passed with the same files: a build, which knows itself what is stale, or something random
 * @property {(keyof typeof OUTSIDE)[]} [outside]
 * @property {string[]} [debian] arguments of scripts/install-debian-packages.sh
 * @property {string} [subcommand] a subcommand of cargo: if it is not installed, the step does not run
 * @property {string} [release] the code name of a release of Debian, on x64: on other systems, the step does not run
 * @property {boolean} [beside] runs concurrently with the following steps, until one needs it
 */

/** @type {Step[]} */
export const STEPS = [
  {
    name: 'format',
    title: 'formatting of JavaScript and Rust',
    tier: 'quick',
    run: ['npx biome format', ...['', LIMITS, LOOM, DRIVER_CRATE, GPU_FAULTS, '--manifest-path fuzz/Cargo.toml'].map((crate) => `cargo fmt --check ${crate}`)],
  },
  { name: 'lint', title: 'Biome', tier: 'quick', run: ['npm run --silent lint'] },
  {
    name: 'types',
    title: 'tsc over JavaScript and the declarations',
    tier: 'quick',
    run: ['node scripts/test.mjs --prebuilt __test__/types/types.test.mjs'],
  },
  { name: 'github', title: 'workflows, their safety, and files for GitHub and Docker', tier: 'full', debian: ['venv'], run: [checkSchemas] },
  {
    name: 'deny',
    title: 'licenses and sources of crates',
    tier: 'full',
    inputs: ['Cargo.*', 'deny.toml'],
    subcommand: 'deny',
    run: ['cargo deny check bans licenses sources'],
  },
  // Most of the optimized build runs on one core.
  {
    name: 'addon',
    title: 'npm packages and the addon',
    tier: 'quick',
    inputs: [...RUST, 'package-lock.json'],
    products: [`webnn-node.${thisPlatform()}.node`],
    always: true,
    beside: true,
    run: ['npm run --silent build'],
  },
  {
    name: 'clippy',
    title: 'cargo clippy',
    tier: 'quick',
    inputs: [...RUST, 'bench/**/*.rs', 'bench/gpu/driver', 'loom', '__test__/gpu-faults/layer'],
    run: [
      'cargo clippy --all-targets -- -D warnings',
      `cargo clippy ${LIMITS} --target-dir target/bench/limits -- -D warnings`,
      `cargo clippy ${DRIVER_CRATE} --target-dir target/bench/driver -- -D warnings`,
      `cargo clippy --all-targets ${LOOM} --target-dir target/loom -- -D warnings`,
      `cargo clippy ${GPU_FAULTS} --target-dir target/gpu-faults -- -D warnings`,
    ],
  },
  { name: 'rust-build', title: 'build of the Rust tests', tier: 'quick', inputs: RUST, always: true, run: ['cargo test --no-run --lib --no-default-features'] },
  { name: 'rust', title: 'Rust tests', tier: 'quick', needs: ['rust-build'], within: 'rust-gpu', inputs: RUST, run: ['npm test -- --only rust'] },
  // Stands here because the addon is still being linked.
  {
    name: 'rust-gpu',
    title: 'Rust tests, those on software Vulkan, too',
    tier: 'full',
    needs: ['rust-build'],
    inputs: RUST,
    debian: ['vulkan'],
    run: ['npm test -- --gpu --only rust'],
  },
  { name: 'js', title: 'JavaScript tests', tier: 'quick', needs: ['addon'], run: ['npm test -- --only js'] },
  {
    name: 'loom',
    title: 'threads in every order in which they can run',
    tier: 'full',
    inputs: ['loom', 'src'],
    run: [`cargo test ${LOOM} --target-dir target/loom`],
  },
  { name: 'pack', title: 'all packages, each tried in an empty project', tier: 'full', needs: ['addon'], run: ['npm run pack:local'] },
  {
    name: 'models',
    title: 'trained models',
    tier: 'all',
    needs: ['addon'],
    inputs: CODE,
    outside: ['models'],
    run: ['npm run suite -- models'],
  },
  {
    name: 'gpu',
    title: 'JavaScript tests on software Vulkan',
    tier: 'full',
    needs: ['addon'],
    inputs: CODE,
    debian: ['vulkan'],
    run: ['npm test -- --gpu --only js'],
  },
  {
    name: 'browser',
    title: 'HTML pages in Chromium',
    tier: 'full',
    needs: ['addon'],
    inputs: CODE,
    debian: ['chromium'],
    run: ['npm run suite -- browser'],
  },
  {
    name: 'site',
    title: 'the site of the documentation, built and read in Chromium',
    tier: 'full',
    needs: ['addon'],
    debian: ['chromium'],
    run: ['npm run suite -- site'],
  },
  {
    name: 'conformance',
    title: 'conformance vectors',
    tier: 'full',
    needs: ['addon'],
    inputs: CODE,
    outside: ['vectors'],
    run: [`node __test__/conformance/run.mjs ${OUTSIDE.vectors}`],
  },
  {
    name: 'conformance-gpu',
    title: 'conformance vectors on software Vulkan',
    tier: 'full',
    needs: ['addon'],
    inputs: CODE,
    outside: ['vectors'],
    debian: ['vulkan'],
    env: SOFTWARE_GPU,
    run: [`node __test__/conformance/run.mjs ${OUTSIDE.vectors} --accelerated`],
  },
  {
    name: 'gpu-kernels',
    title: 'every kernel as SPIR-V, HLSL and MSL',
    tier: 'full',
    needs: ['rust-build'],
    inputs: [...RUST, 'scripts/gpu'],
    products: [KERNELS],
    run: [writeKernels],
  },
  {
    name: 'gpu-spirv',
    title: 'every kernel by a current spirv-val',
    tier: 'full',
    needs: ['gpu-kernels'],
    inputs: [...RUST, 'scripts'],
    debian: ['venv'],
    run: ['node scripts/gpu/spirv.mjs'],
  },
  {
    name: 'gpu-isa',
    title: 'registers and instructions of kernels on three families of GPUs',
    tier: 'full',
    needs: ['gpu-kernels'],
    inputs: [...RUST, 'scripts/gpu', 'bench/gpu'],
    debian: ['vulkan'],
    run: ['node scripts/gpu/isa.mjs'],
  },
  {
    name: 'gpu-layer',
    title: 'conformance vectors on software Vulkan under the validation layer, with synchronization',
    tier: 'full',
    needs: ['addon', 'gpu-kernels'],
    inputs: CODE,
    outside: ['vectors'],
    debian: ['vulkan', 'chromium'],
    run: [`node scripts/gpu/layer.mjs ${OUTSIDE.vectors}`],
  },
  {
    name: 'gpu-small',
    title: 'vectors, Web Platform Tests and models on SwiftShader, with minimum limits, and with subgroups of 4, 8 and 16',
    tier: 'all',
    needs: ['addon'],
    inputs: CODE,
    outside: ['vectors', 'wpt'],
    debian: ['vulkan', 'chromium'],
    run: [`node scripts/gpu/small.mjs ${OUTSIDE.vectors} ${OUTSIDE.wpt}`],
  },
  {
    name: 'wpt',
    title: 'Web Platform Tests from a checkout',
    tier: 'full',
    needs: ['addon'],
    inputs: CODE,
    outside: ['wpt'],
    run: [`node __test__/wpt/run.mjs --wpt ${OUTSIDE.wpt}`],
  },
  {
    name: 'wpt-gpu',
    title: 'Web Platform Tests from a checkout on software Vulkan',
    tier: 'full',
    needs: ['addon'],
    inputs: CODE,
    outside: ['wpt'],
    debian: ['vulkan'],
    env: SOFTWARE_GPU,
    run: [`node __test__/wpt/run.mjs --wpt ${OUTSIDE.wpt} --device gpu`],
  },
  {
    name: 'draft',
    title: 'the tables of types and ranks in a checkout of the draft',
    tier: 'all',
    inputs: ['spec', 'scripts'],
    outside: ['draft'],
    run: [`node scripts/draft-limits.mjs ${OUTSIDE.draft} --check`],
  },
  {
    name: 'runtimes',
    title: 'Node, Deno and Bun',
    tier: 'all',
    needs: ['addon'],
    inputs: CODE,
    run: ['npm run suite -- runtimes'],
  },
  // Emulated: nothing about speed, or about the order in which threads of arm64 see memory.
  {
    name: 'arm64',
    title: 'kernels and the addon for arm64, under qemu',
    tier: 'all',
    inputs: CODE,
    release: 'bookworm',
    run: [
      `${ARM64} test cpu::simd cpu::product cpu::kernels cpu::steps`,
      `${ARM64} addon`,
      ...['neon', 'portable'].map((isa) => `WEBNN_ISA=${isa} ${ARM64} node scripts/cross/smoke.cjs`),
      `${ARM64} node --expose-gc --test __test__/interfaces/dispatch.test.mjs`,
    ],
  },
  {
    name: 'arm64-vectors',
    title: 'conformance vectors on arm64, under qemu',
    tier: 'all',
    needs: ['arm64'],
    inputs: CODE,
    outside: ['vectors'],
    run: [`${ARM64} node __test__/conformance/run.mjs ${OUTSIDE.vectors}`],
  },
  {
    name: 'windows',
    title: 'the crate and the addon for Windows, under Wine',
    tier: 'all',
    inputs: CODE,
    release: 'bookworm',
    run: [`${WINDOWS} check`, `${WINDOWS} test memory:: session:: runtime:: cpu::schedule`, `${WINDOWS} addon`, `${WINDOWS} node scripts/cross/smoke.cjs`],
  },
  {
    name: 'windows-vectors',
    title: 'conformance vectors on Windows, under Wine',
    tier: 'all',
    needs: ['windows'],
    inputs: CODE,
    outside: ['vectors'],
    run: [`${WINDOWS} node __test__/conformance/run.mjs ${OUTSIDE.vectors}`],
  },
  {
    name: 'onnx-node',
    title: 'single-operator tests of onnx',
    tier: 'full',
    needs: ['addon'],
    inputs: CODE,
    debian: ['venv'],
    run: ['npm run suite -- onnx-node --quiet'],
  },
  {
    name: 'onnx-contrib',
    title: 'models that onnxruntime wrote',
    tier: 'full',
    needs: ['addon'],
    inputs: CODE,
    debian: ['venv'],
    run: ['npm run suite -- onnx-contrib'],
  },
  {
    name: 'onnx-classical',
    title: 'the same, with exports of scikit-learn, XGBoost and LightGBM',
    tier: 'all',
    needs: ['addon'],
    inputs: CODE,
    debian: ['venv'],
    run: ['npm run suite -- onnx-contrib --classical'],
  },
  {
    name: 'packaged-models',
    title: 'models in packages of PyPI and npm',
    tier: 'all',
    needs: ['addon'],
    inputs: CODE,
    debian: ['venv'],
    run: ['npm run suite -- packaged-models'],
  },
  {
    name: 'onnx-models',
    title: "the benchmark's models",
    tier: 'all',
    needs: ['addon'],
    inputs: CODE,
    products: ['target/onnx-models'],
    run: ['npm run suite -- onnx-models'],
  },
  {
    name: 'bench',
    title: 'the benchmark, as far as it needs no other engine',
    tier: 'all',
    needs: ['onnx-models'],
    inputs: CODE,
    run: [
      'npm run bench -- models --filter gru_denoise --against none --threads 1 --samples 2 --loads 1',
      'npm run bench -- operators --against none --threads 1 --tiny',
      'npm run bench -- calls --against none --threads 1 --runs 10',
    ],
  },
  { name: 'clients', title: 'client libraries', tier: 'full', needs: ['addon'], inputs: CODE, run: ['npm run suite -- clients'] },
  {
    name: 'serve',
    title: 'the server with other projects’ clients, Redis, Prometheus, nginx and Caddy',
    tier: 'full',
    needs: ['addon'],
    debian: ['venv', 'redis', 'prometheus', 'nginx', 'caddy'],
    run: ['npm run suite -- serve', 'npm run soak -- hostile --messages 2000 --health-ms 30000'],
  },
  {
    name: 'ort-programs',
    title: 'programs written for onnxruntime-node',
    tier: 'full',
    needs: ['addon'],
    inputs: CODE,
    debian: ['venv', 'speech'],
    run: ['npm run suite -- ort-programs'],
  },
  {
    name: 'text',
    title: 'texts of language models',
    tier: 'full',
    needs: ['addon'],
    inputs: CODE,
    debian: ['venv'],
    run: ['npm run suite -- text', 'npm run soak -- text --types fp32,q4,q4f16'],
  },
  {
    name: 'text-gpu',
    title: 'texts of language models on software Vulkan',
    tier: 'full',
    needs: ['addon'],
    inputs: CODE,
    debian: ['venv', 'vulkan'],
    env: SOFTWARE_GPU,
    run: ['npm run suite -- text --gpu'],
  },
  {
    name: 'examples',
    title: 'each example in an empty project',
    tier: 'full',
    needs: ['addon'],
    inputs: CODE,
    debian: ['venv', 'redis'],
    run: ['npm run suite -- examples'],
  },
  {
    name: 'search',
    title: 'semantic search',
    tier: 'full',
    needs: ['addon'],
    inputs: CODE,
    debian: ['venv'],
    run: ['npm run suite -- search'],
  },
  {
    name: 'first-minutes',
    title: 'what README.md promises, in homes without files, timed',
    tier: 'all',
    needs: ['addon'],
    debian: ['venv'],
    run: ['npm run suite -- first-minutes'],
  },
  {
    name: 'soak',
    title: 'objects at random, jobs, a server and conversations for long, with memory watched, and hostile messages',
    tier: 'all',
    needs: ['addon'],
    always: true,
    debian: ['venv', 'redis'],
    run: [
      'npm run soak -- api --minutes 10',
      'npm run soak -- text --conversations 1000 --tokens 100000',
      'npm run soak -- serve --requests 100000',
      'npm run soak -- queue --minutes 5',
      'npm run soak -- hostile --messages 20000 --health-ms 30000',
    ],
  },
  { name: 'fuzz', title: 'the reader of ONNX models, with bytes at random', tier: 'all', always: true, run: ['npm run fuzz -- --seconds 300'] },
  {
    name: 'gpu-faults',
    title: 'a driver that loses its device, has no memory, or does not answer, at each of its first calls',
    tier: 'all',
    needs: ['addon'],
    inputs: CODE,
    debian: ['vulkan'],
    run: ['node __test__/gpu-faults/run.mjs', 'node __test__/gpu-faults/run.mjs --first --every 4'],
  },
  {
    name: 'coverage-js',
    title: 'coverage of the JavaScript tests, as a report',
    needs: ['addon'],
    run: ['npm test -- --only js --coverage'],
  },
  {
    name: 'coverage-rust',
    title: 'coverage of the Rust tests, as a report',
    inputs: RUST,
    subcommand: 'llvm-cov',
    run: ['cargo llvm-cov --lib --no-default-features -- --skip on_software_vulkan'],
  },
];

/**
 * The steps of a tier, in order.
 *
 * @param {(typeof TIERS)[number]} tier
 * @param {Step[]} [steps]
 */
export const stepsOf = (tier, steps = STEPS) => steps.filter((step) => step.tier !== undefined && TIERS.indexOf(step.tier) <= TIERS.indexOf(tier));
