#!/usr/bin/env node
import('../lib/main.mjs').then(
  ({ main }) => main(process.argv.slice(2)),
  (error) => {
    // The addon for this platform or a dependency is missing; the message names it.
    process.stderr.write(`webnn-node: ${process.argv.includes('--verbose') ? error.stack : error.message}\n`);
    process.exitCode = 1;
  },
);
