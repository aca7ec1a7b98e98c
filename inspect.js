'use strict';

const { describeContext, describeGraph, listCache, profileGraph, pruneCache, systemInfo, verifyCache } = require('./lib/inspect.js');

module.exports = { describeContext, describeGraph, listCache, profileGraph, pruneCache, systemInfo, verifyCache };
