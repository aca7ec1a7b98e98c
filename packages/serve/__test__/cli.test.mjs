// The program, started as users start it.

import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { mkdtempSync, rmSync, symlinkSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import test from 'node:test';
import { fileURLToPath } from 'node:url';
import { endOf } from '../../../__test__/lib/processes.mjs';

const PROGRAM = fileURLToPath(new URL('../bin/webnn-node-serve.js', import.meta.url));
const EMBEDDINGS = fileURLToPath(new URL('../models/embeddings', import.meta.url));

/** Models of which each takes some 100 ms to load. */
const COUNT = 50;

// Windows has no signals.
if (process.platform !== 'win32') {
  test('a signal while models are loaded ends the program, also as the first process of a container', async (t) => {
    const repository = mkdtempSync(path.join(tmpdir(), 'webnn-serve-'));
    t.after(() => rmSync(repository, { recursive: true }));
    for (let i = 0; i < COUNT; i++) symlinkSync(EMBEDDINGS, path.join(repository, `m${i}`));
    const child = spawn(process.execPath, [PROGRAM, repository, '--http', '0'], { env: { ...process.env, NODE_TEST_CONTEXT: undefined } });
    const ended = endOf(child);
    child.stdout.once('data', () => child.kill('SIGTERM'));
    const { code, signal, stdout } = await ended;
    // Without a function for the signal the system would end the program, but not where it is process 1.
    assert.deepEqual([code, signal], [143, null]);
    assert.doesNotMatch(stdout, /"ready"/);
  });
}
