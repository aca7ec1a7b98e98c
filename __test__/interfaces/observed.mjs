/**
 * Arguments that tell when they are converted, made from the types of the IDL.
 *
 * Every value that a caller can pass has a path, `options.padding[0]`. What happens to it is an event: its conversion (the
 * path itself), the read of a member (`get options.padding`), the request of an iterator or of keys. A plan is the list
 * of all events that Web IDL prescribes, in order.
 */

import { dictionaryMembers, enumerations } from './idl.mjs';
import { defined } from '../lib/types.mjs';

/** Members that this package adds to dictionaries of the draft. */
const ADDED_MEMBERS = { MLContextOptions: ['cache', 'computePolicy', 'extensions', 'numThreads'] };

/** Members of a dictionary in reading order, with the added ones, which have no type. */
function readMembers(name) {
  const members = dictionaryMembers(name);
  const added = (ADDED_MEMBERS[name] ?? []).map((member) => ({ name: member }));
  return added.length === 0 ? members : [...members, ...added].sort((a, b) => (a.name < b.name ? -1 : 1));
}

/**
 * The events of a value's conversion, in order; `null` stands for one that a caller cannot see.
 *
 * @param {import('./idl.mjs').Type} type
 * @param {string} path
 * @param {boolean} [isPlain] whether an enumeration value is a plain string
 * @returns {{ path: string, type?: import('./idl.mjs').Type, event: string | null, isMember?: boolean }[]}
 */
export function planOf(type, path, isPlain = false) {
  switch (type.kind) {
    case 'integer':
    case 'double':
    case 'number':
    case 'string':
      return [{ path, type, event: path }];
    case 'enum':
      return [{ path, type, event: isPlain ? null : path }];
    case 'sequence':
    case 'one-or-sequence':
      return [{ path, type, event: `iterate ${path}` }, ...planOf(defined(type.element), `${path}[0]`)];
    case 'record':
      return [
        { path, type, event: `keys of ${path}` },
        { path: `${path} descriptor`, event: `descriptor ${path}.key` },
        { path: `${path} get`, event: `get ${path}.key` },
        ...planOf(defined(type.element), `${path}.key`),
      ];
    case 'dictionary':
      return [{ path, type, event: null }, ...readMembers(type.name).flatMap((member) => planOfMember(member, path))];
    default:
      return [{ path, type, event: null }];
  }
}

function planOfMember({ name, type }, path) {
  const read = { path: `${path}.${name} read`, event: `get ${path}.${name}` };
  return type === undefined
    ? [read]
    : [
        read,
        ...planOf(type, `${path}.${name}`).map((event) => ({
          ...event,
          isMember: event.isMember ?? event.path === `${path}.${name}`,
        })),
      ];
}

/**
 * A value that logs its conversion.
 *
 * @param {import('./idl.mjs').Type} type
 * @param {string} path
 * @param {{ log: string[], objects: Record<string, object>, replaced?: { path: string, value: unknown },
 *   isPlain?: boolean }} world `objects` has one of each interface by name; the value at the path of `replaced` is that
 *   one instead
 */
export function observed(type, path, world) {
  const { log, objects, replaced, isPlain } = world;
  if (replaced?.path === path) {
    return replaced.value;
  }
  const primitive = (value) => ({
    [Symbol.toPrimitive]() {
      log.push(path);
      return value;
    },
  });
  switch (type.kind) {
    case 'integer':
    case 'double':
    case 'number':
      return primitive(1);
    case 'string':
      return primitive('text');
    case 'enum': {
      const value = defined(enumerations.get(defined(type.name)))[0];
      return isPlain ? value : primitive(value);
    }
    case 'boolean':
      return true;
    case 'buffer':
      return new Float32Array(1);
    case 'interface':
      return objects[defined(type.name)];
    case 'sequence':
    case 'one-or-sequence':
      return observedSequence(type, path, world);
    case 'record':
      return observedRecord(type, path, world);
    case 'dictionary':
      return observedDictionary(type, path, world);
    default:
      throw new Error(`no value for the type ${type.name}`);
  }
}

function observedSequence(type, path, world) {
  return {
    get [Symbol.iterator]() {
      world.log.push(`iterate ${path}`);
      return function* () {
        yield observed(type.element, `${path}[0]`, world);
      };
    },
  };
}

function observedRecord(type, path, world) {
  const { log } = world;
  return new Proxy(
    { key: undefined },
    {
      ownKeys(target) {
        log.push(`keys of ${path}`);
        return Reflect.ownKeys(target);
      },
      getOwnPropertyDescriptor(target, key) {
        log.push(`descriptor ${path}.${String(key)}`);
        return Reflect.getOwnPropertyDescriptor(target, key);
      },
      get(_, key) {
        log.push(`get ${path}.${String(key)}`);
        return observed(type.element, `${path}.${String(key)}`, world);
      },
    },
  );
}

function observedDictionary(type, path, world) {
  const types = new Map(dictionaryMembers(type.name).map((member) => [member.name, member.type]));
  return new Proxy(
    {},
    {
      get(_, key) {
        world.log.push(`get ${path}.${String(key)}`);
        return typeof key === 'string' && types.has(key) ? observed(defined(types.get(key)), `${path}.${key}`, world) : undefined;
      },
    },
  );
}
