// Types that modules of this folder share.

import type { Described, Descriptor } from '../webidl.js';
import type { MLContextExtension, MLContextOptions, MLDimension, MLOperandDataType, MLTensorDescriptor } from '../index.js';
import type { OnnxUnsupportedNode, OnnxValueInfo } from '../onnx.js';

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

// Public, because other packages implement interfaces, too.
export type { Converter, Described, Descriptor, DictionaryMember, Slots } from '../webidl.js';

export interface NamedShape extends Described {
  name: string;
}

export interface NamedDescriptor extends Descriptor {
  name: string;
}

/** What converters make of the dictionaries of the IDL that are looked at here; those of operators are passed on. */
export interface Dictionaries {
  MLContextOptions: Required<Pick<MLContextOptions, 'powerPreference' | 'accelerated'>> & { extensions?: MLContextExtension[]; numThreads?: number };
  MLOperandDescriptor: { dataType: MLOperandDataType; shape: number[] };
  MLTensorDescriptor: { dataType: MLOperandDataType; shape: number[] } & Required<Pick<MLTensorDescriptor, 'readable' | 'writable'>>;
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
type DynamicGraph = Handle<'dynamicGraph'>;
type Snapshot = Handle<'read'>;
type Environment = Handle<'environment'>;
type Model = Handle<'model'>;
type Session = Handle<'session'>;
/** Unread results that are held together. */
type Values = Handle<'values'>;

/** An output that was read: null without memory for an ArrayBuffer; a number is the place of a cache among those of the run. */
export type MadeValue = ArrayBuffer | Values | number | null;
/**
 * What a run makes of each output, undefined for one that goes elsewhere, and a tensor for one that goes into a new one. Then all
 * caches, if there are any; and a Uint32Array with the type, the rank and the sizes of each output that is not undefined.
 */
export type Made = (MadeValue | Tensor | undefined)[];

/** For each input a tensor, bytes or results that are held together. */
export type NativeFeeds = (Tensor | Values | Uint8Array | undefined)[];
/** A tensor, true for a new one, null for what is not read, undefined for what is. */
export type NativeTarget = Tensor | true | null | undefined;

/** What a native function gives instead of its result for a model that cannot be used. */
export interface Refusal {
  /** One of the table of error codes. */
  code: string;
  message: string;
  unsupported: OnnxUnsupportedNode[];
}

/** An error of the API. It has a code if it is of the table of error codes. */
export type CodedError = Error & { code?: string };

/** Sizes of free dimensions, in the order of their names. */
export interface FreeDimensions {
  names: string[];
  sizes: number[];
}

/** What stands for a file beside a model: a path or bytes. */
export interface ExternalFile {
  location: string;
  source: string | Uint8Array;
}

/** Numbers of places by the names of outputs. */
export interface KeptCounts {
  names: string[];
  counts: number[];
}

/** What is fixed for all runs of a session. */
export interface SessionOptions {
  dimensions: FreeDimensions;
  looseDimensions: boolean;
  /** Those of the model when left out. */
  outputs?: string[];
  keepLast: KeptCounts;
  constants: { name: string; shape?: number[]; bytes: Uint8Array }[];
}

/** An input of a model, and what is known of its value: its shape, or the number of elements of a shape that is to be found. */
export interface GivenInput {
  name: string;
  /** As the model has it. */
  shape?: readonly (number | string)[];
  given?: readonly number[];
  elements?: number;
}

/** What is known of the shapes of inputs, in their order, with the names of sizes that are not; null where nothing is. */
export interface KnownShapes {
  shapes: ((number | string)[] | null)[];
  freeDimensions: Record<string, number>;
}

/** The inputs and outputs of a session, in native order. */
export interface Signature {
  inputs: OnnxValueInfo[];
  outputs: OnnxValueInfo[];
}

/** A specialization of a session: its number, what goes in and out, and of that, what its graph reads and writes. */
export interface Compilation {
  id: number;
  inputs: NamedDescriptor[];
  outputs: NamedDescriptor[];
  reads: NamedDescriptor[];
  writes: NamedDescriptor[];
}

/** What to import a model for: `inputs` are names of those that the `operands` replace. */
export interface ImportOptions {
  dimensions: FreeDimensions;
  outputs?: string[];
  inputs: string[];
  operands: number[];
}

/**
 * The functions of the native binary. Ids are those of `Completions`, data types indices of `DATA_TYPES`. What a request
 * has made comes with its completion.
 */
export interface Binding {
  version(): string;
  /** JSON of the table of error codes. */
  errorCodes(): string;
  /**
   * Codes and messages are empty when all are successes. `details` has what each request made or, of a model that is
   * refused, the nodes. `allocate` gives undefined when there is no memory.
   */
  initialize(
    onComplete: (ids: number[], codes: string[], messages: string[], details: unknown[][]) => void,
    allocate: (length: number) => ArrayBuffer | undefined,
  ): Environment;
  createContext(environment: Environment, id: number, lostId: number, options: NativeContextOptions): Context;
  destroyContext(context: Context): void;
  loseDevice(context: Context): void;
  contextDevice(context: Context): 'cpu' | 'gpu';
  /** JSON of an MLOpSupportLimits. */
  supportLimits(context: Context, int4: boolean): string;
  createTensor(context: Context, id: number, dataType: number, shape: readonly number[]): Tensor;
  createConstantTensor(context: Context, id: number, dataType: number, shape: readonly number[], bytes: Uint8Array): Tensor;
  readTensor(context: Context, id: number, tensor: Tensor): Snapshot;
  takeRead(read: Snapshot, into: Uint8Array): void;
  writeTensor(context: Context, tensor: Tensor, bytes: Uint8Array): void;
  destroyTensor(tensor: Tensor): void;
  createBuilder(context: Context, dynamic: boolean): Builder;
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
  ): [id: number, dataType: number, ...shape: MLDimension[]][];
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
  dynamicInput(builder: Builder, name: string, dataType: number, shape: readonly MLDimension[]): number;
  dynamicBuild(context: Context, builder: Builder, names: string[], operands: number[]): { graph: DynamicGraph; inputs: string[] };
  dynamicShapes(graph: DynamicGraph, inputs: number[][]): number[][];
  /** With pairs of an output and the input whose memory it takes. */
  dynamicDispatch(context: Context, graph: DynamicGraph, inputs: Tensor[], outputs: Tensor[], donations: number[][]): void;
  /** JSON of a GraphDescription; null before a dispatch has begun. */
  describeDynamicGraph(graph: DynamicGraph): string | null;
  destroyDynamicGraph(graph: DynamicGraph): void;
  /** Makes the model, and JSON of its inputs, outputs and metadata. */
  openModel(environment: Environment, id: number, source: string | Uint8Array, files: ExternalFile[]): void;
  readModel(source: string | Uint8Array, files: ExternalFile[]): Model | Refusal;
  /** JSON of an OnnxInspection. */
  inspectModel(model: Model, dimensions: FreeDimensions): string | Refusal;
  /** JSON of KnownShapes. */
  inputShapes(inputs: GivenInput[], dimensions: FreeDimensions): string;
  /** JSON of the outputs, among others: `operand` is null for one without elements. */
  importModel(builder: Builder, model: Model, options: ImportOptions): string | Refusal;
  /** JSON of the list that `supportedOperators` gives. */
  supportedOnnxOperators(): string;
  /** Makes the session, and JSON of its Signature. */
  openSession(context: Context, model: Model, id: number, options: SessionOptions): void;
  /** Refuses names that are not those of the session. */
  checkNames(session: Session, feeds: string[], fetches: string[]): void;
  /**
   * Makes what becomes of each output. That is the result where `mayRunHere` is true and the run is quick; it is told later
   * otherwise.
   */
  runSession(session: Session, id: number, feeds: NativeFeeds, shapes: Float64Array, fetches: NativeTarget[] | undefined, mayRunHere: boolean): Made | null;
  /** Makes what becomes of each output, and JSON of the graphs of an OnnxProfile. */
  profileSession(session: Session, id: number, feeds: NativeFeeds, shapes: Float64Array, fetches: NativeTarget[] | undefined): void;
  /** Null without memory; otherwise, the result at that place is not held any more. */
  readValue(values: Values, place: number): ArrayBuffer | null;
  /** The result at that place is not held any more. */
  releaseValue(values: Values, place: number): void;
  /** Makes the graph, or null for none, and JSON of a Compilation. */
  compileSession(session: Session, id: number, names: string[], shapes: number[][]): void;
  /** Makes the JSON of an OnnxDescription. */
  describeSession(session: Session, id: number, names: string[], shapes: number[][]): void;
  destroySession(session: Session): void;
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
