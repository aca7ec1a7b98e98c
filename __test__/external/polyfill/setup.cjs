// Loaded by mocha before the tests of webnn-polyfill: defines what its node_setup.js does, with webnn-node-compat in place of the
// polyfill.

const { install, ...drafts } = require('webnn-node-compat');

install(drafts[`draft${process.env.POLYFILL_DRAFT}`]);

const chai = require('chai');
chai.use(require('chai-as-promised'));
Object.assign(globalThis, { chai, fs: require('node:fs') });
