// `npm run suite -- serve`: tests webnn-node-serve with the clients that its users have (openai, tritonclient, kserve, BullMQ), and with
// Redis and Prometheus. Installs the clients once, and starts Redis.

import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { installExternal } from '../external.mjs';
import { entry, isProgram, root, run, withUsage } from '../process.mjs';
import { pythonEnvironment } from '../python.mjs';
import { startRedis } from '../services.mjs';

const FOLDER = '__test__/external/serve';

if (isProgram(import.meta.url)) {
  await entry(async () => {
    withUsage('usage: npm run suite -- serve', parseArgs);
    await installExternal();
    const python = await pythonEnvironment('serve');
    const redis = await startRedis();
    try {
      const tests = readdirSync(join(root, FOLDER)).filter((name) => name.endsWith('.test.mjs'));
      const args = ['--expose-gc', '--test', '--test-concurrency=1', ...tests.map((name) => `${FOLDER}/${name}`)];
      await run('tests of the server with its clients', process.execPath, args, { env: { ...redis.env, SERVE_PYTHON: python } });
    } finally {
      await redis.stop();
    }
  });
}
