// What a library of TypeScript would declare for WebNN, in the form in which it declares other interfaces of the web: made
// for this test from a later draft, with a data type, a power preference and a method more, and most operators left out.

type MLOperandDataType = 'float16' | 'float32' | 'int32' | 'int4' | 'int64' | 'int8' | 'uint32' | 'uint64' | 'uint8';
type MLPowerPreference = 'default' | 'high-performance' | 'low-power' | 'turbo';

interface MLContextOptions {
  accelerated?: boolean;
  powerPreference?: MLPowerPreference;
}

interface MLContextLostInfo {
  message?: string;
}

interface MLOpSupportLimits {
  maxTensorByteLength?: number;
}

interface MLOperandDescriptor {
  dataType: MLOperandDataType;
  shape: number[];
}

interface MLTensorDescriptor extends MLOperandDescriptor {
  readable?: boolean;
  writable?: boolean;
}

interface NavigatorML {
  readonly ml: ML;
}

interface Navigator extends NavigatorML {}

interface ML {
  createContext(options?: MLContextOptions): Promise<MLContext>;
}

declare var ML: {
  prototype: ML;
  new (): ML;
};

interface MLContext {
  readonly accelerated: boolean;
  readonly lost: Promise<MLContextLostInfo>;
  createTensor(descriptor: MLTensorDescriptor): Promise<MLTensor>;
  destroy(): void;
  dispatch(graph: MLGraph, inputs: Record<string, MLTensor>, outputs: Record<string, MLTensor>): void;
  opSupportLimits(): MLOpSupportLimits;
  whatALaterDraftHas(): void;
}

declare var MLContext: {
  prototype: MLContext;
  new (): MLContext;
};

interface MLGraph {
  destroy(): void;
}

declare var MLGraph: {
  prototype: MLGraph;
  new (): MLGraph;
};

interface MLGraphBuilder {
  build(outputs: Record<string, MLOperand>): Promise<MLGraph>;
  input(name: string, descriptor: MLOperandDescriptor): MLOperand;
  relu(input: MLOperand): MLOperand;
}

declare var MLGraphBuilder: {
  prototype: MLGraphBuilder;
  new (context: MLContext): MLGraphBuilder;
};

interface MLOperand {
  readonly dataType: MLOperandDataType;
  readonly shape: ReadonlyArray<number>;
}

declare var MLOperand: {
  prototype: MLOperand;
  new (): MLOperand;
};

interface MLTensor {
  readonly constant: boolean;
  readonly dataType: MLOperandDataType;
  readonly shape: ReadonlyArray<number>;
  destroy(): void;
}

declare var MLTensor: {
  prototype: MLTensor;
  new (): MLTensor;
};
