// Tensors in memory.

/** Typed arrays of elements; float16 may be stored as bits. */
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

/** A tensor in memory: a WebNN or NumPy type name, dimensions, elements in row-major order. */
export interface Tensor {
  dataType: string;
  shape: readonly number[];
  data: Elements;
}

/** Tensors by input or output name. */
export type Tensors = Record<string, Tensor>;

/** Tensors as a message between processes: bytes. */
export type PackedTensors = Record<string, { dataType: string; shape: readonly number[]; bytes: Uint8Array }>;
