// What the code of the drafts exports is what their declarations say. See __test__/types/entries.mts.

import type * as webnn from 'webnn-node';
import type * as compat from 'webnn-node-compat';
import draft2021 from '../lib/draft2021/index.js';
import draft2024 from '../lib/draft2024/index.js';
import install from '../lib/install.js';

/** The members of an object that others can see. */
type Members<T> = Pick<T, keyof T>;

/** Fails to compile unless all members of `Declared` are there, with types that fit. */
declare function implement<Declared>(implementation: Declared): void;

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
  opSupportLimits(): webnn.MLOpSupportLimits;
}>(null! as InstanceType<typeof draft2024.MLContext>);
implement<Members<compat.draft2024.MLOperand>>(null! as InstanceType<typeof draft2024.MLOperand>);
