// Types that modules of this folder share.

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
