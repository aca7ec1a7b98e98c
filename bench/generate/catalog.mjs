// The models of the text generation benchmark by weight type, and their files.

import { readFileSync } from 'node:fs';
import { join } from 'node:path';

/**
 * @typedef {object} ModelType
 * @property {'decoder' | 'whisper'} model
 * @property {'float32' | 'float16'} dataType of activations and cache
 * @property {string} [file] of the decoder-only model, in the folder `decoder`
 * @property {{ dtype: string, model_file_name?: string }} transformers its name in Transformers.js
 * @property {string} [gguf] the closest type of llama.cpp
 * @property {boolean} exact whether engines round alike and therefore choose the same tokens
 */

/** @typedef {keyof typeof TYPES} TypeName */

/** llama.cpp always rounds activations to 8 bits, as level 4 does. */
export const TYPES = {
  fp32: type({ file: 'model.onnx', transformers: { dtype: 'fp32' }, exact: true }),
  fp16: type({ dataType: 'float16', file: 'model_fp16.onnx', transformers: { dtype: 'fp16' }, gguf: 'F16' }),
  q8: type({ file: 'model_quantized.onnx', transformers: { dtype: 'q8' }, gguf: 'Q8_0', exact: true }),
  q4: type({ file: 'model_q4.onnx', transformers: { dtype: 'q4' }, exact: true }),
  'q4-level4': type({ file: 'model_level4_q4.onnx', transformers: { dtype: 'q4', model_file_name: 'model_level4' }, gguf: 'Q4_0' }),
  q4f16: type({ dataType: 'float16', file: 'model_q4f16.onnx', transformers: { dtype: 'q4f16' } }),
  whisper: type({ model: 'whisper', transformers: { dtype: 'fp32' }, exact: true }),
};

/**
 * @param {Partial<ModelType> & Pick<ModelType, 'transformers'>} parts
 * @returns {ModelType}
 */
function type(parts) {
  return { model: 'decoder', dataType: 'float32', exact: false, ...parts };
}

/**
 * The folder of a model.
 *
 * @param {string} models the folder of all models
 * @param {TypeName} name
 */
export const folderOf = (models, name) => join(models, TYPES[name].model);

/**
 * The file of a decoder-only model.
 *
 * @param {string} models
 * @param {TypeName} name
 */
export const decoderFile = (models, name) => join(folderOf(models, name), 'onnx', /** @type {string} */ (TYPES[name].file));

/**
 * The file for llama.cpp.
 *
 * @param {string} models
 * @param {TypeName} name
 * @throws {Error} for a type without one
 */
export function ggufFile(models, name) {
  const { gguf } = TYPES[name];
  if (gguf === undefined) throw new Error(`no GGUF file is written for ${name}`);
  return join(folderOf(models, name), `model-${gguf}.gguf`);
}

/** Names of the encoder-decoder's files. */
export const WHISPER_FILES = { encoder: 'encoder_model.onnx', decoder: 'decoder_model_merged.onnx' };

/**
 * All files of a type.
 *
 * @param {string} models
 * @param {TypeName} name
 * @returns {string[]}
 */
export function filesOf(models, name) {
  const { model, gguf } = TYPES[name];
  if (model === 'whisper') return Object.values(WHISPER_FILES).map((file) => join(folderOf(models, name), 'onnx', file));
  const file = decoderFile(models, name);
  return [file, `${file}_data`, ...(gguf === undefined ? [] : [ggufFile(models, name)])];
}

/** Returns the file in which the generator records how much the models read. @param {string} models */
const summaryFile = (models) => join(models, 'models.json');

/**
 * Returns the bytes of weights read per token, by type and by GGUF name.
 *
 * @param {string} models
 * @returns {Record<string, number>}
 */
export const bytesPerToken = (models) => JSON.parse(readFileSync(summaryFile(models), 'utf8')).bytesPerToken;

/**
 * Returns the sizes of a model, by their names in Transformers.
 *
 * @param {string} models
 * @param {TypeName} name
 * @returns {Record<string, number>}
 */
export const configOf = (models, name) => JSON.parse(readFileSync(join(folderOf(models, name), 'config.json'), 'utf8'));

/**
 * The number of tokens in the vocabulary.
 *
 * @param {string} models
 * @param {TypeName} name
 */
export const vocabularyOf = (models, name) => configOf(models, name).vocab_size;
