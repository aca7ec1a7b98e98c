// Types that modules of this folder share.

import type { Tensor, Tensors } from 'webnn-node-cli/lib/types.mjs';
import type { GraphDescription } from '../inspect.js';

/** What a model computes in. */
export type Kind = 'float32' | 'float16' | 'int8';

/** How an engine did on a model. */
export type Status = 'ok' | 'wrong' | 'failed' | 'unsupported';

/** Multiply-adds, and bytes that are read or written. */
export interface Work {
  multiplyAdds: number;
  bytes: number;
}

/** How far an output is off; right if `error <= allowed`. */
export interface Deviation {
  error: number;
  allowed: number;
  unit: string;
}

/** How an engine computes, where it has a choice. */
export interface EngineOptions {
  device?: 'cpu' | 'gpu' | 'cuda';
  compiled?: boolean;
  precision?: 'float32' | 'float16';
}

/** What an engine is to load; the inputs are .npy files. */
export interface LoadRequest extends EngineOptions {
  model: string;
  inputs: Record<string, string>;
  outputs: string[];
  threads?: number;
}

/** What `load` of an engine in JavaScript takes. */
export interface LoadParameters extends Omit<LoadRequest, 'inputs'> {
  inputs: Tensors;
}

/** A graph whose rate is measured: what one dispatch moves or computes. */
export interface RateGraph {
  name: string;
  amount: number;
  unit: 'B/s' | 'FLOP/s';
}

/** Commands that every engine has, see serve.mjs. Times are in milliseconds. */
export interface CommonCommands {
  ready(parameters: object): Promise<object>;
  load(parameters: LoadRequest): Promise<{ version: string; loadMs: number }>;
  run(parameters: { warmup: number; iterations: number }): Promise<{ ms: number }>;
  times(parameters: { iterations: number }): Promise<{ ms: number[] }>;
  save(parameters: { files: string[] }): Promise<object>;
}

/** Commands that only some engines have. */
export interface OwnCommands {
  /** Dispatches of which only the end is waited for, `name` where there is more than one graph. */
  burst(parameters: { count: number; name?: string }): Promise<{ ms: number }>;
  describe(parameters: object): Promise<GraphDescription>;
  names(parameters: object): Promise<RateGraph[]>;
}

export type Commands = CommonCommands & OwnCommands;

/** An engine in JavaScript with its model. */
export interface LoadedEngine {
  version: string;
  /** Time from the file to a model that can run, in milliseconds. */
  loadMs: number;
  /** Writes the inputs, computes, and has read the outputs when it resolves. */
  run(): Promise<unknown>;
  /** Of one more run. */
  outputs(): Promise<Tensor[]>;
  commands?: Partial<OwnCommands>;
}
