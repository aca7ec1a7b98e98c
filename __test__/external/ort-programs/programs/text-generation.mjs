// Tokens that the pipeline of Transformers.js writes, for every type of weights. Arguments: the folder of the models.

import { env, pipeline, TextStreamer } from '@huggingface/transformers';

const [models] = process.argv.slice(2);
env.allowRemoteModels = false;
env.localModelPath = models;

const PROMPTS = ['once upon a time there was a little model', 'the lazy dog sleeps'];
const GREEDY = { max_new_tokens: 24, do_sample: false };

const numbers = (tensor) => tensor.tolist().map((row) => row.map(Number));

const results = {};
for (const model of ['llm', 'llm-explicit']) {
  for (const dtype of ['fp32', 'fp16', 'q4', 'q4f16', 'q8']) {
    const generate = await pipeline('text-generation', model, { dtype });
    const inputs = generate.tokenizer(PROMPTS[0]);

    const texts = await generate(PROMPTS, { ...GREEDY, repetition_penalty: 1.3 });
    const streamed = [];
    const streamer = new TextStreamer(generate.tokenizer, { callback_function: (part) => streamed.push(part) });
    await generate(PROMPTS[1], { ...GREEDY, streamer });

    // A second question goes on from the cache of the first one, twice: both go on from the same cache.
    const first = await generate.model.generate({ ...inputs, ...GREEDY, return_dict_in_generate: true });
    const { past_key_values, sequences } = first;
    const length = past_key_values.get_seq_length();
    const again = [];
    for (let time = 0; time < 2; time++) {
      const feeds = { input_ids: sequences, attention_mask: sequences.map(() => 1n), past_key_values };
      again.push(numbers(await generate.model.generate({ ...feeds, ...GREEDY })));
    }

    results[`${model}, ${dtype}`] = {
      ids: numbers(sequences),
      texts: texts.map(([{ generated_text: text }]) => text),
      streamed: streamed.join(''),
      cache: { length, layers: Object.keys(past_key_values).length },
      again,
    };
    await generate.dispose();
  }
}

// Transformers.js hands the external data over instead of leaving it to the runtime to find them.
const generate = await pipeline('text-generation', 'llm', { dtype: 'q4', use_external_data_format: true });
const [{ generated_text: text }] = await generate(PROMPTS[0], GREEDY);
results['external data'] = text;
console.log(JSON.stringify(results));
