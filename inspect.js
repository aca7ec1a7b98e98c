'use strict';

const { describeGraph, profileGraph, systemInfo } = require('./lib/inspect.js');

module.exports = { describeGraph, profileGraph, systemInfo };
