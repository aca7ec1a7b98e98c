// Types that modules of this folder share.

import type { MLContextOptions, MLOperandDataType, MLTensorDescriptor } from '../index.js';

/** The states behind objects of the interfaces. */
export type BuilderState = InstanceType<typeof import('./builder.js').Builder>;
export type ContextState = InstanceType<typeof import('./context.js').Context>;
export type GraphState = InstanceType<typeof import('./graph.js').Graph>;
export type OperandState = InstanceType<typeof import('./operand.js').Operand>;
export type TensorState = InstanceType<typeof import('./tensor.js').Tensor>;

/** A WeakCollection, see weak-collection.js. */
export interface WeakMembers<T extends object> {
  add(member: T): void;
  drain(): T[];
}

/** Converts a caller's value, see webidl.js. `what` says where it came from, `key` is the place below that. */
export type Converter<T> = (value: unknown, what: string, key?: string | number) => T;

/** The internal slots of an interface, see slots.js: objects of the declared `Interface` have the given `State`. */
export interface Slots<State extends object, Interface extends object> {
  create(Class: Function, state: State, newTarget?: Function): Interface;
  get(value: unknown): State | undefined;
}

export interface Descriptor {
  dataType: MLOperandDataType;
  shape: readonly number[];
}

export interface NamedDescriptor extends Descriptor {
  name: string;
}

/** What converters make of the dictionaries of the IDL that are looked at here; those of operators are passed on. */
export interface Dictionaries {
  MLContextOptions: Required<Pick<MLContextOptions, 'powerPreference' | 'accelerated'>> & { numThreads?: number };
  MLOperandDescriptor: { dataType: MLOperandDataType; shape: number[] };
  MLTensorDescriptor: { dataType: MLOperandDataType; shape: number[] } & Required<Pick<MLTensorDescriptor, 'readable' | 'writable'>>;
}

/** A member of a dictionary in operators.js. */
export interface DictionaryMember {
  name: string;
  type: string;
  required?: boolean;
  default?: unknown;
}

declare const kind: unique symbol;

/** An object of the native side. */
export interface Handle<Kind extends string> {
  readonly [kind]: Kind;
}

type Context = Handle<'context'>;
type Builder = Handle<'builder'>;
type Tensor = Handle<'tensor'>;
type Graph = Handle<'graph'>;
type Snapshot = Handle<'read'>;

/** The functions of the native binary. Ids are those of `Completions`, data types indices of `DATA_TYPES`. */
export interface Binding {
  version(): string;
  initialize(onComplete: (ids: number[], codes: (string | null | undefined)[], messages: string[]) => void): Handle<'environment'>;
  createContext(environment: Handle<'environment'>, id: number, lostId: number, options: NativeContextOptions): Context;
  destroyContext(context: Context): void;
  loseDevice(context: Context): void;
  supportLimits(context: Context): string;
  createTensor(context: Context, id: number, dataType: number, shape: readonly number[]): Tensor;
  createConstantTensor(context: Context, id: number, dataType: number, shape: readonly number[], bytes: Uint8Array): Tensor;
  readTensor(context: Context, id: number, tensor: Tensor): Snapshot;
  takeRead(read: Snapshot, into: Uint8Array): void;
  writeTensor(context: Context, tensor: Tensor, bytes: Uint8Array): void;
  destroyTensor(tensor: Tensor): void;
  createBuilder(context: Context): Builder;
  input(builder: Builder, name: string, dataType: number, shape: readonly number[]): number;
  constant(builder: Builder, dataType: number, shape: readonly number[], bytes: Uint8Array): number;
  constantScalar(builder: Builder, dataType: number, value: number | bigint): number;
  constantTensor(builder: Builder, tensor: Tensor): number;
  /** Per output its id, the index of its data type and its shape. */
  operator(
    builder: Builder,
    name: string,
    operands: Record<string, number | number[]>,
    attributes: Record<string, unknown>,
    label: string,
  ): [id: number, dataType: number, ...shape: number[]][];
  build(context: Context, builder: Builder, id: number, names: string[], operands: number[]): { graph: Graph; inputs: string[] };
  weighGraph(graph: Graph): void;
  graphDevices(graph: Graph): ('cpu' | 'gpu')[];
  /** JSON of a GraphDescription. */
  describeGraph(graph: Graph): string;
  dispatch(context: Context, graph: Graph, inputs: Tensor[], outputs: Tensor[]): void;
  profile(
    context: Context,
    id: number,
    graph: Graph,
    inputs: Tensor[],
    outputs: Tensor[],
    warmup: number,
    runs: number,
  ): Snapshot;
  destroyGraph(graph: Graph): void;
  /** JSON of a SystemInfo. */
  systemInfo(): string;
}

/** Of `createContext()` of the native side: 0 threads are as many as it finds right. */
export interface NativeContextOptions {
  threads: number;
  powerPreference: string;
  accelerated: boolean;
  /** JSON about the adapter of a GPUDevice. */
  gpuDevice?: string;
}
