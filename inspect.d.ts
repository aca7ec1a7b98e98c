// Looking inside: what graphs became when they were compiled, how long their steps take, what this process computes
// with. An addition of webnn-node to the draft.

import type { MLContext, MLGraph, MLOperandDataType, MLTensor } from './index.js';

/** A value that flows through a graph. */
export interface ListedValue {
  /** The same number in the source and in the compiled graph. */
  id: number;
  dataType: MLOperandDataType;
  shape: number[];
  /** Whether it is bound at each dispatch, known since the graph was built, or computed by a node. */
  kind: 'input' | 'constant' | 'node';
  /** Its size in bytes. */
  bytes: number;
}

/** One use of an operator. */
export interface ListedNode {
  /** Its place in `nodes`. */
  id: number;
  /** The method of MLGraphBuilder; `fused` for a chain of element-wise operators that became one. */
  operator: string;
  /** The label that the builder was given, or an empty string. */
  label: string;
  /**
   * Ids of the operands in the order of `opSupportLimits()`; null for one that was not given. Behind them stand those of
   * the epilogue, then those of the prologues behind their first ones.
   */
  inputs: (number | null)[];
  /** Ids of the results. */
  outputs: number[];
  /**
   * Options and arguments that differ from their defaults. Infinities, NaN and integers above 2^53 are strings. The
   * attribute `program` of a fused operator lists its operators with their registers.
   */
  attributes: Record<string, unknown>;
  /**
   * Operands that are computed while they are read: their places in `inputs`, where the first operand of what is computed
   * stands, and the element-wise operators.
   */
  prologues: { operand: number; operators: string[] }[];
  /** Element-wise operators that are applied to the result while it is computed, in this order. */
  epilogue: string[];
  /**
   * Ids of the nodes of the source graph that this node stands for, in order; for nodes of the source graph their own.
   * What was computed while the graph was built is an origin of no node, everything else of one at most.
   */
  origins: number[];
}

/** A graph without its weights. */
export interface GraphListing {
  /** What the graph uses, by ascending ids, which may have gaps. */
  values: ListedValue[];
  /** In an order in which they can run. */
  nodes: ListedNode[];
  inputs: { name: string; value: number }[];
  outputs: { name: string; value: number }[];
}

/** A step of a dispatch. */
export interface StepDescription {
  /** Its place in `steps`. */
  index: number;
  /** The kernel that runs, and which of its variants: `gemm`, `conv2d depthwise`, `elementwise fused`, `copy`. */
  kernel: string;
  /** Id in the compiled graph; null for the copy of a value to an output of the graph. */
  node: number | null;
  /** The operator of that node; `copy` where there is none. */
  operator: string;
  /** The label of that node. */
  label: string;
  /**
   * Multiply-adds of matrix products, convolutions (padding included) and the products with weights of recurrent
   * networks. 0 for everything else, also element-wise operators and pooling.
   */
  multiplyAdds: number;
  /** Bytes of the operands that are read, each counted once, as they lie in tensors (packed weights may be larger). */
  bytesRead: number;
  /** Bytes of the results. */
  bytesWritten: number;
}

/** What a graph is and does. Plain data, which JSON can hold. */
export interface GraphDescription {
  /** The graph as it was given to `build()`, without what no output needs. */
  source: GraphListing;
  /** What the compiler made of it. Nodes that share the memory of their operands have no step. */
  compiled: GraphListing;
  /** In the order in which they run. */
  steps: StepDescription[];
  /** What the compiled graph holds: constants, constants in the order of the kernels, intermediate values. */
  memory: { constantBytes: number; packedBytes: number; arenaBytes: number };
  /** The compiler passes that ran, in order. */
  passes: string[];
  /** What `MLGraph.devices` says: where the steps run. */
  devices: ('cpu' | 'gpu')[];
  /** The instruction set: `portable`, `avx2`, `avx512` or `neon`; null on a GPU. */
  isa: string | null;
  /** Threads of the context; null on a GPU. */
  threads: number | null;
  /** The adapter and the interface that it is reached through, `NVIDIA H200 (vulkan)`; null on the CPU. */
  adapter: string | null;
}

/** When something began and how long it took, in nanoseconds. */
export interface TimeSpan {
  start: number;
  duration: number;
}

/** Times of a graph. */
export interface GraphProfile {
  description: GraphDescription;
  /**
   * The runs in order. `start` counts from the start of the first run; that of a step from the start of its run. Steps
   * are in the order of `description.steps`.
   */
  runs: (TimeSpan & { steps: TimeSpan[] })[];
}

export interface ProfileOptions {
  /** Runs that are measured, 1 to 10000; 10 when absent. A profile holds at most 1048576 timings of steps. */
  runs?: number | undefined;
  /** Runs in front of them that are not, 0 to 10000; 2 when absent. */
  warmup?: number | undefined;
}

/** A GPU of this machine, or a CPU that computes as one would. */
export interface GPUAdapterDescription {
  /** Its name, as the driver has it. */
  name: string;
  /** What it is; `software` is a CPU. */
  type: 'discrete' | 'integrated' | 'virtual' | 'software' | 'other';
  /** The interface that it is reached through: `vulkan`, `metal` or `dx12`. One adapter can be there through two. */
  backend: string;
  /** The driver and its version, as far as they are told. */
  driver: string;
  /** What kernels use of that which not every adapter has, by its name in wgpu: `SHADER_F16`, `SUBGROUP`. */
  features: string[];
  /** The largest buffer in bytes. */
  maxBufferBytes: number;
  /** The largest part of a buffer that a kernel can use at once, in bytes. */
  maxBindingBytes: number;
  /** Why contexts do not use it, whatever they prefer; null if they can. */
  unused: string | null;
}

/** An environment variable that webnn-node reads. */
export interface EnvironmentVariable {
  name: string;
  /** Null when it is not set. */
  value: string | null;
  /** What it is for, as Markdown. */
  meaning: string;
  /** Why no context can be created with this value: the variable, its value, what is expected. Null where it is fine. */
  problem: string | null;
}

/** What this process computes with. */
export interface SystemInfo {
  /** The version of webnn-node. */
  version: string;
  /**
   * The instruction set that is used on the CPU: `portable`, `avx2`, `avx512` or `neon`; null where `WEBNN_ISA` makes no
   * sense.
   */
  isa: string | null;
  /** Features of this CPU that matter for neural networks, used or not. */
  features: string[];
  /** Logical processors that this process may use. */
  logicalCores: number;
  /** Threads of a context on the CPU that does not ask for a number; null where `WEBNN_NUM_THREADS` makes no sense. */
  threads: number | null;
  /** Memory of this machine or container, above which nothing is allocated; null where the system does not tell. */
  memoryLimitBytes: number | null;
  /** The environment variables that webnn-node reads. */
  environment: EnvironmentVariable[];
  /** The GPUs of this machine, also those that are not used; none where no driver is loaded, see `gpuReason`. */
  gpuAdapters: GPUAdapterDescription[];
  /** Why the context that last asked for a GPU has none, or no context can have one; null where nothing is amiss. */
  gpuReason: string | null;
  /** Limits of graphs and tensors: bytes of a tensor, its dimensions, tensors of a `concat()` or `split()`. */
  limits: { maxTensorByteLength: number; maxRank: number; maxTensorCount: number };
}

/**
 * What a graph is and does. Of a graph with named dimensions, for the sizes of the latest dispatch that was compiled.
 *
 * @throws {TypeError} if `graph` is not an MLGraph
 * @throws {DOMException} NotSupportedError if the graph has named dimensions, and no dispatch has begun
 * @throws {DOMException} InvalidStateError if the graph is destroyed
 */
export function describeGraph(graph: MLGraph): GraphDescription;

/**
 * Runs a graph several times, in order with everything else that was asked of the context, and takes the times of its
 * steps. The outputs hold the results afterwards, as after `dispatch()`.
 *
 * Rejects with a TypeError for what `dispatch()` refuses with one and for options out of range, an InvalidStateError
 * when the graph is destroyed or the context is lost meanwhile, an OperationError when a run fails, and an UnknownError
 * without memory for the times.
 */
export function profileGraph(
  context: MLContext,
  graph: MLGraph,
  inputs: Record<string, MLTensor>,
  outputs: Record<string, MLTensor>,
  options?: ProfileOptions | undefined,
): Promise<GraphProfile>;

/** What this process computes with. A value of an environment variable that makes no sense is a `problem` in the result. */
export function systemInfo(): SystemInfo;
