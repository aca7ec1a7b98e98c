/**
 * Generates lib/operators.js and index.d.ts from spec/webnn.idl, scripts/documentation.mjs and the limits of the addon.
 *
 *   node scripts/generate-operators.mjs            writes the files
 *   node scripts/generate-operators.mjs --check    fails when a file is not what would be written
 */

import { createHash } from 'node:crypto';
import { readFileSync, writeFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { parse } from 'webidl2';

import { declarations, isOutput, literal } from './declarations.mjs';
import * as documentation from './documentation.mjs';

/** @typedef {import('./declarations.mjs').Member} Member */
/** @typedef {import('./declarations.mjs').Model} Model */

const root = new URL('..', import.meta.url);
const IDL_FILE = 'spec/webnn.idl';

const byCodeUnits = (/** @type {{ name: string }} */ a, /** @type {{ name: string }} */ b) => (a.name < b.name ? -1 : a.name > b.name ? 1 : 0);

/**
 * Returns the IDL text of a type, with the extended attributes that change its conversion.
 * @param {any} idlType
 * @param {{ name: string }[]} [extAttrs]
 * @returns {string}
 */
function typeText(idlType, extAttrs = []) {
  const enforce = [...extAttrs, ...idlType.extAttrs].some(({ name }) => name === 'EnforceRange') ? '[EnforceRange] ' : '';
  if (idlType.union) {
    return `${enforce}(${idlType.idlType.map((/** @type {any} */ part) => typeText(part)).join(' or ')})`;
  }
  if (idlType.generic) {
    return `${idlType.generic}<${idlType.idlType.map((/** @type {any} */ part) => typeText(part)).join(', ')}>`;
  }
  return enforce + idlType.idlType;
}

/**
 * Returns the JavaScript value of an IDL default.
 * @param {any} literal
 */
function defaultValue(literal) {
  switch (literal.type) {
    case 'number':
      return Number(literal.value);
    case 'boolean':
    case 'string':
      return literal.value;
    default:
      throw new Error(`the generator does not know defaults of type ${literal.type}`);
  }
}

/**
 * Extracts what the outputs need from the IDL syntax tree.
 * @param {string} idl
 */
function model(idl) {
  /** @type {Model} */
  const result = { enumerations: new Map(), typedefs: new Map(), dictionaries: new Map(), interfaces: new Map() };
  for (const node of parse(idl)) {
    if (node.type === 'enum') {
      result.enumerations.set(
        node.name,
        node.values.map((/** @type {any} */ { value }) => value),
      );
    } else if (node.type === 'typedef') {
      result.typedefs.set(node.name, typeText(node.idlType));
    } else if (node.type === 'dictionary') {
      /** @type {{ parent?: string | null, members: Member[] }} */
      const known = result.dictionaries.get(node.name) ?? { parent: node.inheritance, members: [] };
      known.members.push(...node.members.map(dictionaryMember));
      result.dictionaries.set(node.name, known);
    } else if (node.type === 'interface') {
      /** @type {{ members: Member[] }} */
      const known = result.interfaces.get(node.name) ?? { members: [] };
      known.members.push(...node.members.map((/** @type {any} */ member) => ({ ...interfaceMember(member), partial: node.partial })));
      result.interfaces.set(node.name, known);
    }
  }
  for (const [name, members] of Object.entries(documentation.extensions)) {
    const extended = /** @type {{ members: object[] }} */ (result.dictionaries.get(name) ?? result.interfaces.get(name));
    extended.members.push(...members);
  }
  return result;
}

/**
 * @param {any} member
 * @returns {any}
 */
function dictionaryMember(member) {
  return {
    name: member.name,
    type: typeText(member.idlType, member.extAttrs),
    ...(member.required && { required: true }),
    ...(member.default && { default: defaultValue(member.default) }),
  };
}

/** @param {any} member */
function interfaceMember(member) {
  const parameters = (member.arguments ?? []).map((/** @type {any} */ argument) => ({
    name: argument.name,
    type: typeText(argument.idlType, argument.extAttrs),
    optional: argument.optional,
  }));
  return {
    kind: member.type,
    name: member.type === 'constructor' ? 'constructor' : member.name,
    type: member.idlType && typeText(member.idlType),
    parameters,
  };
}

/**
 * Returns the operators: the operations of the partial MLGraphBuilder interfaces.
 * @param {Model} model
 */
function operatorsOf({ interfaces }) {
  return /** @type {{ members: Member[] }} */ (interfaces.get('MLGraphBuilder')).members.filter(({ partial }) => partial);
}

/**
 * Returns the members of a dictionary in the order in which Web IDL reads them.
 * @param {Model['dictionaries']} dictionaries
 * @param {string} name
 * @returns {Member[]}
 */
function readingOrder(dictionaries, name) {
  const { parent, members } = /** @type {{ parent?: string | null, members: Member[] }} */ (dictionaries.get(name));
  return [...(parent ? readingOrder(dictionaries, parent) : []), ...[...members].sort(byCodeUnits)];
}

/**
 * Returns the source of an object literal on one line; keys are IDL identifiers.
 * @param {object} object
 */
function objectSource(object) {
  const pairs = Object.entries(object).map(([key, value]) => `${key}: ${literal(value)}`);
  return `{ ${pairs.join(', ')} }`;
}

/** @param {string} idl */
function header(idl) {
  const digest = createHash('sha256').update(idl).digest('hex');
  return [`// Generated by scripts/generate-operators.mjs from ${IDL_FILE}`, `// (sha256 ${digest}). Do not edit: change the IDL or the script.`];
}

/**
 * Returns the source of lib/operators.js.
 * @param {string} idl
 * @param {Model} model
 */
function operatorTable(idl, model) {
  const { enumerations, dictionaries } = model;
  const lines = [
    ...header(idl),
    "'use strict';",
    '',
    '/** Values of each enumeration, in the order of the IDL. */',
    'const enumerations = {',
    ...[...enumerations].map(([name, values]) => `  ${name}: [${values.map(literal).join(', ')}],`),
    '};',
    '',
    '/** Members of each dictionary that the API receives, in the order in which they are read. */',
    'const dictionaries = {',
  ];
  for (const name of dictionaries.keys()) {
    if (!isOutput(name)) {
      lines.push(`  ${name}: [`);
      lines.push(...readingOrder(dictionaries, name).map(({ documentation: _, ...member }) => `    ${objectSource(member)},`));
      lines.push('  ],');
    }
  }
  lines.push('};', '', '/** Operator methods of MLGraphBuilder: arguments, options dictionary and type of the result. */');
  lines.push('const operators = [');
  for (const { name, type, parameters } of operatorsOf(model)) {
    const options = parameters.at(-1);
    if (options === undefined || !options.optional || parameters.slice(0, -1).some(({ optional }) => optional)) {
      throw new Error(`${name}: the generator expects one optional argument, the last`);
    }
    lines.push(`  { name: ${literal(name)}, options: ${literal(options.type)}, result: ${literal(type)}, arguments: [`);
    lines.push(...parameters.slice(0, -1).map((p) => `    ${objectSource({ name: p.name, type: p.type })},`));
    lines.push('  ] },');
  }
  lines.push('];', '', 'module.exports = { dictionaries, enumerations, operators };', '');
  return lines.join('\n');
}

/**
 * Reads data types and ranks of all operands from the rules of the built addon.
 * @returns {Promise<import('./declarations.mjs').OperatorLimits>}
 */
export async function readLimits() {
  const { ml } = await import('webnn-node');
  const context = await ml.createContext({ accelerated: false });
  const limits = context.opSupportLimits();
  context.destroy();
  return /** @type {any} */ (limits);
}

/** The IDL, its model, and its operators. */
export function readIdl() {
  const idl = readFileSync(new URL(IDL_FILE, root), 'utf8');
  const idlModel = model(idl);
  idlModel.interfaces.delete('NavigatorML');
  return { idl, idlModel, operators: operatorsOf(idlModel) };
}

/** Generates the files, by path. */
export async function generate() {
  const { idl, idlModel, operators } = readIdl();
  return new Map([
    ['lib/operators.js', operatorTable(idl, idlModel)],
    ['index.d.ts', declarations(header(idl), idlModel, operators, await readLimits())],
  ]);
}

async function main(/** @type {boolean} */ check) {
  for (const [file, source] of await generate()) {
    const url = new URL(file, root);
    if (!check) {
      writeFileSync(url, source);
    } else if (readFileSync(url, 'utf8') !== source) {
      console.error(`${file} is stale. Update it with: node scripts/generate-operators.mjs`);
      process.exitCode = 1;
    }
  }
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  await main(process.argv.includes('--check'));
}
