// Types shared by the earlier drafts.

import type { MLDynamicGraph, MLGraphBuilder, MLOperand, MLOperandDataType, MLContextOptions } from 'webnn-node';

/** A view that an earlier draft accepts: of fixed length and not shared. */
export interface View {
  /** The caller's view. */
  view: ArrayBufferView;
  /** `DataView` or the name of a typed array type. */
  kind: string;
  buffer: ArrayBuffer;
}

/** A value of a compiled graph. */
export interface Port {
  name: string;
  dataType: MLOperandDataType;
  shape: number[];
}

/** A graph of today's API, with inputs by id and outputs by index. */
export interface CompiledProgram {
  graph: MLDynamicGraph;
  inputs: Port[];
  outputs: Port[];
}

/** Results of a run of the draft of 2021, in memory that both threads share. */
export interface Results {
  buffer: SharedArrayBuffer;
  outputs: { dataType: MLOperandDataType; shape: number[]; byteOffset: number; byteLength: number }[];
}

/**
 * Expresses an operator of the draft of 2021 by today's: takes the arguments in order with today's operands, the
 * options with their defaults, and the numbers of small constants.
 */
export type Lower<Arguments extends unknown[], Options = {}> = (
  builder: MLGraphBuilder,
  args: Arguments,
  options: Options,
  valuesOf: (operand: MLOperand) => number[] | undefined,
) => MLOperand | MLOperand[];

export type AutoPad = 'explicit' | 'same-upper' | 'same-lower';

/** A row of the operators in draft2021/idl.js. */
export interface Row {
  name: string;
  arguments: { name: string; type: string }[];
  /** Its dictionary; undefined if it has none. */
  options: string | undefined;
  result: string;
}

/**
 * A recorded call of a builder of the draft of 2021, with ids in place of operands. `isOpen`: some sizes are unknown.
 */
export type ProgramNode = { needs: number[]; isOpen: boolean } & (
  | { kind: 'input'; dataType: MLOperandDataType; shape: number[] }
  | { kind: 'constant'; tensor: import('webnn-node').MLTensor }
  | { kind: 'scalar'; dataType: MLOperandDataType; value: number }
  | { kind: 'operator'; name: string; args: unknown[]; options: Record<string, unknown> }
);

/** An input of a builder of the draft of 2021; dimensions below 0 are unknown. */
export interface Input {
  id: number;
  name: string;
  type: MLOperandDataType;
  dimensions: number[];
}

/** Data for an input: a view, and the shape, if given. */
export interface InputData {
  resource: View;
  dimensions: number[] | undefined;
}

/** An MLActivation of the draft of 2024. */
export interface Activation {
  builder: object;
  name: string;
  apply(operand: unknown): MLOperand;
}

/** A method of a builder that takes the builder as an argument. */
export type BuilderMethod = (builder: object, args: unknown[]) => unknown;

/** The options of today's createContext() that the draft of 2021 uses. */
export type TodaysContextOptions = Pick<MLContextOptions, 'accelerated' | 'powerPreference'>;

export type Bridge = InstanceType<typeof import('./draft2021/bridge.js').Bridge>;

/** The states behind objects of the draft of 2021. */
export interface ContextState {
  bridge: Bridge;
  id: number;
}

export interface BuilderState {
  context: ContextState;
  id: number;
  /** By id. */
  inputs: Map<number, Input>;
}

export interface OperandState {
  builder: BuilderState;
  id: number;
}

/** An MLOperator: an operator whose operand is given later. */
export interface OperatorState {
  builder: object;
  name: string;
  row: Row;
  options: object;
}

export type GraphState = InstanceType<typeof import('./draft2021/graph.js').Graph>;
