'use strict';

const draft2021 = require('./lib/draft2021/index.js');
const draft2024 = require('./lib/draft2024/index.js');
const { install } = require('./lib/install.js');

// A literal of identifiers: import statements find the names of a CommonJS module by scanning its text.
module.exports = { draft2021, draft2024, install };
