// The loader on models that are large, odd or hostile rather than heavy: time and memory of loading and of first and later runs.
// Each case runs in a process of its own: node bench/loader/run.mjs [--package FOLDER] [CASE...]

import { spawnSync } from 'node:child_process';
import { resolve } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { parseArgs } from 'node:util';
import { cases } from './cases.mjs';

const { values, positionals } = parseArgs({ options: { package: { type: 'string' } }, allowPositionals: true });
const entry = values.package ? resolve(values.package, 'onnx.js') : fileURLToPath(new URL('../../onnx.js', import.meta.url));
const measure = fileURLToPath(new URL('measure.mjs', import.meta.url));

const rows = [];
for (const name of positionals.length > 0 ? positionals : Object.keys(cases)) {
  const { status, stdout, stderr, signal } = spawnSync(process.execPath, ['--expose-gc', measure, pathToFileURL(entry).href, name], {
    encoding: 'utf8',
    timeout: 300_000,
  });
  rows.push(status === 0 ? { case: name, ...JSON.parse(stdout) } : { case: name, failed: signal ?? stderr.trim().split('\n').at(-1) });
}
console.table(rows);
