// Declarations for modules that have none.

declare module 'd3-array' {
  interface Bin extends Array<number> {
    x0: number;
    x1: number;
  }
  interface Binning {
    (samples: number[]): Bin[];
    domain(domain: [number, number]): Binning;
    thresholds(edges: number[]): Binning;
  }
  export function bin(): Binning;
  /** Undefined for an empty list. */
  export function deviation(numbers: Iterable<number>): number | undefined;
  export function extent(numbers: Iterable<number>): [number, number] | [undefined, undefined];
  export function max<T = number>(values: Iterable<T>, value?: (item: T) => number): number | undefined;
  export function mean<T = number>(values: Iterable<T>, value?: (item: T) => number): number | undefined;
  export function median<T = number>(values: Iterable<T>, value?: (item: T) => number): number | undefined;
  export function min<T = number>(values: Iterable<T>, value?: (item: T) => number): number | undefined;
  export function quantile(numbers: Iterable<number>, p: number): number | undefined;
  export function group<T, K>(values: Iterable<T>, key: (value: T) => K): Map<K, T[]>;
  /** For at least one number. */
  export function quantileSorted(numbers: ArrayLike<number>, p: number): number;
  export function ticks(start: number, stop: number, count: number): number[];
  export function sum<T>(values: Iterable<T>, value?: (item: T) => number): number;
}

declare module 'cli-progress' {
  interface State {
    progress: number;
    startTime: number;
  }
  export class SingleBar {
    constructor(options: {
      format: (options: object, state: State, payload: any) => string;
      stream: NodeJS.WritableStream;
      fps: number;
      clearOnComplete: boolean;
      hideCursor: boolean;
    });
    readonly isActive: boolean;
    start(total: number, done: number, payload: object): void;
    update(done: number): void;
    stop(): void;
  }
  const module: { SingleBar: typeof SingleBar };
  export default module;
}

declare module 'onnxruntime-node' {
  export interface Value {
    type: string;
    dims: readonly number[];
    data: any;
  }
  interface Results {
    [name: string]: Value;
  }
  export interface Session {
    readonly inputMetadata: readonly { name: string; type: string; shape: readonly (number | string)[] }[];
    readonly outputNames: readonly string[];
    run(feeds: Record<string, Tensor>): Promise<Results>;
    endProfiling(): void;
    release(): Promise<void>;
  }
  export const InferenceSession: { create(model: string, options: object): Promise<Session> };
  export class Tensor {
    constructor(type: string | undefined, data: unknown, dims: readonly number[]);
    readonly data: any;
  }
  export function listSupportedBackends(): { name: string }[];
}

declare module 'onnxruntime-node/package.json' {
  export const version: string;
}
