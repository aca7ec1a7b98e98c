// Writes the tables of operators, ONNX operators, environment variables, error codes, command line options, speeds and
// contradicted Web Platform Tests into the documentation, and the chart of README.md, from what the built addon and the command
// line report, from bench/RESULTS.md and from __test__/wpt/contradictions.mjs. `--check` changes nothing and
// fails if a table is stale.

import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { CONTRADICTIONS } from '../__test__/wpt/contradictions.mjs';
import errors from '../lib/errors.js';
import { entry, Failure, isProgram, root, say } from './process.mjs';
import { speedChart } from './speed-chart.mjs';
import { readResults, speedTable } from './speed-table.mjs';

/** Data types in the order of the table, with their short names. */
const SHORT_NAMES = {
  float32: 'f32',
  float16: 'f16',
  int32: 'i32',
  uint32: 'u32',
  int64: 'i64',
  uint64: 'u64',
  int8: 'i8',
  uint8: 'u8',
};

/**
 * Abbreviates data types: `any` for all eight, otherwise a list like `f32 f16`.
 * @param {readonly string[]} dataTypes
 */
export function shortTypes(dataTypes) {
  const unknown = dataTypes.find((type) => !(type in SHORT_NAMES));
  if (unknown !== undefined) {
    throw new Failure(`opSupportLimits() names the unknown data type "${unknown}"`);
  }
  const known = /** @type {(keyof typeof SHORT_NAMES)[]} */ (Object.keys(SHORT_NAMES)).filter((type) => dataTypes.includes(type));
  return known.length === Object.keys(SHORT_NAMES).length ? 'any' : known.map((type) => SHORT_NAMES[type]).join(' ');
}

/**
 * Formats data types and ranks of one operand: `f32 f16, rank 4`, `any, rank 0–8`.
 * @param {{ dataTypes: readonly string[], rankRange: { min: number, max: number } }} limits
 */
function shortLimits({ dataTypes, rankRange: { min, max } }) {
  return `${shortTypes(dataTypes)}, rank ${min === max ? min : `${min}–${max}`}`;
}

/**
 * Formats a table cell for `[operand, limits]` pairs; neighbors with the same limits share an entry.
 * @param {[name: string, limits: Parameters<typeof shortLimits>[0]][]} operands
 */
function cell(operands) {
  /** @type {{ names: string[], text: string }[]} */
  const groups = [];
  for (const [name, limits] of operands) {
    const text = shortLimits(limits);
    const last = groups.at(-1);
    if (last?.text === text) {
      last.names.push(name);
    } else {
      groups.push({ names: [name], text });
    }
  }
  return groups.map(({ names, text }) => `${names.map((name) => `\`${name}\``).join(' ')} ${text}`).join('<br>');
}

/**
 * Whether a member of an operator's limits describes a result (`output`, `outputs`, `output0`, ...).
 * @param {[name: string, limits: unknown]} operand
 */
export function isOutput([name]) {
  return /^output(s|\d+)?$/.test(name);
}

/**
 * Returns the support table as Markdown.
 *
 * @param {import('webnn-node').MLOpSupportLimits} limits
 */
export function supportTable(limits) {
  const { preferredInputLayout, maxTensorByteLength, input, constant, output, ...operators } = limits;
  const rows = Object.entries(operators)
    .sort(([a], [b]) => (a < b ? -1 : 1))
    .map(([name, members]) => {
      const entries = Object.entries(members);
      const operands = cell(entries.filter((member) => !isOutput(member)));
      return `| \`${name}\` | ${operands} | ${cell(entries.filter(isOutput))} |`;
    });
  return [
    `${rows.length} operators. Graph inputs: ${shortLimits(input)}; constants: ${shortLimits(constant)}; ` +
      `outputs: ${shortLimits(output)}. A tensor has at most ${maxTensorByteLength} bytes; ` +
      `the preferred layout is \`${preferredInputLayout}\`.`,
    '',
    'Data types: f32 and f16 are floats; i8 to i64 are signed, u8 to u64 unsigned integers; "any" is all eight.',
    '',
    '| Operator | Operands | Results |',
    '|---|---|---|',
    ...rows,
  ].join('\n');
}

/**
 * Returns the table of environment variables as Markdown.
 *
 * @param {{name: string, meaning: string}[]} environment
 */
export function environmentTable(environment) {
  return ['| Variable | Meaning |', '|---|---|', ...environment.map(({ name, meaning }) => `| \`${name}\` | ${meaning} |`)].join('\n');
}

/** The anchor of an error code on its page. @param {string} code */
export const errorAnchor = (code) => new URL(errors.helpOf(code)).hash.slice(1);

/**
 * The table of error codes as Markdown, with links to the sections of their page.
 *
 * @param {{code: string, exception: string, meaning: string}[]} codes
 */
export function errorsTable(codes) {
  const rows = codes.map(({ code, exception, meaning }) => `| [\`${code}\`](#${errorAnchor(code)}) | \`${exception}\` | ${meaning} |`);
  return ['| Code | Error | Meaning |', '|---|---|---|', ...rows].join('\n');
}

/**
 * The options of each command as Markdown: what its `--help` prints, as tables.
 *
 * @param {import('commander').Command} program
 */
export function optionTables(program) {
  const help = program.createHelp();
  const escaped = (/** @type {string} */ text) => text.replaceAll('|', '\\|').replaceAll('<', '&lt;');
  const commands = help.visibleCommands(program).filter((command) => command.name() !== 'help');
  return commands
    .map((command) =>
      [
        `### ${program.name()} ${command.name()}`,
        help.commandDescription(command),
        [
          '| Option | Meaning |',
          '|---|---|',
          ...help
            .visibleOptions(command)
            .map((option) => `| \`${help.optionTerm(option).replaceAll('|', '\\|')}\` | ${escaped(help.optionDescription(option))} |`),
        ].join('\n'),
      ].join('\n\n'),
    )
    .join('\n\n');
}

/**
 * Returns the ONNX operators as Markdown: for each domain, a list of those without limits, a table of the others, and one of
 * those that are not supported.
 *
 * @param {ReturnType<typeof import("webnn-node/onnx").supportedOperators>} operators
 * @param {ReturnType<typeof import("webnn-node/onnx").unsupportedOperators>} unsupported
 */
export function onnxTable(operators, unsupported) {
  const sections = [...new Set(operators.map(({ domain }) => domain))].flatMap((domain) => {
    const absent = unsupported.filter((entry) => entry.domain === domain);
    const rows = [...new Set(absent.map(({ reason }) => reason))].map((reason) => {
      const names = absent.filter((entry) => entry.reason === reason).map(({ operator }) => `\`${operator}\``);
      return `| ${names.join(' ')} | ${reason} |`;
    });
    const own = operators.filter((entry) => entry.domain === domain);
    const names = own.filter(({ notes }) => notes === '').map(({ operator }) => `\`${operator}\``);
    const limited = own.filter(({ notes }) => notes !== '').map(({ operator, notes }) => `| \`${operator}\` | ${notes} |`);
    return [
      `## ${domain === '' ? 'ai.onnx' : domain}`,
      `${own.length} operators. These have no limits but the data types of WebNN:`,
      names.join(' '),
      ...(limited.length > 0 ? ['These have limits:', ['| Operator | Limits |', '|---|---|', ...limited].join('\n')] : []),
      ...(rows.length > 0 ? ['These are not supported:', ['| Operators | Reason |', '|---|---|', ...rows].join('\n')] : []),
    ];
  });
  return sections.join('\n\n');
}

/**
 * Returns the table of Web Platform Tests that contradict the draft as Markdown, one row for each clause.
 *
 * @param {import('../__test__/wpt/verdict.mjs').Entry[]} entries
 */
export function contradictionsTable(entries) {
  // HTML would swallow the brackets of IDL's attributes and internal slots, and Markdown the bars.
  const text = (/** @type {string} */ given) => given.replace(/[[\]|<>*_]/g, (character) => `&#${character.charCodeAt(0)};`);
  const rows = [...new Set(entries.map(({ clause }) => clause))].map((clause) => {
    const own = entries.filter((entry) => entry.clause === clause);
    const files = own.flatMap(({ files: { source } }) => {
      const [, folder, names] = /** @type {RegExpExecArray} */ (/^(\w+)\\\/(.+?)\\\.https$/.exec(source));
      const [, prefix, alternatives, isOptional, rest] = /^(.*?)\((.*?)\)(\??)(.*)$/.exec(names) ?? ['', '', '', '', names];
      return [...alternatives.split('|'), ...(isOptional ? [''] : [])].map((name) => `\`${folder}/${prefix}${name}${rest}\``);
    });
    return `| ${[...new Set(files)].join(' ')} | ${text(clause)} | ${text(own[0].patch ?? '')} |`;
  });
  return ['| Tests | Clause that they contradict | What would have to change in the tests |', '|---|---|---|', ...rows].join('\n');
}

/**
 * Inserts `table` into `text` between the markers of that name.
 * @param {string} text
 * @param {string} name
 * @param {string} table
 * @throws {Failure} unless both markers occur exactly once, in order
 */
export function insertTable(text, name, table) {
  const [begin, end] = ['begin', 'end'].map((place) => `<!-- ${name}:${place} -->`);
  const [before, rest, tooMany] = text.split(begin);
  const [old, after, tooManyEnds] = rest?.split(end) ?? [];
  if (old === undefined || after === undefined || tooMany !== undefined || tooManyEnds !== undefined) {
    throw new Failure(`the page needs exactly one ${begin} followed by one ${end}`);
  }
  return `${before}${begin}\n\n${table}\n\n${end}${after}`;
}

/** Returns what is generated: page, name of the markers, and the table between them; without markers, the whole file. */
async function currentTables() {
  const { ml } = await import('webnn-node');
  const { systemInfo } = await import('webnn-node/inspect');
  const { supportedOperators, unsupportedOperators } = await import('webnn-node/onnx');
  const {
    default: { errorCodes },
  } = await import('../lib/native.js');
  const { createProgram } = await import('../packages/cli/lib/main.mjs');
  const context = await ml.createContext({ accelerated: false });
  const limits = context.opSupportLimits();
  context.destroy();
  const results = readResults(readFileSync(join(root, 'bench', 'RESULTS.md'), 'utf8'));
  return [
    { page: 'docs/operators.md', name: 'support-table', table: supportTable(limits) },
    { page: 'docs/onnx-operators.md', name: 'onnx-table', table: onnxTable(supportedOperators(), unsupportedOperators()) },
    { page: 'docs/command-line.md', name: 'options-table', table: optionTables(createProgram()) },
    { page: 'docs/errors.md', name: 'errors-table', table: errorsTable(errorCodes) },
    { page: 'docs/environment.md', name: 'environment-table', table: environmentTable(systemInfo().environment) },
    { page: 'docs/testing.md', name: 'contradictions-table', table: contradictionsTable(CONTRADICTIONS) },
    { page: 'docs/speed.md', name: 'speed-table', table: speedTable(results) },
    { page: 'docs/images/speed.svg', table: speedChart(results) },
  ];
}

async function main() {
  const check = process.argv.includes('--check');
  for (const { page, name, table } of await currentTables()) {
    const file = join(root, page);
    const old = readFileSync(file, 'utf8');
    const current = name === undefined ? table : insertTable(old, name, table);
    if (old === current) {
      say(`${page} is current`);
    } else if (check) {
      throw new Failure(`${page} is stale. Update it with: npm run docs -- tables`);
    } else {
      writeFileSync(file, current);
      say(`${page} is new`);
    }
  }
}

if (isProgram(import.meta.url)) {
  await entry(main);
}
