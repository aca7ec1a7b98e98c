// Finds sentences by what they mean. `node index.mjs --help` for the usage.
import { existsSync } from 'node:fs';
import { readdir, readFile } from 'node:fs/promises';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { cosine, Encoder } from './encoder.mjs';

const beside = (/** @type {string} */ name) => fileURLToPath(new URL(name, import.meta.url));

const HELP = `Usage: node index.mjs QUESTION [--texts DIR] [--model DIR] [--top K] [--json]

Prints the lines of text that are closest in meaning to the question, best first.

  QUESTION      a few words in English; more than one argument is one question
  --texts DIR   search the lines of the .txt files of this folder (default: some everyday facts in texts/)
  --model DIR   folder that fetch-model.mjs wrote
  --top K       how many lines (default: 5)
  --json        print JSON
  --help        print this text
`;

/** Something the user can put right; printed without a stack, exit code 2. */
class UsageError extends Error {
  name = 'UsageError';
}

/** @typedef {{ topic: string, text: string }} Text a line of a file, whose name is the topic */

/**
 * The checked arguments, or null if the user asked for help.
 * @param {string[]} args
 */
function parseArguments(args) {
  const { values, positionals } = parseArgs({
    args,
    options: {
      texts: { type: 'string', default: beside('texts') },
      model: { type: 'string', default: beside('model') },
      top: { type: 'string', default: '5' },
      json: { type: 'boolean', default: false },
      help: { type: 'boolean', short: 'h', default: false },
    },
    allowPositionals: true,
  });
  if (values.help) return null;
  const question = positionals.join(' ').trim();
  if (question === '') throw new UsageError('there is no question; try --help');
  if (!/^[1-9]\d*$/.test(values.top)) throw new UsageError(`--top is "${values.top}", expected a positive whole number`);
  if (!existsSync(path.join(values.model, 'model.onnx'))) {
    throw new UsageError(`there is no model.onnx in ${values.model}; get it with: node fetch-model.mjs`);
  }
  return { ...values, question, top: Number(values.top) };
}

/**
 * All lines of the .txt files of a folder.
 * @param {string} folder
 * @returns {Promise<Text[]>}
 */
async function readTexts(folder) {
  const names = existsSync(folder) ? (await readdir(folder)).filter((name) => name.endsWith('.txt')).sort() : [];
  const files = names.map(async (name) => {
    const lines = (await readFile(path.join(folder, name), 'utf8')).split(/\r?\n/);
    return lines.filter((line) => line.trim() !== '').map((text) => ({ topic: path.basename(name, '.txt'), text }));
  });
  const texts = (await Promise.all(files)).flat();
  if (texts.length === 0) throw new UsageError(`there are no lines of text in the .txt files of ${folder}`);
  return texts;
}

/**
 * Scores of all texts, best first.
 * @param {Encoder} encoder
 * @param {string} question
 * @param {Text[]} texts
 */
async function search(encoder, question, texts) {
  const [asked] = await encoder.encode([question]);
  const vectors = await encoder.encode(texts.map(({ text }) => text));
  return texts.map((text, i) => ({ ...text, score: cosine(asked, vectors[i]) })).sort((a, b) => b.score - a.score);
}

async function main() {
  const options = parseArguments(process.argv.slice(2));
  if (options === null) {
    process.stdout.write(HELP);
    return;
  }
  const texts = await readTexts(options.texts);
  const encoder = await Encoder.load(options.model);
  const hits = (await search(encoder, options.question, texts)).slice(0, options.top);
  encoder.destroy();
  const lines = hits.map(({ score, text, topic }) => `${score.toFixed(2).padStart(5)}  ${text}  (${topic})`);
  console.log(options.json ? JSON.stringify(hits, null, 1) : lines.join('\n'));
}

try {
  await main();
} catch (caught) {
  const error = /** @type {NodeJS.ErrnoException} */ (caught);
  if (!(error instanceof UsageError) && !String(error.code).startsWith('ERR_PARSE_ARGS')) throw error;
  console.error(`semantic-search: ${error.message}`);
  process.exitCode = 2;
}
