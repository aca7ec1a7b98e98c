/** Writes index.d.ts: TypeScript for the IDL, with the descriptions of documentation.mjs and the limits of operators. */

import * as documentation from './documentation.mjs';

/**
 * @typedef {{ name: string, type: string, optional?: boolean }} Parameter
 * @typedef {{ name: string, type: string, kind: string, parameters: Parameter[], partial?: boolean, required?: boolean,
 *   default?: unknown, documentation?: string }} Member of a dictionary or an interface
 * @typedef {{ enumerations: Map<string, string[]>, typedefs: Map<string, string>,
 *   dictionaries: Map<string, { parent?: string | null, members: Member[] }>,
 *   interfaces: Map<string, { members: Member[] }> }} Model of the IDL
 * @typedef {{ dataTypes: string[], rankRange: { min: number, max: number } }} Limits of an operand
 * @typedef {Record<string, Record<string, Limits>>} OperatorLimits by operator and operand
 * @typedef {{ operators: Member[], limits: OperatorLimits }} Context
 */

/** The URL of the draft; anchors name its sections and definitions. */
export const DRAFT = 'https://www.w3.org/TR/webnn/';

/**
 * The descriptions, by IDL name.
 *
 * @type {{ types: Record<string, string>, dictionaries: Record<string, Record<string, string>>,
 *   operators: Record<string, { text: string, section?: string, parameters: Record<string, string>, returns: string, errors?: string }> }}
 */
const texts = documentation;

/** Maximum columns of a comment. */
const WIDTH = 118;

/** Dictionaries that only leave the API: their members are always present. */
export const isOutput = (/** @type {string} */ name) => /(Limits|RankRange|LostInfo)$/.test(name);

/** Returns the source of a string or number, in single quotes. */
export const literal = (/** @type {unknown} */ value) => JSON.stringify(value).replace(/"/g, "'");

/**
 * Returns the TypeScript type of an IDL type. Sequences are iterables as arguments, arrays as results.
 * @param {string} text
 * @param {'in' | 'out'} direction
 * @returns {string}
 */
export function typescriptType(text, direction) {
  const plain = text.replaceAll('[EnforceRange] ', '');
  const generic = /^(\w+)<(.*)>$/.exec(plain);
  if (plain.startsWith('(')) {
    return plain
      .slice(1, -1)
      .split(' or ')
      .map((part) => typescriptType(part, direction))
      .join(' | ');
  }
  if (generic) {
    const [, outer, inner] = generic;
    if (outer === 'record') {
      return `Record<string, ${typescriptType(inner.split(', ')[1], direction)}>`;
    }
    const element = typescriptType(inner, direction);
    /** @type {Record<string, string>} */
    const names = {
      Promise: 'Promise',
      FrozenArray: 'ReadonlyArray',
      sequence: direction === 'in' ? 'Iterable' : 'Array',
    };
    return `${names[outer]}<${element}>`;
  }
  if (/^(unsigned long( long)?|long|double|float|unrestricted double)$/.test(plain)) {
    return 'number';
  }
  /** @type {Record<string, string>} */
  const others = { USVString: 'string', DOMString: 'string', undefined: 'void', GPUDevice: 'GPUDeviceLike' };
  return others[plain] ?? plain;
}

/**
 * Breaks a text between words into lines that fit after `prefix`.
 * @param {string} text
 * @param {string} prefix
 */
function wrapped(text, prefix) {
  const lines = [''];
  for (const word of text.split(' ')) {
    const line = lines[lines.length - 1];
    if (line !== '' && prefix.length + line.length + 1 + word.length > WIDTH) {
      lines.push(word);
    } else {
      lines[lines.length - 1] = line === '' ? word : `${line} ${word}`;
    }
  }
  return lines;
}

/**
 * Returns a documentation comment; `text` may have several paragraphs and tags, each on its own line.
 * @param {string} text
 * @param {string} [indent]
 */
function comment(text, indent = '') {
  const lines = text.split('\n').flatMap((line) => wrapped(line, `${indent} * `));
  if (lines.length === 1 && indent.length + lines[0].length + 7 <= WIDTH) {
    return [`${indent}/** ${lines[0]} */`];
  }
  return [`${indent}/**`, ...lines.map((line) => `${indent} *${line && ` ${line}`}`), `${indent} */`];
}

/**
 * @template U
 * @param {Record<string, U> | undefined} table
 * @param {string} key
 * @param {string} what
 * @returns {U}
 */
function required(table, key, what) {
  const text = table?.[key];
  if (text === undefined) {
    throw new Error(`scripts/documentation.mjs has no ${what} "${key}"`);
  }
  return text;
}

/** Adds a link to the draft to a text. */
const withLink = (/** @type {string} */ text, /** @type {string} */ anchor) => `${text}\n@see ${DRAFT}#${anchor}`;

/**
 * Formats limits: `float32 or float16, rank 4`.
 * @param {Limits} limits
 */
export function limitsText({ dataTypes, rankRange: { min, max } }) {
  const listed = [dataTypes.slice(0, -1).join(', '), dataTypes.at(-1)].filter((part) => part !== '').join(' or ');
  const types = dataTypes.length === 8 ? 'any data type' : listed;
  return `${types}, rank ${min === max ? min : `${min} to ${max}`}`;
}

/**
 * Describes dictionaries that belong to one operator.
 * @param {string} name
 */
function dictionaryText(name) {
  const own = texts.types[name];
  if (own !== undefined) {
    return own;
  }
  const [, subject, kind] = /^ML(\w+?)(SupportLimits|Options)$/.exec(name) ?? [];
  if (subject === undefined) {
    throw new Error(`scripts/documentation.mjs has no type "${name}"`);
  }
  const words = subject[0].toLowerCase() + subject.slice(1);
  return kind === 'Options' ? `Options of ${words}.` : `Limits of the operands of ${words}.`;
}

/**
 * Describes a member of a dictionary; operands also get data types and ranks, from an operator with that dictionary.
 * @param {string} name
 * @param {Member} member
 * @param {Context} context
 */
function memberText(name, member, { operators, limits }) {
  const written = member.documentation ?? texts.dictionaries[name]?.[member.name];
  if (written === undefined && name === 'MLOpSupportLimits') {
    return `Limits of \`${member.name}()\`.`;
  }
  if (written === undefined && name.endsWith('SupportLimits')) {
    return /^outputs?\d?$/.test(member.name) ? `Possible data types and ranks of \`${member.name}\`.` : `Allowed data types and ranks of \`${member.name}\`.`;
  }
  const text = written ?? required(texts.dictionaries[name], member.name, `member of ${name}`);
  if (member.type !== 'MLOperand') {
    return text;
  }
  const user = operators.find(({ parameters }) => parameters.at(-1)?.type === name);
  return `${text.slice(0, -1)}; ${limitsText(limits[/** @type {Member} */ (user).name][member.name])}.`;
}

/**
 * @param {string} name
 * @param {{ parent?: string | null, members: Member[] }} dictionary
 * @param {Context} context
 */
function dictionaryDeclaration(name, { parent, members }, context) {
  const output = isOutput(name);
  const lines = [
    ...comment(withLink(dictionaryText(name), `dictdef-${name.toLowerCase()}`)),
    `export interface ${name}${parent ? ` extends ${parent}` : ''} {`,
  ];
  for (const member of members) {
    const text = memberText(name, member, context);
    lines.push(...comment(member.default === undefined ? text : `${text}\n@default ${JSON.stringify(member.default)}`, '  '));
    const optional = output || member.required ? '' : '?';
    const type = typescriptType(member.type, output ? 'out' : 'in');
    lines.push(`  ${member.name}${optional}: ${type}${optional ? ' | undefined' : ''};`);
  }
  return [...lines, '}', ''];
}

/** @param {Parameter[]} parameters */
export function parameterList(parameters) {
  return parameters.map((p) => `${p.name}${p.optional ? '?' : ''}: ${typescriptType(p.type, 'in')}`).join(', ');
}

/**
 * Returns the comment of an operator: its computation, its operands with data types and ranks, its result, its errors.
 * @param {Member} operator
 * @param {OperatorLimits} limits
 */
function operatorText({ name, parameters }, limits) {
  const { text, section, parameters: described, returns, errors } = required(texts.operators, name, 'operator');
  const own = parameters.slice(0, -1);
  const stale = Object.keys(described).filter((key) => !own.some((parameter) => parameter.name === key));
  if (stale.length > 0) {
    throw new Error(`scripts/operator-documentation.mjs: ${name} has no parameter ${stale.join(', ')}`);
  }
  const tags = own.map((parameter) => {
    const allowed = limits[name][parameter.name];
    const what = required(described, parameter.name, `parameter of ${name}`);
    return `@param ${parameter.name} ${what}${allowed === undefined ? '' : ` Allowed: ${limitsText(allowed)}.`}`;
  });
  const result = limits[name].output ?? limits[name].outputs ?? limits[name].output0;
  return withLink(
    [
      text,
      '',
      ...tags,
      `@returns ${returns} Possible: ${limitsText(result)}.`,
      `@throws {TypeError} if an operand is not as described${errors === undefined ? '' : `, or if ${errors}`}`,
    ].join('\n'),
    draftSection(name, section),
  );
}

/**
 * Returns the anchor of an operator in the draft.
 * @param {string} name
 * @param {string | undefined} section
 */
export const draftSection = (name, section) => `api-mlgraphbuilder-${section ?? name.toLowerCase()}`;

/**
 * Returns the comment of an interface member other than an operator.
 * @param {string} name
 * @param {Member} member
 */
function interfaceMemberText(name, member) {
  if (member.documentation !== undefined) {
    return member.documentation;
  }
  const place = member.kind === 'attribute' ? '' : `-${member.name.toLowerCase()}`;
  return withLink(required(documentation.members, `${name}.${member.name}`, 'member'), `api-${name.toLowerCase()}${place}`);
}

/**
 * @param {string} name
 * @param {{ members: Member[] }} definition
 * @param {Context} context
 */
function interfaceDeclaration(name, { members }, { limits }) {
  const text = withLink(required(documentation.interfaces, name, 'interface'), `api-${name.toLowerCase()}`);
  const lines = [...comment(text), `export class ${name} {`];
  // Makes the type nominal, like the brand checks: an MLTensor has every member of an MLOperand, but is not one.
  lines.push('  #private;');
  if (!members.some(({ kind }) => kind === 'constructor')) {
    lines.push('  private constructor();');
  }
  let previous;
  for (const member of members) {
    if (member.name !== previous) {
      lines.push(...comment(member.partial ? operatorText(member, limits) : interfaceMemberText(name, member), '  '));
    }
    previous = member.name;
    if (member.kind === 'attribute') {
      lines.push(`  get ${member.name}(): ${typescriptType(member.type, 'out')};`);
    } else {
      const result = member.kind === 'constructor' ? '' : `: ${typescriptType(member.type, 'out')}`;
      lines.push(`  ${member.name}(${parameterList(member.parameters)})${result};`);
    }
  }
  return [...lines, '}', ''];
}

/**
 * Rejects descriptions of things that the IDL no longer has.
 * @param {Model} model
 * @param {Member[]} operators
 */
function rejectLeftovers({ interfaces, dictionaries, enumerations, typedefs }, operators) {
  const operatorNames = new Set(operators.map(({ name }) => name));
  const membersOf = (/** @type {[string, { members: Member[] }]} */ [name, { members }]) => members.map((member) => `${name}.${member.name}`);
  const members = new Set([...interfaces].flatMap(membersOf));
  const hasMember = (/** @type {string} */ dictionary, /** @type {string} */ name) =>
    dictionaries.get(dictionary)?.members.some((member) => member.name === name);
  const types = new Set([...dictionaries.keys(), ...enumerations.keys(), ...typedefs.keys(), 'AllowSharedBufferSource']);
  const stale = [
    ...Object.keys(documentation.operators).filter((name) => !operatorNames.has(name)),
    ...Object.keys(documentation.members).filter((name) => !members.has(name)),
    ...Object.keys(documentation.interfaces).filter((name) => !interfaces.has(name)),
    ...Object.keys(documentation.types).filter((name) => !types.has(name)),
    ...Object.entries(documentation.dictionaries).flatMap(([dictionary, texts]) =>
      Object.keys(texts)
        .filter((name) => !hasMember(dictionary, name))
        .map((name) => `${dictionary}.${name}`),
    ),
  ];
  if (stale.length > 0) {
    throw new Error(`scripts/documentation.mjs describes what the IDL does not have: ${stale.join(', ')}`);
  }
}

/**
 * Returns the source of index.d.ts.
 *
 * @param {string[]} header lines to begin with
 * @param {Model} model what generate-operators.mjs reads from the IDL
 * @param {Member[]} operators members of MLGraphBuilder that are operators
 * @param {OperatorLimits} limits an MLOpSupportLimits
 */
export function declarations(header, model, operators, limits) {
  rejectLeftovers(model, operators);
  const { enumerations, typedefs, dictionaries, interfaces } = model;
  const context = { operators, limits };
  const lines = [...header, '', '/// <reference lib="es2020" />', ''];
  for (const [name, values] of enumerations) {
    lines.push(...comment(withLink(required(documentation.types, name, 'type'), `enumdef-${name.toLowerCase()}`)));
    lines.push(`export type ${name} = ${values.map(literal).join(' | ')};`, '');
  }
  for (const [name, type] of typedefs) {
    const direction = isOutput(name) || name.endsWith('List') ? 'out' : 'in';
    lines.push(...comment(withLink(required(documentation.types, name, 'type'), `typedefdef-${name.toLowerCase()}`)));
    lines.push(`export type ${name} = ${typescriptType(type, direction)};`, '');
  }
  lines.push(...comment(documentation.types.AllowSharedBufferSource));
  lines.push('export type AllowSharedBufferSource = ArrayBuffer | SharedArrayBuffer | ArrayBufferView;', '');
  lines.push(...comment('Distinguishes a WebGPU device from options.'));
  lines.push('interface GPUDeviceLike {', '  readonly queue: object;', '  readonly lost: Promise<unknown>;', '}', '');
  for (const [name, dictionary] of dictionaries) {
    lines.push(...dictionaryDeclaration(name, dictionary, context));
  }
  for (const [name, definition] of interfaces) {
    lines.push(...interfaceDeclaration(name, definition, context));
  }
  lines.push(documentation.extensionDeclarations);
  lines.push(
    ...comment('The entry to the API. `navigator.ml` of "webnn-node/auto" is a different object, whose contexts have the extension "int4".'),
    'export const ml: ML;',
    '',
  );
  return lines.join('\n');
}
