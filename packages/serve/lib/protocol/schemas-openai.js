// The requests of OpenAI's API as JSON schemas: what is checked, and what the OpenAPI document says.

/** @typedef {import('./checker.js').Schema} Schema */

const MOST = Number.MAX_SAFE_INTEGER;

/** Tokens of a list: more than any model here can read. */
const MAX_TOKENS = 2 ** 20;

/** The limits of OpenAI, but for the messages, which have none there. */
export const LIMITS = { inputs: 2048, prompts: 128, messages: 4096, parts: 1024, choices: 128, stops: 4, biases: 1024, logprobs: 5, topLogprobs: 20 };

const number = (/** @type {number} */ minimum, /** @type {number} */ maximum) => ({ type: 'number', minimum, maximum });
const whole = (/** @type {number} */ minimum, maximum = MOST) => ({ type: 'integer', minimum, maximum });
const flag = { type: 'boolean' };
const text = { type: 'string' };
const fullText = { type: 'string', minLength: 1 };
const list = (/** @type {Schema} */ items, /** @type {number} */ maxItems, minItems = 1) => ({ type: 'array', items, minItems, maxItems });
const oneOf = (/** @type {unknown[]} */ ...values) => ({ enum: values });
const described = (/** @type {string} */ description, /** @type {Schema} */ schema) => ({ ...schema, description });

const tokens = { ...list(whole(0), MAX_TOKENS), title: 'a list of token ids' };

/**
 * One text, or several; each may be a list of tokens.
 * @param {Schema} one
 * @param {number} most
 */
const texts = (one, most) => ({
  title: `${one.minLength ? 'a string that is not empty' : 'a string'}, a list of token ids, or a list of 1 to ${most} of these`,
  anyOf: [one, list(one, most), tokens, list(tokens, most)],
});

const model = described('Name of the model', fullText);

/** Parameters without an effect on the answer, whatever they say: they are about the service around a model. Their types are checked. */
export const HARMLESS = {
  user: described('Names the end user, for reports of abuse', text),
  safety_identifier: described('Names the end user, for reports of abuse', text),
  metadata: described('Labels of stored answers; nothing is stored', { type: 'object' }),
  service_tier: described('Which computers answer; there is one kind', text),
  prompt_cache_key: described('Where prompts are cached', text),
  prompt_cache_options: described('How prompts are cached', { type: 'object' }),
  prompt_cache_retention: described('How long prompts are cached', text),
  parallel_tool_calls: described('How many tools are called at once; none is', flag),
};

/** Parameters that are not supported, and their values that change nothing: clients send these although nobody asked for them. */
export const NEUTRAL = {
  tools: list({ type: 'object' }, 0, 0),
  tool_choice: oneOf('none', 'auto'),
  functions: list({ type: 'object' }, 0, 0),
  function_call: oneOf('none', 'auto'),
  response_format: { type: 'object', required: ['type'], properties: { type: oneOf('text') } },
  modalities: list(oneOf('text'), 2, 0),
  verbosity: oneOf('medium'),
  store: oneOf(false),
  echo: oneOf(false),
  suffix: oneOf(''),
  best_of: oneOf(1),
  use_beam_search: oneOf(false),
  length_penalty: oneOf(1),
  skip_special_tokens: oneOf(true),
  spaces_between_special_tokens: oneOf(true),
  include_stop_str_in_output: oneOf(false),
  add_generation_prompt: oneOf(true),
  continue_final_message: oneOf(false),
};

const marked = (/** @type {Record<string, Schema>} */ schemas, /** @type {'none' | 'unsupported'} */ effect) =>
  Object.fromEntries(Object.entries(schemas).map(([name, schema]) => [name, { ...schema, 'x-effect': effect }]));
const WITHOUT_EFFECT = { ...marked(HARMLESS, 'none'), ...marked(NEUTRAL, 'unsupported') };

const stop = { type: 'string', minLength: 1, maxLength: 1000 };

/**
 * What a template may be given. The depth has a bound, because the value travels between threads.
 * @param {number} depth
 * @returns {Schema}
 */
function argument(depth) {
  const title = `a string, number, boolean or null, or a list or an object of these, nested ${depth} deep at most`;
  const plain = { type: ['string', 'number', 'boolean', 'null'], title };
  if (depth === 0) return plain;
  const inner = argument(depth - 1);
  return { title, anyOf: [plain, { type: 'array', maxItems: 256, items: inner }, { type: 'object', maxProperties: 256, additionalProperties: inner }] };
}

/** What completions and chat completions have in common. */
const GENERATION = {
  model,
  temperature: described('0 takes the most likely token, higher is bolder', number(0, 2)),
  top_p: described('Only the most likely tokens that have this probability together; 0 takes the most likely one', number(0, 1)),
  top_k: described('Only this many of the most likely tokens; 0 and -1 are all', whole(-1)),
  min_p: described('Only tokens with this share of the probability of the most likely one', number(0, 1)),
  seed: described('The same seed gives the same answer', { type: 'integer' }),
  presence_penalty: described('Taken from the scores of tokens that the answer has', number(-2, 2)),
  frequency_penalty: described('Taken from the scores of tokens as often as the answer has them', number(-2, 2)),
  repetition_penalty: described('Divides the scores of tokens that prompt or answer have; 1 changes nothing', {
    type: 'number',
    exclusiveMinimum: 0,
    maximum: 10,
  }),
  logit_bias: described('Added to the scores of tokens', {
    type: 'object',
    title: 'an object with a number from -100 to 100 for each token id',
    maxProperties: LIMITS.biases,
    propertyNames: { pattern: '^[0-9]{1,15}$' },
    additionalProperties: number(-100, 100),
  }),
  max_tokens: described('Tokens of the answer at most', whole(1)),
  min_tokens: described('Tokens of the answer before it may end by itself', whole(0)),
  ignore_eos: described('Goes on behind tokens that end a text', flag),
  stop: described('Strings that end the answer, and are left out', { anyOf: [stop, list(stop, LIMITS.stops, 0)] }),
  stop_token_ids: described('Tokens that end the answer, and are left out', list(whole(0), 128, 0)),
  n: described('Answers to each prompt', whole(1, LIMITS.choices)),
  stream: described('Whether the answer comes as server-sent events', flag),
  stream_options: {
    type: 'object',
    additionalProperties: false,
    properties: {
      include_usage: described('Whether a stream ends with the numbers of tokens', flag),
      include_obfuscation: described('Without effect: no padding is sent', flag),
      continuous_usage_stats: oneOf(false),
    },
  },
};

/** @type {Schema} */
export const EMBEDDINGS = {
  type: 'object',
  required: ['model', 'input'],
  additionalProperties: false,
  properties: {
    model,
    input: texts(fullText, LIMITS.inputs),
    encoding_format: described('base64 is of float32, little-endian', oneOf('float', 'base64')),
    dimensions: described('Shortens the vectors to their first numbers, and makes their length 1 again', whole(1)),
    user: WITHOUT_EFFECT.user,
  },
};

/** @type {Schema} */
export const COMPLETION = {
  type: 'object',
  required: ['model', 'prompt'],
  additionalProperties: false,
  properties: {
    ...WITHOUT_EFFECT,
    ...GENERATION,
    prompt: texts(text, LIMITS.prompts),
    max_tokens: described('Tokens of the answer at most, 16 by default', whole(0)),
    logprobs: described('Log probabilities of this many of the most likely tokens, beside those of the chosen ones', whole(0, LIMITS.logprobs)),
    echo: described('Whether the answer begins with the prompt', flag),
  },
};

const part = {
  type: 'object',
  required: ['type', 'text'],
  additionalProperties: false,
  properties: {
    type: oneOf('text'),
    text,
    cache_control: described('Without effect', { type: 'object' }),
    prompt_cache_breakpoint: described('Without effect', { type: 'object' }),
  },
};

/** @type {Schema} */
export const MESSAGE = {
  type: 'object',
  title: 'an object with role and content',
  required: ['role'],
  // An answer without a text, as those of other servers are that called a tool.
  if: { properties: { role: { enum: ['assistant'] } } },
  else: { required: ['content'] },
  additionalProperties: false,
  properties: {
    role: described('developer is the same as system', oneOf('system', 'developer', 'user', 'assistant')),
    content: { title: 'a string, or a list of parts of type "text"', anyOf: [text, list(part, LIMITS.parts, 0)] },
    name: described('Who speaks, for templates that know it', text),
    id: described('Without effect', { type: ['string', 'number'], title: 'a string or a number' }),
    refusal: described('Without effect', text),
    annotations: described('Without effect', { type: 'array' }),
    reasoning_content: described('Without effect: templates leave out the thoughts of earlier responses', text),
    tool_calls: described('Calls of tools are not supported', list({ type: 'object' }, 0, 0)),
  },
};

/** @type {Schema} */
export const CHAT = {
  type: 'object',
  required: ['model', 'messages'],
  additionalProperties: false,
  properties: {
    ...WITHOUT_EFFECT,
    ...GENERATION,
    messages: { ...list(MESSAGE, LIMITS.messages), title: `a list of 1 to ${LIMITS.messages} messages` },
    max_completion_tokens: described('Tokens of the answer at most; before max_tokens', whole(1)),
    logprobs: described('Whether the answer has log probabilities', flag),
    top_logprobs: described('Of how many of the most likely tokens; needs logprobs', whole(0, LIMITS.topLogprobs)),
    chat_template_kwargs: described('Arguments of the chat template, such as enable_thinking', {
      type: 'object',
      title: 'an object of at most 256 arguments',
      maxProperties: 256,
      additionalProperties: argument(3),
    }),
  },
};

const closed = (/** @type {Record<string, Schema>} */ properties) => ({ type: 'object', required: Object.keys(properties), properties });
const any = (/** @type {Schema} */ items) => ({ type: 'array', items });
const count = { type: 'integer', minimum: 0 };
const nullable = (/** @type {string} */ type) => ({ type: [type, 'null'] });
const reason = { enum: ['stop', 'length'] };
const usage = closed({ prompt_tokens: count, completion_tokens: count, total_tokens: count });
const answer = (/** @type {string} */ kind, /** @type {Schema} */ choice) =>
  closed({ id: text, object: oneOf(kind), created: count, model: text, choices: any(choice), usage });

/** @type {Schema} */
export const EMBEDDINGS_RESPONSE = closed({
  object: oneOf('list'),
  data: any(closed({ object: oneOf('embedding'), index: count, embedding: { anyOf: [any({ type: 'number' }), text] } })),
  model: text,
  usage: closed({ prompt_tokens: count, total_tokens: count }),
});

/** @type {Schema} */
export const COMPLETION_RESPONSE = answer('text_completion', closed({ index: count, text, logprobs: nullable('object'), finish_reason: reason }));

/** @type {Schema} */
export const CHAT_RESPONSE = answer(
  'chat.completion',
  closed({
    index: count,
    message: closed({ role: oneOf('assistant'), content: text, refusal: { type: 'null' } }),
    logprobs: nullable('object'),
    finish_reason: reason,
  }),
);

/** @type {Schema} */
export const MODEL_RESPONSE = closed({
  id: text,
  object: oneOf('model'),
  created: count,
  owned_by: text,
  capabilities: described('Calls that take the model', any(oneOf('embeddings', 'completions', 'chat.completions'))),
});

/** @type {Schema} */
export const MODELS_RESPONSE = closed({ object: oneOf('list'), data: any(MODEL_RESPONSE) });

/** @type {Schema} */
export const OPENAI_ERROR = closed({ error: closed({ message: text, type: text, param: nullable('string'), code: nullable('string') }) });
