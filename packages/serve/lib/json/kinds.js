// What is done with long JSON in a thread of its own. Everything here takes and returns values that can be sent between threads.

import { checkEmbeddings, decodeBody, encodeEmbeddings } from '../protocol/openai.js';
import { checkChat, checkCompletion } from '../protocol/openai-generation.js';
import { decodeRequest, writeHead } from '../protocol/v2-json.js';

/** Readers of a body: what comes out is checked, and as small as its protocol allows. @type {Record<string, (bytes: Buffer, headLength?: string) => any>} */
export const READERS = {
  v2: decodeRequest,
  embeddings: (bytes) => decodeBody(bytes, checkEmbeddings),
  completion: (bytes) => decodeBody(bytes, checkCompletion),
  chat: (bytes) => decodeBody(bytes, checkChat),
};

/** Writers of JSON. @type {Record<string, (...args: any[]) => string>} */
export const WRITERS = {
  v2: writeHead,
  embeddings: (/** @type {Parameters<typeof encodeEmbeddings>} */ ...args) => JSON.stringify(encodeEmbeddings(...args)),
};
