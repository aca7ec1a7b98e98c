// What engines of the benchmark are asked, and what they answer.

import type { GraphDescription } from 'webnn-node/inspect';
import type { Decoder } from '../decoder.mjs';
import type { Tensor, Tensors } from '../types.mjs';

/** How an engine computes, where it has a choice. */
export interface EngineOptions {
  device?: 'cpu' | 'gpu' | 'cuda';
  compiled?: boolean;
  precision?: 'float32' | 'float16';
}

/** What an engine is to load. */
export interface LoadRequest extends EngineOptions {
  model: string;
  /** .npy files by name. */
  inputs: Record<string, string>;
  outputs: string[];
  /** As many as the engine finds right when it is left out. */
  threads?: number;
  freeDimensions?: Record<string, number>;
  /** The option of `loadModel()`; engines that have no such option compute everything. */
  keepLast?: Record<string, number>;
  /** A folder in whose node_modules, or in those above it, an engine is that is no dependency. */
  from?: string;
}

/** What `load` of an engine in JavaScript takes. */
export interface LoadParameters extends Omit<LoadRequest, 'inputs' | 'outputs'> {
  /** What `run()` computes with; without it, every run gets its own. */
  inputs?: Tensors;
  /** All of the model when it is left out. */
  outputs?: string[];
}

/** A graph whose rate is measured: what one dispatch moves or computes. */
export interface RateGraph {
  name: string;
  amount: number;
  unit: 'B/s' | 'FLOP/s';
}

/** A text that an engine is to go on with. */
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
  /** From the prompt to the first token. */
  firstMs: number;
  /** Of each further token. */
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
  /** What computes: an instruction set and threads, an adapter, an execution provider. An error if it is not what was asked for. */
  processor(parameters: object): Promise<string>;
  usage(parameters: object): Promise<Usage>;
  /** An error if the engine has no session. */
  generate(parameters: GenerateRequest): Promise<Generation>;
}

/** Memory in bytes, now and at most, and CPU time in microseconds of the life of a process. */
export interface Usage {
  resident: number;
  peak: number;
  cpuMicroseconds: number;
}

/** Commands that only some engines have. */
export interface OwnCommands {
  /** Dispatches of which only the end is waited for, `name` where there is more than one graph. */
  burst(parameters: { count: number; name?: string }): Promise<{ ms: number }>;
  describe(parameters: object): Promise<GraphDescription>;
  names(parameters: object): Promise<RateGraph[]>;
}

export type Commands = ServedCommands & OwnCommands;

/** Runs of a model on values in the engine's own form, so that a result can be a feed without being read. */
export interface EngineSession<Value = any> {
  feedsOf(tensors: Tensors): Record<string, Value>;
  run(feeds: Record<string, Value>): Promise<Record<string, Value>>;
  tensorOf(result: Value): Tensor;
}

/** An engine in JavaScript with its model. */
export interface LoadedEngine {
  version: string;
  /** Time from the file to a model that can run, in milliseconds. */
  loadMs: number;
  /** Writes the inputs, computes, and has read the outputs when it resolves. */
  run(): Promise<unknown>;
  /** Of one more run, on other inputs where they are given. */
  outputs(inputs?: Tensors): Promise<Tensor[]>;
  processor?(): Promise<string>;
  /** Of an engine that can generate text. */
  session?: EngineSession;
  commands?: Partial<OwnCommands>;
}
