// WebNN in Electron 31 or newer: in the main process, and in a utility process that serves a window.
import { fileURLToPath } from 'node:url';
import { app, BrowserWindow, ipcMain, utilityProcess } from 'electron';
import { createAffine } from './affine.mjs';

const beside = (/** @type {string} */ name) => fileURLToPath(new URL(name, import.meta.url));

/** Starts the utility process. @returns {(numbers: Float32Array) => Promise<Float32Array>} asks it */
function startCompute() {
  const child = utilityProcess.fork(beside('compute.mjs'), [], { serviceName: 'webnn' });
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

async function start() {
  const numbers = new Float32Array([1, 2, 3, 4]);

  // Computations run on threads of their own, so the main process stays responsive.
  const here = await createAffine();
  console.log('main process:   ', (await here(numbers)).join(' '));

  const there = startCompute();
  console.log('utility process:', (await there(numbers)).join(' '));

  ipcMain.handle('affine', (_, input) => there(input));
  const window = new BrowserWindow({ width: 480, height: 240, webPreferences: { preload: beside('preload.cjs') } });
  await window.loadFile(beside('window.html'));
}

app.on('window-all-closed', () => app.quit());
// Not awaited: Electron is ready only when this module has been run.
app
  .whenReady()
  .then(start)
  .catch((error) => {
    console.error(error);
    app.exit(1);
  });
