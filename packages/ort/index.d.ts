export * from 'onnxruntime-common';

/** A backend, by its name in `executionProviders`. */
export interface SupportedBackend {
  readonly name: string;
  /** Whether everything that it needs is installed with this package. */
  readonly bundled: boolean;
}

/** The backends that sessions can run on: `cpu`, and `webgpu` for the GPU. */
export function listSupportedBackends(): SupportedBackend[];

// The declarations of onnxruntime-common name classes of browsers. Where a project has those, these add nothing to them; without these, a
// project for Node alone would not compile.
declare global {
  interface HTMLImageElement {}
  interface ImageBitmap {}
  interface ImageData {}
  interface WebGLRenderingContext {}
  interface WebGLTexture {}
}
