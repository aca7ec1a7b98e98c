export * from 'onnxruntime-common';

/** A backend, by the name that `executionProviders` knows it by. */
export interface SupportedBackend {
  readonly name: string;
  /** Whether it needs nothing that is not installed with this package. */
  readonly bundled: boolean;
}

/** The backends that sessions can run on: `cpu`, and `webgpu` for the GPU. */
export function listSupportedBackends(): SupportedBackend[];
