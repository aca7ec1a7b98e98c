export * from 'onnxruntime-common';

/** A backend, by its name in `executionProviders`. */
export interface SupportedBackend {
  readonly name: string;
  /** Whether everything that it needs is installed with this package. */
  readonly bundled: boolean;
}

/** The backends that sessions can run on: `cpu`, and `webgpu` for the GPU. */
export function listSupportedBackends(): SupportedBackend[];
