// Types of the benchmark of stored weights.

import type { ModelName } from './models.mjs';

/** Bytes of weights. */
export interface ModelMemory {
  private: number;
  shared: number;
  mapped: number;
}

/** `none`: a process that loads nothing. */
export type Engine = 'webnn-node' | 'onnxruntime-node' | 'node-llama-cpp' | 'none';

/** What a worker loads. */
export interface Choice {
  engine: Engine;
  model: ModelName;
  /** Folder of the store. */
  cache?: string;
  /** Milliseconds until the session gives its memory back. */
  idle?: number;
}

/** Times in milliseconds. */
export interface LoadSample {
  loadMs: number;
  firstMs: number;
  /** Median of later runs. */
  runMs: number;
  /** Of the output. */
  digest: string;
  memory?: ModelMemory;
}

export interface FillSample extends LoadSample {
  /** From the end of the first run until the store stays as it is; 0 if it was complete by then. */
  writtenMs: number;
  bytes: number;
}

export interface IdleSample {
  switches: number;
  threads: number;
}

export interface ReleaseSample {
  /** Resident before loading, after the first runs, and after the release. */
  before: number;
  loaded: number;
  released: number;
  nextMs: number;
  isSame: boolean;
}

export interface TinySample {
  /** CPU time of all threads by wall time. */
  cpuShare: number;
  medianMs: number;
}

/** What this build can do. */
export interface Abilities {
  cache: boolean;
  idle: boolean;
}

/** What belongs to a process, in bytes. */
export interface ProcessMemory {
  resident: number;
  proportional: number;
  private: number;
}

/** A line of the report. */
export interface Row {
  bar: string;
  model: string;
  limit: string;
  /** Empty if it could not be measured. */
  measured: string;
  met: boolean | null;
  /** Without a store. */
  without: string;
  /** onnxruntime-node. */
  peer: string;
  /** node-llama-cpp. */
  llama: string;
}
