// A worker that creates a session, and runs it once, or for ever if it is told a size.

import { parentPort, workerData } from 'node:worker_threads';
import { InferenceSession, Tensor } from 'webnn-node-ort';

const { model, number, size } = workerData;
const session = await InferenceSession.create(model);
if (size === undefined) {
  const { y } = await session.run({ x: new Tensor('float32', [number], [1]) });
  /** @type {import('node:worker_threads').MessagePort} */ (parentPort).postMessage(y.data[0]);
} else {
  const x = new Tensor('float32', new Float32Array(size * size).fill(1), [size, size]);
  for (;;) {
    await Promise.all([session.run({ x }), session.run({ x })]);
  }
}
