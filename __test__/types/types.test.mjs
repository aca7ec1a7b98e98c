import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import test from 'node:test';
import { fileURLToPath } from 'node:url';

const path = (relative) => fileURLToPath(new URL(relative, import.meta.url));

test('the declarations compile strictly, accept right programs and find the mistakes in wrong ones', () => {
  const compiler = path('../../node_modules/typescript/bin/tsc');
  const { status, stdout, stderr } = spawnSync(process.execPath, [compiler, '--project', path('tsconfig.json')], { encoding: 'utf8' });
  assert.equal(status, 0, `${stdout}${stderr}`);
});
