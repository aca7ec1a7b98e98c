// `webnn-node/internal/webidl`: for webnn-node-compat, which depends on an exact version. It changes with every version of
// webnn-node, and is not part of its API.

import type { MLDimension, MLGraphBuilder, MLOperandDataType } from './index.js';

/**
 * Converts a caller's value to a type of Web IDL, https://webidl.spec.whatwg.org/#js-type-mapping. `what` tells
 * messages where the value came from (`conv2d: options.strides`), `key` is the index or name of the property below it.
 *
 * @throws {TypeError} for a value that the type does not allow, and whatever the caller's own code throws (getters,
 *   iterators)
 */
export type Converter<T> = (value: unknown, what: string, key?: string | number) => T;

/** A number of things in a message: `1 byte`, `2 bytes`. */
export function amount(count: number, noun: string): string;
/** The name of a kind with its article: `a Float32Array`, `an Int32Array`. */
export function article(kind: string): string;

export const boolean: (value: unknown) => boolean;
/** Finite. */
export const double: Converter<number>;
/** Rounded to single precision, and finite after that. */
export const float: Converter<number>;
/** Modulo 2^32 into the signed range. */
export const long: Converter<number>;
/** Modulo 2^32. */
export const unsignedLong: Converter<number>;
/** `[EnforceRange] unsigned long`. */
export const enforcedUnsignedLong: Converter<number>;
/** Lone surrogates become U+FFFD. */
export const usvString: Converter<string>;
export function enumeration<T extends string>(values: readonly T[]): Converter<T>;
export function sequence<T>(element: Converter<T>): Converter<T[]>;
/** `(T or sequence<T>)` with a numeric type T. */
export function elementOrSequence<T>(element: Converter<T>): Converter<T | T[]>;
/** `record<USVString, T>`, in the order of the caller's properties. */
export function record<T>(element: (value: unknown, what: string, key: string) => T): Converter<Map<string, T>>;

/** A member of a dictionary. */
export interface DictionaryMember {
  name: string;
  type: string;
  required?: boolean;
  default?: unknown;
}

/**
 * A dictionary, as an object without prototype that has the members that are present or have a default.
 *
 * @param members in the order in which Web IDL reads them: inherited dictionaries first, each in code unit order
 */
export function dictionary<T extends object>(members: (Omit<DictionaryMember, 'type'> & { type?: string; convert: Converter<unknown> })[]): Converter<T>;

/** The internal slots of an interface: the state of its objects, which also proves that they are its objects. */
export interface Slots<State extends object, Interface extends object> {
  /** Creates an object of the interface. `newTarget` is that of the constructor, for derived classes. */
  create(Class: Function, state: State, newTarget?: Function): Interface;
  /** Returns the state; undefined for everything that `create` did not make. */
  get(value: unknown): State | undefined;
}

/** The slots of a new interface. */
export function defineSlots<State extends object, Interface extends object>(): Slots<State, Interface>;
/** An interface type, as the state of its objects. */
export function interfaceType<State extends object>(name: string, slots: Slots<State, object>): Converter<State>;
/** Makes a class look as Web IDL defines interfaces: enumerable members and a class string. */
export function defineInterface<T extends Function>(Interface: T): T;

/** @throws {TypeError} if fewer arguments are given than required */
export function requireArguments(operation: string, given: number, required: number): void;
/** The TypeError of a constructor that programs may not call. */
export function illegalConstructor(name: string): TypeError;
/** The TypeError of a receiver that does not implement the interface `name`. */
export function illegalInvocation(member: string, name: string): TypeError;
/** A DOMException with the name `NotSupportedError`. */
export function notSupportedError(message: string): Error;
/** A caller's string in quotation marks, for messages: cut to a readable length, without control characters. */
export function quote(text: string): string;

/** Whether a value has the type Object of ECMAScript. */
export function isObject(value: unknown): value is Record<PropertyKey, unknown>;
/** The kind of a buffer of any realm; undefined for other values. */
export function bufferKind(value: unknown): 'ArrayBuffer' | 'SharedArrayBuffer' | undefined;
/**
 * Checks that a value is a buffer or view of fixed length, of any realm.
 *
 * @returns its kind: `ArrayBuffer`, `SharedArrayBuffer`, `DataView` or the name of a typed array
 * @throws {TypeError} for anything else
 */
export function bufferSource(value: unknown, what: string): string;
/** Bytes of a buffer source other than a DataView; 0 if it is detached. `kind` is from `bufferSource`. */
export function byteLengthOf(value: unknown, kind: string): number;

/** A data type and a shape that may contain named dimensions. */
export interface Described {
  dataType: MLOperandDataType;
  shape: readonly MLDimension[];
}

/** A data type and a shape of sizes only. */
export interface Descriptor extends Described {
  shape: readonly number[];
}

/** Lets a builder build several graphs, as it could until July 2024: `build()` leaves it as it is. */
export function letBuildAgain(builder: MLGraphBuilder): void;

/** Bytes of an element. */
export const ELEMENT_SIZES: Record<MLOperandDataType, number>;
/** The kinds of views that hold a data type; a Uint8Array or bare buffer can hold any. */
export const VIEWS: Record<MLOperandDataType, string[]>;
/** Bytes of all elements. */
export function byteLength(descriptor: Descriptor): number;
/** Formats a descriptor for messages: `float32 [1, 3]`. */
export function describe(descriptor: Described): string;
