// The child's side of the protocol: answers requests. See process.mjs for the format of messages.

import { writeSync } from 'node:fs';
import { createInterface } from 'node:readline';

/** File descriptor for the answers. */
const ANSWERS = 3;

/** @typedef {(parameters: any) => Promise<unknown>} Handler */

/**
 * @param {Handler} handler
 * @param {object} parameters
 */
async function answer(handler, parameters) {
  try {
    return { result: await handler(parameters) };
  } catch (caught) {
    const error = /** @type {import('webnn-node/onnx').OnnxError} */ (caught);
    return { error: error.message, help: error.help };
  }
}

/**
 * Answers requests one at a time until there are no more, then ends the process.
 *
 * @param {(command: string) => Handler | undefined} handlerOf returns the handler of a command; `undefined` if there is
 *   none
 */
export async function answerRequests(handlerOf) {
  for await (const line of createInterface({ input: process.stdin })) {
    const { command, ...parameters } = JSON.parse(line);
    const handler = handlerOf(command);
    writeSync(ANSWERS, `${JSON.stringify(handler === undefined ? { error: `there is no command ${command}` } : await answer(handler, parameters))}\n`);
  }
  process.exit();
}
