// Starts a server with a small heap in a process of its own.

import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { defined } from '../../../__test__/lib/types.mjs';

const PROGRAM = fileURLToPath(new URL('hostile-server.mjs', import.meta.url));

/**
 * Starts a server that is killed after the test.
 * @param {{ after: (done: () => Promise<void>) => void }} t
 * @param {string} models folder of models
 * @param {{ megabytes: number, key?: string }} options V8's heap, and the key that callers must have
 */
export async function startSmallHeap(t, models, { megabytes, key }) {
  const args = [`--max-old-space-size=${megabytes}`, PROGRAM, models, ...(key === undefined ? [] : [key])];
  const child = spawn(process.execPath, args, { stdio: ['ignore', 'pipe', 'inherit'], env: { ...process.env, NODE_TEST_CONTEXT: undefined } });
  const exited = once(child, 'exit');
  t.after(async () => {
    child.kill('SIGKILL');
    await exited;
  });
  const [line] = await once(createInterface({ input: defined(child.stdout) }), 'line');
  const { http, grpc, pid } = JSON.parse(line);
  return { child, pid, http, address: grpc.replace('grpc://', '') };
}
