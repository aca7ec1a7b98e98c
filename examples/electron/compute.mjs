// The program of the utility process: a model that is loaded once and answers each message with its result. A crash in
// here, or too little memory, does not end the application.
import { createAffine } from './affine.mjs';

const { parentPort } = process;
const affine = createAffine();

parentPort.on('message', async ({ data: { id, numbers } }) => {
  try {
    const run = await affine;
    parentPort.postMessage({ id, result: await run(numbers) });
  } catch (error) {
    parentPort.postMessage({ id, error: /** @type {Error} */ (error).message });
  }
});
