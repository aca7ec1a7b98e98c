/**
 * The pages of operators for the documentation site: from the IDL, the rules of the addon, the descriptions, the
 * examples and the families. Written when the site is built (scripts/site.mjs).
 */

import { DRAFT, draftSection, limitsText, parameterList, typescriptType } from './declarations.mjs';
import * as documentation from './documentation.mjs';
import { readIdl, readLimits } from './generate-operators.mjs';
import { examples } from './operator-examples.mjs';
import { families } from './operator-families.mjs';
import { isOutput } from './support-table.mjs';

/** @typedef {import('./declarations.mjs').Member} Member */
/** @typedef {import('./operator-examples.mjs').Nested} Nested */

/** Where the reference describes dictionaries. */
const REFERENCE = '/reference/index/interfaces';

/** The arrays of data types in examples. @type {Record<string, string>} */
const ARRAYS = { float32: 'Float32Array', int32: 'Int32Array', uint8: 'Uint8Array' };

const described = /** @type {Record<string, { text: string, section?: string, parameters: Record<string, string>, returns: string, errors?: string }>} */ (
  documentation.operators
);

/**
 * @template T
 * @param {Record<string, T>} table
 * @param {string} name
 * @param {string} file that should have the entry
 * @returns {T}
 */
function required(table, name, file) {
  const entry = table[name];
  if (entry === undefined) {
    throw new Error(`${file} has no entry for ${name}`);
  }
  return entry;
}

/** @param {Nested} values @returns {number[]} */
const shapeOf = (values) => (typeof values === 'number' ? [] : [values.length, ...shapeOf(values[0])]);

/** A result as an example prints it. @param {string} result as in the table of examples */
function printed(result) {
  const [, dataType, sizes, elements] = /** @type {RegExpExecArray} */ (/^(\w+) \[(.*?)\] (.*)$/.exec(result));
  return { array: required(ARRAYS, dataType, 'scripts/operator-pages.mjs'), text: `${sizes === '' ? '[]' : `[ ${sizes} ]`} ${elements}` };
}

/** Columns of code that a page shows without scrolling. */
const WIDTH = 90;

/**
 * A list in parentheses after `head`, on one line if it fits.
 * @param {string} head
 * @param {string[]} list
 * @param {string} [end]
 */
function call(head, list, end = ';') {
  const line = `${head}(${list.join(', ')})${end}`;
  return line.length <= WIDTH ? line : [`${head}(`, ...list.map((entry) => `  ${entry},`), `)${end}`].join('\n');
}

/**
 * The example of an operator and its output, as Markdown.
 * @param {string} name
 */
export function operatorExample(name) {
  const { arguments: given, operands, output, list } = required(examples, name, 'scripts/operator-examples.mjs');
  const constants = Object.entries(operands).map(([operand, given]) => {
    const { dataType, values } = typeof given === 'number' || Array.isArray(given) ? { dataType: 'float32', values: given } : given;
    const descriptor = `{ dataType: '${dataType}', shape: [${shapeOf(values).join(', ')}] }`;
    return call(`const ${operand} = builder.constant`, [descriptor, `${ARRAYS[dataType]}.of(${[values].flat(8).join(', ')})`]);
  });
  const results = Object.entries(list ?? { output: /** @type {string} */ (output) }).map(([result, text]) => ({ name: result, ...printed(text) }));
  const names = results.map((result) => result.name).join(', ');
  return [
    '```js',
    "import { ml, MLGraphBuilder } from 'webnn-node';",
    '',
    'const context = await ml.createContext({ accelerated: false });',
    'const builder = new MLGraphBuilder(context);',
    ...constants,
    `const ${list === undefined ? names : `[${names}]`} = builder.${name}(${given});`,
    `const graph = await builder.build({ ${names} });`,
    '',
    'const tensorFor = ({ dataType, shape }) =>',
    '  context.createTensor({ dataType, shape, readable: true });',
    `const tensors = { ${results.map((result) => `${result.name}: await tensorFor(${result.name})`).join(', ')} };`,
    'context.dispatch(graph, {}, tensors);',
    ...results.map((result) => call('console.log', [`${result.name}.shape`, `...new ${result.array}(await context.readTensor(tensors.${result.name}))`])),
    'context.destroy();',
    '```',
    '',
    'It prints the shape and the elements of the result:',
    '',
    '```text',
    ...results.map(({ text }) => text),
    '```',
  ].join('\n');
}

/** Text for a table cell. @param {string} text */
const cell = (text) => text.replaceAll('|', '\\|').replaceAll(/[<>]/g, (sign) => (sign === '<' ? '&lt;' : '&gt;'));

/**
 * @param {string[]} head
 * @param {string[][]} rows
 */
const table = (head, rows) => [head, head.map(() => '---'), ...rows].map((row) => `| ${row.join(' | ')} |`).join('\n');

/** Code for a table cell. @param {string} text */
const code = (text) => `\`${text.replaceAll('|', '\\|')}\``;

/**
 * What an operand may be, as a sentence; empty for anything else.
 * @param {import('./declarations.mjs').Limits | undefined} limits
 */
const allowed = (limits) => (limits === undefined ? '' : limitsText(limits));

/** @param {string} dictionary @param {import('./declarations.mjs').Model} model @returns {(Member & { dictionary: string })[]} */
function optionsOf(dictionary, model) {
  const { parent, members } = /** @type {{ parent?: string | null, members: Member[] }} */ (model.dictionaries.get(dictionary));
  return [...members.map((member) => ({ ...member, dictionary })), ...(parent ? optionsOf(parent, model) : [])];
}

/**
 * @param {Member} operator
 * @param {import('./declarations.mjs').Model} model
 * @param {Record<string, import('./declarations.mjs').Limits>} limits of its operands
 */
function page({ name, type, parameters }, model, limits) {
  const { text, section, parameters: texts, returns, errors } = required(described, name, 'scripts/operator-documentation.mjs');
  const family = /** @type {typeof families[number]} */ (families.find(({ members }) => members.includes(name)));
  const options = /** @type {import('./declarations.mjs').Parameter} */ (parameters.at(-1));
  const others = family.members.filter((member) => member !== name);
  const dictionaryTexts = /** @type {Record<string, Record<string, string>>} */ (documentation.dictionaries);
  const results = Object.entries(limits).filter(isOutput);
  const types = new Set(Object.values(limits).flatMap(({ dataTypes }) => dataTypes));
  return (
    [
      `# ${name}`,
      text,
      ['```ts', call(name, parameterList(parameters).split(', '), `: ${typescriptType(/** @type {string} */ (type), 'out')}`), '```'].join('\n'),
      '## Example',
      operatorExample(name),
      '## Arguments',
      table(
        ['Name', 'Type', 'What it is', 'Allowed'],
        [
          ...parameters
            .slice(0, -1)
            .map((parameter) => [
              code(parameter.name),
              code(typescriptType(parameter.type, 'in')),
              cell(texts[parameter.name]),
              allowed(limits[parameter.name]),
            ]),
          [code('options'), `[${code(options.type)}](${REFERENCE}/${options.type})`, 'See below; it may be left out.', ''],
        ],
      ),
      '## Options',
      table(
        ['Name', 'Type', 'Default', 'What it is', 'Allowed'],
        optionsOf(options.type, model).map((member) => [
          code(member.name),
          code(typescriptType(member.type, 'in')),
          member.default === undefined ? '' : code(JSON.stringify(member.default)),
          cell(dictionaryTexts[member.dictionary][member.name]),
          allowed(limits[member.name]),
        ]),
      ),
      '## Result',
      cell(returns),
      results.map(([result, possible]) => `- ${code(result)}: ${limitsText(possible)}`).join('\n'),
      '## Errors',
      `- A \`TypeError\` if an operand is of another builder, or of a data type or rank that the tables do not allow${errors === undefined ? '' : `, or if ${cell(errors)}`}. ` +
        'The message names the label, the operator and the operand.\n' +
        '- An `InvalidStateError` if the builder has built, or the context is lost.',
      '## On the CPU and the GPU',
      [`- **CPU.** ${family.cpu}`, `- **GPU.** ${family.gpu}`].join('\n'),
      [
        ...(family.both === undefined ? [] : [family.both]),
        ...(types.has('float16') ? ['float16 is stored in 16 bits and computed in float32.'] : []),
        ...(types.has('int64') ? ['On GPUs without a type of 64-bit integers, they are pairs of 32-bit words.'] : []),
        'Results of both devices are within the tolerances of the tests of the draft; their bits differ.',
      ].join(' '),
      '## See also',
      [
        `- [\`${name}()\` in the draft](${DRAFT}#${draftSection(name, section)})`,
        `- ${family.title}: ${others.map((member) => `[${member}](/operators/${member})`).join(', ')}`,
      ].join('\n'),
    ].join('\n\n') + '\n'
  );
}

/**
 * The pages of all operators by name, and the families in which the site lists them.
 * @returns {Promise<{ pages: Map<string, string>, families: { title: string, members: string[] }[] }>}
 * @throws {Error} if an operator lacks an example or a family, or one of these has no operator
 */
export async function operatorPages() {
  const { idlModel, operators } = readIdl();
  const limits = await readLimits();
  const names = operators.map(({ name }) => name).sort();
  for (const [file, found] of /** @type {const} */ ([
    ['operator-families', families.flatMap(({ members }) => members)],
    ['operator-examples', Object.keys(examples)],
  ])) {
    if (JSON.stringify([...found].sort()) !== JSON.stringify(names)) {
      const wrong = [...names, ...found].filter((name) => names.filter((known) => known === name).length !== found.filter((known) => known === name).length);
      throw new Error(`scripts/${file}.mjs does not have each operator once: ${[...new Set(wrong)].join(', ')}`);
    }
  }
  return { pages: new Map(operators.map((operator) => [operator.name, page(operator, idlModel, limits[operator.name])])), families };
}
