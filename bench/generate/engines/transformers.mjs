// Transformers.js, on the package that its import of onnxruntime-node resolves to.

import { createRequire } from 'node:module';
import { basename } from 'node:path';
import { AutoModelForCausalLM, AutoModelForSpeechSeq2Seq, env, InterruptableStoppingCriteria, Tensor } from '@huggingface/transformers';
import { folderOf, TYPES } from '../catalog.mjs';
import { featuresOf } from '../inputs.mjs';
import { packageOf } from '../package-of.mjs';
import { sessionOptions } from '../session-options.mjs';
import { Timeline } from '../timeline.mjs';

/** Returns the package that `import 'onnxruntime-node'` resolves to. */
function runtimeVersion() {
  const { name, version } = packageOf(createRequire(import.meta.url).resolve('onnxruntime-node'));
  return `${name} ${version}`;
}

/**
 * Measures the time of a session's runs.
 *
 * @param {{ run: (...args: any[]) => Promise<any> }} session
 */
function watchRuns(session) {
  const run = session.run.bind(session);
  const watch = { ms: 0 };
  session.run = async (...args) => {
    const start = performance.now();
    try {
      return await run(...args);
    } finally {
      watch.ms += performance.now() - start;
    }
  };
  return watch;
}

/** @param {number[]} ids */
const idsTensor = (ids) => new Tensor('int64', BigInt64Array.from(ids, BigInt), [1, ids.length]);

/**
 * Returns the inputs of `generate()`.
 *
 * @param {import('../types.d.mts').GenerateRequest} request
 * @param {any} config of the model
 */
function inputsOf({ prompt }, config) {
  if (!config.is_encoder_decoder) {
    return { inputs: idsTensor(prompt), attention_mask: new Tensor('int64', new BigInt64Array(prompt.length).fill(1n), [1, prompt.length]) };
  }
  const sizes = [config.num_mel_bins, 2 * config.max_source_positions];
  return { inputs: new Tensor('float32', featuresOf(sizes[0] * sizes[1]), [1, ...sizes]), decoder_input_ids: prompt };
}

/**
 * @param {import('../types.d.mts').GenerateLoad} parameters
 * @returns {Promise<import('../types.d.mts').Generator>}
 */
export async function load({ models, type, threads }) {
  const { model: kind, transformers } = TYPES[type];
  env.allowRemoteModels = false;
  env.localModelPath = models;
  const start = performance.now();
  const auto = kind === 'whisper' ? AutoModelForSpeechSeq2Seq : AutoModelForCausalLM;
  const model = await auto.from_pretrained(basename(folderOf(models, type)), { ...transformers, session_options: sessionOptions(threads) });
  const loadMs = performance.now() - start;
  const runs = watchRuns(model.sessions.decoder_model_merged ?? model.sessions.model);

  return {
    version: `${env.version} on ${runtimeVersion()}`,
    loadMs,
    async generate(request) {
      const criteria = new InterruptableStoppingCriteria();
      const inputs = inputsOf(request, model.config);
      /** @type {number[]} time of the runs up to each token */
      const spent = [];
      let isPrompt = true;
      runs.ms = 0;
      const timeline = new Timeline(request);
      const streamer = {
        put(/** @type {bigint[][]} */ [[id]]) {
          // The first call passes the prompt.
          if (isPrompt) {
            isPrompt = false;
            return;
          }
          timeline.add(Number(id));
          spent.push(runs.ms);
          if (timeline.isDone) criteria.interrupt();
        },
        end() {},
      };
      await model.generate({ ...inputs, max_new_tokens: request.tokens + 1, do_sample: false, streamer, stopping_criteria: criteria });
      const result = timeline.result();
      return { ...result, outsideMs: result.tokenMs.map((ms, i) => ms - (spent[i + 1] - spent[i])) };
    },
  };
}
