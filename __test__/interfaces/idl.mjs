/** The IDL of the draft as the tests need it: partial definitions put together, types resolved. */

import { readFileSync } from 'node:fs';
import { parse } from 'webidl2';

const nodes = parse(readFileSync(new URL('../../spec/webnn.idl', import.meta.url), 'utf8'));
const ofType = (type) => nodes.filter((node) => node.type === type);

/** Members of each definition of a kind by name, those of partial definitions appended. */
function membersOf(type) {
  const result = new Map();
  for (const { name, members } of ofType(type)) {
    result.set(name, [...(result.get(name) ?? []), ...members]);
  }
  return result;
}

/** Members of each interface, as webidl2 has them. @type {Map<string, any[]>} */
export const interfaces = membersOf('interface');

/** Values of each enumeration. @type {Map<string, string[]>} */
export const enumerations = new Map(ofType('enum').map(({ name, values }) => [name, values.map(({ value }) => value)]));

const dictionaries = membersOf('dictionary');
const parents = new Map(ofType('dictionary').map(({ name, inheritance }) => [name, inheritance]));
const typedefs = new Map(ofType('typedef').map(({ name, idlType }) => [name, idlType]));

/**
 * @typedef {object} Type
 * @property {string} kind
 * @property {string} [name]
 * @property {Type} [element]
 * @property {boolean} [isEnforced]
 */

/**
 * The type of an argument, member or attribute.
 *
 * @param {{ idlType: any, extAttrs?: any[] }} node of webidl2, with `idlType`, and perhaps `extAttrs` that belong to the type
 * @returns {Type} `kind` is `integer`, `double`,
 *   `number` (a number or bigint), `boolean`, `string`, `buffer`, `other`, or a kind of definition or generic type
 *   (`enum`, `dictionary`, `interface`, `sequence`, `record`), or `one-or-sequence`; `element` is that of the last three
 */
export function typeOf({ idlType, extAttrs = [] }) {
  if (typeof idlType === 'string') {
    return namedType(idlType, extAttrs);
  }
  const attributes = [...extAttrs, ...(idlType.extAttrs ?? [])];
  if (idlType.union) {
    return unionType(idlType.idlType);
  }
  if (idlType.generic === '') {
    return typeOf({ idlType: idlType.idlType, extAttrs: attributes });
  }
  return { kind: idlType.generic, element: typeOf(idlType.idlType.at(-1)) };
}

/** The draft has two unions: MLNumber, and a type or a sequence of it. */
function unionType([first, second]) {
  return second.generic === 'sequence'
    ? { kind: 'one-or-sequence', element: typeOf(first) }
    : { kind: 'number', name: `${first.idlType} or ${second.idlType}` };
}

function namedType(name, attributes) {
  if (typedefs.has(name)) {
    return typeOf({ idlType: typedefs.get(name), extAttrs: attributes });
  }
  for (const [kind, definitions] of Object.entries({
    dictionary: dictionaries,
    enum: enumerations,
    interface: interfaces,
  })) {
    if (definitions.has(name)) {
      return { kind, name };
    }
  }
  const kind =
    { double: 'double', float: 'double', boolean: 'boolean', AllowSharedBufferSource: 'buffer' }[name] ??
    (name.endsWith('String') ? 'string' : name.includes('long') ? 'integer' : 'other');
  return { kind, name, isEnforced: attributes.some((attribute) => attribute.name === 'EnforceRange') };
}

/**
 * Members of a dictionary in the order in which Web IDL reads them: inherited ones first, each level by code units.
 *
 * @param {string} name
 * @returns {{ name: string, type: Type, required: boolean }[]}
 */
export function dictionaryMembers(name) {
  const inherited = parents.get(name);
  const own = dictionaries
    .get(name)
    .map((member) => ({ name: member.name, type: typeOf(member), required: member.required }))
    .sort((a, b) => (a.name < b.name ? -1 : 1));
  return [...(inherited ? dictionaryMembers(inherited) : []), ...own];
}

/**
 * The operations and constructors of all interfaces; each overload stands for itself, except those with types that the
 * draft does not define.
 *
 * @returns {{ interface: string, name: string, isPromise: boolean, isOverloaded: boolean,
 *   parameters: { name: string, type: Type }[] }[]} the name of a constructor is `constructor`
 */
export function allOperations() {
  return [...interfaces].flatMap(([owner, members]) =>
    members
      .filter(({ type }) => type === 'operation' || type === 'constructor')
      .map((member) => ({
        interface: owner,
        name: member.name ?? 'constructor',
        isPromise: member.idlType?.generic === 'Promise',
        isOverloaded: members.filter(({ name }) => name === member.name).length > 1,
        parameters: member.arguments.map((argument) => ({ name: argument.name, type: typeOf(argument) })),
      }))
      .filter(({ parameters }) => parameters.every(({ type }) => type.kind !== 'other')),
  );
}
