// The loader on models that are large, odd or hostile rather than heavy: time and memory of loading and of first and later runs.
// Each case runs in a process of its own.

import { spawnSync } from 'node:child_process';
import { resolve } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { parseArgs } from 'node:util';
import { entry, withUsage } from '../../scripts/process.mjs';
import { cases } from './cases.mjs';

const USAGE = `usage: npm run bench -- loader [--package FOLDER] [CASE...]

  --package FOLDER   another webnn-node, by default this one

cases: ${Object.keys(cases).join('; ')}`;

await entry(() => {
  const { values, positionals } = withUsage(USAGE, () => {
    const parsed = parseArgs({ options: { package: { type: 'string' } }, allowPositionals: true });
    const unknown = parsed.positionals.find((name) => !Object.hasOwn(cases, name));
    if (unknown !== undefined) throw new Error(`there is no case ${unknown}`);
    return parsed;
  });
  const api = values.package ? resolve(values.package, 'onnx.js') : fileURLToPath(new URL('../../onnx.js', import.meta.url));
  const measure = fileURLToPath(new URL('measure.mjs', import.meta.url));

  const rows = [];
  for (const name of positionals.length > 0 ? positionals : Object.keys(cases)) {
    const { status, stdout, stderr, signal } = spawnSync(process.execPath, ['--expose-gc', measure, pathToFileURL(api).href, name], {
      encoding: 'utf8',
      timeout: 300_000,
    });
    rows.push(status === 0 ? { case: name, ...JSON.parse(stdout) } : { case: name, failed: signal ?? stderr.trim().split('\n').at(-1) });
  }
  console.table(rows);
});
