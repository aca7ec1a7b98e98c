// A worker for the test of queues: reads a picture that a job refers to, and writes what it shows beside it.
//
//   node digits-worker.mjs MODEL    REDIS_URL and QUEUE in the environment; says "ready" when it takes jobs

import { readFile, rename, writeFile } from 'node:fs/promises';
import { worker } from 'webnn-node-serve';

const { QUEUE, REDIS_URL } = process.env;

const running = await worker(String(QUEUE), {
  connection: { url: REDIS_URL },
  model: process.argv[2],
  log: false,
  worker: { lockDuration: 1000, stalledInterval: 500 },
  async inputs({ data: { file } }) {
    return { pixels: { data: new Float32Array(JSON.parse(await readFile(file, 'utf8'))), shape: [1, 1, 8, 8] } };
  },
  async outputs({ data: { file } }, { probabilities: { data } }) {
    const digit = data.indexOf(Math.max(...data));
    // A job that runs twice writes the same file twice.
    const unfinished = `${file}.${process.pid}`;
    await writeFile(unfinished, String(digit));
    await rename(unfinished, `${file}.digit`);
    return { digit };
  },
});

process.once('SIGTERM', () => void running.close().then(() => process.disconnect?.()));
process.send?.('ready');
