// Reads a Markdown page: its code blocks with what the comments above them say, its headings and its links.

import GithubSlugger from 'github-slugger';
import { Lexer, walkTokens } from 'marked';

/**
 * What a comment directly above a code block can say (`<!-- name: value -->`), by the language of the block: a module,
 * a module that is only compiled, shell commands, a program in Python that `npm run suite -- serve` runs, and what the block
 * above printed. docs/testing.md explains each.
 */
const LANGUAGES = {
  js: ['files', 'continues', 'serves', 'not run'],
  ts: ['not run'],
  sh: ['files', 'serves', 'not run'],
  python: ['not run'],
  text: ['not compared'],
};

const DIRECTIVES = new Set(Object.values(LANGUAGES).flat());

/**
 * A fenced code block.
 *
 * @typedef {object} Block
 * @property {number} line where it begins, 1 for the first line
 * @property {'js' | 'ts' | 'sh' | 'python' | 'text'} language
 * @property {string} text without a newline at the end
 * @property {Record<string, string>} files sources, relative to the repository, of the files that it needs, by name
 * @property {string | undefined} serves arguments of a `webnn-node-serve` that serves at port 8080 meanwhile
 * @property {boolean} continues whether it is the next part of the program in the `js` block above
 * @property {string | undefined} notRun why it is not run, or its output is not compared
 * @property {Block | undefined} output the `text` block that follows it
 */

/** The directives in the comments of an HTML token, as `[name, value]`, the value empty where there is none. @param {string} html */
function directivesOf(html) {
  const comments = [...html.matchAll(/<!--\s*(.*?)\s*-->/gs)].map(([, text]) => ({ text, name: text.split(':', 1)[0] }));
  return comments.filter(({ name }) => DIRECTIVES.has(name)).map(({ text, name }) => [name, text.slice(name.length + 1).trim()]);
}

/** `a.onnx = path/of/a.onnx, b.png = path/of/b.png` as an object. @param {string} list @param {string} where */
function filesOf(list, where) {
  return Object.fromEntries(
    list.split(',').map((entry) => {
      const [name, source, rest] = entry.split('=').map((part) => part.trim());
      if (!name || !source || rest !== undefined) {
        throw new Error(`${where}: "${entry.trim()}" is not NAME = PATH`);
      }
      return [name, source];
    }),
  );
}

/**
 * @param {import('marked').Tokens.Code} token
 * @param {number} line
 * @param {string[][]} directives
 * @param {string} where
 * @returns {Block}
 */
function toBlock({ lang = '', text }, line, directives, where) {
  if (!Object.hasOwn(LANGUAGES, lang)) {
    throw new Error(`${where}: a code block is in "${lang}", expected one of ${Object.keys(LANGUAGES).join(', ')}`);
  }
  const language = /** @type {Block['language']} */ (lang);
  const wrong = directives.find(([name]) => !LANGUAGES[language].includes(name));
  if (wrong !== undefined) {
    throw new Error(`${where}: "${wrong[0]}" says nothing about a block in ${language}`);
  }
  const values = Object.fromEntries(directives);
  const notRun = values['not run'] ?? values['not compared'];
  if (notRun === '' || (language === 'python' && notRun === undefined)) {
    throw new Error(`${where}: say why the block is not run`);
  }
  const files = values.files === undefined ? {} : filesOf(values.files, where);
  return { line, language, text, files, serves: values.serves, continues: 'continues' in values, notRun, output: undefined };
}

/**
 * The code blocks of a page in their order; `text` blocks as the outputs of those above them, but for outputs of commands
 * that are not run.
 *
 * @param {string} markdown
 * @param {string} name of the page, for messages
 * @returns {Block[]}
 * @throws {Error} for a block that is in no known language or nested, and a comment that belongs to no block
 */
export function blocksOf(markdown, name) {
  const tokens = new Lexer().lex(markdown);
  const blocks = [];
  let line = 1;
  let directives = [];
  let last;
  for (const token of tokens) {
    const where = `${name}:${line}`;
    if (token.type === 'html') {
      directives.push(...directivesOf(token.raw));
    } else if (token.type === 'code') {
      const block = toBlock(/** @type {import('marked').Tokens.Code} */ (token), line, directives, where);
      directives = [];
      if (block.language !== 'text') {
        blocks.push(block);
        last = block;
      } else if (last !== undefined && last.notRun === undefined) {
        last.output = block;
        last = undefined;
      } else if (block.notRun !== undefined) {
        blocks.push(block);
      } else {
        throw new Error(`${where}: this output follows no block that is run`);
      }
    } else if (token.type !== 'space') {
      if (directives.length > 0) {
        throw new Error(`${where}: "${directives[0][0]}" stands above no code block`);
      }
      // A sentence may stand between a program and its output, another section may not.
      last = token.type === 'heading' ? undefined : last;
    }
    line += token.raw.split('\n').length - 1;
  }
  let count = 0;
  walkTokens(tokens, (token) => {
    count += token.type === 'code' ? 1 : 0;
  });
  const found = blocks.length + blocks.filter(({ output }) => output !== undefined).length;
  if (count !== found) {
    throw new Error(`${name}: ${count - found} code blocks stand in lists or quotes, where no test runs them`);
  }
  return blocks;
}

/**
 * The text of a heading without its formatting.
 *
 * @param {any} token
 * @returns {string}
 */
const plainText = ({ tokens, text }) => tokens?.map(plainText).join('') ?? text ?? '';

/**
 * The addresses of a page's headings, as GitHub makes them.
 *
 * @param {string} markdown
 * @returns {Set<string>} without `#`
 */
export function anchorsOf(markdown) {
  const slugger = new GithubSlugger();
  const anchors = new Set();
  walkTokens(new Lexer().lex(markdown), (token) => {
    if (token.type === 'heading') {
      anchors.add(slugger.slug(plainText(token)));
    }
  });
  return anchors;
}

/**
 * Where the links and pictures of a page lead.
 *
 * @param {string} markdown
 * @returns {string[]}
 */
export function linksOf(markdown) {
  /** @type {string[]} */
  const links = [];
  walkTokens(new Lexer().lex(markdown), (token) => {
    if (token.type === 'link' || token.type === 'image') {
      links.push(token.href);
    }
  });
  return links;
}

/**
 * The pieces of code in a page's text and blocks, for checks of the commands that they name.
 *
 * @param {string} markdown
 * @returns {string[]}
 */
export function codeOf(markdown) {
  /** @type {string[]} */
  const pieces = [];
  walkTokens(new Lexer().lex(markdown), (token) => {
    if (token.type === 'code' || token.type === 'codespan') {
      pieces.push(token.text);
    }
  });
  return pieces;
}
