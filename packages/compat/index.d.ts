// Programs written for earlier drafts of WebNN. On top of the public API of `webnn-node`:
// nothing of it is part of `webnn-node` itself.

import type * as webnn from 'webnn-node';

/**
 * Defines `navigator.ml` and the interfaces of an earlier draft as globals, over what is there, for programs that
 * expect a browser of that time.
 */
export function install(draft: typeof draft2021 | typeof draft2024): void;

/**
 * The draft of 2021: everything is synchronous, graphs compute themselves, shapes may be unknown until then.
 *
 * Contexts live on a thread of their own. `build()`, `compute()` and the methods of the builder wait for it, and block
 * the thread that calls them. (Threads that must not wait, such as those of pages in Electron, get a
 * NotSupportedError.) What nobody holds any more is freed when the program comes back to its event loop.
 *
 * Contexts of a GPUDevice or WebGLRenderingContext and resources of WebGPU and WebGL are NotSupportedErrors.
 */
export namespace draft2021 {
  /** `gpu` and `default` ask for an accelerated context, `cpu` for none. */
  type MLDevicePreference = 'default' | 'gpu' | 'cpu';
  type MLPowerPreference = 'default' | 'high-performance' | 'low-power';
  type MLInputOperandLayout = 'nchw' | 'nhwc';
  type MLOperandType = 'float32' | 'float16' | 'int32' | 'uint32' | 'int8' | 'uint8';
  /** Order of output channels (o), input channels (i), height and width, also where `transpose` is set. */
  type MLFilterOperandLayout = 'oihw' | 'hwio' | 'ohwi' | 'ihwo';
  /** `same-upper` and `same-lower` pad so that sizes are divided by the strides; an odd one goes behind or in front. */
  type MLAutoPad = 'explicit' | 'same-upper' | 'same-lower';
  type MLRecurrentNetworkWeightLayout = 'zrn' | 'rzn';
  type MLRecurrentNetworkActivation = 'relu' | 'sigmoid' | 'tanh';
  type MLRecurrentNetworkDirection = 'forward' | 'backward' | 'both';
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
    /** Absent for a scalar. Negative ones are unknown: they are given to `compute()`. */
    dimensions?: Iterable<number> | undefined;
  }

  /** Data of an input and its shape. */
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
  }

  /** Limits are operands; each is broadcast to the shape of the input. */
  interface MLClampOptions {
    minValue?: MLOperand | undefined;
    maxValue?: MLOperand | undefined;
  }

  interface MLConv2dOptions {
    /** [beginning height, ending height, beginning width, ending width] */
    padding?: Iterable<number> | undefined;
    strides?: Iterable<number> | undefined;
    dilations?: Iterable<number> | undefined;
    /** Of a transposed convolution only. */
    outputPadding?: Iterable<number> | undefined;
    /** Of a transposed convolution only; without it, sizes follow from the strides. */
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
    /** That of the update and reset gates, and that of the new gate. */
    activations?: Iterable<MLRecurrentNetworkActivation> | undefined;
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
    /** The whole image when absent. */
    windowDimensions?: Iterable<number> | undefined;
    padding?: Iterable<number> | undefined;
    strides?: Iterable<number> | undefined;
    dilations?: Iterable<number> | undefined;
    /** @default "explicit" */
    autoPad?: MLAutoPad | undefined;
    /** @default "nchw" */
    layout?: MLInputOperandLayout | undefined;
  }

  interface MLReduceOptions {
    /** All when absent or null; negative ones count from the end. */
    axes?: Iterable<number> | null | undefined;
    /** @default false */
    keepDimensions?: boolean | undefined;
  }

  interface MLResampleOptions {
    /** @default "nearest-neighbor" */
    mode?: MLInterpolationMode | undefined;
    /** One of each dimension. */
    scales?: Iterable<number> | undefined;
    /** One of each dimension; makes `scales` void. */
    sizes?: Iterable<number> | undefined;
  }

  interface MLSliceOptions {
    /** The dimensions that are cut; negative ones count from the end. */
    axes?: Iterable<number> | undefined;
  }

  interface MLSplitOptions {
    /** Negative ones count from the end. @default 0 */
    axis?: number | undefined;
  }

  interface MLSqueezeOptions {
    /** All of size 1 when absent. */
    axes?: Iterable<number> | undefined;
  }

  interface MLTransposeOptions {
    permutation?: Iterable<number> | undefined;
  }

  /** Entry to the API. */
  class ML {
    private constructor();
    #private;
    /** A context that can be used at once. What keeps it from being created is told by the first builder. */
    createContext(options?: MLContextOptions): MLContext;
  }

  /** Where graphs are built and computed. */
  class MLContext {
    private constructor();
    #private;
  }

  /** A value of a graph under construction. */
  class MLOperand {
    private constructor();
    #private;
  }

  /** A compiled graph. */
  class MLGraph {
    private constructor();
    #private;
    /**
     * Computes the outputs that are named, and returns when they are there. Views of outputs may be longer than needed.
     *
     * Throws a DataError when names, kinds of views, dimensions or lengths do not fit the graph, an OperationError when
     * the operators do not fit the dimensions that are known only now. The graph is compiled for each choice of outputs
     * and unknown dimensions; the 8 that were used last are kept.
     */
    compute(inputs: MLNamedInputs, outputs: MLNamedOutputs): undefined;
  }

  /**
   * Builds graphs, as many as `build()` is called.
   *
   * Methods throw a TypeError for operands that do not fit. Where the shape of an operand depends on unknown
   * dimensions, `compute()` finds it.
   */
  class MLGraphBuilder {
    constructor(context: MLContext);
    #private;
    input(name: string, desc: MLOperandDescriptor): MLOperand;
    /** The contents of a view, or one number. */
    constant(desc: MLOperandDescriptor, bufferView: ArrayBufferView): MLOperand;
    constant(value: number, type?: MLOperandType): MLOperand;
    /** Compiles the graph of these outputs, and returns when that is done. */
    build(outputs: MLNamedOperands): MLGraph;

    batchNormalization(
      input: MLOperand,
      mean: MLOperand,
      variance: MLOperand,
      options?: MLBatchNormalizationOptions,
    ): MLOperand;
    clamp(x: MLOperand, options?: MLClampOptions): MLOperand;
    concat(inputs: Iterable<MLOperand>, axis: number): MLOperand;
    conv2d(input: MLOperand, filter: MLOperand, options?: MLConv2dOptions): MLOperand;
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
    log(x: MLOperand): MLOperand;
    neg(x: MLOperand): MLOperand;
    relu(x: MLOperand): MLOperand;
    sigmoid(x: MLOperand): MLOperand;
    sin(x: MLOperand): MLOperand;
    tan(x: MLOperand): MLOperand;
    tanh(x: MLOperand): MLOperand;
    gemm(a: MLOperand, b: MLOperand, options?: MLGemmOptions): MLOperand;
    /** The last hidden state; with `returnSequence`, all of them as well. */
    gru(
      input: MLOperand,
      weight: MLOperand,
      recurrentWeight: MLOperand,
      steps: number,
      hiddenSize: number,
      options?: MLGruOptions,
    ): MLOperand[];
    gruCell(
      input: MLOperand,
      weight: MLOperand,
      recurrentWeight: MLOperand,
      hiddenState: MLOperand,
      hiddenSize: number,
      options?: MLGruCellOptions,
    ): MLOperand;
    instanceNormalization(input: MLOperand, options?: MLInstanceNormalizationOptions): MLOperand;
    leakyRelu(x: MLOperand, options?: MLLeakyReluOptions): MLOperand;
    /** A vector is a matrix of one row (a) or column (b); the product of two vectors is a scalar. */
    matmul(a: MLOperand, b: MLOperand): MLOperand;
    /** `padding`, of shape [rank, 2], must be a constant: NotSupportedError otherwise. */
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
    /** One size may be -1 or null: it follows from the others. */
    reshape(input: MLOperand, newShape: Iterable<number | null>): MLOperand;
    /** Negative starts count from the end; a size of -1 is everything that is left. */
    slice(input: MLOperand, starts: Iterable<number>, sizes: Iterable<number>, options?: MLSliceOptions): MLOperand;
    /** Of the rows of a matrix. */
    softmax(x: MLOperand): MLOperand;
    split(input: MLOperand, splits: number | Iterable<number>, options?: MLSplitOptions): MLOperand[];
    squeeze(input: MLOperand, options?: MLSqueezeOptions): MLOperand;
    transpose(input: MLOperand, options?: MLTransposeOptions): MLOperand;
  }

  /** The same object every time. */
  const ml: ML;
}

/** Today's MLGraphBuilder without the methods that had other forms. */
declare const BuilderWithoutEarlierForms: new (
  context: never,
) => Omit<
  webnn.MLGraphBuilder,
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
  | 'sigmoid'
  | 'softmax'
  | 'softplus'
  | 'softsign'
  | 'tanh'
>;

/**
 * The editor's draft of 2024: `MLContext.compute()` in place of tensors, `deviceType`, and the forms that descriptors,
 * options and activations had until then. Operators that were added since can be used as well.
 *
 * Contexts of a GPUDevice are NotSupportedErrors.
 */
export namespace draft2024 {
  /** `gpu` and `npu` ask for an accelerated context, `cpu` for none. */
  type MLDeviceType = 'cpu' | 'gpu' | 'npu';

  interface MLContextOptions {
    /** @default "cpu" */
    deviceType?: MLDeviceType | undefined;
    /** @default "default" */
    powerPreference?: webnn.MLPowerPreference | undefined;
  }

  /** Names of 2024, or those of 2023. */
  type MLOperandDescriptor = ({ dataType: webnn.MLOperandDataType } | { type: webnn.MLOperandDataType }) &
    ({ shape: Iterable<number> } | { dimensions: Iterable<number> });

  /** Views by the names of inputs or outputs. */
  type MLNamedArrayBufferViews = Record<string, ArrayBufferView>;

  /** The views that were given to `compute()`, on the memory that moved away from them. */
  interface MLComputeResult<Inputs = MLNamedArrayBufferViews, Outputs = MLNamedArrayBufferViews> {
    inputs: Inputs;
    outputs: Outputs;
  }

  interface MLPool2dOptions extends webnn.MLPool2dOptions {
    /** Name of `outputShapeRounding` until 2025. */
    roundingType?: webnn.MLRoundingType | undefined;
  }

  interface MLPadOptions extends Omit<webnn.MLPadOptions, 'mode'> {
    /** @default "constant" */
    mode?: webnn.MLPaddingMode | 'symmetric' | undefined;
  }

  /** Options of the first half of 2024: one axis in a list. */
  interface MLArgMinMaxAxesOptions extends webnn.MLArgMinMaxOptions {
    axes: readonly [number];
  }

  /** An option of the first half of 2024: what is applied to the result. */
  interface Fused {
    activation?: MLActivation | undefined;
  }

  /** Options with activations by their names, or as objects as in the first half of 2024: relu, sigmoid and tanh. */
  type WithActivations<Options> = Omit<Options, 'activations'> & {
    activations?: Iterable<webnn.MLRecurrentNetworkActivation | MLActivation> | undefined;
  };

  /** Entry to the API. */
  class ML {
    private constructor();
    #private;
    createContext(options?: MLContextOptions): Promise<MLContext>;
  }

  /** Where graphs are built and computed. */
  class MLContext {
    private constructor();
    #private;
    /**
     * Computes the outputs that are named. The views are transferred: they become empty, and those of the result stand
     * on their memory.
     *
     * Rejects with a TypeError, and transfers nothing, when the graph is of another context, an input is missing, an
     * output unknown, a view does not fit its descriptor, or a buffer can not be transferred or stands under two views.
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

  /** Builds one graph. */
  class MLGraphBuilder extends BuilderWithoutEarlierForms {
    constructor(context: MLContext);
    #private;
    input(name: string, descriptor: MLOperandDescriptor): MLOperand;
    /** The contents of a buffer, one number, or one number as it was given until spring 2024. */
    constant(descriptor: MLOperandDescriptor, buffer: webnn.AllowSharedBufferSource): MLOperand;
    constant(dataType: webnn.MLOperandDataType, value: webnn.MLNumber): MLOperand;
    constant(value: webnn.MLNumber, dataType?: webnn.MLOperandDataType): MLOperand;
    build(outputs: webnn.MLNamedOperands): Promise<MLGraph>;

    argMin(input: MLOperand, axis: number, options?: webnn.MLArgMinMaxOptions): MLOperand;
    argMin(input: MLOperand, options: MLArgMinMaxAxesOptions): MLOperand;
    argMax(input: MLOperand, axis: number, options?: webnn.MLArgMinMaxOptions): MLOperand;
    argMax(input: MLOperand, options: MLArgMinMaxAxesOptions): MLOperand;
    averagePool2d(input: MLOperand, options?: MLPool2dOptions): MLOperand;
    l2Pool2d(input: MLOperand, options?: MLPool2dOptions): MLOperand;
    maxPool2d(input: MLOperand, options?: MLPool2dOptions): MLOperand;
    pad(
      input: MLOperand,
      beginningPadding: Iterable<number>,
      endingPadding: Iterable<number>,
      options?: MLPadOptions,
    ): MLOperand;
    /** Without an axis, that of the rows of a matrix. */
    softmax(input: MLOperand, axis: number, options?: webnn.MLOperatorOptions): MLOperand;
    softmax(input: MLOperand, options?: webnn.MLOperatorOptions): MLOperand;

    batchNormalization(
      input: MLOperand,
      mean: MLOperand,
      variance: MLOperand,
      options?: webnn.MLBatchNormalizationOptions & Fused,
    ): MLOperand;
    conv2d(input: MLOperand, filter: MLOperand, options?: webnn.MLConv2dOptions & Fused): MLOperand;
    convTranspose2d(input: MLOperand, filter: MLOperand, options?: webnn.MLConvTranspose2dOptions & Fused): MLOperand;
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
    softplus(input: MLOperand, options?: webnn.MLOperatorOptions): MLOperand;
    softplus(): MLActivation;
    softsign(input: MLOperand, options?: webnn.MLOperatorOptions): MLOperand;
    softsign(): MLActivation;
    tanh(input: MLOperand, options?: webnn.MLOperatorOptions): MLOperand;
    tanh(): MLActivation;
  }

  /** Today's interfaces, which were the same. */
  const MLGraph: typeof webnn.MLGraph;
  type MLGraph = webnn.MLGraph;
  const MLOperand: typeof webnn.MLOperand;
  type MLOperand = webnn.MLOperand;

  /** The same object every time. */
  const ml: ML;
}
