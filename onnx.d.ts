import type { GraphDescription, StepDescription, TimeSpan } from './inspect.js';
import type { MLContext, MLGraph, MLGraphBuilder, MLOperand, MLOperandDataType, MLTensor } from './index.js';

/**
 * The source of a model: a path, a file URL (as an object or a string), or the bytes of the file. Bytes are copied
 * during the call, at 5 to 10 GB/s, unless `transfer` gives them up; a path costs nothing.
 */
export type OnnxSource = string | { readonly href: string; readonly protocol: string } | ArrayBuffer | SharedArrayBuffer | ArrayBufferView;

/**
 * Paths or bytes of external weight files, keyed by the locations that a model names. Other files are read from the
 * model's folder.
 */
export type OnnxExternalData = Readonly<Record<string, OnnxSource>>;

/** An input or output of a model. */
export interface OnnxValueInfo {
  readonly name: string;
  /**
   * The WebNN data type (`uint8` for booleans), or the ONNX name of a type that WebNN does not have, such as `double`.
   */
  readonly dataType: string;
  /** The type as ONNX writes it: `tensor(float)`, `tensor(bool)`, `seq(tensor(int64))`. */
  readonly type: string;
  /**
   * Sizes, and names of free dimensions. A free dimension without a name, or with a placeholder such as `?` or `None`,
   * is called `<input>_dim_<axis>`. `null` if the model does not declare the number of dimensions.
   */
  readonly shape: readonly (number | string)[] | null;
  /**
   * The shape as the file declares it, placeholders included, with an empty string for a free dimension without a name;
   * inferred from the inputs for an output that the file does not describe.
   */
  readonly declaredShape: readonly (number | string)[] | null;
  /** What a sequence or an optional holds: tensors of one type. */
  readonly items?: { readonly dataType: string; readonly isSequence: boolean; readonly isOptional: boolean } | undefined;
  /** The labels in the maps of an output that ZipMap makes; only those of a loaded model. */
  readonly labels?: readonly string[] | undefined;
}

/** Metadata of a model file. */
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
 * The `code` of an error from these functions.
 *
 * - `ERR_WEBNN_MODEL_NOT_FOUND`: There is no such file, or it cannot be read.
 * - `ERR_WEBNN_MODEL_INVALID`: The file is not a valid ONNX model.
 * - `ERR_WEBNN_UNSUPPORTED_OPERATOR`: Operators, types or sizes of the model are not supported; `unsupported` lists the
 *   nodes.
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

/** The error for a model that cannot be used: an invalid file, or unsupported nodes. */
export class OnnxError extends Error {
  readonly code: OnnxErrorCode;
  /** The address of the page that explains the code. Every error with a `code` has it. */
  readonly help: string;
  /** All unsupported nodes. */
  readonly unsupported: readonly OnnxUnsupportedNode[];
}

export interface OnnxLoadOptions {
  /** The context in which the model runs; by default a new one that belongs to the model. */
  context?: MLContext | undefined;
  /**
   * The device of a new context: `cpu`, `gpu` (an error if no GPU can be used), or `auto`, the default: today the CPU,
   * until GPUs are checked before they are trusted.
   */
  device?: 'auto' | 'cpu' | 'gpu' | undefined;
  /** Number of threads of a new context, 1 to 1024; by default as many as the machine has cores. */
  numThreads?: number | undefined;
  /** Sizes of free dimensions by name. */
  freeDimensions?: Record<string, number>;
  /**
   * What happens in a run where dimensions of one name have different sizes. By default, the model runs, as with
   * onnxruntime, and there is one warning (`WARN_WEBNN_DIMENSIONS`). `true` refuses such feeds. `false` ends the
   * warning, and also allows caches whose length does not add up with that of the mask.
   */
  strictDimensions?: boolean | undefined;
  /** Paths or bytes of external weight files, keyed by the locations that the model names. */
  externalData?: OnnxExternalData | undefined;
  /**
   * Whether the bytes of the model and of `externalData` are given up. They are then copied on a background thread. An
   * ArrayBuffer is detached, as by `structuredClone()` with `transfer`, also if the model is refused; a
   * SharedArrayBuffer must not be written until the promise settles. The memory of Node's small Buffers
   * (`Buffer.from()`) cannot be given up.
   */
  transfer?: boolean | undefined;
  /** Names of the values to compute, from anywhere in the main graph; by default the outputs of the model. */
  outputs?: string[];
  /**
   * By output name, how many of the last positions along the second to last dimension to compute; all if there are
   * fewer. `{ logits: 1 }` computes the logits of the next token only, not those of the whole prompt.
   */
  keepLast?: Record<string, number> | undefined;
  /**
   * Values of inputs that are the same in every run, by name. The loaded model no longer has these inputs. A value that
   * decides shapes or branches is then known when the model is compiled.
   */
  constants?: Record<string, Exclude<OnnxFeed, MLTensor>>;
  /**
   * Keeps packed weights on disk, where later loads of the same model map them: these take a fraction of the time, and all
   * processes share the memory. `true` is the user's cache folder (`WEBNN_CACHE_DIR`), a string another folder, which
   * nobody else may be able to write. The first load fills it in the background; a folder that cannot be used is a warning
   * (`WARN_WEBNN_CACHE`). Never let others cut the files in it: reading a mapped page that is gone ends the process.
   */
  cache?: boolean | string | OnnxCacheOptions | undefined;
  /**
   * After how many milliseconds without a run the model frees what `release()` frees, 1 to 4294967295; by default never.
   * The next run makes it again, which takes as long as compiling. No timer runs while the model is used: a single thread
   * of the process sleeps until the time may be over.
   */
  idle?: number | undefined;
  /** Cancels the load, which rejects with the signal's reason. */
  signal?: OnnxAbortSignal | undefined;
}

/** How packed weights are kept on disk. */
export interface OnnxCacheOptions {
  /** The folder; by default the user's. */
  folder?: string | undefined;
  /**
   * Whether the bytes are compared with their checksums before they are used, which reads all of them; by default not. What is
   * damaged is packed again, and replaced in the file. Weights that another model of this process has mapped already are not
   * compared again.
   */
  verify?: boolean | undefined;
  /**
   * Whether the model is recognized by its contents, which are read for that, and not by what the system says of its file: a
   * folder that is filled in an image build then serves in its containers, without this option.
   */
  byContents?: boolean | undefined;
}

/** Where the weights of a model are, in bytes. */
export interface OnnxMemory {
  /** In memory that only this model uses, on the CPU or a device. */
  readonly private: number;
  /** In memory that other models or graphs of the process use as well. */
  readonly shared: number;
  /** In a file that is mapped: all processes share the memory. */
  readonly mapped: number;
  /** The file that packed weights are kept in, if they are. It may still be being written. */
  readonly store: string | null;
  /** Why they are not kept there, if they are not: the disk is full, or the model file has just changed. */
  readonly problem: string | null;
}

/** The used part of AbortSignal, for programs without its type. */
export interface OnnxAbortSignal {
  readonly aborted: boolean;
  readonly reason: any;
  throwIfAborted(): void;
  addEventListener(type: 'abort', listener: () => void, options?: { once?: boolean }): void;
  removeEventListener(type: 'abort', listener: () => void): void;
}

/**
 * A WebNN data type, or another ONNX type of inputs and outputs, which is computed as float32 or int32. bfloat16 is passed as a
 * Uint16Array of the bits, `string` as an array of strings. `map` is the result of ZipMap: an array with an object for each
 * row, which has the numbers by their labels.
 */
export type OnnxDataType = MLOperandDataType | 'double' | 'int16' | 'uint16' | 'bfloat16' | 'string' | 'map';

/** An output of a run. It can be fed to a model unchanged. */
export interface OnnxResult<Data extends ArrayBufferView | string[] | Record<string, number | bigint>[] = any> {
  /**
   * The elements. float16 is a Float16Array if the runtime has one, otherwise a Uint16Array of the bits. Large data are
   * copied into JavaScript when they are first read. A result whose data nobody has read, such as a cache, is fed to a
   * model without a copy.
   */
  data: Data;
  shape: number[];
  dataType: OnnxDataType;
}

declare const group: unique symbol;

/**
 * The caches among the results of a run, which `feeds.past` feeds to the next one as a whole:
 * `{ input_ids, past: results.present }` stands for one property per cache, takes less time on the JavaScript thread and
 * leaves half the garbage, whether or not the caches grow. The members are those outputs that have the name of an input
 * of the fed model, with these differences:
 *
 * - `present`, or `present_key_values`, stands for `past`, `past_key_value` or `past_key_values` (`present.0.key` is
 *   fed to `past_key_values.0.key`, `present_1` to `past_1`);
 * - within one model, the name of an output may have a mark (`new_cache`, `cache_next`, `hn`) where types and ranks are
 *   equal: the marks are `new`, `next`, `updated`, `out` and `output` in front or at the end, and a final `n` or `N`.
 *
 * Of several such outputs for one input, the first one is the member. Of several such inputs for one output, all but one
 * must be fed by their own names, otherwise a run rejects with `ERR_WEBNN_TYPE`.
 *
 * An input that is also fed by its own name takes that feed. A group follows its results: it feeds results that have been
 * read, changed or replaced as they are, and none for those that have been deleted or were not returned.
 *
 * A group stays in its thread: cloning it throws a DataCloneError. It is deeply equal to itself only.
 */
export interface OnnxGroup {
  readonly [group]: true;
}

/**
 * What `run()` and `profile()` take: a value per input, by name; `past` is for a group unless an input has this name. A
 * sequence is an array of values, of one dimension where they have no shape; an optional can be null. So are results.
 */
export type OnnxFeeds = Record<string, OnnxFeed | OnnxGroup | readonly Exclude<OnnxFeed, MLTensor>[] | null>;

/**
 * The value of an input. Data may come without a shape if the input's shape is fixed, or if its only free dimension
 * follows from the number of elements.
 */
export type OnnxFeed =
  | MLTensor
  | ArrayBufferView
  | ArrayBuffer
  | SharedArrayBuffer
  | readonly string[]
  | {
      data: ArrayBufferView | ArrayBuffer | SharedArrayBuffer | readonly string[];
      shape: readonly number[];
      dataType?: OnnxDataType | undefined;
      /**
       * Whether the call gives up the data, as `postMessage()` does with its list of transfers: their ArrayBuffer is
       * detached when the call returns, also if the run fails, and large data are copied outside of the JavaScript
       * thread. A SharedArrayBuffer stays with the caller.
       */
      transfer?: boolean | undefined;
    };

/** Data type and fixed shape of an input or output. */
export interface OnnxDescriptor {
  readonly dataType: MLOperandDataType;
  readonly shape: readonly number[];
}

/** A model compiled for one set of input shapes. */
export interface OnnxSpecialization {
  /**
   * Belongs to the model; `null` if no output has any elements. Dispatch needs tensors, which doubles cannot be in: the
   * graph of a model with inputs or outputs that are doubles only runs as the model.
   */
  readonly graph: MLGraph | null;
  readonly inputs: Readonly<Record<string, OnnxDescriptor>>;
  readonly outputs: Readonly<Record<string, OnnxDescriptor>>;
}

/** Describes a model as compiled for one set of input shapes. Plain data that JSON can hold. */
export interface OnnxDescription {
  /**
   * The graph; for a model that is cut, that of the first stage, whose outputs are the values that later stages need,
   * with a number and a colon before their names. `null` if none of its values has any elements.
   */
  readonly graph: GraphDescription | null;
  /**
   * The nodes at which the model is cut: data decide sizes, branches or loop counts, or loops run round by round. Empty
   * if the graph is the whole model.
   */
  readonly cuts: OnnxUnsupportedNode[];
  /** Number of nodes left for later stages. */
  readonly nodesLeft: number;
}

/** A run with measured times. */
export interface OnnxProfile<Results = Record<string, any>> {
  /** The result of `run()`. */
  results: Results;
  /**
   * The graphs that ran: one, or those of the stages and loop iterations of a model that is cut. Every `start` counts
   * from the start of the first graph. Of a long loop, only the first graphs are listed, with some 100,000 steps.
   */
  graphs: (TimeSpan & { steps: (StepDescription & TimeSpan)[] })[];
  /** Number of graphs that ran after the listed ones. */
  omittedGraphs: number;
}

/**
 * What a model computes in float32 although its file says double, because an operator has no float64: integers above 2^24
 * and digits behind the seventh are lost. Numbers that are known when the model is loaded do not count.
 */
export interface OnnxAsFloat32 {
  /** Names of inputs that such nodes read. */
  readonly inputs: readonly string[];
  /** Names of outputs that such nodes compute. */
  readonly outputs: readonly string[];
  /** Names of the first nodes that compute doubles in float32, or of their first outputs. */
  readonly nodes: readonly string[];
  /** The number of all such nodes. */
  readonly nodeCount: number;
}

/** A model that is ready to run. */
export class OnnxModel {
  private constructor();
  readonly inputs: readonly OnnxValueInfo[];
  /** Further inputs, which may be fed, or left out: then they have the values of the file. */
  readonly optionalInputs: readonly OnnxValueInfo[];
  readonly outputs: readonly OnnxValueInfo[];
  readonly metadata: OnnxMetadata;
  /** What is computed in float32 although the file says double. `loadModel()` warns about it. */
  readonly computedAsFloat32: OnnxAsFloat32;
  readonly context: MLContext;

  /**
   * Runs the model, after compiling it for shapes that are new.
   *
   * @param feeds values of all inputs, by name, and of any of `optionalInputs`; in place of those of caches, `past`
   *   with the group of an earlier run. Data are read during the call, unless `transfer` gives them up.
   * @param fetches destinations of outputs, by name: an MLTensor, `'tensor'` for a new one in the model's context, or
   *   `null` to drop the output
   * @returns by name, the MLTensor of an output, or its data with type and shape. All belong to the caller. If there
   *   are caches among them, the property `present`, which is not enumerable, has them as a group, unless an output has
   *   this name.
   * @typeParam Results types of the outputs, as in `run<{ logits: OnnxResult<Float32Array> }>(feeds)`
   */
  run<Results extends Record<string, OnnxResult | OnnxResult[] | MLTensor | OnnxGroup | null> = Record<string, any>>(
    feeds: OnnxFeeds,
    fetches?: Record<string, MLTensor | 'tensor' | null>,
  ): Promise<Results>;

  /**
   * Runs the model like `run()`, and measures the time of each step.
   *
   * @param feeds as for `run()`
   * @param fetches as for `run()`
   */
  profile<Results extends Record<string, OnnxResult | OnnxResult[] | MLTensor | OnnxGroup | null> = Record<string, any>>(
    feeds: OnnxFeeds,
    fetches?: Record<string, MLTensor | 'tensor' | null>,
  ): Promise<OnnxProfile<Results>>;

  /**
   * Returns the graph for these input shapes, compiled now unless it is still kept; all rounds of loops are part of it.
   * Rejects with `ERR_WEBNN_NOT_SUPPORTED` for a model that is cut because of its data, or in which elements of inputs
   * decide, and which has no single graph; `run()` and `describe()` still work.
   *
   * @param shapes of the inputs whose free dimensions are not known from `freeDimensions`
   */
  compile(shapes?: Record<string, readonly number[]>): Promise<OnnxSpecialization>;

  /**
   * Describes `run()` for these input shapes, as far as it is known before there are data: the whole model, or the
   * first stage of a model that is cut. Compiles it unless it is still kept.
   *
   * @param shapes as for `compile()`
   */
  describe(shapes?: Record<string, readonly number[]>): Promise<OnnxDescription>;

  /**
   * Where the weights are now; nowhere once the model is destroyed. Those of input shapes that have not been run yet are not
   * counted.
   */
  readonly memory: OnnxMemory;

  /**
   * Settles when what was packed so far is on disk, at once without the option `cache`. Nothing needs to wait for it: runs go
   * on meanwhile, and a process that ends waits some seconds.
   *
   * Rejects with `ERR_WEBNN_OPERATION` if it is not kept, for example because the disk is full, or because a file of the model
   * has just changed.
   */
  saved(): Promise<void>;

  /**
   * Frees what the next run makes again, after all runs that have begun: plans, memory for intermediate results, and
   * memory of results that were given back. Packed weights stay, and so do graphs from `compile()` that you hold. The
   * next run compiles, and returns the same numbers.
   */
  release(): Promise<void>;

  /**
   * Frees everything. Runs that have begun finish normally, except those that need more than another 50 ms to import
   * the model, to compute an operator on the host, or to reach the next graph of a model that is cut: they end with
   * `ERR_WEBNN_DESTROYED`. If the runtime has `Symbol.dispose` and `Symbol.asyncDispose`, `using` and `await using`
   * call this method.
   */
  destroy(): void;
}

/**
 * Loads a model, and compiles it if the shapes of its inputs are known and none of them decides about the graph.
 * Everything except copying bytes that are not transferred happens on background threads.
 *
 * @throws {OnnxError} if the file is not a valid model, or has unsupported nodes, which it lists
 */
export function loadModel(source: OnnxSource, options?: OnnxLoadOptions): Promise<OnnxModel>;

/**
 * Appends a model to a graph under construction. If it fails, the builder is unchanged.
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

/** Selects the part of a model to import, and its weight files. */
export interface OnnxImportOptions {
  /** Sizes of free dimensions by name. */
  freeDimensions?: Record<string, number>;
  /** Whether to refuse operands with different sizes for dimensions of one name; by default `false`. */
  strictDimensions?: boolean | undefined;
  /** Names of the values to compute; by default the outputs of the model. */
  outputs?: string[];
  /** Paths or bytes of external weight files, keyed by the locations that the model names. */
  externalData?: OnnxExternalData | undefined;
}

/** Facts about a model that are known without building it. */
export interface OnnxInspection {
  readonly inputs: OnnxValueInfo[];
  /** Inputs with a default in the file: an initializer of the same name, which feeds may replace. */
  readonly optionalInputs: OnnxValueInfo[];
  readonly outputs: OnnxValueInfo[];
  readonly metadata: OnnxMetadata;
  /** What is computed in float32 although the file says double. */
  readonly computedAsFloat32: OnnxAsFloat32;
  /** Number of nodes by operator; its domain comes first if it is not `ai.onnx`. */
  readonly operators: Record<string, number>;
  /** Number of elements of all weights. */
  readonly parameters: number;
  /** Bytes of all weights in the file. */
  readonly parameterBytes: number;
  /** Nodes that an import refuses for any sizes of the free dimensions. */
  readonly unsupported: OnnxUnsupportedNode[];
  /**
   * The nodes at which `loadModel()` cuts the model: data decide sizes, branches or loop counts, so that `importModel()`
   * refuses the model; or loops run round by round, because their rounds are many, or as many as a free dimension says:
   * `importModel()`, which knows all sizes, unrolls them. Cuts after these nodes are known only when the model runs.
   */
  readonly cuts: OnnxUnsupportedNode[];
}

/** Describes a model, even one that is not supported. */
export function inspectModel(source: OnnxSource, options?: Omit<OnnxImportOptions, 'outputs' | 'strictDimensions'>): OnnxInspection;

/** The shapes of a model's inputs, as far as they are known. */
export interface OnnxInputShapes {
  /** By input name: sizes, and names of unknown sizes; `null` if even the number of dimensions is unknown. */
  readonly shapes: Record<string, (number | string)[] | null>;
  /** The known sizes of free dimensions, as `loadModel()` takes them; without those of names with several sizes. */
  readonly freeDimensions: Record<string, number>;
}

/**
 * Completes the shapes of a model's inputs from known ones: dimensions with the same name have the same size.
 *
 * @param inputs of an OnnxModel or OnnxInspection
 * @param known sizes of free dimensions by name; by input name, the `shapes` of values, and the numbers of `elements`
 *   of values without a shape, which determine one unknown size
 * @throws {TypeError} `ERR_WEBNN_SHAPE` if they do not fit the inputs or each other, `ERR_WEBNN_UNKNOWN_FEED` for a
 *   name that is not an input
 */
export function inputShapes(
  inputs: readonly Pick<OnnxValueInfo, 'name' | 'shape'>[],
  known?: {
    freeDimensions?: Record<string, number> | undefined;
    /** With `false`, dimensions of one name may have different sizes. */
    strictDimensions?: boolean | undefined;
    shapes?: Record<string, readonly number[]> | undefined;
    elements?: Record<string, number> | undefined;
  },
): OnnxInputShapes;

/**
 * Returns what the names of a cache's input and output have in common: `.0.key` for `past_key_values.0.key` and for
 * `present.0.key`. A group feeds an output to the input with the same key, see {@link OnnxGroup}.
 *
 * @returns undefined for a name without the prefix of such an input or output
 */
export function cacheKey(name: string): string | undefined;

/** Returns the supported operators, with notes about unsupported uses. */
export function supportedOperators(): { domain: string; operator: string; notes: string }[];

/** Returns the operators of ONNX and onnxruntime that are not supported, with the reasons. The domain of ONNX is empty. */
export function unsupportedOperators(): { domain: string; operator: string; reason: string }[];

// Without this, what has no `export` would be exported, too.
export {};
