// Inspection: compiled graphs, times of their steps, and the hardware and settings of this process. An addition of
// webnn-node to the draft.

import type { MLContext, MLGraph, MLOperandDataType, MLTensor } from './index.js';

/** A value that flows through a graph. */
export interface ListedValue {
  /** The same number in the source and in the compiled graph. */
  id: number;
  dataType: MLOperandDataType;
  shape: number[];
  /** Bound at each dispatch, known since the graph was built, or computed by a node. */
  kind: 'input' | 'constant' | 'node';
  /** Its size in bytes. */
  bytes: number;
}

/** One use of an operator. */
export interface ListedNode {
  /** Its index in `nodes`. */
  id: number;
  /** The method of MLGraphBuilder, or `fused` for a chain of element-wise operators. */
  operator: string;
  /** The label passed to the builder, or an empty string. */
  label: string;
  /**
   * Ids of the operands in the order of `opSupportLimits()`, null for an absent one; then those of the epilogue, then
   * those of the prologues except their first operands.
   */
  inputs: (number | null)[];
  /** Ids of the results. */
  outputs: number[];
  /**
   * Options and arguments that differ from their defaults. Infinities, NaN and integers above 2^53 are strings. The
   * attribute `program` of a fused operator lists its operators and their registers.
   */
  attributes: Record<string, unknown>;
  /**
   * Operands that are computed while they are read: their index in `inputs`, which holds the first operand of that
   * computation, and the element-wise operators.
   */
  prologues: { operand: number; operators: string[] }[];
  /** Element-wise operators that are applied to the result while it is computed, in this order. */
  epilogue: string[];
  /**
   * Ids of the source nodes that this node stands for, in order; for a source node, its own id. A source node that was
   * computed while the graph was built is the origin of no node, any other of at most one.
   */
  origins: number[];
}

/** A graph without its weights. */
export interface GraphListing {
  /** The values that the graph uses, by ascending id. Ids may have gaps. */
  values: ListedValue[];
  /** In a valid execution order. */
  nodes: ListedNode[];
  inputs: { name: string; value: number }[];
  outputs: { name: string; value: number }[];
}

/** A step of a dispatch. */
export interface StepDescription {
  /** Its index in `steps`. */
  index: number;
  /** The kernel and its variant: `gemm`, `conv2d depthwise`, `elementwise fused`, `copy`. */
  kernel: string;
  /** Id of its node in the compiled graph; null for the copy of a value to a graph output. */
  node: number | null;
  /**
   * Ids of the nodes that the step computes together with `node`, if there are any: products of the same left operand,
   * such as the query, key and value of attention. They follow `node`.
   */
  beside?: number[];
  /** The operator of `node`; `copy` if there is no node. */
  operator: string;
  /** The label of `node`. */
  label: string;
  /**
   * Multiply-adds of matrix products, convolutions (padding included) and the weight products of recurrent networks. 0
   * for everything else, including element-wise operators and pooling.
   */
  multiplyAdds: number;
  /** Bytes of the operands that are read, each counted once, in their tensor layout (packed weights may be larger). */
  bytesRead: number;
  /** Bytes of the results. */
  bytesWritten: number;
}

/** Describes a compiled graph. Plain data that JSON can hold. */
export interface GraphDescription {
  /** The graph as passed to `build()`, without nodes that no output needs. */
  source: GraphListing;
  /** The compiled graph. Nodes that share the memory of their operands have no step. */
  compiled: GraphListing;
  /** In execution order. */
  steps: StepDescription[];
  /** Memory of the compiled graph: constants, constants packed for the kernels, intermediate values. */
  memory: { constantBytes: number; packedBytes: number; arenaBytes: number };
  /** The compiler passes that ran, in order. */
  passes: string[];
  /** The devices on which the steps run, as in `MLGraph.devices`. */
  devices: ('cpu' | 'gpu')[];
  /** The instruction set: `portable`, `avx2`, `avx512` or `neon`; null on a GPU. */
  isa: string | null;
  /** Threads of the context; null on a GPU. */
  threads: number | null;
  /** The adapter and its graphics API, such as `NVIDIA H200 (vulkan)`; null on the CPU. */
  adapter: string | null;
}

/** Where a context computes. */
export interface ContextDescription {
  /** The device, as in `MLGraph.devices`. */
  device: 'cpu' | 'gpu';
  /** The adapter and its graphics API, such as `NVIDIA H200 (vulkan)`; null on the CPU. */
  adapter: string | null;
  /** Why it computes there: which option decided, or why no GPU can be used. */
  reason: string;
}

/** Start and duration, in nanoseconds. */
export interface TimeSpan {
  start: number;
  duration: number;
}

/** Times of a graph. */
export interface GraphProfile {
  description: GraphDescription;
  /**
   * The runs in order. A run's `start` counts from the start of the first run, a step's from the start of its run.
   * Steps are in the order of `description.steps`.
   */
  runs: (TimeSpan & { steps: TimeSpan[] })[];
}

export interface ProfileOptions {
  /** Number of measured runs, 1 to 10000; 10 when absent. A profile holds at most 1048576 step timings. */
  runs?: number | undefined;
  /** Number of runs before those, not measured, 0 to 10000; 2 when absent. */
  warmup?: number | undefined;
}

/** A GPU of this machine, or software that emulates one on the CPU. */
export interface GPUAdapterDescription {
  /** Its name, as reported by the driver. */
  name: string;
  /** Its kind; `software` runs on the CPU. */
  type: 'discrete' | 'integrated' | 'virtual' | 'software' | 'other';
  /** The graphics API: `vulkan`, `metal` or `dx12`. One adapter can appear with two of them. */
  backend: string;
  /** The driver and its version, as far as they are known. */
  driver: string;
  /** The optional features that kernels use, by their names in wgpu: `SHADER_F16`, `SUBGROUP`. */
  features: string[];
  /** Size of the largest buffer, in bytes. */
  maxBufferBytes: number;
  /** The largest part of a buffer that a kernel can use at once, in bytes. */
  maxBindingBytes: number;
  /**
   * What the first context on it has found, in this or an earlier process: each family of kernels computes a little, and is
   * compared with a reference. Null before.
   */
  check: GPUCheck | null;
  /** Why no context uses it, whatever its preferences; null if contexts can. */
  unused: string | null;
}

/** Whether a driver computes right results. */
export interface GPUCheck {
  /** `wrong` if contexts refuse the adapter. */
  verdict: 'right' | 'wrong';
  /** For each family of kernels, what is wrong; null for right ones. Matrix units that are wrong are not used. */
  families: Record<string, string | null>;
}

/** An environment variable that webnn-node reads. */
export interface EnvironmentVariable {
  name: string;
  /** Null when it is not set. */
  value: string | null;
  /** Its purpose, as Markdown. */
  meaning: string;
  /**
   * Why no context can be created with this value: the variable, its value, and the expected values. Null if the value
   * is valid.
   */
  problem: string | null;
}

/** Hardware, settings and limits of this process. */
export interface SystemInfo {
  /** The version of webnn-node. */
  version: string;
  /**
   * The instruction set in use on the CPU: `portable`, `avx2`, `avx512` or `neon`; null if `WEBNN_ISA` is invalid.
   */
  isa: string | null;
  /** Features of this CPU that matter to neural networks, used or not. */
  features: string[];
  /** Logical processors that this process may use. */
  logicalCores: number;
  /** Default number of threads of a CPU context; null if `WEBNN_NUM_THREADS` is invalid. */
  threads: number | null;
  /**
   * Memory of this machine, or the least limit of the containers and groups that this process is in, above which nothing is
   * allocated; null if the system does not report it.
   */
  memoryLimitBytes: number | null;
  /** The environment variables that webnn-node reads. */
  environment: EnvironmentVariable[];
  /** The GPUs of this machine, including unused ones; empty if no driver is loaded, see `gpuReason`. */
  gpuAdapters: GPUAdapterDescription[];
  /** Why the last context that asked for a GPU did not get one, or why none can; null if there is no problem. */
  gpuReason: string | null;
  /**
   * Limits of graphs and tensors: bytes of a tensor, number of its dimensions, number of tensors in a `concat()` or
   * `split()`.
   */
  limits: { maxTensorByteLength: number; maxRank: number; maxTensorCount: number };
}

/**
 * Tells where a context computes, and why.
 *
 * @throws {TypeError} if `context` is not an MLContext
 * @throws {DOMException} InvalidStateError if the context is lost
 */
export function describeContext(context: MLContext): ContextDescription;

/**
 * Describes a compiled graph; one with named dimensions, for the sizes of the latest dispatch that was compiled.
 *
 * @throws {TypeError} if `graph` is not an MLGraph
 * @throws {DOMException} NotSupportedError if the graph has named dimensions, and no dispatch has begun
 * @throws {DOMException} InvalidStateError if the graph is destroyed
 */
export function describeGraph(graph: MLGraph): GraphDescription;

/**
 * Runs a graph several times, in order with all other work of the context, and measures its steps. The outputs hold the
 * results afterwards, as after `dispatch()`.
 *
 * Rejects with a TypeError in the cases where `dispatch()` throws one and for options out of range, an
 * InvalidStateError when the graph is destroyed or the context is lost meanwhile, an OperationError when a run fails,
 * and an UnknownError when there is no memory for the times.
 */
export function profileGraph(
  context: MLContext,
  graph: MLGraph,
  inputs: Record<string, MLTensor>,
  outputs: Record<string, MLTensor>,
  options?: ProfileOptions | undefined,
): Promise<GraphProfile>;

/**
 * Describes hardware, settings and limits of this process. Invalid values of environment variables are reported as
 * `problem` in the result.
 */
export function systemInfo(): SystemInfo;

/** A file with packed weights of one model, see the option `cache` of `loadModel()`. */
export interface CacheFile {
  path: string;
  /**
   * The path of the model; `bytes` if it was passed as bytes, `graph` for the constants of a graph, see the option `cache` of
   * `createContext()`. Null if the header or the table of the file is invalid, or of another version.
   */
  model: string | null;
  /** The instruction set that the weights are packed for; null likewise. */
  isa: string | null;
  /** How many packed operands it has. */
  entries: number;
  bytes: number;
  /** When it was last opened, within an hour, in milliseconds since 1970. */
  used: number;
}

/** Files of a folder. */
export interface CacheListing<File extends CacheFile = CacheFile> {
  folder: string;
  /** Those used longest ago first. */
  files: File[];
}

/**
 * Lists the files with packed weights in a folder, by default the user's.
 *
 * Rejects with a NotSupportedError if the folder cannot be used, for example because others can write it.
 */
export function listCache(folder?: string): Promise<CacheListing>;

/**
 * Removes files with packed weights, those used longest ago first, until all have at most `bytes`, or what
 * `WEBNN_CACHE_BYTES` says; and invalid files, whose header or table cannot be used. Files with damaged weights stay: those
 * `verifyCache()` finds. Resolves with what was removed. Models that are loaded keep what they have mapped.
 *
 * Rejects like `listCache()`, and with a TypeError for a negative number.
 */
export function pruneCache(folder?: string, bytes?: number): Promise<CacheListing>;

/**
 * Compares all packed weights in a folder with their checksums, and changes nothing. Resolves with the damaged files, and how
 * many of their entries are `damaged`: 0 for an invalid file. Loading a model with `cache: { verify: true }` packs what is
 * damaged again, and replaces it.
 *
 * Rejects like `listCache()`.
 */
export function verifyCache(folder?: string): Promise<CacheListing<CacheFile & { damaged: number }>>;
