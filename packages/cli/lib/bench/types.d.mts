// Requests to engines, and their answers.

import type { GraphDescription } from 'webnn-node/inspect';
import type { Decoder } from 'webnn-node-text/decoder';
import type { Tensor, Tensors } from '../types.mjs';

/** Options of an engine that has a choice. */
export interface EngineOptions {
  device?: 'cpu' | 'gpu' | 'cuda';
  compiled?: boolean;
  precision?: 'float32' | 'float16';
}

/** The model for an engine to load. */
export interface LoadRequest extends EngineOptions {
  model: string;
  /** .npy files by name. */
  inputs: Record<string, string>;
  outputs: string[];
  /** The engine's own default when absent. */
  threads?: number;
  freeDimensions?: Record<string, number>;
  /** The option of `loadModel()`; engines that have no such option compute everything. */
  keepLast?: Record<string, number>;
  /** The option of `loadModel()`; other engines pack weights each time. */
  cache?: string | boolean;
  /** Folder from which an engine that is not a dependency is resolved, through node_modules here or above. */
  from?: string;
}

/** Parameters of the `load` function of an engine in JavaScript. */
export interface LoadParameters extends Omit<LoadRequest, 'inputs' | 'outputs'> {
  /** Inputs of `run()`; when absent, every run gets its own. */
  inputs?: Tensors;
  /** All outputs of the model when absent. */
  outputs?: string[];
}

/** A graph whose rate is measured, and the amount that one dispatch moves or computes. */
export interface RateGraph {
  name: string;
  amount: number;
  unit: 'B/s' | 'FLOP/s';
}

/** A prompt for an engine to continue. */
export interface GenerateRequest {
  decoder: Decoder;
  /** Ids of tokens, at least one. */
  prompt: number[];
  /** How many tokens to choose, at least one. */
  tokens: number;
}

/** A generated text. Times are in milliseconds. */
export interface Generation {
  ids: number[];
  /** Time from the prompt to the first token. */
  firstMs: number;
  /** Time of each further token. */
  tokenMs: number[];
}

/** Commands that every engine has, see serve.mjs. Times are in milliseconds. */
export interface CommonCommands {
  ready(parameters: object): Promise<object>;
  load(parameters: LoadRequest): Promise<{ version: string; loadMs: number }>;
  run(parameters: { warmup: number; iterations: number }): Promise<{ ms: number }>;
  times(parameters: { iterations: number }): Promise<{ ms: number[] }>;
  save(parameters: { files: string[] }): Promise<object>;
}

/** Commands that every engine in JavaScript has. */
export interface ServedCommands extends CommonCommands {
  /**
   * The instruction set and threads, the adapter, or the execution provider in use. An error if it is not the requested
   * one.
   */
  processor(parameters: object): Promise<string>;
  usage(parameters: object): Promise<Usage>;
  /** An error if the engine has no session. */
  generate(parameters: GenerateRequest): Promise<Generation>;
}

/** Current and peak memory of a process in bytes, and its total CPU time in microseconds. */
export interface Usage {
  resident: number;
  peak: number;
  cpuMicroseconds: number;
}

/** Commands that only some engines have. */
export interface OwnCommands {
  /** Dispatches `count` times and waits only for the last one; `name` selects a graph if there are several. */
  burst(parameters: { count: number; name?: string }): Promise<{ ms: number }>;
  describe(parameters: object): Promise<GraphDescription>;
  names(parameters: object): Promise<RateGraph[]>;
}

export type Commands = ServedCommands & OwnCommands;

/** Runs of a model on values in the engine's own form: a result can be fed again without being read. */
export interface EngineSession<Value = any> {
  feedsOf(tensors: Tensors): Record<string, Value>;
  run(feeds: Record<string, Value>): Promise<Record<string, Value>>;
  tensorOf(result: Value): Tensor;
}

/** An engine in JavaScript with its model. */
export interface LoadedEngine {
  version: string;
  /** Time from the file to a model that is ready to run, in milliseconds. */
  loadMs: number;
  /** Writes the inputs, computes, and reads the outputs before it resolves. */
  run(): Promise<unknown>;
  /** Outputs of one more run, on other inputs if given. */
  outputs(inputs?: Tensors): Promise<Tensor[]>;
  processor?(): Promise<string>;
  /**
   * Milliseconds of the operators in a run, without feeds and results: the median of `runs`. Null if no profile sees some of
   * them, because they are computed on the host.
   */
  operators(runs: number): Promise<number | null>;
  /** Frees the model. */
  close(): Promise<void>;
  /** For an engine that can generate text. */
  session?: EngineSession;
  commands?: Partial<OwnCommands>;
}
