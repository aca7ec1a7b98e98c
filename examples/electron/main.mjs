// WebNN in Electron: in the main process itself, and in a utility process. Needs Electron 28 or newer:
//
//   npx electron examples/electron/main.mjs
import { fileURLToPath } from 'node:url';
import { app, utilityProcess } from 'electron';
import { createAffine } from './affine.mjs';

/** Starts the utility process. @returns {(numbers: Float32Array) => Promise<Float32Array>} asks it */
function startCompute() {
  const child = utilityProcess.fork(fileURLToPath(new URL('compute.mjs', import.meta.url)), [], {
    serviceName: 'webnn',
  });
  const pending = new Map();
  let next = 0;
  child.on('message', ({ id, result, error }) => {
    const { resolve, reject } = pending.get(id);
    pending.delete(id);
    error === undefined ? resolve(result) : reject(new Error(error));
  });
  child.on('exit', (code) => {
    pending.forEach(({ reject }) => reject(new Error(`the utility process ended with ${code}`)));
    pending.clear();
  });
  return (numbers) =>
    new Promise((resolve, reject) => {
      const id = next++;
      pending.set(id, { resolve, reject });
      child.postMessage({ id, numbers });
    });
}

await app.whenReady();
const numbers = new Float32Array([1, 2, 3, 4]);

// Computations run on threads of their own, so the main process stays responsive.
const here = await createAffine();
console.log('main process:   ', await here(numbers)); // 3, 5, 7, 9

const there = startCompute();
console.log('utility process:', await there(numbers)); // 3, 5, 7, 9

app.quit();
