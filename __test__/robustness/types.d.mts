// Types that random and valid calls of operators share.

import type { MLOperand, MLOperandDataType } from '../../index.js';

/** A generator of random numbers. */
export type Random = ReturnType<typeof import('../lib/random.mjs').generator>;

/** An operator, as the IDL has it. */
export interface OperatorRow {
  name: string;
  options: string;
  arguments: { name: string; type: string }[];
}

/** Makes the operands of calls. */
export interface OperandMaker {
  /** One of numbers with a fraction. */
  f(...shape: number[]): MLOperand;
  of(dataType: MLOperandDataType, ...shape: number[]): MLOperand;
}

/** Valid arguments of an operator. */
export type Arguments = [args: unknown[], options: Record<string, unknown>];
