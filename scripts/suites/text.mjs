// `npm run suite -- text`: writes small language models of all weight types once under target/, generates texts
// with them, and compares the texts with onnxruntime-node's.
//
//   npm run suite -- text          on the CPU
//   npm run suite -- text --gpu    on a GPU, with the texts of the CPU; WEBNN_GPU_SOFTWARE=1 lets it be a CPU

import { parseArgs } from 'node:util';
import { writeModels } from '../../bench/generate/models.mjs';
import { installExternal } from '../external.mjs';
import { entry, run, withUsage } from '../process.mjs';

await entry(async () => {
  const options = /** @type {const} */ ({ gpu: { type: 'boolean', default: false } });
  const { gpu } = withUsage('usage: npm run suite -- text [--gpu]', () => parseArgs({ options }).values);
  // It includes onnxruntime-node.
  if (!gpu) await installExternal();
  const env = { WEBNN_TEXT_MODELS: await writeModels({ tiny: true }) };
  const test = `__test__/text-generation/${gpu ? 'gpu' : 'onnxruntime'}.test.mjs`;
  await run('tests of text generation', process.execPath, ['--test', test], { env });
});
