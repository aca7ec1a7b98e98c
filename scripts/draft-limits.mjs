/**
 * `npm run generate -- limits DIR`: reads the tables "Tensor limits for ..." of the draft into spec/limits.json. DIR is a checkout
 * of https://github.com/webmachinelearning/webnn.
 *
 *   node scripts/draft-limits.mjs DIR            writes the file
 *   node scripts/draft-limits.mjs DIR --check    fails when the tables are others than the file's
 */

import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { entry, Failure, isProgram, outputOf, root, say, withUsage } from './process.mjs';

const FILE = 'spec/limits.json';
const USAGE = 'usage: npm run generate -- limits DIR [--check]';
const COLUMNS = ['operand', 'allowed data types', 'required data types', 'allowed ranks', 'required ranks'];

/**
 * What the draft says of one operand or output. `N` is the largest rank that an implementation has, "same as NAME" the types or
 * the ranks of another operand.
 *
 * @typedef {object} Row
 * @property {string} operand its name in MLOpSupportLimits
 * @property {string[] | string} allowed data types: a list, "any" or "same as NAME"
 * @property {string[]} required data types that an implementation must have
 * @property {[number, number | 'N'] | string} allowedRanks smallest and largest, or "same as NAME"
 * @property {[number, number]} requiredRanks
 *
 * @typedef {{ operators: string[], rows: Row[] }} Table
 */

/** Bikeshed's references as plain text. @param {string} text */
const plain = (text) =>
  text
    .replaceAll(/\[=(?:[^=|]*\|)?(?:\w*\/)?([^=|]*)=\]/g, '$1')
    .replaceAll(/\{\{(?:\w+\/)?"?(\w+)(?:\(\))?"?\}\}/g, '$1')
    .trim();

/** @param {string} text */
const sameAs = (text) => /^same as (\w+)(?:'s items)?$/.exec(text)?.[1];

/** @param {string} text @throws {Failure} */
function typesOf(text) {
  const other = sameAs(text);
  if (other !== undefined) return `same as ${other}`;
  const types = text.split(', ');
  if (!types.every((type) => /^(any|u?int\d+|float\d+)$/.test(type))) throw new Failure(`"${text}" is no list of data types`);
  return text === 'any' ? text : types;
}

/** @param {string} text @returns {Row['allowedRanks']} @throws {Failure} */
function ranksOf(text) {
  const other = sameAs(text);
  if (other !== undefined) return `same as ${other}`;
  if (text === 'N') return [0, 'N'];
  const [, min, max = min] = /^(\d+)(?: to (\d+|N))?$/.exec(text) ?? [];
  if (min === undefined) throw new Failure(`"${text}" is no range of ranks`);
  return [Number(min), max === 'N' ? max : Number(max)];
}

/** The name in MLOpSupportLimits of an operand as the draft writes it. @param {string} text @throws {Failure} */
function nameOf(text) {
  const [, name, index = ''] = /^\*?(\w+)(?:'s items|\[(\d)\])?\*?(?: if .*)?$/s.exec(text) ?? [];
  if (name === undefined) throw new Failure(`"${text}" is no operand`);
  return index === '' ? name : `${name.replace(/s$/, '')}${index}`;
}

/**
 * @param {string[]} cells of one row
 * @returns {Row}
 * @throws {Failure}
 */
function rowOf(cells) {
  if (cells.length !== COLUMNS.length) throw new Failure(`a row of ${cells.length} cells: ${cells.join(' | ')}`);
  const [operand, allowed, requiredText, allowedRanks, requiredRanksText] = cells;
  const required = typesOf(requiredText);
  const [least, most] = ranksOf(requiredRanksText);
  if (typeof required === 'string' || typeof least === 'string' || typeof most !== 'number') {
    throw new Failure(`${operand} requires "${requiredText}" and the ranks "${requiredRanksText}"`);
  }
  return { operand: nameOf(operand), allowed: typesOf(allowed), required, allowedRanks: ranksOf(allowedRanks), requiredRanks: [least, most] };
}

/**
 * @param {string} source of one table
 * @returns {Table}
 * @throws {Failure} for a table of another form
 */
function tableOf(source) {
  const methods = /^<table [^>]*link-for="(.*?)"/.exec(source)?.[1] ?? '';
  const operators = [...methods.matchAll(/MLGraphBuilder\/(\w+)\(/g)].map(([, name]) => name);
  const columns = [...source.matchAll(/<th>(.*?)<\/th>/gs)].map(([, text]) => plain(text));
  if (operators.length === 0 || columns.join() !== COLUMNS.join()) {
    throw new Failure(`a table of another form: "${methods}" with the columns ${columns.join(', ')}`);
  }
  // HTML does not demand the end of a row.
  const rows = [...source.matchAll(/<tr>((?:(?!<tr>).)*)/gs)].map(([, row]) => [...row.matchAll(/<td>(.*?)<\/td>/gs)].map(([, cell]) => plain(cell)));
  return { operators, rows: rows.filter((cells) => cells.length > 0).map(rowOf) };
}

/**
 * The tables of tensor limits in the source of the draft.
 *
 * @param {string} source
 * @returns {Table[]}
 */
export function tablesOf(source) {
  const tables = [...source.matchAll(/<table id=tensor-limits-.*?<\/table>/gs)].map(([table]) => tableOf(table));
  if (tables.length === 0) throw new Failure('there are no tables of tensor limits');
  return tables;
}

/** The contents of the file: one line per row. @param {string} commit @param {Table[]} tables */
function textOf(commit, tables) {
  const lines = tables.map(({ operators, rows }) => {
    const members = rows.map((row) => `        ${JSON.stringify(row)}`);
    return `    {\n      "operators": ${JSON.stringify(operators)},\n      "rows": [\n${members.join(',\n')}\n      ]\n    }`;
  });
  const source = `https://github.com/webmachinelearning/webnn/blob/${commit}/index.bs`;
  return `{\n  "source": ${JSON.stringify(source)},\n  "tables": [\n${lines.join(',\n')}\n  ]\n}\n`;
}

/** The file as it is in the repository. @returns {{ source: string, tables: Table[] }} */
export const readLimits = () => JSON.parse(readFileSync(join(root, FILE), 'utf8'));

async function main() {
  const options = /** @type {const} */ ({ check: { type: 'boolean', default: false } });
  const { values, positionals } = withUsage(USAGE, () => parseArgs({ options, allowPositionals: true }));
  if (positionals.length !== 1) throw new Failure(USAGE, 2);
  const [directory] = positionals;
  const commit = outputOf('git', ['-C', directory, 'rev-parse', 'HEAD']);
  if (commit === undefined) throw new Failure(`${directory} is no checkout of https://github.com/webmachinelearning/webnn`);
  const tables = tablesOf(readFileSync(join(directory, 'index.bs'), 'utf8'));
  // A newer commit of the draft with the same tables changes nothing.
  if (JSON.stringify(readLimits().tables) === JSON.stringify(tables)) {
    say(`${FILE} is current`);
  } else if (values.check) {
    throw new Failure(`${FILE} is stale: the draft of ${commit} has other tables. Update it with: npm run generate -- limits ${directory}`);
  } else {
    writeFileSync(join(root, FILE), textOf(commit, tables));
    say(`${FILE} is new`);
  }
}

if (isProgram(import.meta.url)) {
  await entry(main);
}
