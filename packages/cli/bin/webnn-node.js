#!/usr/bin/env node
import('../lib/main.mjs').then(
  ({ main }) => main(process.argv.slice(2)),
  (error) => {
    // The addon for this platform is missing, or a dependency is: the message names it.
    process.stderr.write(`webnn-node: ${process.argv.includes('--verbose') ? error.stack : error.message}\n`);
    process.exitCode = 1;
  },
);
