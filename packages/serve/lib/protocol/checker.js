// Checks values of JSON against a schema, and says in plain English what is wrong.

import { Ajv } from 'ajv';
import { invalid, shown } from '../errors.js';

/**
 * A JSON schema. `title` is what errors say was expected. A parameter with the member `x-effect` is accepted without effect: "none"
 * if it has none here, "unsupported" if only the values of the schema have none, so that others are refused by name.
 * @typedef {Record<string, any>} Schema
 */

/** @typedef {import('ajv').ErrorObject} Failure */

// The first failure ends the check: a long request is as cheap to refuse as a short one.
const ajv = new Ajv({ strict: true, strictRequired: false, allowUnionTypes: true, verbose: true, keywords: ['x-effect'] });

/** Names of callers are cut in errors. */
const MOST_CHARACTERS = 100;

const EITHER = new Intl.ListFormat('en', { type: 'disjunction' });

/** @type {Record<string, (value: any) => boolean>} */
const IS_TYPE = {
  array: Array.isArray,
  boolean: (value) => typeof value === 'boolean',
  integer: (value) => typeof value === 'number',
  number: (value) => typeof value === 'number',
  object: (value) => value !== null && typeof value === 'object' && !Array.isArray(value),
  string: (value) => typeof value === 'string',
};

/**
 * Whether a value, and the first entry of a list, have the type of a schema.
 * @param {Schema} schema
 * @param {any} value
 * @returns {boolean}
 */
const isMeant = ({ type, items }, value) => IS_TYPE[type]?.(value) && (items === undefined || value.length === 0 || isMeant(items, value[0]));

/**
 * Which of several schemas a caller means.
 * @param {readonly Schema[]} schemas
 * @param {unknown} value
 * @returns {number} -1 if that is not clear
 */
function branchOf(schemas, value) {
  const meant = schemas.flatMap((schema, index) => (isMeant(schema, value) ? index : []));
  return meant.length === 1 ? meant[0] : -1;
}

/** Whether values of a schema have members that may be null. @param {Schema} schema @returns {boolean} */
const hasMembers = ({ properties, items, anyOf }) =>
  properties !== undefined || (items !== undefined && hasMembers(items)) || (anyOf?.some(hasMembers) ?? false);

/**
 * A value without the null members of its objects: null is as good as absent in OpenAI's API. Members that are data of the
 * caller, such as the arguments of a template, stay as they are.
 * @param {any} value
 * @param {Schema} schema
 * @returns {any}
 */
function withoutNulls(value, schema) {
  if (!hasMembers(schema)) return value;
  if (schema.anyOf !== undefined) return withoutNulls(value, schema.anyOf[branchOf(schema.anyOf, value)] ?? {});
  const { items, maxItems, properties } = schema;
  if (Array.isArray(value) && items !== undefined) return value.length > maxItems ? value : value.map((entry) => withoutNulls(entry, items));
  if (properties === undefined || !IS_TYPE.object(value)) return value;
  const members = Object.entries(value).filter(([, member]) => member !== null);
  return Object.fromEntries(members.map(([name, member]) => [name, withoutNulls(member, Object.hasOwn(properties, name) ? properties[name] : {})]));
}

/** @param {Schema} schema @param {string} noun */
function rangeOf({ minimum, exclusiveMinimum, maximum }, noun) {
  const highest = maximum === undefined || maximum === Number.MAX_SAFE_INTEGER ? undefined : maximum;
  if (exclusiveMinimum !== undefined) return `${noun} above ${exclusiveMinimum}${highest === undefined ? '' : `, and at most ${highest}`}`;
  const lowest = minimum === undefined || minimum === -Number.MAX_SAFE_INTEGER ? undefined : minimum;
  return [noun, lowest === undefined ? '' : ` from ${lowest}`, highest === undefined ? '' : ` to ${highest}`].join('');
}

/** @type {Record<string, (schema: Schema) => string>} */
const EXPECTED = {
  array: ({ items, minItems = 0, maxItems }) =>
    maxItems === 0 ? 'an empty list' : `a list of ${minItems} to ${maxItems} entries${items === undefined ? '' : `, each ${expectedOf(items)}`}`,
  boolean: () => 'true or false',
  integer: (schema) => rangeOf(schema, 'a whole number'),
  number: (schema) => rangeOf(schema, 'a number'),
  object: () => 'an object',
  string: ({ minLength = 0, maxLength }) =>
    maxLength === undefined ? `a string${minLength > 0 ? ' that is not empty' : ''}` : `a string of ${minLength} to ${maxLength} characters`,
};

/**
 * What a schema takes, in words.
 * @param {Schema} schema
 * @returns {string}
 */
function expectedOf(schema) {
  if (schema.title !== undefined) return schema.title;
  if (schema.enum !== undefined) return EITHER.format(schema.enum.map((/** @type {unknown} */ value) => JSON.stringify(value)));
  if (schema.anyOf !== undefined) return schema.anyOf.map(expectedOf).join(', or ');
  return EXPECTED[schema.type](schema);
}

/** A value that was given, in words. @param {unknown} value */
const foundOf = (value) => (Array.isArray(value) && value.length === 0 ? 'an empty list' : shown(value));

/** The names and places on the way to a value. @param {string} pointer */
const stepsOf = (pointer) =>
  pointer
    .split('/')
    .slice(1)
    .map((step) => step.replaceAll('~1', '/').replaceAll('~0', '~'));

/**
 * The way to a value as OpenAI writes it: `messages[0].content`.
 * @param {any} root
 * @param {readonly string[]} steps
 */
function pathOf(root, steps) {
  let [path, value] = ['', root];
  for (const step of steps) {
    path += Array.isArray(value) ? `[${step}]` : `${path === '' ? '' : '.'}${step.slice(0, MOST_CHARACTERS)}`;
    value = value?.[step];
  }
  return path;
}

/**
 * The part of a way that is a parameter, and its schema: what follows are entries of one that has several forms, or data of the
 * caller.
 * @param {Schema} schema
 * @param {readonly string[]} steps
 */
function parameterOf(schema, steps) {
  let within = schema;
  const end = steps.findIndex((step) => {
    const next = within.items ?? within.properties?.[step];
    within = next ?? within;
    return next === undefined;
  });
  return { steps: end === -1 ? steps : steps.slice(0, end), schema: within };
}

/**
 * The failure to tell of: where a parameter has several forms, that of the form that the caller means.
 * @param {readonly Failure[]} failures as Ajv has them: the outermost last
 * @returns {Failure}
 */
function tellingOf(failures) {
  const last = failures[failures.length - 1];
  if (last.keyword === 'if') return tellingOf(failures.slice(0, -1));
  if (last.keyword !== 'anyOf') return last;
  const branch = branchOf(/** @type {Schema[]} */ (last.schema), last.data);
  const within = failures.filter(({ schemaPath }) => schemaPath.startsWith(`${last.schemaPath}/${branch}/`));
  return within.length === 0 ? last : tellingOf(within);
}

/**
 * The error for a caller.
 * @param {Schema} schema
 * @param {any} root
 * @param {readonly Failure[]} failures
 */
function errorOf(schema, root, failures) {
  const { keyword, instancePath, params, parentSchema = {}, data } = tellingOf(failures);
  const { additionalProperty, missingProperty } = params;
  const steps = [...stepsOf(instancePath), ...[additionalProperty ?? missingProperty ?? []].flat()];
  const top = steps.slice(0, 1);
  const isNeutral = parameterOf(schema, top).schema['x-effect'] === 'unsupported';
  if (additionalProperty !== undefined || isNeutral) {
    const path = pathOf(root, isNeutral ? top : steps);
    return invalid(`${path} is not supported; leave it out`, { param: path, code: 'unsupported_parameter' });
  }
  const path = pathOf(root, steps) || 'the body';
  const { steps: own, schema: of } = parameterOf(schema, steps);
  const param = pathOf(root, own) || undefined;
  if (missingProperty !== undefined) {
    const expected = own.length === steps.length ? of : parentSchema.properties[missingProperty];
    return invalid(`${path} is missing; expected ${expectedOf(expected)}`, { param, code: 'missing_required_parameter' });
  }
  const message =
    keyword === 'maxItems' && params.limit > 0
      ? `${path} has ${/** @type {unknown[]} */ (data).length} entries, at most ${params.limit} are allowed`
      : `${path} must be ${expectedOf(parentSchema)}; it ${keyword === 'propertyNames' ? `has the key ${shown(params.propertyName)}` : `is ${foundOf(data)}`}`;
  return invalid(message, { param, code: 'invalid_value' });
}

/**
 * Compiles a schema of an object.
 * @param {Schema} schema
 * @returns {(json: unknown) => Record<string, any>} gives the object without its null members and those without effect, or throws
 *   {@link import('../errors.js').ServeError}; it depends on nothing but its argument
 */
export function checkerOf(schema) {
  const validate = ajv.compile(schema);
  return (json) => {
    const value = withoutNulls(json, schema);
    if (!validate(value)) throw errorOf(schema, value, /** @type {Failure[]} */ (validate.errors));
    const members = Object.entries(/** @type {Record<string, any>} */ (value));
    return Object.fromEntries(members.filter(([name]) => schema.properties[name]['x-effect'] === undefined));
  };
}
