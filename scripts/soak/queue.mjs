// `npm run soak -- queue`: jobs whose computations take five times as long as their locks, for minutes. No lock may be lost: a job
// without one would run twice.
//
//   npm run soak -- queue --minutes 10 --seconds 5

import { parseArgs } from 'node:util';
import { Queue, QueueEvents } from 'bullmq';
import { loadModel } from 'webnn-node/onnx';
import { worker } from 'webnn-node-serve';
import { slowModel } from '../../packages/serve/__test__/support.mjs';
import { entry, Failure, say, withUsage } from '../process.mjs';
import { startRedis } from '../services.mjs';

const USAGE = 'usage: npm run soak -- queue [--minutes N] [--seconds N]';

/** Jobs at the same time: their computations take turns. */
const TOGETHER = 2;

/** Threads of a computation: the machine can be used meanwhile. */
const THREADS = 1;

/**
 * A model whose run takes about so long on this machine.
 * @param {number} seconds
 */
async function modelOf(seconds) {
  const probe = slowModel({ products: 20 });
  const model = await loadModel(probe.file, { device: 'cpu', numThreads: THREADS });
  await model.run(probe.feeds);
  const start = performance.now();
  await model.run(probe.feeds);
  const each = (performance.now() - start) / 20;
  model.destroy();
  probe.remove();
  return slowModel({ products: Math.ceil((seconds * 1000) / each) });
}

/**
 * @param {string} url of Redis
 * @param {{ minutes: number, seconds: number }} options
 */
async function soak(url, { minutes, seconds }) {
  const connection = { url };
  const { file, feeds, remove } = await modelOf(seconds);
  const queue = new Queue('soak', { connection });
  const events = new QueueEvents('soak', { connection });
  let stalled = 0;
  events.on('stalled', () => {
    stalled += 1;
  });
  /** @type {number[]} */
  const times = [];
  const running = await worker('soak', {
    connection,
    model: file,
    batch: TOGETHER,
    config: { threads: THREADS },
    log: false,
    worker: { lockDuration: seconds * 200, stalledInterval: seconds * 100 },
    inputs: () => feeds,
    outputs({ processedOn = NaN }) {
      times.push(Date.now() - processedOn);
      return null;
    },
  });
  for (const end = performance.now() + minutes * 60_000; performance.now() < end; ) {
    const missing = 2 * TOGETHER - (await queue.count());
    if (missing > 0) await queue.addBulk(Array.from({ length: missing }, () => ({ name: 'slow', data: {} })));
    await new Promise((resolve) => setTimeout(resolve, 1000));
  }
  await running.close();
  const [completed, failed] = [await queue.getCompletedCount(), await queue.getFailedCount()];
  await Promise.all([queue.close(), events.close()]);
  remove();
  say(
    `${completed} jobs in ${minutes} minutes, each ${(Math.min(...times) / 1000).toFixed(1)} to ${(Math.max(...times) / 1000).toFixed(1)} s; locks of ${seconds / 5} s`,
  );
  if (completed === 0 || stalled > 0 || failed > 0) throw new Failure(`${stalled} jobs stalled, ${failed} failed`);
}

await entry(async () => {
  const { minutes, seconds } = withUsage(USAGE, () => {
    const { values } = parseArgs({ options: { minutes: { type: 'string', default: '1' }, seconds: { type: 'string', default: '5' } } });
    const numbers = { minutes: Number(values.minutes), seconds: Number(values.seconds) };
    if (!(numbers.minutes > 0 && numbers.seconds > 0)) throw new Error('--minutes and --seconds must be above 0');
    return numbers;
  });
  const redis = await startRedis();
  try {
    await soak(redis.env.REDIS_URL, { minutes, seconds });
  } finally {
    await redis.stop();
  }
});
