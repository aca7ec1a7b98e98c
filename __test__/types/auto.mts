// The side-effect import compiles without declarations of its own. Compiled by types.test.mjs, never run.

import 'webnn-node/auto';
