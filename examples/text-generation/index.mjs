// A chat with a language model, in the terminal. `node index.mjs --help` for the usage.
import { Readable } from 'node:stream';
import { OnnxError } from 'webnn-node/onnx';
import { DecoderError } from 'webnn-node-text/decoder';
import { randomNumbers } from 'webnn-node-text/random';
import { Chat } from './chat.mjs';
import { Conversation } from './conversation.mjs';
import { FolderError, readFolder } from './folder.mjs';
import { Generator, PromptError } from './generator.mjs';
import { HELP, parseArguments, UsageError } from './options.mjs';
import { chooseToken, samplingOf } from 'webnn-node-serve/text';
import { TINY_MODEL } from './tiny-model.mjs';

/**
 * @param {NonNullable<ReturnType<typeof parseArguments>>} options
 * @returns {Promise<{ chat: Chat, generator: Generator, isContinuing: boolean }>} `isContinuing`: answers go on with the message
 */
async function openChat({ folder, dtype, system, maxTokens, sampling: given, seed, threads }) {
  const { file, maxLength, tokenizer, render, stop, sampling: config } = folder === undefined ? TINY_MODEL : await readFolder(folder, dtype);
  if (render === null && system !== undefined) throw new UsageError('--system has no effect: this model has no chat template');
  const sampling = samplingOf(config, given);
  const random = randomNumbers(seed);
  const choose = (/** @type {ArrayLike<number>} */ logits) => chooseToken(logits, sampling, random);
  const generator = await Generator.load(file, { maxLength, ...(threads !== undefined && { numThreads: threads }) });
  const chat = new Chat(generator, { tokenizer, render, choose, stop, maxTokens, system });
  return { chat, generator, isContinuing: render === null };
}

async function main() {
  const options = parseArguments(process.argv.slice(2));
  if (options === null) {
    process.stdout.write(HELP);
    return;
  }
  const { chat, generator, isContinuing } = await openChat(options);
  try {
    const { stdin, stdout: output, stderr: remarks } = process;
    const input = options.prompt === undefined ? stdin : Readable.from([`${options.prompt}\n`]);
    const terminal = input === stdin && stdin.isTTY && output.isTTY;
    await new Conversation(chat, { isContinuing, input, output, remarks, terminal }).run();
  } finally {
    generator.destroy();
  }
}

try {
  await main();
} catch (caught) {
  const error = /** @type {NodeJS.ErrnoException} */ (caught);
  const isExpected = [UsageError, FolderError, PromptError, DecoderError, OnnxError].some((kind) => error instanceof kind);
  if (!isExpected && !String(error.code).startsWith('ERR_PARSE_ARGS')) throw error;
  console.error(`text-generation: ${error.message}`);
  process.exitCode = 2;
}
