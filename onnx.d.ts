import type { GraphDescription, StepDescription, TimeSpan } from './inspect.js';
import type { MLContext, MLGraph, MLGraphBuilder, MLOperand, MLOperandDataType, MLTensor } from './index.js';

/**
 * Where a model is: a path, a file URL (an object or its text), or the bytes of the file. Bytes are copied during the call,
 * at some 5 to 10 GB/s; a path costs nothing.
 */
export type OnnxSource = string | { readonly href: string; readonly protocol: string } | ArrayBuffer | SharedArrayBuffer | ArrayBufferView;

/** Paths or bytes of files with weights, by the locations that a model names. Other files are found beside it. */
export type OnnxExternalData = Readonly<Record<string, OnnxSource>>;

/** An input or output of a model. */
export interface OnnxValueInfo {
  readonly name: string;
  /** The data type in WebNN (truth values are `uint8`), or its name in ONNX where WebNN has none, as `double`. */
  readonly dataType: string;
  /** The type as ONNX writes it: `tensor(float)`, `tensor(bool)`, `seq(tensor(int64))`. */
  readonly type: string;
  /**
   * Sizes, and names of those that are free. A free dimension without a name is called `<input>_dim_<axis>`. `null` if the
   * model does not even say how many dimensions there are.
   */
  readonly shape: readonly (number | string)[] | null;
  /**
   * The same as the file has it, where a free dimension without a name is an empty string; of an output that the file does
   * not describe, as it follows from the inputs.
   */
  readonly declaredShape: readonly (number | string)[] | null;
}

/** What a model file says about itself. */
export interface OnnxMetadata {
  readonly irVersion: number;
  readonly producerName: string;
  readonly producerVersion: string;
  readonly domain: string;
  readonly modelVersion: number;
  readonly description: string;
  readonly graphName: string;
  /** Versions of the operator sets by domain; the empty name is `ai.onnx`. */
  readonly opsets: Readonly<Record<string, number>>;
  readonly properties: Readonly<Record<string, string>>;
}

/** A node that cannot be imported. */
export interface OnnxUnsupportedNode {
  /** The node's name, or that of its first output. */
  readonly name: string;
  readonly operator: string;
  /** Empty for `ai.onnx`. */
  readonly domain: string;
  /** Version of the operator set; 0 if the model names none for the domain. */
  readonly opset: number;
  readonly reason: string;
}

/**
 * What an error of these functions has as its `code`.
 *
 * - `ERR_WEBNN_MODEL_NOT_FOUND`: There is no such file, or it cannot be read.
 * - `ERR_WEBNN_MODEL_INVALID`: The file is not a sound ONNX model.
 * - `ERR_WEBNN_UNSUPPORTED_OPERATOR`: Operators, types or sizes of the model are not supported; `unsupported` lists the nodes.
 * - `ERR_WEBNN_TYPE`: An argument or value is of the wrong type.
 * - `ERR_WEBNN_UNKNOWN_OPTION`: There is no option of that name.
 * - `ERR_WEBNN_SHAPE`: A shape or size does not fit the model, or is not known.
 * - `ERR_WEBNN_INDEX`: An index in a feed is outside of the table that the model looks it up in.
 * - `ERR_WEBNN_MISSING_FEED`: An input has no feed.
 * - `ERR_WEBNN_UNKNOWN_FEED`: A feed or shape is given for something that is not an input.
 * - `ERR_WEBNN_UNKNOWN_OUTPUT`: The model has no output of that name.
 * - `ERR_WEBNN_UNKNOWN_DIMENSION`: The model has no free dimension of that name.
 * - `ERR_WEBNN_NOT_SUPPORTED`: The machine or its settings do not allow it.
 * - `ERR_WEBNN_OPERATION`: Compiling or computing failed.
 * - `ERR_WEBNN_NO_MEMORY`: There is not enough memory.
 * - `ERR_WEBNN_DESTROYED`: The model or its context was destroyed.
 * - `ERR_WEBNN_DEVICE_LOST`: The GPU was lost.
 */
export type OnnxErrorCode =
  | 'ERR_WEBNN_MODEL_NOT_FOUND'
  | 'ERR_WEBNN_MODEL_INVALID'
  | 'ERR_WEBNN_UNSUPPORTED_OPERATOR'
  | 'ERR_WEBNN_TYPE'
  | 'ERR_WEBNN_UNKNOWN_OPTION'
  | 'ERR_WEBNN_SHAPE'
  | 'ERR_WEBNN_INDEX'
  | 'ERR_WEBNN_MISSING_FEED'
  | 'ERR_WEBNN_UNKNOWN_FEED'
  | 'ERR_WEBNN_UNKNOWN_OUTPUT'
  | 'ERR_WEBNN_UNKNOWN_DIMENSION'
  | 'ERR_WEBNN_NOT_SUPPORTED'
  | 'ERR_WEBNN_OPERATION'
  | 'ERR_WEBNN_NO_MEMORY'
  | 'ERR_WEBNN_DESTROYED'
  | 'ERR_WEBNN_DEVICE_LOST';

/** Why a model cannot be used: a file that is not a sound model, or nodes that are not supported. */
export class OnnxError extends Error {
  readonly code: OnnxErrorCode;
  /** Every node that is not supported. */
  readonly unsupported: readonly OnnxUnsupportedNode[];
}

export interface OnnxLoadOptions {
  /** Where the model runs; a new one that belongs to the model when it is left out. */
  context?: MLContext | undefined;
  /**
   * What a new context computes on: `cpu`, `gpu` (an error where none can be used), or `auto`, which is a GPU if there is one.
   * `auto` by default.
   */
  device?: 'auto' | 'cpu' | 'gpu' | undefined;
  /** Number of threads of a new context, 1 to 1024; as many as the machine has cores by default. */
  numThreads?: number | undefined;
  /** Sizes of free dimensions by name. */
  freeDimensions?: Record<string, number>;
  /**
   * Whether free dimensions of one name may have different sizes in a run. Models that were written carelessly need it;
   * `false` by default, so that feeds that do not fit each other are refused.
   */
  looseDimensions?: boolean | undefined;
  /** What stands for files with weights beside the model, by the locations that it names. */
  externalData?: OnnxExternalData | undefined;
  /** Names of the values to compute, any of the main graph; the outputs of the model when it is left out. */
  outputs?: string[];
  /**
   * Computes only the last so many places of outputs along their second to last dimension, by name, or all where there are
   * fewer: `{ logits: 1 }` gives the logits of the next token, and those of the rest of a prompt are not computed.
   */
  keepLast?: Record<string, number> | undefined;
  /**
   * Values of inputs that are the same in every run, by name: they are no inputs of the loaded model any more. Needed where
   * a value decides about shapes or branches, which must be known when the model is compiled.
   */
  constants?: Record<string, Exclude<OnnxFeed, MLTensor>>;
  /** Ends the load: it rejects with the reason of the signal. */
  signal?: OnnxAbortSignal | undefined;
}

/** What of an AbortSignal is used: not every program has its type. */
export interface OnnxAbortSignal {
  readonly aborted: boolean;
  readonly reason: any;
  throwIfAborted(): void;
  addEventListener(type: 'abort', listener: () => void, options?: { once?: boolean }): void;
  removeEventListener(type: 'abort', listener: () => void): void;
}

/** A data type of WebNN, or one of ONNX that inputs and outputs can have besides: float32 or int32 is computed for them. */
export type OnnxDataType = MLOperandDataType | 'double' | 'int16' | 'uint16';

/** An output of a run. It can be fed to a model as it is. */
export interface OnnxResult<Data extends ArrayBufferView = any> {
  /**
   * The elements. Those of float16 are a Float16Array where the runtime has it, and otherwise a Uint16Array of their bits.
   * Large ones are copied into JavaScript when they are read for the first time. A result whose data nobody has read costs
   * no copy when it is fed to a model, as a cache is.
   */
  data: Data;
  shape: number[];
  dataType: OnnxDataType;
}

/**
 * The value of an input. Data without a shape fit inputs of fixed shape, and inputs whose one free dimension follows from
 * the number of elements.
 */
export type OnnxFeed =
  | MLTensor
  | ArrayBufferView
  | ArrayBuffer
  | SharedArrayBuffer
  | { data: ArrayBufferView | ArrayBuffer | SharedArrayBuffer; shape: readonly number[]; dataType?: OnnxDataType | undefined };

/** An input or output with all sizes. */
export interface OnnxDescriptor {
  readonly dataType: MLOperandDataType;
  readonly shape: readonly number[];
}

/** A model that was compiled for one set of input shapes. */
export interface OnnxSpecialization {
  /** Belongs to the model; `null` if no output has any elements. */
  readonly graph: MLGraph | null;
  readonly inputs: Readonly<Record<string, OnnxDescriptor>>;
  readonly outputs: Readonly<Record<string, OnnxDescriptor>>;
}

/** What a model was compiled to for one set of input shapes. Plain data, which JSON can hold. */
export interface OnnxDescription {
  /**
   * The graph. Of a model that is cut, that of the first stage: its outputs are what the stages behind it need, with a number
   * and a colon before their names. `null` if nothing of it has any elements.
   */
  readonly graph: GraphDescription | null;
  /** The nodes at which the model is cut, because data decide about sizes, branches or rounds; none if the graph is all of it. */
  readonly cuts: OnnxUnsupportedNode[];
  /** How many nodes of the model are left for later stages. */
  readonly nodesLeft: number;
}

/** A run with a clock. */
export interface OnnxProfile<Results = Record<string, any>> {
  /** What `run()` gives. */
  results: Results;
  /**
   * The graphs that were run: one, or those of the stages and rounds of a model that is cut. Every `start` counts from when
   * the first one began.
   */
  graphs: (TimeSpan & { steps: (StepDescription & TimeSpan)[] })[];
}

/** A model that is ready to run. */
export class OnnxModel {
  private constructor();
  readonly inputs: readonly OnnxValueInfo[];
  readonly outputs: readonly OnnxValueInfo[];
  readonly metadata: OnnxMetadata;
  readonly context: MLContext;

  /**
   * Runs the model. For shapes that it has not been run with before, it is compiled first.
   *
   * @param feeds values of all inputs, by name. Data are used as they are at the time of the call.
   * @param fetches where outputs go: an MLTensor, `'tensor'` for a new one of the model's context, or `null` for one that is
   *   not read
   * @returns by name, the MLTensor of an output, or its data with type and shape. They belong to the caller.
   * @typeParam Results what the outputs are, as in `run<{ logits: OnnxResult<Float32Array> }>(feeds)`
   */
  run<Results extends Record<string, OnnxResult | MLTensor> = Record<string, any>>(
    feeds: Record<string, OnnxFeed>,
    fetches?: Record<string, MLTensor | 'tensor' | null>,
  ): Promise<Results>;

  /**
   * Runs the model as `run()` does, and tells what that takes, step by step.
   *
   * @param feeds as for `run()`
   * @param fetches as for `run()`
   */
  profile<Results extends Record<string, OnnxResult | MLTensor> = Record<string, any>>(
    feeds: Record<string, OnnxFeed>,
    fetches?: Record<string, MLTensor | 'tensor' | null>,
  ): Promise<OnnxProfile<Results>>;

  /**
   * The graph for these input shapes. It is compiled if it is not among those that are kept. A model that is cut is no single
   * graph: then it rejects with `ERR_WEBNN_NOT_SUPPORTED`, and `run()` and `describe()` do what they do.
   *
   * @param shapes of the inputs whose free dimensions are not known from `freeDimensions`
   */
  compile(shapes?: Record<string, readonly number[]>): Promise<OnnxSpecialization>;

  /**
   * What `run()` does for these input shapes, as far as it is known before there are data: the whole model, or the first stage
   * of one that is cut. It is compiled if it is not among those that are kept.
   *
   * @param shapes as for `compile()`
   */
  describe(shapes?: Record<string, readonly number[]>): Promise<OnnxDescription>;

  /**
   * Frees everything; runs that have begun end as they should, but for those of a model
   * that is cut, which end between two of its graphs with `ERR_WEBNN_DESTROYED`. Where the runtime has `Symbol.dispose` and
   * `Symbol.asyncDispose`, `using` and `await using` call it.
   */
  destroy(): void;
}

/**
 * Loads a model, and compiles it if the shapes of its inputs are known. Everything but the copy of bytes is done on
 * background threads.
 *
 * @throws {OnnxError} if the file is no sound model, or with all nodes that are not supported
 */
export function loadModel(source: OnnxSource, options?: OnnxLoadOptions): Promise<OnnxModel>;

/**
 * Appends a model to a graph under construction. If it fails, the builder is as it was before.
 *
 * @param bindings operands in place of inputs, by name. Other inputs become inputs of the graph.
 * @returns the outputs by name
 */
export function importModel(
  builder: MLGraphBuilder,
  source: OnnxSource,
  bindings?: Record<string, MLOperand>,
  options?: OnnxImportOptions,
): Record<string, MLOperand>;

/** What of a model is imported, and where its weights are. */
export interface OnnxImportOptions {
  /** Sizes of free dimensions by name. */
  freeDimensions?: Record<string, number>;
  /** Names of the values to compute; the outputs of the model when it is left out. */
  outputs?: string[];
  /** What stands for files with weights beside the model, by the locations that it names. */
  externalData?: OnnxExternalData | undefined;
}

/** What can be known of a model without building it. */
export interface OnnxInspection {
  readonly inputs: OnnxValueInfo[];
  readonly outputs: OnnxValueInfo[];
  readonly metadata: OnnxMetadata;
  /** Numbers of nodes by operator, with its domain in front if it is not `ai.onnx`. */
  readonly operators: Record<string, number>;
  /** Elements of all weights. */
  readonly parameters: number;
  /** Bytes of all weights in the file. */
  readonly parameterBytes: number;
  /** What an import refuses, whatever the free dimensions whose size is not known. */
  readonly unsupported: OnnxUnsupportedNode[];
  /**
   * Where data decide about sizes, branches or rounds: `loadModel()` cuts the model there, `importModel()` refuses it. What is
   * cut behind these nodes is known when the model runs.
   */
  readonly cuts: OnnxUnsupportedNode[];
}

/** Tells about a model, also one that is not supported. */
export function inspectModel(source: OnnxSource, options?: Omit<OnnxImportOptions, 'outputs'>): OnnxInspection;

/** The shapes of a model's inputs, as far as they are known. */
export interface OnnxInputShapes {
  /** By input name: sizes, and names of those that are not known; `null` where not even their number is. */
  readonly shapes: Record<string, (number | string)[] | null>;
  /** The sizes of free dimensions that are known, as `loadModel()` takes them. */
  readonly freeDimensions: Record<string, number>;
}

/**
 * Completes the shapes of a model's inputs from what is known of some: dimensions of one name have one size.
 *
 * @param inputs of an OnnxModel or OnnxInspection
 * @param known sizes of free dimensions by name; by input name, the `shapes` of values, and the numbers of `elements` of values
 *   that have no shape, from which one size that is not known follows
 * @throws {TypeError} `ERR_WEBNN_SHAPE` if they do not fit the inputs or each other, `ERR_WEBNN_UNKNOWN_FEED` for a name that
 *   no input has
 */
export function inputShapes(
  inputs: readonly Pick<OnnxValueInfo, 'name' | 'shape'>[],
  known?: {
    freeDimensions?: Record<string, number> | undefined;
    shapes?: Record<string, readonly number[]> | undefined;
    elements?: Record<string, number> | undefined;
  },
): OnnxInputShapes;

/** The operators that are translated, with what of them is not. */
export function supportedOperators(): { domain: string; operator: string; notes: string }[];
