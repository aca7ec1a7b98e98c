// Types that modules of this folder share.

import type { Command } from 'commander';
import type { MLContext } from 'webnn-node';
import type { OnnxDescription, OnnxModel, OnnxValueInfo } from 'webnn-node/onnx';
import type { Output } from './output.mjs';

/** The typed arrays that elements are in; those of float16 may be their bits. */
export type Elements =
  | Float64Array<ArrayBuffer>
  | Float32Array<ArrayBuffer>
  | Float16Array<ArrayBuffer>
  | BigInt64Array<ArrayBuffer>
  | BigUint64Array<ArrayBuffer>
  | Int32Array<ArrayBuffer>
  | Uint32Array<ArrayBuffer>
  | Int16Array<ArrayBuffer>
  | Uint16Array<ArrayBuffer>
  | Int8Array<ArrayBuffer>
  | Uint8Array<ArrayBuffer>;

/** A tensor in memory: a name of WebNN or of NumPy, dimensions, elements in row-major order. */
export interface Tensor {
  dataType: string;
  shape: readonly number[];
  data: Elements;
}

/** Tensors by the names of inputs or outputs. */
export type Tensors = Record<string, Tensor>;

/** Tensors as a message between processes: bytes. */
export type PackedTensors = Record<string, { dataType: string; shape: readonly number[]; bytes: Uint8Array }>;

/** An input of a model whose shape is known, as far as it goes. */
export interface ShapedInput extends OnnxValueInfo {
  shape: readonly (number | string)[];
}

/** A model that is built for known shapes. */
export interface Opened {
  context: MLContext;
  model: OnnxModel;
  description: OnnxDescription;
}

/** The options of pictures, see `pictureTensor`. */
export interface PictureOptions {
  mean?: number[];
  std?: number[];
  scale?: number;
  layout?: 'nchw' | 'nhwc';
  resize?: number;
  crop?: [height: number, width: number];
  stretch?: boolean;
}

/** The options of all commands, parsed; those with a default are there in the commands that have them. */
export interface Options extends PictureOptions {
  json?: boolean;
  color?: boolean;
  verbose?: boolean;
  input?: string[];
  randomRange?: [lowest: number, highest: number];
  freeDimension?: Record<string, number>;
  threads?: number;
  device: 'cpu' | 'gpu';
  /** Tokens of the prompt and tokens to generate. */
  generate?: [prompt: number, tokens: number];
  against?: string;
  againstFrom?: string;
  runs: number;
  seconds?: number;
  warmup: number;
  top: number;
  outputDir?: string;
  labels?: string;
  svg?: string;
  trace?: string;
  html?: string;
  output: string;
  profile?: boolean;
}

/** Whether the user gave an option, by its name in camel case. */
export type IsGiven = (name: string) => boolean;

/** A command of the program. */
export interface CommandDefinition {
  name: string;
  description: string;
  define(command: Command): void;
  /** @returns the exit code, 0 if there is none */
  execute(output: Output, args: string[], options: Options, isGiven: IsGiven): Promise<number | void> | number | void;
  help: string;
}
