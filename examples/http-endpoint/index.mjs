// An HTTP endpoint with a model behind it.
//
//   node index.mjs [--port N]    serves on 127.0.0.1 until Ctrl+C or SIGTERM
//   node index.mjs --once        sends itself the request of pictures.json, prints the answer and ends
//
// POST /digits takes pictures of 8x8 pixels, 0 (paper) to 16 (ink), as a JSON array, and answers what each one shows.
import { once } from 'node:events';
import { readFile } from 'node:fs/promises';
import { createServer } from 'node:http';
import { parseArgs } from 'node:util';
import { loadModel } from 'webnn-node/onnx';

const SIDE = 8;
const CLASSES = 10;
/** More bytes than this are no sensible request. */
const MOST_BYTES = 1 << 20;

/** A request that cannot be answered, with its HTTP status. */
class RequestError extends Error {
  /**
   * @param {number} status
   * @param {string} message
   */
  constructor(status, message) {
    super(message);
    this.status = status;
  }
}

/** @param {import('node:http').IncomingMessage} request */
async function readJson(request) {
  const chunks = [];
  let length = 0;
  for await (const chunk of request) {
    length += chunk.length;
    if (length > MOST_BYTES) throw new RequestError(413, `the request has more than ${MOST_BYTES} bytes`);
    chunks.push(chunk);
  }
  try {
    return JSON.parse(Buffer.concat(chunks).toString());
  } catch (cause) {
    throw new RequestError(400, `the request is not JSON: ${/** @type {Error} */ (cause).message}`);
  }
}

const isPicture = (/** @type {unknown} */ picture) => {
  const pixels = Array.isArray(picture) && picture.length === SIDE ? picture.flat() : [];
  return pixels.length === SIDE * SIDE && pixels.every((value) => typeof value === 'number' && value >= 0 && value <= 16);
};

// Loaded once: requests only run it. Runs of several requests may wait for each other, the event loop does not.
const model = await loadModel(new URL('digits.onnx', import.meta.url));

/**
 * What the pictures show, best guess with its probability.
 * @param {unknown} pictures
 */
async function readDigits(pictures) {
  if (!Array.isArray(pictures) || pictures.length === 0 || !pictures.every(isPicture)) {
    throw new RequestError(400, `expected an array of pictures, each ${SIDE} rows of ${SIDE} numbers from 0 to 16`);
  }
  const pixels = { data: Float32Array.from(pictures.flat(2)), shape: [pictures.length, 1, SIDE, SIDE] };
  const { probabilities } = await model.run({ pixels });
  return pictures.map((_, i) => {
    const row = probabilities.data.subarray(i * CLASSES, (i + 1) * CLASSES);
    const probability = Math.max(...row);
    return { digit: row.indexOf(probability), probability: Number(probability.toFixed(3)) };
  });
}

const server = createServer(async (request, response) => {
  const answer = (/** @type {number} */ status, /** @type {unknown} */ body) =>
    response.writeHead(status, { 'content-type': 'application/json' }).end(`${JSON.stringify(body)}\n`);
  try {
    if (request.url !== '/digits') throw new RequestError(404, 'there is only /digits');
    if (request.method !== 'POST') throw new RequestError(405, 'expected POST');
    answer(200, await readDigits(await readJson(request)));
  } catch (error) {
    if (error instanceof RequestError) answer(error.status, { error: error.message });
    else {
      console.error(error);
      answer(500, { error: 'internal error' });
    }
  }
});

const { values } = parseArgs({ options: { port: { type: 'string', default: '8080' }, once: { type: 'boolean', default: false } } });
server.listen(values.once ? 0 : Number(values.port), '127.0.0.1');
await once(server, 'listening');
const { port } = /** @type {import('node:net').AddressInfo} */ (server.address());

/** Lets requests end that have begun; then the process ends by itself. */
function stop() {
  server.close(() => model.destroy());
  server.closeIdleConnections();
}

if (values.once) {
  const body = await readFile(new URL('pictures.json', import.meta.url));
  const response = await fetch(`http://127.0.0.1:${port}/digits`, { method: 'POST', body });
  console.log(response.status, await response.json());
  stop();
} else {
  console.log(`http://127.0.0.1:${port}/digits`);
  process.once('SIGINT', stop).once('SIGTERM', stop);
}
