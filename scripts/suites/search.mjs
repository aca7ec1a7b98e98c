// `npm run suite -- search`: fetches the model of examples/semantic-search once, then tests the example
// against onnxruntime.

import { parseArgs } from 'node:util';
import { fetchModel } from '../../examples/semantic-search/fetch-model.mjs';
import { entry, run, withUsage } from '../process.mjs';
import { pythonEnvironment } from '../python.mjs';

await entry(async () => {
  withUsage('usage: npm run suite -- search', parseArgs);
  fetchModel();
  const env = { PYTHON: await pythonEnvironment('models') };
  await run('tests of the semantic search', process.execPath, ['--test', '__test__/semantic-search/semantic-search.test.mjs'], { env });
});
