// Requests to the engines of the text generation benchmark, and their answers. Times are in milliseconds.

/** A model to open. */
export interface ModelChoice {
  /** The folder of all models. */
  models: string;
  type: import('./catalog.mjs').TypeName;
  threads: number;
}

/** The model for an engine to load. */
export interface GenerateLoad extends ModelChoice {
  /** Maximum number of tokens in a text. */
  positions: number;
}

/** A text to continue. The first token follows from the prompt, `tokens` more from the ones before. */
export interface GenerateRequest {
  prompt: number[];
  tokens: number;
  /** After this time, no further token is started: slow engines generate fewer. */
  seconds: number;
}

export interface Generated {
  /** Without those of the prompt. */
  ids: number[];
  /** From the prompt to the first token. */
  firstMs: number;
  /** From each token to the next. */
  tokenMs: number[];
  /** The part of `tokenMs` outside runs of the model, for engines that do not run it directly. */
  outsideMs?: number[];
  /** Peak memory of the process so far, in bytes. */
  peakBytes: number;
}

/** An engine with its model. */
export interface Generator {
  version: string;
  loadMs: number;
  generate(request: GenerateRequest): Promise<Omit<Generated, 'peakBytes'>>;
}

export interface GenerateCommands {
  load(parameters: GenerateLoad): Promise<{ version: string; loadMs: number }>;
  generate(parameters: GenerateRequest): Promise<Generated>;
}

/** A tensor of a runtime; results can be fed back unchanged. */
export interface RuntimeTensor {
  data: any;
}

/**
 * A text with the cache of its tokens so far. Runs the model on the tokens that follow, at least one, and returns their
 * logits and the longer text. The text itself does not change: continuing it with other tokens is a fork.
 */
export type Text = (tokens: number[]) => Promise<{ logits: RuntimeTensor; text: Text }>;

/** A model in a runtime. */
export interface RuntimeModel {
  inputs: readonly { name: string; shape: readonly (number | string)[] | null }[];
  run(feeds: Record<string, any>): Promise<Record<string, RuntimeTensor>>;
}

/** A library that runs ONNX models. */
export interface Runtime {
  version: string;
  open(file: string, threads: number): Promise<RuntimeModel>;
  tensor(dataType: 'float32' | 'float16' | 'int64' | 'bool', data: ArrayBufferView, shape: readonly number[]): RuntimeTensor;
}
