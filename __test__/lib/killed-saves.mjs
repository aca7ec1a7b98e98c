/** Kills processes while they write packed weights to disk, at points that are spread over the time that writing takes. */

import { spawn } from 'node:child_process';
import { readdirSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { verifyCache } from '../../inspect.js';

const CHILD = fileURLToPath(new URL('../onnx/cached.mjs', import.meta.url));

/** Kills reach beyond the least time that writing took without them. */
const BEYOND = 2;

const filesOf = (/** @type {string} */ folder, /** @type {string} */ end) => readdirSync(folder).filter((name) => name.endsWith(end));

/**
 * Starts a process that loads and saves, and kills it after a while.
 *
 * @param {object} task of cached.mjs
 * @param {number} [delay] milliseconds after the load; without it, the process may end
 * @returns {Promise<{ savingMs: number, wasKilled: boolean }>}
 */
async function saveOnce(task, delay) {
  const child = spawn(process.execPath, [CHILD, JSON.stringify({ ...task, telling: true })], {
    env: { ...process.env, NODE_TEST_CONTEXT: undefined },
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  let [text, loaded, saved] = ['', 0, 0];
  /** @type {NodeJS.Timeout | undefined} */
  let timer;
  child.stdout.setEncoding('utf8').on('data', (part) => {
    text += part;
    if (loaded === 0 && text.includes('loaded\n')) {
      loaded = performance.now();
      if (delay !== undefined) timer = setTimeout(() => child.kill('SIGKILL'), delay);
    }
    if (text.includes('saved\n')) saved = performance.now();
  });
  const signal = await new Promise((resolve, reject) => {
    child.on('error', reject);
    child.on('close', (code, signal) => {
      if (code === 0 || signal === 'SIGKILL') resolve(signal);
      else reject(new Error(`the process that saves ended with ${signal ?? code}`));
    });
  });
  clearTimeout(timer);
  return { savingMs: saved - loaded, wasKilled: signal !== null };
}

/**
 * Kills `count` processes that save a model. Fails if a file of the folder is then damaged.
 *
 * @param {object} options
 * @param {string} options.folder of packed weights
 * @param {{ source: string, feeds?: object }} options.task of cached.mjs
 * @param {number} options.count
 * @returns {Promise<{ killed: number, unfinished: number, whole: number }>} how many were killed before they ended, how many of them left a
 *   file that is not finished, and how many a whole one
 */
export async function killSaves({ folder, task, count }) {
  const saving = { ...task, load: { cache: folder } };
  let { savingMs } = await saveOnce(saving);
  const found = { killed: 0, unfinished: 0, whole: 0 };
  for (let i = 0; i < count; i++) {
    for (const name of filesOf(folder, '')) rmSync(join(folder, name));
    const { wasKilled, ...saved } = await saveOnce(saving, (BEYOND * savingMs * i) / count);
    if (!wasKilled) savingMs = Math.min(savingMs, saved.savingMs);
    found.killed += Number(wasKilled);
    found.unfinished += Number(filesOf(folder, '.new').length > 0);
    found.whole += Number(filesOf(folder, '.pack').length > 0);
    const { files } = await verifyCache(folder);
    if (files.length > 0) throw new Error(`after kill ${i} of ${count}, files are damaged: ${JSON.stringify(files)}`);
  }
  return found;
}
