// Programs in TypeScript that the compiler must accept, or refuse where that is expected.

import ort, { env, InferenceSession, listSupportedBackends, Tensor, type SupportedBackend, type TypedTensor } from 'webnn-node-ort';
import 'webnn-node-ort/register';

const session: InferenceSession = await InferenceSession.create('model.onnx', { executionProviders: ['webgpu', { name: 'cpu' }], intraOpNumThreads: 2 });
const names: readonly string[] = session.inputNames;
const feeds: InferenceSession.FeedsType = { [names[0]]: new Tensor('float32', [1, 2], [2]) };
const { y }: InferenceSession.ReturnType = await session.run(feeds, ['y'], { tag: 'one' });
const data: Float32Array = (y as TypedTensor<'float32'>).data;
const backends: SupportedBackend[] = listSupportedBackends();
const version: string | undefined = env.versions.node;
const same: typeof Tensor = ort.Tensor;

// @ts-expect-error: there is no such type
new Tensor('float31', [1]);
// @ts-expect-error: a number of threads is no string
await InferenceSession.create('model.onnx', { intraOpNumThreads: 'two' });

export { backends, data, same, version };
