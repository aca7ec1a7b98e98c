// The Open Inference Protocol as JSON schemas, for the OpenAPI document. Requests are checked by v2-json.js, which converts
// tensors at the same time.

import { DATATYPES } from './datatypes.js';

/** @typedef {import('./checker.js').Schema} Schema */

const text = { type: 'string' };
const flag = { type: 'boolean' };
const object = (/** @type {Record<string, Schema>} */ properties, /** @type {string[]} */ required = []) => ({ type: 'object', required, properties });
const list = (/** @type {Schema} */ items) => ({ type: 'array', items });

const datatype = { enum: DATATYPES };
const shape = list({ type: 'integer' });
const data = { type: 'array', description: 'The elements, nested or flat, in row-major order' };
const size = object({ binary_data_size: { type: 'integer', minimum: 0, description: 'Bytes of the tensor behind the JSON, in place of data' } });

/** @type {Schema} */
export const INFER_REQUEST = object(
  {
    id: text,
    inputs: list(object({ name: text, shape, datatype, data, parameters: size }, ['name', 'shape', 'datatype'])),
    outputs: list(object({ name: text, parameters: object({ binary_data: flag }) }, ['name'])),
    parameters: object({
      timeout: { type: 'number', minimum: 0, description: 'Microseconds that the caller waits' },
      binary_data_output: { type: 'boolean', description: 'Whether outputs follow the JSON as raw bytes' },
    }),
  },
  ['inputs'],
);

/** @type {Schema} */
export const INFER_RESPONSE = object(
  {
    model_name: text,
    model_version: text,
    id: text,
    outputs: list(object({ name: text, shape, datatype, data, parameters: size }, ['name', 'shape', 'datatype'])),
  },
  ['model_name', 'model_version', 'outputs'],
);

const tensors = list(object({ name: text, datatype, shape }, ['name', 'datatype', 'shape']));

/** @type {Schema} */
export const MODEL_METADATA = object({ name: text, versions: list(text), platform: text, inputs: tensors, outputs: tensors, properties: { type: 'object' } }, [
  'name',
  'versions',
  'platform',
  'inputs',
  'outputs',
]);

/** @type {Schema} */
export const SERVER_METADATA = object({ name: text, version: text, extensions: list(text) }, ['name', 'version', 'extensions']);

/** @type {Schema} */
export const INDEX_REQUEST = object({ ready: { type: 'boolean', description: 'Whether only models are listed that can be used' } });

/** @type {Schema} */
export const INDEX_RESPONSE = list(object({ name: text, version: text, state: text, reason: text }, ['name', 'state']));

/** @type {Schema} */
export const LIVE = object({ live: flag }, ['live']);

/** @type {Schema} */
export const READY = object({ ready: flag, name: text }, ['ready']);

/** @type {Schema} */
export const V2_ERROR = object({ error: text }, ['error']);
