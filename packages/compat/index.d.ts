// Earlier drafts of WebNN, implemented on the public API of `webnn-node`; no part of this is in `webnn-node` itself.

import type * as webnn from 'webnn-node';

/**
 * Defines `navigator.ml` and the interfaces of an earlier draft as globals, replacing existing ones: for programs that
 * expect a browser of that time.
 */
export function install(draft: typeof draft2021 | typeof draft2024): void;

/**
 * The draft of 2021: everything is synchronous, graphs have `compute()`, and shapes may be unknown until it is called.
 *
 * Contexts live on a thread of their own. `build()`, `compute()` and the methods of the builder block the calling
 * thread until they are done. (Threads that must not wait, such as those of pages in Electron, get a
 * NotSupportedError.) Unreachable objects are freed when the program returns to its event loop.
 *
 * Contexts of a GPUDevice or WebGLRenderingContext, and resources of WebGPU and WebGL, cause a NotSupportedError.
 */
export namespace draft2021 {
  /** `gpu` asks for a GPU, whatever `powerPreference` is; `default` leaves it to that, `cpu` selects the CPU. */
  type MLDevicePreference = 'default' | 'gpu' | 'cpu';
  type MLPowerPreference = 'default' | 'high-performance' | 'low-power';
  type MLInputOperandLayout = 'nchw' | 'nhwc';
  type MLOperandType = 'float32' | 'float16' | 'int32' | 'uint32' | 'int8' | 'uint8';
  /** Order of output channels (o), input channels (i), height and width; the same with `transpose`. */
  type MLFilterOperandLayout = 'oihw' | 'hwio' | 'ohwi' | 'ihwo';
  /**
   * `same-upper` and `same-lower` pad until output sizes are input sizes divided by strides. They put an odd element at
   * the end or at the beginning.
   */
  type MLAutoPad = 'explicit' | 'same-upper' | 'same-lower';
  type MLConvTranspose2dFilterOperandLayout = 'iohw' | 'hwoi' | 'ohwi';
  type MLRecurrentNetworkWeightLayout = 'zrn' | 'rzn';
  type MLRecurrentNetworkActivation = 'relu' | 'sigmoid' | 'tanh';
  type MLRecurrentNetworkDirection = 'forward' | 'backward' | 'both';
  type MLRoundingType = 'floor' | 'ceil';
  type MLPaddingMode = 'constant' | 'edge' | 'reflection' | 'symmetric';
  type MLInterpolationMode = 'nearest-neighbor' | 'linear';

  interface MLContextOptions {
    /** @default "default" */
    devicePreference?: MLDevicePreference | undefined;
    /** @default "default" */
    powerPreference?: MLPowerPreference | undefined;
  }

  interface MLOperandDescriptor {
    type: MLOperandType;
    /** Absent for a scalar. Negative dimensions are unknown until `compute()`. */
    dimensions?: Iterable<number> | undefined;
  }

  /** The data of an input and its shape. */
  interface MLInput {
    resource: ArrayBufferView;
    dimensions: Iterable<number>;
  }

  type MLNamedOperands = Record<string, MLOperand>;
  type MLNamedInputs = Record<string, ArrayBufferView | MLInput>;
  type MLNamedOutputs = Record<string, ArrayBufferView>;

  interface MLBatchNormalizationOptions {
    scale?: MLOperand | undefined;
    bias?: MLOperand | undefined;
    /** @default 1 */
    axis?: number | undefined;
    /** @default 1e-5 */
    epsilon?: number | undefined;
    activation?: MLOperator | undefined;
  }

  /** The limits are operands, each broadcast to the shape of the input, or numbers as from September 2021. */
  interface MLClampOptions {
    minValue?: MLOperand | number | undefined;
    maxValue?: MLOperand | number | undefined;
  }

  interface MLConv2dOptions {
    /** [beginning height, ending height, beginning width, ending width] */
    padding?: Iterable<number> | undefined;
    strides?: Iterable<number> | undefined;
    dilations?: Iterable<number> | undefined;
    /** For transposed convolutions only. */
    outputPadding?: Iterable<number> | undefined;
    /** For transposed convolutions only. If absent, sizes follow from the strides. */
    outputSizes?: Iterable<number> | undefined;
    /** @default "explicit" */
    autoPad?: MLAutoPad | undefined;
    /** @default false */
    transpose?: boolean | undefined;
    /** @default 1 */
    groups?: number | undefined;
    /** @default "nchw" */
    inputLayout?: MLInputOperandLayout | undefined;
    /** @default "oihw" */
    filterLayout?: MLFilterOperandLayout | undefined;
    bias?: MLOperand | undefined;
    /** Applied to the result. */
    activation?: MLOperator | undefined;
  }

  interface MLConvTranspose2dOptions extends Omit<MLConv2dOptions, 'transpose' | 'filterLayout'> {
    /** @default "iohw" */
    filterLayout?: MLConvTranspose2dFilterOperandLayout | undefined;
  }

  interface MLGemmOptions {
    c?: MLOperand | undefined;
    /** @default 1 */
    alpha?: number | undefined;
    /** @default 1 */
    beta?: number | undefined;
    /** @default false */
    aTranspose?: boolean | undefined;
    /** @default false */
    bTranspose?: boolean | undefined;
  }

  interface MLGruCellOptions {
    bias?: MLOperand | undefined;
    recurrentBias?: MLOperand | undefined;
    /** @default true */
    resetAfter?: boolean | undefined;
    /** @default "zrn" */
    layout?: MLRecurrentNetworkWeightLayout | undefined;
    /** For the update and reset gates, and for the new gate. */
    activations?: Iterable<MLRecurrentNetworkActivation | MLOperator> | undefined;
  }

  interface MLGruOptions extends MLGruCellOptions {
    initialHiddenState?: MLOperand | undefined;
    /** @default false */
    returnSequence?: boolean | undefined;
    /** @default "forward" */
    direction?: MLRecurrentNetworkDirection | undefined;
  }

  interface MLInstanceNormalizationOptions {
    scale?: MLOperand | undefined;
    bias?: MLOperand | undefined;
    /** @default 1e-5 */
    epsilon?: number | undefined;
    /** @default "nchw" */
    layout?: MLInputOperandLayout | undefined;
  }

  interface MLLeakyReluOptions {
    /** @default 0.01 */
    alpha?: number | undefined;
  }

  interface MLPadOptions {
    /** @default "constant" */
    mode?: MLPaddingMode | undefined;
    /** @default 0 */
    value?: number | undefined;
  }

  interface MLPool2dOptions {
    /** If absent, the whole image. */
    windowDimensions?: Iterable<number> | undefined;
    padding?: Iterable<number> | undefined;
    strides?: Iterable<number> | undefined;
    dilations?: Iterable<number> | undefined;
    /** @default "explicit" */
    autoPad?: MLAutoPad | undefined;
    /** @default "nchw" */
    layout?: MLInputOperandLayout | undefined;
    /** From January 2022; overrides `roundingType`. */
    outputSizes?: Iterable<number> | undefined;
    /** From January 2022. @default "floor" */
    roundingType?: MLRoundingType | undefined;
  }

  interface MLReduceOptions {
    /** All axes if absent or null; negative axes count from the end. */
    axes?: Iterable<number> | null | undefined;
    /** @default false */
    keepDimensions?: boolean | undefined;
  }

  interface MLResampleOptions {
    /** @default "nearest-neighbor" */
    mode?: MLInterpolationMode | undefined;
    /** One per dimension. */
    scales?: Iterable<number> | undefined;
    /** One per dimension; overrides `scales`. */
    sizes?: Iterable<number> | undefined;
  }

  interface MLResample2dOptions {
    /** @default "nearest-neighbor" */
    mode?: MLInterpolationMode | undefined;
    /** One for each of the axes. */
    scales?: Iterable<number> | undefined;
    /** One for each of the axes; overrides `scales`. */
    sizes?: Iterable<number> | undefined;
    /** @default [2, 3] */
    axes?: Iterable<number> | undefined;
  }

  interface MLSliceOptions {
    /** The dimensions to slice; negative ones count from the end. */
    axes?: Iterable<number> | undefined;
  }

  interface MLSplitOptions {
    /** Negative axes count from the end. @default 0 */
    axis?: number | undefined;
  }

  interface MLSqueezeOptions {
    /** If absent, all dimensions of size 1. */
    axes?: Iterable<number> | undefined;
  }

  interface MLTransposeOptions {
    permutation?: Iterable<number> | undefined;
  }

  /** Entry to the API. */
  class ML {
    private constructor();
    #private;
    /** Returns a context that can be used at once. If its creation fails, the first builder reports that. */
    createContext(options?: MLContextOptions): MLContext;
  }

  /** The context in which graphs are built and computed. */
  class MLContext {
    private constructor();
    #private;
  }

  /** A value of a graph under construction. */
  class MLOperand {
    private constructor();
    #private;
  }

  /** An operator without its operand, of the drafts from July 2021 to 2022. */
  class MLOperator {
    private constructor();
    #private;
  }

  /** A compiled graph. */
  class MLGraph {
    private constructor();
    #private;
    /**
     * Computes the named outputs, and returns when they are done. Views of outputs may be longer than needed.
     *
     * Throws a DataError if names, kinds of views, dimensions or lengths do not fit the graph, and an OperationError if
     * the operators do not fit the dimensions that were unknown before. The graph is compiled for each set of outputs
     * and unknown dimensions; the 8 most recent compiled forms are kept.
     */
    compute(inputs: MLNamedInputs, outputs: MLNamedOutputs): undefined;
  }

  /**
   * Builds a graph for each call of `build()`.
   *
   * Methods throw a TypeError for operands that do not fit; if the shape of an operand depends on unknown dimensions,
   * `compute()` throws.
   */
  class MLGraphBuilder {
    constructor(context: MLContext);
    #private;
    input(name: string, desc: MLOperandDescriptor): MLOperand;
    /** The contents of a view, or one number. */
    constant(desc: MLOperandDescriptor, bufferView: ArrayBufferView): MLOperand;
    constant(value: number, type?: MLOperandType): MLOperand;
    /** Compiles the graph for these outputs, and returns when it is done. */
    build(outputs: MLNamedOperands): MLGraph;

    batchNormalization(input: MLOperand, mean: MLOperand, variance: MLOperand, options?: MLBatchNormalizationOptions): MLOperand;
    clamp(x: MLOperand, options?: MLClampOptions): MLOperand;
    clamp(options?: MLClampOptions): MLOperator;
    concat(inputs: Iterable<MLOperand>, axis: number): MLOperand;
    conv2d(input: MLOperand, filter: MLOperand, options?: MLConv2dOptions): MLOperand;
    /** From December 2021, in place of the option `transpose` of `conv2d`. */
    convTranspose2d(input: MLOperand, filter: MLOperand, options?: MLConvTranspose2dOptions): MLOperand;
    add(a: MLOperand, b: MLOperand): MLOperand;
    sub(a: MLOperand, b: MLOperand): MLOperand;
    mul(a: MLOperand, b: MLOperand): MLOperand;
    div(a: MLOperand, b: MLOperand): MLOperand;
    max(a: MLOperand, b: MLOperand): MLOperand;
    min(a: MLOperand, b: MLOperand): MLOperand;
    pow(a: MLOperand, b: MLOperand): MLOperand;
    abs(x: MLOperand): MLOperand;
    ceil(x: MLOperand): MLOperand;
    cos(x: MLOperand): MLOperand;
    exp(x: MLOperand): MLOperand;
    floor(x: MLOperand): MLOperand;
    hardSwish(x: MLOperand): MLOperand;
    hardSwish(): MLOperator;
    log(x: MLOperand): MLOperand;
    neg(x: MLOperand): MLOperand;
    relu(x: MLOperand): MLOperand;
    relu(): MLOperator;
    sigmoid(x: MLOperand): MLOperand;
    sigmoid(): MLOperator;
    sin(x: MLOperand): MLOperand;
    tan(x: MLOperand): MLOperand;
    tanh(x: MLOperand): MLOperand;
    tanh(): MLOperator;
    gemm(a: MLOperand, b: MLOperand, options?: MLGemmOptions): MLOperand;
    /** Returns the last hidden state and, with `returnSequence`, the hidden states of all steps. */
    gru(input: MLOperand, weight: MLOperand, recurrentWeight: MLOperand, steps: number, hiddenSize: number, options?: MLGruOptions): MLOperand[];
    gruCell(input: MLOperand, weight: MLOperand, recurrentWeight: MLOperand, hiddenState: MLOperand, hiddenSize: number, options?: MLGruCellOptions): MLOperand;
    instanceNormalization(input: MLOperand, options?: MLInstanceNormalizationOptions): MLOperand;
    leakyRelu(x: MLOperand, options?: MLLeakyReluOptions): MLOperand;
    leakyRelu(options?: MLLeakyReluOptions): MLOperator;
    /** A vector counts as a matrix with one row (a) or column (b); the product of two vectors is a scalar. */
    matmul(a: MLOperand, b: MLOperand): MLOperand;
    /** `padding`, of shape [rank, 2], must be a constant; otherwise throws a NotSupportedError. */
    pad(input: MLOperand, padding: MLOperand, options?: MLPadOptions): MLOperand;
    averagePool2d(input: MLOperand, options?: MLPool2dOptions): MLOperand;
    l2Pool2d(input: MLOperand, options?: MLPool2dOptions): MLOperand;
    maxPool2d(input: MLOperand, options?: MLPool2dOptions): MLOperand;
    reduceL1(input: MLOperand, options?: MLReduceOptions): MLOperand;
    reduceL2(input: MLOperand, options?: MLReduceOptions): MLOperand;
    reduceLogSum(input: MLOperand, options?: MLReduceOptions): MLOperand;
    reduceLogSumExp(input: MLOperand, options?: MLReduceOptions): MLOperand;
    reduceMax(input: MLOperand, options?: MLReduceOptions): MLOperand;
    reduceMean(input: MLOperand, options?: MLReduceOptions): MLOperand;
    reduceMin(input: MLOperand, options?: MLReduceOptions): MLOperand;
    reduceProduct(input: MLOperand, options?: MLReduceOptions): MLOperand;
    reduceSum(input: MLOperand, options?: MLReduceOptions): MLOperand;
    reduceSumSquare(input: MLOperand, options?: MLReduceOptions): MLOperand;
    resample(input: MLOperand, options?: MLResampleOptions): MLOperand;
    /** From September 2021, in place of `resample`. */
    resample2d(input: MLOperand, options?: MLResample2dOptions): MLOperand;
    /** One size may be -1 or null: it is computed from the others. */
    reshape(input: MLOperand, newShape: Iterable<number | null>): MLOperand;
    /** Negative starts count from the end; a size of -1 means all remaining elements. */
    slice(input: MLOperand, starts: Iterable<number>, sizes: Iterable<number>, options?: MLSliceOptions): MLOperand;
    /** Softmax of the rows of a matrix. */
    softmax(x: MLOperand): MLOperand;
    split(input: MLOperand, splits: number | Iterable<number>, options?: MLSplitOptions): MLOperand[];
    squeeze(input: MLOperand, options?: MLSqueezeOptions): MLOperand;
    transpose(input: MLOperand, options?: MLTransposeOptions): MLOperand;
  }

  /** The same object every time. */
  const ml: ML;
}

/** A type of today's declarations, with the operands of the draft of 2024. */
type OfDraft<T> = T extends webnn.MLOperand
  ? draft2024.MLOperand
  : T extends webnn.MLOperand[]
    ? draft2024.MLOperand[]
    : T extends Iterable<webnn.MLOperand>
      ? Iterable<draft2024.MLOperand>
      : T extends string | number | bigint | boolean | undefined | Iterable<unknown>
        ? T
        : { [Key in keyof T]: OfDraft<T[Key]> };

/** A method of today's declarations, with the operands of the draft of 2024. */
type MethodOfDraft<T> = T extends (...args: infer Arguments) => infer Result
  ? (...args: { [Index in keyof Arguments]: OfDraft<Arguments[Index]> }) => OfDraft<Result>
  : never;

/** Today's MLGraphBuilder without the methods whose signatures differed. */
declare const BuilderWithoutEarlierForms: new (
  context: never,
) => {
  [Name in Exclude<
    keyof webnn.MLGraphBuilder,
    | 'argMax'
    | 'argMin'
    | 'averagePool2d'
    | 'batchNormalization'
    | 'build'
    | 'clamp'
    | 'constant'
    | 'conv2d'
    | 'convTranspose2d'
    | 'elu'
    | 'gelu'
    | 'gru'
    | 'gruCell'
    | 'hardSigmoid'
    | 'hardSwish'
    | 'input'
    | 'l2Pool2d'
    | 'leakyRelu'
    | 'linear'
    | 'lstm'
    | 'lstmCell'
    | 'maxPool2d'
    | 'pad'
    | 'relu'
    | 'reshape'
    | 'sigmoid'
    | 'softmax'
    | 'softplus'
    | 'softsign'
    | 'tanh'
  >]: MethodOfDraft<webnn.MLGraphBuilder[Name]>;
};

/**
 * The drafts from 2023 to October 2024: `MLContext.compute()` in place of tensors, `deviceType`, `dataType()` and `shape()` of
 * operands, several graphs from one builder, and the descriptors, options and activations of that time. Operators that were
 * added later are also available.
 *
 * Contexts of a GPUDevice cause a NotSupportedError.
 */
export namespace draft2024 {
  /** `gpu` and `npu` ask for a GPU, whatever `powerPreference` is; `cpu` selects the CPU. */
  type MLDeviceType = 'cpu' | 'gpu' | 'npu';

  interface MLContextOptions {
    /** @default "cpu" */
    deviceType?: MLDeviceType | undefined;
    /** @default "default" */
    powerPreference?: webnn.MLPowerPreference | undefined;
  }

  /** With the member names of 2024 or of 2023. Without dimensions, that of a scalar. */
  type MLOperandDescriptor = ({ dataType: webnn.MLOperandDataType } | { type: webnn.MLOperandDataType }) & {
    shape?: Iterable<number> | undefined;
    dimensions?: Iterable<number> | undefined;
  };

  type MLNamedOperands = Record<string, MLOperand>;

  /** Views by input or output name. */
  type MLNamedArrayBufferViews = Record<string, ArrayBufferView>;

  /** New views of the transferred memory of the views passed to `compute()`. */
  interface MLComputeResult<Inputs = MLNamedArrayBufferViews, Outputs = MLNamedArrayBufferViews> {
    inputs: Inputs;
    outputs: Outputs;
  }

  interface MLPool2dOptions extends webnn.MLPool2dOptions {
    /** Name of `outputShapeRounding` until 2025. */
    roundingType?: webnn.MLRoundingType | undefined;
  }

  interface MLSoftplusOptions extends webnn.MLOperatorOptions {
    /** @default 1 */
    steepness?: number | undefined;
  }

  interface MLPadOptions extends Omit<webnn.MLPadOptions, 'mode'> {
    /** @default "constant" */
    mode?: webnn.MLPaddingMode | 'symmetric' | undefined;
  }

  /** Options of the first half of 2024: one axis in a list. */
  interface MLArgMinMaxAxesOptions extends webnn.MLArgMinMaxOptions {
    axes: readonly [number];
  }

  /** An option of the first half of 2024: the activation to apply to the result. */
  interface Fused {
    activation?: MLActivation | undefined;
  }

  /** Options with activations by name, or as objects as in the first half of 2024: relu, sigmoid and tanh. */
  type WithActivations<Options> = Omit<OfDraft<Options>, 'activations'> & {
    activations?: Iterable<webnn.MLRecurrentNetworkActivation | MLActivation> | undefined;
  };

  /** Entry to the API. */
  class ML {
    private constructor();
    #private;
    createContext(options?: MLContextOptions): Promise<MLContext>;
  }

  /** The context in which graphs are built and computed. */
  class MLContext {
    private constructor();
    #private;
    /**
     * Computes the named outputs. The views are transferred: they become empty, and the views of the result use their
     * memory.
     *
     * Rejects with a TypeError, and transfers nothing, if the graph belongs to another context, an input is missing, an
     * output is unknown, a view does not fit its descriptor, or a buffer cannot be transferred or holds two of the
     * views.
     */
    compute<Inputs extends MLNamedArrayBufferViews, Outputs extends MLNamedArrayBufferViews>(
      graph: MLGraph,
      inputs: Inputs,
      outputs: Outputs,
    ): Promise<MLComputeResult<Inputs, Outputs>>;
    /** Supported data types and ranks. */
    opSupportLimits(): webnn.MLOpSupportLimits;
  }

  /** An operator without its operand, of the drafts until summer 2024. */
  class MLActivation {
    private constructor();
    #private;
  }

  /** A value of a graph under construction. */
  class MLOperand {
    private constructor();
    #private;
    dataType(): webnn.MLOperandDataType;
    /** A new list. */
    shape(): number[];
  }

  /** Builds graphs. */
  class MLGraphBuilder extends BuilderWithoutEarlierForms {
    constructor(context: MLContext);
    #private;
    input(name: string, descriptor: MLOperandDescriptor): MLOperand;
    /**
     * A constant with the contents of a buffer, or one number; until spring 2024, numbers were passed in another form.
     */
    constant(descriptor: MLOperandDescriptor, buffer: ArrayBufferView): MLOperand;
    constant(dataType: webnn.MLOperandDataType, value: webnn.MLNumber): MLOperand;
    constant(value: webnn.MLNumber, dataType?: webnn.MLOperandDataType): MLOperand;
    /** May be called several times. Each graph has at most one input of a name. */
    build(outputs: MLNamedOperands): Promise<MLGraph>;

    argMin(input: MLOperand, axis: number, options?: webnn.MLArgMinMaxOptions): MLOperand;
    argMin(input: MLOperand, options: MLArgMinMaxAxesOptions): MLOperand;
    argMax(input: MLOperand, axis: number, options?: webnn.MLArgMinMaxOptions): MLOperand;
    argMax(input: MLOperand, options: MLArgMinMaxAxesOptions): MLOperand;
    averagePool2d(input: MLOperand, options?: MLPool2dOptions): MLOperand;
    l2Pool2d(input: MLOperand, options?: MLPool2dOptions): MLOperand;
    maxPool2d(input: MLOperand, options?: MLPool2dOptions): MLOperand;
    pad(input: MLOperand, beginningPadding: Iterable<number>, endingPadding: Iterable<number>, options?: MLPadOptions): MLOperand;
    /** A size may be null: it is computed from the others. */
    reshape(input: MLOperand, newShape: Iterable<number | null>, options?: webnn.MLOperatorOptions): MLOperand;
    /** Without an axis, the softmax of the rows of a matrix. */
    softmax(input: MLOperand, axis: number, options?: webnn.MLOperatorOptions): MLOperand;
    softmax(input: MLOperand, options?: webnn.MLOperatorOptions): MLOperand;

    batchNormalization(input: MLOperand, mean: MLOperand, variance: MLOperand, options?: OfDraft<webnn.MLBatchNormalizationOptions> & Fused): MLOperand;
    conv2d(input: MLOperand, filter: MLOperand, options?: OfDraft<webnn.MLConv2dOptions> & Fused): MLOperand;
    convTranspose2d(input: MLOperand, filter: MLOperand, options?: OfDraft<webnn.MLConvTranspose2dOptions> & Fused): MLOperand;
    gru(
      input: MLOperand,
      weight: MLOperand,
      recurrentWeight: MLOperand,
      steps: number,
      hiddenSize: number,
      options?: WithActivations<webnn.MLGruOptions>,
    ): MLOperand[];
    gruCell(
      input: MLOperand,
      weight: MLOperand,
      recurrentWeight: MLOperand,
      hiddenState: MLOperand,
      hiddenSize: number,
      options?: WithActivations<webnn.MLGruCellOptions>,
    ): MLOperand;
    lstm(
      input: MLOperand,
      weight: MLOperand,
      recurrentWeight: MLOperand,
      steps: number,
      hiddenSize: number,
      options?: WithActivations<webnn.MLLstmOptions>,
    ): MLOperand[];
    lstmCell(
      input: MLOperand,
      weight: MLOperand,
      recurrentWeight: MLOperand,
      hiddenState: MLOperand,
      cellState: MLOperand,
      hiddenSize: number,
      options?: WithActivations<webnn.MLLstmCellOptions>,
    ): MLOperand[];

    clamp(input: MLOperand, options?: webnn.MLClampOptions): MLOperand;
    clamp(options?: webnn.MLClampOptions): MLActivation;
    elu(input: MLOperand, options?: webnn.MLEluOptions): MLOperand;
    elu(options?: webnn.MLEluOptions): MLActivation;
    gelu(input: MLOperand, options?: webnn.MLOperatorOptions): MLOperand;
    gelu(): MLActivation;
    hardSigmoid(input: MLOperand, options?: webnn.MLHardSigmoidOptions): MLOperand;
    hardSigmoid(options?: webnn.MLHardSigmoidOptions): MLActivation;
    hardSwish(input: MLOperand, options?: webnn.MLOperatorOptions): MLOperand;
    hardSwish(): MLActivation;
    leakyRelu(input: MLOperand, options?: webnn.MLLeakyReluOptions): MLOperand;
    leakyRelu(options?: webnn.MLLeakyReluOptions): MLActivation;
    linear(input: MLOperand, options?: webnn.MLLinearOptions): MLOperand;
    linear(options?: webnn.MLLinearOptions): MLActivation;
    relu(input: MLOperand, options?: webnn.MLOperatorOptions): MLOperand;
    relu(): MLActivation;
    sigmoid(input: MLOperand, options?: webnn.MLOperatorOptions): MLOperand;
    sigmoid(): MLActivation;
    softplus(input: MLOperand, options?: MLSoftplusOptions): MLOperand;
    softplus(options?: MLSoftplusOptions): MLActivation;
    softsign(input: MLOperand, options?: webnn.MLOperatorOptions): MLOperand;
    softsign(): MLActivation;
    tanh(input: MLOperand, options?: webnn.MLOperatorOptions): MLOperand;
    tanh(): MLActivation;
  }

  /** Today's interface, which has not changed. */
  const MLGraph: typeof webnn.MLGraph;
  type MLGraph = webnn.MLGraph;

  /** The same object every time. */
  const ml: ML;
}

// Without this, what has no `export` would be exported, too.
export {};
