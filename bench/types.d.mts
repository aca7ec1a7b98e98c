// Types shared by the modules of this folder.

/** The type of a model's computation. */
export type Kind = 'float32' | 'float16' | 'int8';

/** The outcome of an engine on a model. */
export type Status = 'ok' | 'wrong' | 'failed' | 'unsupported';

/** Multiply-adds, and bytes that are read or written. */
export interface Work {
  multiplyAdds: number;
  bytes: number;
}

/** The error of an output, correct if `error <= allowed`. */
export interface Deviation {
  error: number;
  allowed: number;
  unit: string;
}
