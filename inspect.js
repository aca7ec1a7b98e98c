'use strict';

const { describeContext, describeGraph, profileGraph, systemInfo } = require('./lib/inspect.js');

module.exports = { describeContext, describeGraph, profileGraph, systemInfo };
