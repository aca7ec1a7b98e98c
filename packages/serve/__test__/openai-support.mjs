// A server with models that generate texts, and npm's client of OpenAI's API.

import OpenAI from 'openai';
import { LETTERS } from '../../../__test__/examples/model-folder.mjs';
import { greedyTokens } from '../../../__test__/onnx/language-model.mjs';
import { KINDS, modelsOf } from './generation-support.mjs';
import { startServer } from './support.mjs';

/** Letters without an end. */
export const ENDLESS = { ...LETTERS, next: (sum) => 97 + (sum % 26) };

/**
 * A server with models that are computed together and in turns, and one without a template.
 * @param {Parameters<typeof startServer>[0]} t
 * @param {Partial<import('../lib/registry/config.js').ModelConfig>} [defaults]
 * @param {import('../lib/serve.js').ServeOptions} [options]
 */
export async function generationServer(t, defaults = {}, options = {}) {
  const repository = await modelsOf(t, {
    together: KINDS.together,
    letters: { style: ENDLESS },
    plain: { style: ENDLESS, tokenizerConfig: { chat_template: undefined } },
  });
  const server = await startServer(t, { models: repository, defaults: { threads: 1, maxTextQueueMs: 2 ** 30, ...defaults }, ...options });
  const url = server.urls.http;
  const client = new OpenAI({ baseURL: `${url}/v1`, apiKey: 'none', maxRetries: 0 });
  const metric = async (name, model = 'letters') => {
    const text = await (await fetch(`${url}/metrics`)).text();
    return Number(new RegExp(`^${name}\\{[^}]*model_name="${model}"[^}]*\\} (\\S+)$`, 'm').exec(text)?.[1] ?? NaN);
  };
  return { server, url, client, metric };
}

export const textOf = (prompt, count, style = ENDLESS) => String.fromCharCode(...greedyTokens(style, [...Buffer.from(prompt)], count));

/** @type {any[]} */
export const HELLO = [{ role: 'user', content: 'Hello' }];
export const ASKED = '<|im_start|>user\nHello<|im_end|>\n<|im_start|>assistant\n';
