// A server in a process of its own, with a small heap: `node --max-old-space-size=128 hostile-server.mjs REPOSITORY [KEY]`. Prints its addresses.

import { serve } from 'webnn-node-serve';

const [repository, apiKey] = process.argv.slice(2);
const server = await serve({ models: repository, apiKey, http: 0, grpc: 0, log: false });
console.log(JSON.stringify({ ...server.urls, pid: process.pid }));
