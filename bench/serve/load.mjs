// Callers of a server, in a process of their own: they must not wait for what the server computes. Told what to do by a message,
// answers with a message.

import http from 'node:http';

/**
 * What to send.
 * @typedef {object} Load
 * @property {string} url
 * @property {string} body in base64
 * @property {Record<string, string>} headers
 * @property {number} callers that wait for an answer before they ask again; with a rate, the most that wait at once
 * @property {number} [rate] requests per second, whether answers come or not
 * @property {number} seconds
 */

/**
 * @typedef {object} Outcome
 * @property {number[]} accepted milliseconds of each answer of status 200
 * @property {number[]} refused milliseconds of each answer of status 503
 * @property {Record<string, number>} others how often there was any other answer, or none
 * @property {number} seconds
 */

/**
 * Sends one request.
 * @param {http.Agent} agent
 * @param {{ url: string, headers: Record<string, string> }} load
 * @param {Buffer} body
 * @returns {Promise<string | number>} status, or the code of an error
 */
function send(agent, { url, headers }, body) {
  return new Promise((resolve) => {
    const request = http.request(url, { method: 'POST', agent, headers: { ...headers, 'content-length': body.length } }, (response) => {
      response.resume().once('end', () => resolve(response.statusCode ?? 0));
    });
    request.once('error', (error) => resolve(/** @type {NodeJS.ErrnoException} */ (error).code ?? error.message));
    request.end(body);
  });
}

/**
 * @param {Load} load
 * @returns {Promise<Outcome>}
 */
async function run(load) {
  const agent = new http.Agent({ keepAlive: true, maxSockets: load.callers });
  const body = Buffer.from(load.body, 'base64');
  /** @type {Outcome} */
  const outcome = { accepted: [], refused: [], others: {}, seconds: 0 };
  const start = performance.now();
  const isOver = () => performance.now() - start >= load.seconds * 1000;
  const ask = async () => {
    const begin = performance.now();
    const status = await send(agent, load, body);
    const ms = performance.now() - begin;
    if (status === 200) outcome.accepted.push(ms);
    else if (status === 503) outcome.refused.push(ms);
    else outcome.others[status] = (outcome.others[status] ?? 0) + 1;
  };
  if (load.rate === undefined) {
    const call = async () => {
      while (!isOver()) await ask();
    };
    await Promise.all(Array.from({ length: load.callers }, call));
  } else {
    const asked = [];
    for (let i = 0; !isOver(); i++) {
      const wait = start + (1000 * i) / load.rate - performance.now();
      if (wait > 0) await new Promise((resolve) => setTimeout(resolve, wait));
      asked.push(ask());
    }
    await Promise.all(asked);
  }
  outcome.seconds = (performance.now() - start) / 1000;
  agent.destroy();
  return outcome;
}

process.on('message', async (load) => process.send?.(await run(/** @type {Load} */ (load))));
