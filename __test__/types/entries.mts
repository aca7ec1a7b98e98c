// What the code of the entries exports is what their declarations say. Objects of an interface differ in their private
// parts, which code outside cannot make; so members are compared.

import type * as index from '../../index.js';
import type * as inspect from '../../inspect.js';
import type * as compat from '../../compat.js';
import builder from '../../lib/builder.js';
import context from '../../lib/context.js';
import draft2021 from '../../lib/compat/draft2021/index.js';
import draft2024 from '../../lib/compat/draft2024/index.js';
import graph from '../../lib/graph.js';
import implementedInspect from '../../lib/inspect.js';
import install from '../../lib/compat/install.js';
import ml from '../../lib/ml.js';
import operand from '../../lib/operand.js';
import tensor from '../../lib/tensor.js';

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

implement<Pick<typeof inspect, 'describeGraph' | 'profileGraph' | 'systemInfo'>>(implementedInspect);
implement<Pick<typeof compat, 'install'>>(install);
implement<Members<compat.draft2021.ML>>(null! as InstanceType<typeof draft2021.ML>);
implement<Members<compat.draft2021.MLGraph>>(null! as InstanceType<typeof draft2021.MLGraph>);
implement<Pick<compat.draft2021.MLGraphBuilder, 'input' | 'constant' | 'build'>>(null! as InstanceType<typeof draft2021.MLGraphBuilder>);
implement<compat.draft2021.ML>(draft2021.ml);
implement<compat.draft2024.ML>(draft2024.ml);
implement<Members<compat.draft2024.ML>>(null! as InstanceType<typeof draft2024.ML>);
implement<{
  // The declaration says more: results have the types of the views that were given.
  compute(...args: Parameters<compat.draft2024.MLContext['compute']>): Promise<compat.draft2024.MLComputeResult>;
  opSupportLimits(): index.MLOpSupportLimits;
}>(null! as InstanceType<typeof draft2024.MLContext>);
