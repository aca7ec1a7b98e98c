// Types shared by the modules of this folder.

import type { Described, Descriptor } from '../webidl.js';
import type { MLComputePolicy, MLContextExtension, MLContextOptions, MLDimension, MLOperandDataType, MLTensorDescriptor } from '../index.js';
import type { OnnxValueInfo } from '../onnx.js';

/** The states behind objects of the interfaces. */
export type BuilderState = InstanceType<typeof import('./builder.js').Builder>;
export type ContextState = InstanceType<typeof import('./context.js').Context>;
export type GraphState = InstanceType<typeof import('./graph.js').Graph>;
export type OperandState = InstanceType<typeof import('./operand.js').Operand>;
export type TensorState = InstanceType<typeof import('./tensor.js').Tensor>;

/** What holds results of a run on the native side, and a group of results. */
export type HeldValues = InstanceType<typeof import('./onnx/unread.js').HeldValues>;

/** A WeakCollection, see weak-collection.js. */
export interface WeakMembers<T extends object> {
  add(member: T): void;
  drain(): T[];
}

// Public: other packages implement interfaces as well.
export type { Converter, Described, Descriptor, DictionaryMember, Slots } from '../webidl.js';

export interface NamedShape extends Described {
  name: string;
}

export interface NamedDescriptor extends Descriptor {
  name: string;
}

/** Converted dictionaries of the IDL that JavaScript itself reads; those of operators are only passed on. */
export interface Dictionaries {
  MLContextOptions: Required<Pick<MLContextOptions, 'powerPreference' | 'accelerated'>> &
    Partial<{ cache: CacheOptions; computePolicy: MLComputePolicy; extensions: MLContextExtension[]; numThreads: number }>;
  MLOperandDescriptor: { dataType: MLOperandDataType; shape: number[] };
  MLTensorDescriptor: { dataType: MLOperandDataType; shape: number[] } & Required<Pick<MLTensorDescriptor, 'readable' | 'writable'>>;
}

declare const kind: unique symbol;

/** A native object. */
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
type Stop = Handle<'stop'>;
/** Unread results that share a native handle: `HeldValues` on both sides. */
type Values = Handle<'values'>;

/**
 * The outputs of a run. An ArrayBuffer of `u32` has two numbers for each output, how it is delivered (the numbers at
 * the top of results.js) and the index of its data type, and for a whole one its rank and sizes. Then come the held
 * values of the outputs that share a handle, by the indices of the outputs, and a value for each output that is whole
 * or alone: an ArrayBuffer of the realm that loaded the binary, a new tensor, or a held value.
 */
export type Made = [numbers: ArrayBuffer, shared: Values | undefined, ...values: (ArrayBuffer | Tensor | Values | string)[]];

/** All texts as one string, and their lengths in UTF-16 code units. */
export type NativeTexts = [all: string, lengths: Uint32Array];

/** Tensors, bytes, texts, held values, and lists of bytes or texts with shapes; null for an optional. */
export type NativeFeeds = (Tensor | Values | Uint8Array | NativeTexts | (Uint8Array | NativeTexts | number[])[] | null)[];
/** A tensor, true for a new tensor, null for an output that is dropped, undefined for one that is returned as data. */
export type NativeTarget = Tensor | true | null | undefined;

/** What a native function returns for a model that cannot be used. */
export interface Refusal {
  /** A code from the table of error codes. */
  code: string;
  message: string;
  /** JSON of a list of OnnxUnsupportedNode. */
  unsupported: string;
}

/** An error of the API, with its code and the address that explains it if the table of error codes has one for it. */
export type CodedError = Error & { code?: string; help?: string };

/** Sizes of free dimensions, in the order of their names. */
export interface FreeDimensions {
  names: string[];
  sizes: number[];
}

/** Replaces an external file of a model by another path, or by bytes. */
export interface ExternalFile {
  location: string;
  source: string | Uint8Array;
}

/** Numbers of positions by output name. */
export interface KeptCounts {
  names: string[];
  counts: number[];
}

/** Takes the warning about dimensions of one name that have several sizes, which a session gives once. */
export type Warn = (message: string) => void;

/** Settings for all runs of a session. */
export interface SessionOptions {
  dimensions: FreeDimensions;
  strictDimensions?: boolean;
  /** If absent, the outputs of the model. */
  outputs?: string[];
  keepLast: KeptCounts;
  constants: { name: string; shape?: number[]; bytes: Uint8Array }[];
  /** Milliseconds. */
  idle?: number;
  /** If absent, packed weights stay in memory. */
  cache?: CacheOptions;
}

/** How packed weights are kept on disk. */
export interface CacheOptions {
  /** If absent, the user's. */
  folder?: string;
  /** Whether bytes are compared with their checksums before they are used. */
  verify: boolean;
  /** Whether the model is recognized by its contents, not by what the system says of its file. */
  byContents: boolean;
}

/**
 * An input of a model, and what is known of its value: its shape, or the number of elements of a shape to infer.
 */
export interface GivenInput {
  name: string;
  /** As the model declares it. */
  shape?: readonly (number | string)[];
  given?: readonly number[];
  elements?: number;
}

/** The shapes of inputs, in order: known sizes, names of unknown ones; null where nothing is known. */
export interface KnownShapes {
  shapes: ((number | string)[] | null)[];
  freeDimensions: Record<string, number>;
}

/** The inputs and outputs of a session, in native order. */
export interface Signature {
  inputs: OnnxValueInfo[];
  optionalInputs: OnnxValueInfo[];
  outputs: OnnxValueInfo[];
}

/** A specialization of a session: its number, its inputs and outputs, and the ones that its graph reads and writes. */
export interface Compilation {
  id: number;
  inputs: NamedDescriptor[];
  outputs: NamedDescriptor[];
  reads: NamedDescriptor[];
  writes: NamedDescriptor[];
}

/** Options of an import: `inputs` are the names of the inputs that the `operands` replace. */
export interface ImportOptions {
  dimensions: FreeDimensions;
  strictDimensions: boolean;
  outputs?: string[];
  inputs: string[];
  operands: number[];
}

/**
 * The functions of the native binary. Ids come from `Completions`; data types are indices into `DATA_TYPES`. The result
 * of a request comes with its completion.
 */
export interface Binding {
  version(): string;
  /** JSON of the table of error codes. */
  errorCodes(): string;
  /**
   * Codes and messages are empty if all requests succeeded. `details` has the list of results of each request, or the
   * JSON of the unsupported nodes of a refused model.
   */
  initialize(onComplete: (ids: number[], codes: string[], messages: string[], details: unknown[]) => void): Environment;
  reportedBytes(environment: Environment): number;
  createContext(environment: Environment, id: number, lostId: number, problemId: number, options: NativeContextOptions): Context;
  destroyContext(context: Context): void;
  loseDevice(context: Context): void;
  beforeExit(): void;
  contextDevice(context: Context): 'cpu' | 'gpu';
  /** What an open context does not use of a GPU because its driver fails. */
  contextWarning(context: Context): string | null;
  describeContext(context: Context): string;
  /** JSON of an MLOpSupportLimits. */
  supportLimits(context: Context, int4: boolean): string;
  createTensor(context: Context, id: number, dataType: number, shape: readonly number[]): Tensor;
  createConstantTensor(context: Context, id: number, dataType: number, shape: readonly number[], bytes: Uint8Array): Tensor;
  readTensor(context: Context, id: number, tensor: Tensor): Snapshot;
  takeRead(read: Snapshot, into: Uint8Array): void;
  writeTensor(context: Context, tensor: Tensor, bytes: Uint8Array): void;
  destroyTensor(tensor: Tensor): void;
  createBuilder(context: Context, dynamic: boolean): Builder;
  copyBuilder(builder: Builder): Builder;
  input(builder: Builder, name: string, dataType: number, shape: readonly number[]): number;
  constant(builder: Builder, dataType: number, shape: readonly number[], bytes: Uint8Array): number;
  constantScalar(builder: Builder, dataType: number, value: number | bigint): number;
  constantTensor(builder: Builder, tensor: Tensor): number;
  /** For each output: its id, the index of its data type, and its shape. */
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
  profile(context: Context, id: number, graph: Graph, inputs: Tensor[], outputs: Tensor[], warmup: number, runs: number): Snapshot;
  destroyGraph(graph: Graph): void;
  dynamicInput(builder: Builder, name: string, dataType: number, shape: readonly MLDimension[]): number;
  dynamicBuild(context: Context, builder: Builder, names: string[], operands: number[]): { graph: DynamicGraph; inputs: string[] };
  dynamicShapes(graph: DynamicGraph, inputs: number[][]): number[][];
  /** `donations` are pairs of an output and the input whose memory it takes over. */
  dynamicDispatch(context: Context, graph: DynamicGraph, inputs: Tensor[], outputs: Tensor[], donations: number[][]): void;
  /** JSON of a GraphDescription; null before the first dispatch has begun. */
  describeDynamicGraph(graph: DynamicGraph): string | null;
  destroyDynamicGraph(graph: DynamicGraph): void;
  /**
   * Completes with the model, and JSON of its inputs, outputs and metadata. Bytes are copied now, or in the background
   * if they are transferred: their buffers must not be resized or detached any more.
   */
  openModel(environment: Environment, id: number, source: string | Uint8Array, files: ExternalFile[], transfers: boolean): void;
  readModel(environment: Environment, source: string | Uint8Array, files: ExternalFile[], operation: string): Model | Refusal;
  /** JSON of an OnnxInspection. */
  inspectModel(model: Model, dimensions: FreeDimensions): string | Refusal;
  /** JSON of KnownShapes. */
  inputShapes(inputs: GivenInput[], dimensions: FreeDimensions, strict: boolean): string;
  /** JSON of the added inputs and outputs; `operand` is null for those without elements. */
  importModel(builder: Builder, model: Model, options: ImportOptions): string | Refusal;
  /** JSON of the list that `supportedOperators` returns. */
  supportedOnnxOperators(): string;
  /** JSON of the list that `unsupportedOperators` returns. */
  absentOnnxOperators(): string;
  newStop(): Stop;
  /** Ends what was begun with `stop`. */
  stop(stop: Stop): void;
  /** Completes with the session, JSON of its Signature, and why packed weights are not kept on disk, if they should be. */
  openSession(context: Context, model: Model, id: number, options: SessionOptions, stop: Stop): void;
  /** A session of the same model in which these optional inputs are fed, and JSON of its Signature. */
  sessionWithInputs(session: Session, names: string[]): { handle: Session; signature: string };
  /** JSON of an OnnxMemory. */
  sessionMemory(session: Session): string;
  /** Completes when what was packed is on disk. */
  whenSaved(environment: Environment, id: number, session: Session): void;
  /** Completes with JSON of a CacheListing. */
  listCache(environment: Environment, id: number, folder: string | undefined): void;
  /** The same, with what was removed. */
  pruneCache(environment: Environment, id: number, folder: string | undefined, bytes: number | undefined): void;
  /** The same, with what is damaged. */
  verifyCache(environment: Environment, id: number, folder: string | undefined): void;
  /** Throws for names that the session does not have. */
  checkNames(session: Session, feeds: string[], fetches: string[]): void;
  /**
   * Runs the session. `numbers` say what the feeds are for, see feeds.js. Outputs at the indices `grouped` share a
   * handle, as caches do that grow. Returns the outputs if `mayRunHere` is true and the run is quick; otherwise returns
   * null, and completes with the outputs later. A quick run writes results into what `makeRoom` makes.
   */
  runSession(
    session: Session,
    id: number,
    feeds: NativeFeeds,
    numbers: Float64Array,
    fetches: NativeTarget[] | undefined,
    mayRunHere: boolean,
    makeRoom: ((bytes: number) => Uint8Array) | undefined,
    warn: Warn | undefined,
    grouped: Uint32Array,
  ): Made | null;
  /** Completes with the outputs, and JSON of the other fields of an OnnxProfile. */
  profileSession(
    session: Session,
    id: number,
    feeds: NativeFeeds,
    numbers: Float64Array,
    fetches: NativeTarget[] | undefined,
    warn: Warn | undefined,
    grouped: Uint32Array,
  ): void;
  /** The shape of the result at that index. */
  valueShape(values: Values, place: number): number[];
  /** Copies the result at that index. */
  readValue(values: Values, place: number, into: Uint8Array): void;
  /** Releases the result at that index. */
  releaseValue(values: Values, place: number): void;
  /** Completes with the graph, or null if there is none, and JSON of a Compilation. */
  compileSession(session: Session, id: number, names: string[], shapes: number[][], warn?: Warn): void;
  /** Completes with the JSON of an OnnxDescription. */
  describeSession(session: Session, id: number, names: string[], shapes: number[][], warn?: Warn): void;
  /** Completes with nothing when the session and its forms have freed what they can make again. */
  releaseSession(session: Session, id: number): void;
  destroySession(session: Session): void;
  /** JSON of a SystemInfo. */
  systemInfo(): string;
}

/** Options of the native `createContext()`; 0 threads lets it choose. */
export interface NativeContextOptions {
  threads: number;
  powerPreference: string;
  accelerated: boolean;
  /** JSON that describes the adapter of a GPUDevice. */
  gpuDevice?: string;
  cache?: CacheOptions;
}
