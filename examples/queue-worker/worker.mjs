// Takes jobs from the queue and runs the model. Start as many as you have machines; SIGTERM lets jobs end that have begun.
import { realpathSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { Worker } from 'bullmq';
import { loadModel } from 'webnn-node/onnx';
import { connection, QUEUE } from './queue.mjs';

/** Runs at the same time; each uses all cores, so more only helps to fill pauses. */
const CONCURRENCY = 2;
const SIDE = 8;

/** Loads the model and starts to take jobs. @returns {Promise<{ close: () => Promise<void> }>} */
export async function startWorker() {
  // Before the first job: a job never waits for the model.
  const model = await loadModel(new URL('digits.onnx', import.meta.url));
  const worker = new Worker(
    QUEUE,
    async ({ data: { pixels } }) => {
      const { length } = pixels.flat();
      // BullMQ writes the message to the job, and tries again where the job says so.
      if (length !== SIDE * SIDE) throw new RangeError(`the picture has ${length} pixels, expected ${SIDE * SIDE}`);
      const { probabilities } = await model.run({ pixels: { data: Float32Array.from(pixels.flat()), shape: [1, 1, SIDE, SIDE] } });
      const probability = Math.max(...probabilities.data);
      return { digit: probabilities.data.indexOf(probability), probability };
    },
    { connection, concurrency: CONCURRENCY },
  );
  // While Redis cannot be reached, BullMQ tries again and again: once is enough in the log.
  let isReachable = true;
  worker.on('error', (error) => {
    if (isReachable)
      console.error(`Redis at ${new URL(connection.url).host} (REDIS_URL): ${/** @type {NodeJS.ErrnoException} */ (error).code ?? error.message}`);
    isReachable = false;
  });
  worker.on('ready', () => {
    isReachable = true;
  });
  let isClosing = false;
  return {
    async close() {
      if (isClosing) return;
      isClosing = true;
      // Without Redis there are no jobs to wait for, and its answer would never come.
      await worker.close(!isReachable);
      model.destroy();
    },
  };
}

if (realpathSync(process.argv[1]) === fileURLToPath(import.meta.url)) {
  const worker = await startWorker();
  // "disconnect" comes where another process has started this one and is gone.
  for (const event of ['SIGINT', 'SIGTERM', 'disconnect']) {
    process.once(event, async () => {
      await worker.close();
      if (process.connected) process.disconnect?.(); // a process that another has started would wait for its messages
    });
  }
}
