// A program over ONNX models. Compiled by types.test.mjs, never run.

import { MLGraphBuilder, ml, type MLTensor } from 'webnn-node';
import {
  OnnxError,
  OnnxModel,
  cacheKey,
  importModel,
  inputShapes,
  inspectModel,
  loadModel,
  supportedOperators,
  type OnnxAbortSignal,
  type OnnxDescription,
  type OnnxErrorCode,
  type OnnxFeeds,
  type OnnxGroup,
  type OnnxMemory,
  type OnnxResult,
  type OnnxSpecialization,
  type OnnxUnsupportedNode,
} from 'webnn-node/onnx';

declare const tensor: MLTensor;
declare const signal: OnnxAbortSignal;

const context = await ml.createContext();
const model: OnnxModel = await loadModel('model.onnx', {
  context,
  freeDimensions: { batch: 1 },
  strictDimensions: true,
  keepLast: { logits: 1 },
  idle: 300_000,
  outputs: ['logits'],
  signal,
});
await loadModel({ href: 'file:///model.onnx', protocol: 'file:' });
await loadModel('file:///model.onnx', { device: 'gpu', numThreads: 2 });
await loadModel(new Uint8Array(8));
await loadModel(new Uint8Array(8), { transfer: true });
await loadModel('model.onnx', { cache: true });
await loadModel('model.onnx', { cache: 'weights' });
await loadModel('model.onnx', { cache: { folder: 'weights', verify: true, byContents: false } });
const { mapped, store }: OnnxMemory = model.memory;
const kept: [number, string | null] = [mapped, store];
await model.saved();
// @ts-expect-error: no such option
await loadModel('model.onnx', { cache: { path: 'weights' } });
// @ts-expect-error: it only tells
model.memory.mapped = 0;

const { logits } = await model.run(
  {
    ids: new BigInt64Array(4),
    mask: { data: new BigInt64Array(4), shape: [1, 4] },
    past: tensor,
  },
  { present: tensor, unread: null },
);
const first: number = logits.data[0];

const known = await model.run<{ logits: OnnxResult<Float32Array>; present: MLTensor }>({}, { present: tensor });
const [best, state]: [number, MLTensor] = [known.logits.data.indexOf(1), known.present];
await model.run({ ids: known.logits });
const { present } = await model.run<{ logits: OnnxResult<Float32Array>; present: OnnxGroup }>({ ids: known.logits });
const next: OnnxFeeds = { ids: known.logits, past: present };
await model.run(next);

const { graph, inputs, outputs }: OnnxSpecialization = await model.compile({ ids: [1, 4] });
graph?.destroy();
const described: OnnxDescription = await model.describe({ ids: [1, 4] });
const steps: number | undefined = described.graph?.steps.length;
const left: number = described.nodesLeft + described.cuts.length;
const shape: readonly number[] = inputs['ids']!.shape;
const name: string = model.inputs[0]!.name;
const dimension: number | string | undefined = model.outputs[0]!.shape?.[0];
const version: number | undefined = model.metadata.opsets[''];
await model.release();
model.destroy();

const builder = new MLGraphBuilder(context);
const x = builder.input('x', { dataType: 'float32', shape: [2] });
const { y } = importModel(builder, 'model.onnx', { x }, { outputs: ['y'] });
await builder.build({ y: y! });

const { operators, parameters, unsupported } = inspectModel('model.onnx');
const reasons: string[] = unsupported.map((node: OnnxUnsupportedNode) => node.reason);
const key: string | undefined = cacheKey('present.0.key');
const notes: string[] = supportedOperators().map((entry) => entry.notes);
try {
  await loadModel('model.onnx');
} catch (error) {
  if (error instanceof OnnxError) {
    const operator: string | undefined = error.unsupported[0]?.operator;
    const code: OnnxErrorCode = error.code;
    const help: string = error.help;
    void [operator, code, help];
  }
}
void [first, best, state, kept, outputs, shape, name, dimension, version, operators, parameters, reasons, notes, key];

// @ts-expect-error: models come from loadModel()
new OnnxModel();
// @ts-expect-error: feeds are tensors or buffers
await model.run({ x: [1, 2, 3] });
// @ts-expect-error: no such option
await loadModel('model.onnx', { maxSpecializations: 4 });
// @ts-expect-error: no such device
await loadModel('model.onnx', { device: 'tpu' });
// @ts-expect-error: descriptions do not change
model.inputs[0]!.name = 'other';
// @ts-expect-error: neither do lists
model.optionalInputs.push(model.inputs[0]!);

{
  const { shapes, freeDimensions } = inputShapes(model.inputs, {
    freeDimensions: { batch: 1 },
    strictDimensions: false,
    shapes: { x: [1, 3] },
    elements: { y: 4 },
  });
  const dimension: number | string | undefined = shapes['x']?.[0];
  await loadModel('model.onnx', { freeDimensions });
  void dimension;
  // @ts-expect-error: shapes are numbers
  inputShapes(model.inputs, { shapes: { x: ['batch'] } });
}
