// What the engines of the benchmark of text generation are asked, and what they answer. Times are in milliseconds.

/** A model to open. */
export interface ModelChoice {
  /** The folder of all models. */
  models: string;
  type: import('./catalog.mjs').TypeName;
  threads: number;
}

/** What an engine is to load. */
export interface GenerateLoad extends ModelChoice {
  /** The most tokens that a text has. */
  positions: number;
}

/** A text to continue. The first token follows from the prompt, `tokens` more from the ones before. */
export interface GenerateRequest {
  prompt: number[];
  tokens: number;
  /** After so long, no further token is begun: an engine that is slow generates fewer. */
  seconds: number;
}

export interface Generated {
  /** The prompt's own are not among them. */
  ids: number[];
  /** From the prompt to the first token. */
  firstMs: number;
  /** From each token to the next. */
  tokenMs: number[];
  /** Of that, what passed outside of the runs of the model; of engines that do not run it themselves. */
  outsideMs?: number[];
  /** The most memory that the process has had so far. */
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

/** A tensor as a runtime takes and gives it: what it gives can be fed back as it is. */
export interface RuntimeTensor {
  data: any;
}

/**
 * A text with the cache of its tokens so far. Runs the model on the tokens behind them, at least one, and gives the logits of
 * each with the text that is longer by them. It stays what it is: going on with other tokens is a fork.
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
