// Types shared by the modules of this folder.

import type { Command } from 'commander';
import type { MLContext } from 'webnn-node';
import type { OnnxDescription, OnnxModel, OnnxValueInfo } from 'webnn-node/onnx';
import type { Output } from './output.mjs';

export type { Elements, PackedTensors, Tensor, Tensors } from 'webnn-node-text/types';

/** An input of a model with a declared shape. */
export interface ShapedInput extends OnnxValueInfo {
  shape: readonly (number | string)[];
}

/** A model built for known shapes. */
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

/** The parsed options of all commands; options with a default are present in the commands that have them. */
export interface Options extends PictureOptions {
  json?: boolean;
  color?: boolean;
  verbose?: boolean;
  input?: string[];
  randomRange?: [lowest: number, highest: number];
  freeDimension?: Record<string, number>;
  missing?: boolean;
  threads?: number;
  device: 'cpu' | 'gpu';
  /** A folder; `true` is the user's. */
  cache?: string | true;
  bytes?: number;
  isa?: string[];
  /** Numbers of prompt tokens and of tokens to generate. */
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
