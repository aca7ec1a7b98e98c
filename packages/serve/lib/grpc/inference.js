// The service of the Open Inference Protocol.

import { ServeError } from '../errors.js';
import { EXTENSIONS } from '../http/v2.js';
import { decodeInfer, encodeInfer, readInferMessage } from '../protocol/v2-grpc.js';
import { GRPCInferenceService } from './gen/inference_pb.js';
import { decoded, methodsOf, pathOf } from './methods.js';

/** An input or output, whose sizes protobuf has as 64-bit integers. */
const described = (/** @type {import('../models/tensor-model.js').Port} */ { shape, ...port }) => ({ ...port, shape: shape.map(BigInt) });

/**
 * @param {import('../serve.js').Context} context
 * @returns {[path: string, method: import('./methods.js').Method][]}
 */
export function inferenceMethods({ registry, about, allowsControl, limits }) {
  const readyVersions = (/** @type {string} */ name) => registry.versions.filter((entry) => entry.name === name && entry.state === 'ready');
  /** The name of a model to load or unload, see the message. */
  const named = (/** @type {any} */ { repositoryOrModelName: first, modelName: name }) => {
    if (!allowsControl) throw new ServeError('notAllowed', 'models are not loaded through the network; start the server with --control');
    return name === '' ? first : name;
  };

  /** @type {Record<string, import('./methods.js').Handler>} */
  const handlers = {
    ServerLive: () => ({ live: true }),
    ServerReady: () => ({ ready: registry.isReady }),
    ServerMetadata: () => ({ ...about, extensions: EXTENSIONS }),
    // Triton answers "no" rather than an error also for a model that there is not.
    ModelReady: ({ name, version: wanted }) => ({
      ready: registry.isReady && readyVersions(name).some(({ version }) => wanted === '' || version === wanted),
    }),
    ModelMetadata(message) {
      const { name, version, model } = registry.get(message.name, message.version);
      const versions = message.version === '' ? readyVersions(name).map((entry) => entry.version) : [version];
      const { inputs, outputs, ...metadata } = model.metadata;
      return { name, versions, ...metadata, inputs: inputs.map(described), outputs: outputs.map(described) };
    },
    RepositoryIndex: ({ ready }) => ({ models: registry.index(ready) }),
    async RepositoryModelLoad(message) {
      const name = named(message);
      await registry.load(name);
      return { modelName: name, isLoaded: true };
    },
    async RepositoryModelUnload(message) {
      const name = named(message);
      await registry.unload(name);
      return { modelName: name, isUnloaded: true };
    },
  };

  /** @type {import('./methods.js').Method} */
  const modelInfer = {
    isOpen: false,
    takesMany: false,
    limit: limits.maxBodyBytes,
    async *answer(bytes, { signal, deadline = Infinity }) {
      const message = decoded(() => readInferMessage(bytes));
      const served = registry.get(message.modelName, message.modelVersion);
      const { request, timeoutMs = Infinity } = decoded(() => decodeInfer(message));
      const until = Math.min(deadline, performance.now() + timeoutMs);
      const result = await served.model.infer(request, { signal, deadline: until === Infinity ? undefined : until });
      yield encodeInfer(served, message.id, result);
    },
  };
  return [...methodsOf(GRPCInferenceService, handlers, { open: ['ServerLive', 'ServerReady'] }), [pathOf(GRPCInferenceService, 'ModelInfer'), modelInfer]];
}
