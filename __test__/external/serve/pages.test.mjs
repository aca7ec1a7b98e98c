// Blocks of the documentation that need programs of other people, which only these tests have.

import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import path from 'node:path';
import test from 'node:test';
import { DIGITS, repositoryOf, startServer } from '../../../packages/serve/__test__/support.mjs';
import { root } from '../../../scripts/process.mjs';
import { blocksOf } from '../../documentation/page.mjs';
import { read } from '../../documentation/pages.mjs';
import { runCommand } from '../../lib/processes.mjs';
import { defined } from '../../lib/types.mjs';

const blocks = (page, language) => blocksOf(read(page), page).filter((block) => block.language === language);

test('docs/serving.md: the program in Python prints what its comment says', async (t) => {
  const server = await startServer(t, { models: repositoryOf(t, { 'digits/1/model.onnx': DIGITS }), grpc: 0 });
  const [{ text }, ...others] = blocks('docs/serving.md', 'python');
  assert.deepEqual(others, []);
  const addressOf = (url) => url.replace(/^\w+:\/\//, '');
  const program = text.replace('127.0.0.1:8080', addressOf(server.urls.http)).replace('127.0.0.1:8081', addressOf(server.urls.grpc));
  const { code, stdout, stderr } = await runCommand(defined(process.env.SERVE_PYTHON), ['-c', program]);
  assert.equal(code, 0, stderr);
  const [, comment] = defined(/print\(.*# (.*)$/m.exec(text));
  assert.equal(stdout, `${comment}\n${comment}\n`);
});

test('docs/queues.md shows the worker that deploy.test.mjs runs', () => {
  const [{ text }] = blocks('docs/queues.md', 'js');
  assert.equal(`${text}\n`, readFileSync(path.join(root, 'deploy', 'worker.mjs'), 'utf8'));
});
