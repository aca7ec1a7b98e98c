// A server without anything behind it: reads each body and answers 4 KB. What HTTP costs on this machine. Sends its address.

import http from 'node:http';

const ANSWER = Buffer.alloc(4096);

const server = http.createServer((request, response) => {
  request.resume().once('end', () => response.writeHead(200, { 'content-length': ANSWER.length }).end(ANSWER));
});
server.listen(0, '127.0.0.1', () => process.send?.(`http://127.0.0.1:${/** @type {import('node:net').AddressInfo} */ (server.address()).port}`));
