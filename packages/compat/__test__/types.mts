// Programs of earlier drafts that must compile, and mistakes that the types must find. Compiled by types.test.mjs,
// never run.

import { ml } from 'webnn-node';
import { draft2021, draft2024, install } from 'webnn-node-compat';

install(draft2021);
install(draft2024);
// @ts-expect-error: no such draft
install('2021');

{
  const { ml, MLGraphBuilder } = draft2021;
  const context: draft2021.MLContext = ml.createContext({ devicePreference: 'cpu', powerPreference: 'low-power' });
  const builder = new MLGraphBuilder(context);
  const x = builder.input('x', { type: 'float32', dimensions: [-1, 3, 8, 8] });
  const scalar = builder.constant(0.5);
  const filter = builder.constant({ type: 'float32', dimensions: [4, 3, 3, 3] }, new Float32Array(108));
  const y = builder.conv2d(x, filter, { autoPad: 'same-upper', transpose: true, filterLayout: 'oihw' });
  const flat = builder.reshape(builder.clamp(y, { minValue: scalar }), [null, 4]);
  const parts: draft2021.MLOperand[] = builder.split(builder.squeeze(flat, { axes: [-1] }), [1, 3], { axis: -1 });
  const sum = builder.reduceSum(parts[0]!, { axes: null });
  const graph: draft2021.MLGraph = builder.build({ sum });
  const activation: draft2021.MLOperator = builder.clamp({ minValue: 0, maxValue: 6 });
  builder.conv2d(x, filter, { activation, bias: scalar });
  builder.gruCell(x, x, x, x, 4, { activations: [builder.sigmoid(), 'tanh'] });
  const nothing: undefined = graph.compute({ x: { resource: new Float32Array(192), dimensions: [1, 3, 8, 8] } }, { sum: new Float32Array(1) });
  void nothing;
  // @ts-expect-error: no data type of 2021
  builder.input('x', { type: 'int64' });
  // @ts-expect-error: today's name
  builder.input('x', { dataType: 'float32', shape: [] });
  // @ts-expect-error: an operator without operand is none
  builder.add(x, activation);
  // @ts-expect-error: an operator of later drafts
  builder.gelu(x);
  // @ts-expect-error: an operand of a later draft
  builder.relu(await draft2024.ml.createContext());
}

{
  const { ml, MLGraphBuilder } = draft2024;
  const context: draft2024.MLContext = await ml.createContext({ deviceType: 'npu' });
  const builder = new MLGraphBuilder(context);
  const x: draft2024.MLOperand = builder.input('x', { type: 'float32', dimensions: [1, 1, 4, 4] });
  const filter = builder.constant({ dataType: 'float32', shape: [1, 1, 3, 3] }, new Float32Array(9));
  const convolved = builder.conv2d(x, filter, { activation: builder.relu(), padding: [1, 1, 1, 1] });
  const pooled = builder.maxPool2d(convolved, { windowDimensions: [2, 2], roundingType: 'ceil' });
  const padded = builder.pad(pooled, [0, 0, 1, 1], [0, 0, 1, 1], { mode: 'symmetric' });
  const scaled = builder.mul(padded, builder.constant(2, 'float32'));
  const best = builder.argMax(scaled, { axes: [3], keepDimensions: true });
  const type: 'float32' | string = scaled.dataType();
  const height: number | undefined = builder.reshape(scaled, [9, null]).shape()[0];
  const normalized: draft2024.MLOperand = builder.instanceNormalization(builder.concat([x, x], 1), {
    scale: builder.constant({ dataType: 'float32' }, new Float32Array(1)),
  });
  const [part] = builder.split(normalized, 2);
  void [type, height, part];
  const graph: draft2024.MLGraph = await builder.build({ scaled, best });
  const { inputs, outputs } = await context.compute(graph, { x: new Float32Array(16) }, { scaled: new Float32Array(9) });
  const first: number | undefined = outputs.scaled[0];
  const back: Float32Array = inputs.x;
  void first;
  void back;
  // @ts-expect-error: tensors came later
  context.createTensor({ dataType: 'float32', shape: [1] });
  // @ts-expect-error: a context is a promise
  new MLGraphBuilder(ml.createContext());
  // @ts-expect-error: an attribute of today
  x.shape.length satisfies 4;
  // @ts-expect-error: an activation is no operand
  builder.add(x, builder.relu());
}

// @ts-expect-error: nothing of the earlier drafts is part of today's
(await ml.createContext()).compute();
