// What the code of the entries exports is what their declarations say. Objects of an interface differ in their private
// parts, which code outside cannot make; so members are compared.

import type * as index from '../../index.js';
import type * as inspect from '../../inspect.js';
import type * as onnx from '../../onnx.js';
import type * as webidl from '../../webidl.js';
import builder from '../../lib/builder.js';
import context from '../../lib/context.js';
import descriptor from '../../lib/descriptor.js';
import errors from '../../lib/errors.js';
import graph from '../../lib/graph.js';
import implementedInspect from '../../lib/inspect.js';
import shapes from '../../lib/onnx/shapes.js';
import ml from '../../lib/ml.js';
import operand from '../../lib/operand.js';
import severalBuilds from '../../lib/several-builds.js';
import slots from '../../lib/slots.js';
import tensor from '../../lib/tensor.js';
import conversions from '../../lib/webidl.js';

/** The members of an object that others can see. */
type Members<T> = Pick<T, keyof T>;

/** Fails to compile unless all members of `Declared` are there, with types that fit. */
declare function implement<Declared>(implementation: Declared): void;

implement<Members<index.ML>>(null! as InstanceType<typeof ml.ML>);
implement<Members<index.MLContext>>(null! as InstanceType<typeof context.MLContext>);
implement<Members<index.MLGraph>>(null! as InstanceType<typeof graph.MLGraph>);
implement<Members<index.MLOperand>>(null! as InstanceType<typeof operand.MLOperand>);
implement<Members<index.MLTensor>>(null! as InstanceType<typeof tensor.MLTensor>);
// The methods of operators come from the same table as their declarations.
implement<Pick<index.MLGraphBuilder, 'input' | 'constant' | 'build'>>(null! as InstanceType<typeof builder.MLGraphBuilder>);
implement<index.ML>(ml.ml);

implement<Pick<typeof inspect, 'describeContext' | 'describeGraph' | 'profileGraph' | 'systemInfo'>>(implementedInspect);
implement<Pick<typeof onnx, 'inputShapes'>>(shapes);
implement<Omit<typeof webidl, 'default'>>({ ...descriptor, ...errors, ...severalBuilds, ...slots, ...conversions });
