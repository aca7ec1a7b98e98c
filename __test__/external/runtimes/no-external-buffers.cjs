'use strict';

/**
 * Preloaded into every process of a test run that must do without external buffers. WEBNN_TEST_HOOK is the addon built
 * from no-external-buffers.c. The process fails when anything has tried to create one, even if it went on without.
 */

const { isMainThread } = require('node:worker_threads');
const hook = require(process.env.WEBNN_TEST_HOOK);

/** napi_no_external_buffers_allowed */
const REFUSED = 22;

if (isMainThread) {
  const before = hook.create();
  if (before.some((status) => status !== 0)) {
    throw new Error(`external buffers cannot be created even before they are forbidden: statuses ${before}`);
  }
  if (!hook.forbid()) {
    throw new Error('the functions that create external buffers cannot be overwritten');
  }
  const after = hook.create();
  const refusals = hook.count();
  if (after.some((status) => status !== REFUSED) || refusals !== after.length) {
    throw new Error(`external buffers can still be created: statuses ${after}, ${refusals} refusals`);
  }
  process.on('exit', () => {
    const attempts = hook.count() - refusals;
    if (attempts > 0) {
      process.stderr.write(`external buffers were asked for ${attempts} times\n`);
      process.exitCode = 1;
    }
  });
}
