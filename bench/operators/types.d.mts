// Requests to the process of an engine, and their answers. Times are in milliseconds.

import type { LoadRequest } from '../../packages/cli/lib/bench/types.mjs';

export interface OperatorCommands {
  /** Loads a model once for each number of threads, in place of the one before. */
  load(parameters: Omit<LoadRequest, 'threads'> & { threads: number[] }): Promise<{ version: string }>;
  /** Runs once and writes the outputs, in the order of `load`. */
  save(parameters: { threads: number; files: string[] }): Promise<object>;
  /** Runs for `ms`, at least `runs` times, and until results have had `bytes`: the median time of a run whose results are read. */
  turn(parameters: { threads: number; ms: number; runs: number; bytes?: number }): Promise<{ ms: number; runs: number }>;
  /** The time of the operators of a run; null if some of them are computed where no profile sees them. */
  operators(parameters: { threads: number; runs: number }): Promise<{ ms: number | null }>;
  close(parameters: object): Promise<object>;
}

/** What an engine took with one number of threads. */
export interface Taken {
  /** Median of the turns' medians. */
  ms: number;
  /** Of all turns. */
  runs: number;
  /** Of the operators alone. */
  alone: number | null;
}

/** The outcome of one case. */
export interface Outcome {
  family: string;
  name: string;
  /** Only `ok` has times. */
  status: 'ok' | 'wrong' | 'refused' | 'failed';
  /** The engine that refused or failed. */
  engine?: string;
  /** Of an engine, with its name first. */
  reason?: string;
  /** By number of threads, then by engine. */
  times: Record<number, Record<string, Taken>>;
}
