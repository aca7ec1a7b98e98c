/**
 * English descriptions for index.d.ts, keyed by IDL name. The generator fails when an operator, interface member or
 * dictionary member has none, or when a key matches nothing in the IDL.
 */

import { operators, options } from './operator-documentation.mjs';

export { operators };

/** Dictionaries, enumerations, typedefs. */
export const types = {
  MLPowerPreference: 'Preference between execution speed and power consumption.',
  MLContextOptions: 'Preferences for a context.',
  MLNamedTensors: 'Tensors by input or output name.',
  MLContextLostInfo: 'Why a context was lost.',
  MLOpSupportLimits: 'Limits of a context: general limits, and data types and ranks for each operator.',
  MLRankRange: 'Smallest and largest supported rank.',
  MLDataTypeList: 'Supported data types.',
  MLTensorLimits: 'Supported data types and ranks of one operand.',
  MLBinarySupportLimits: 'Limits of an operator with the operands a and b.',
  MLSingleInputSupportLimits: 'Limits of an operator with one input.',
  MLInputOperandLayout: 'Axis order of images: batch, channels, height, width or batch, height, width, channels.',
  MLConv2dFilterOperandLayout: 'Axis order of conv2d filters: output channels (o), input channels (i), height, width.',
  MLConvTranspose2dFilterOperandLayout: 'Axis order of convTranspose2d filters: input channels (i), output channels (o), height, width.',
  MLGruWeightLayout: 'Order of the gates in GRU weights: update (z), reset (r), new (n).',
  MLLstmWeightLayout: 'Order of the gates in LSTM weights: input (i), output (o), forget (f), cell (g).',
  MLRecurrentNetworkActivation: 'Activation function of a recurrent network.',
  MLRecurrentNetworkDirection: 'Direction in which a recurrent network reads its sequence.',
  MLPaddingMode: 'How padding is filled: with a constant, the edge elements, or the mirrored input.',
  MLRoundingType: 'Rounding of pooling output sizes.',
  MLInterpolationMode: 'How resample2d computes elements between input elements.',
  MLOperandDataType: 'Element type of tensors and operands.',
  MLOperandDescriptor: 'Data type and shape of an operand.',
  MLOperatorOptions: 'Options of every operator.',
  MLNumber: 'A number for operands of any data type; bigint keeps all bits of 64-bit integers.',
  MLTensorDescriptor: 'Data type, shape and permitted uses of a tensor.',
  MLNamedOperands: 'Operands by output name.',
  AllowSharedBufferSource:
    'A buffer or view of fixed length. A view must have the element type of the data type (float16 also accepts a Uint16Array) or be a Uint8Array.',
};

/** Members of interfaces: `Interface.member`. */
export const members = {
  'ML.createContext':
    'Creates a context.\n\nRejects with a TypeError when an option is invalid, and with a NotSupportedError when the context cannot be supported: when the adapter of a GPUDevice is not found, or is software and `WEBNN_GPU_SOFTWARE=1` is not set.',
  'MLContext.dispatch':
    'Queues one execution of a graph and returns at once; read an output tensor to wait for it.\n\nThrows a TypeError when the tensors do not match the named inputs and outputs of the graph exactly, with the same data types and shapes, and an InvalidStateError when the graph is destroyed.',
  'MLContext.createTensor':
    'Creates a tensor filled with zeros.\n\nRejects with a TypeError when the descriptor is invalid, an InvalidStateError when the context is lost, and an UnknownError when memory cannot be allocated.',
  'MLContext.createConstantTensor':
    'Creates a tensor with the given contents that graphs can use as a constant.\n\nRejects like createTensor, and with a TypeError when the data does not match the descriptor.',
  'MLContext.readTensor':
    'Reads the contents of a readable tensor after all work queued before, into a new buffer or into the given one.\n\nRejects with a TypeError when the tensor cannot be read or the buffer does not match, and an InvalidStateError when the tensor or the context is destroyed meanwhile.',
  'MLContext.writeTensor':
    'Copies data into a writable tensor; the buffer may be reused at once.\n\nThrows a TypeError when the tensor cannot be written or the data does not match it.',
  'MLContext.opSupportLimits': 'Data types and ranks that this context supports.',
  'MLContext.destroy': 'Loses the context: destroys its tensors and graphs, and rejects pending work.',
  'MLContext.accelerated': 'The preference given to createContext, true for a GPUDevice; `MLGraph.devices` says which device is used.',
  'MLContext.lost': 'Resolves when the context is lost; the same promise every time.',
  'MLGraph.destroy': 'Frees the graph after the work queued so far.',
  'MLOperand.dataType': 'Element type.',
  'MLOperand.shape': 'Dimensions; empty for a scalar. The same frozen array every time.',
  'MLTensor.dataType': 'Element type.',
  'MLTensor.shape': 'Dimensions; empty for a scalar. The same frozen array every time.',
  'MLTensor.readable': 'Whether readTensor accepts the tensor.',
  'MLTensor.writable': 'Whether writeTensor accepts the tensor.',
  'MLTensor.constant': 'Whether the tensor was made by createConstantTensor.',
  'MLTensor.destroy': 'Frees the memory after the work queued so far and rejects pending reads.',
  'MLGraphBuilder.constructor': 'Starts a graph. Throws an InvalidStateError when the context is lost.',
  'MLGraphBuilder.input': 'Adds a graph input.\n\nThrows a TypeError when the name is empty or taken by another input, or the descriptor is invalid.',
  'MLGraphBuilder.constant':
    'Adds a constant: the contents of a buffer (copied), one number as a scalar (cast to the data type), or a constant tensor.\n\nThrows a TypeError when the data does not match the descriptor, or the tensor is not a constant tensor of this context.',
  'MLGraphBuilder.build':
    'Compiles the graph that computes the named outputs; the builder cannot be used afterwards.\n\nRejects with a TypeError when an output is an input, is a constant or belongs to another builder, an InvalidStateError when the builder has already built its graph or the context is lost, and an OperationError when compilation fails.',
};

/** Interfaces. */
export const interfaces = {
  ML: 'Entry to the API: `ml`, and `navigator.ml` of `webnn-node/auto`.',
  MLContext: 'A device with its queue of work; owner of tensors and graphs.',
  MLGraph: 'A compiled graph.',
  MLOperand: 'A value in a graph that is being built.',
  MLTensor: 'Memory of a context for graph inputs, outputs and constants.',
  MLGraphBuilder:
    'Builds one graph, operator by operator.\n\nEvery operator throws a TypeError when an operand belongs to another builder, has a data type or rank that is not allowed, or does not fit the others, and when the result would exceed `maxTensorByteLength` or the largest rank; the message names the label, the operator and the operand. Every method throws an InvalidStateError when the builder has already built its graph or the context is lost.',
};

/** Members of dictionaries that belong to no operator. */
const dictionaryMembers = {
  MLContextOptions: {
    powerPreference:
      '"high-performance" asks for the fastest GPU, and gets the CPU if no GPU can be used. The others select the CPU, "low-power" with half of the threads.',
    accelerated: 'false selects the CPU, whatever `powerPreference` is; true is the default.',
  },
  MLContextLostInfo: { message: 'The reason, as text for people.' },
  MLOpSupportLimits: {
    preferredInputLayout: 'The fastest layout of images.',
    maxTensorByteLength: 'Largest size of a tensor, operand or constant, in bytes.',
    input: 'Limits of graph inputs.',
    constant: 'Limits of constants.',
    output: 'Limits of graph outputs.',
  },
  MLRankRange: { min: 'Smallest number of axes.', max: 'Largest number of axes.' },
  MLTensorLimits: { dataTypes: 'Supported data types.', rankRange: 'Supported numbers of axes.' },
  MLOperandDescriptor: { dataType: 'Element type.', shape: 'Sizes, each at least 1; empty for a scalar.' },
  MLTensorDescriptor: { readable: 'Whether readTensor will accept the tensor.', writable: 'Whether writeTensor will accept the tensor.' },
};

/** Descriptions of dictionary members, by dictionary. Those of `...SupportLimits` follow from their names. */
export const dictionaries = { ...dictionaryMembers, ...options };

/** Members that this package adds to standard dictionaries and interfaces. */
export const extensions = {
  MLGraph: [
    {
      kind: 'attribute',
      name: 'devices',
      type: "FrozenArray<'cpu' | 'gpu'>",
      parameters: [],
      documentation: 'Extension of webnn-node, as in Chromium: the devices on which dispatches compute. The same frozen array every time.',
    },
  ],
  MLContextOptions: [
    {
      name: 'cache',
      type: 'MLCache',
      documentation:
        'Extension of webnn-node: keeps packed constants of built graphs on disk, where later builds of graphs with the same constants map them, as `loadModel({ cache })` does for models. They are recognized by their contents.',
    },
    {
      name: 'computePolicy',
      type: 'MLComputePolicy',
      documentation:
        'Extension of webnn-node: the option that may replace `powerPreference` and `accelerated` in the draft. In place of `powerPreference` if both are given; "fallback" asks for the CPU.',
    },
    {
      name: 'extensions',
      type: 'sequence<MLContextExtension>',
      documentation:
        'Extension of webnn-node: features of the context and its builders beyond the draft. "dynamic-shapes" allows names for dimensions of graph inputs, "int4" adds 4-bit integer constants, "donation" lets outputs take over the memory of inputs. Contexts of `webnn-node/auto` have "int4".',
    },
    {
      name: 'numThreads',
      type: '[EnforceRange] unsigned long',
      documentation: 'Extension of webnn-node: number of CPU threads, 1 to 1024; when absent, one per physical core that the process may use.',
    },
  ],
};

/**
 * Declarations of the extensions; see docs/draft.md, and docs/dynamic-shapes.md, docs/int4.md and docs/donation.md for those
 * that a program requests by name.
 */
export const extensionDeclarations = `/**
 * Values of \`MLContextOptions.cache\`: the user's cache folder, another folder, or one whose bytes are compared with their
 * checksums before they are used. Nobody else may be able to write the folder.
 */
export type MLCache = boolean | string | { folder?: string | undefined; verify?: boolean | undefined };

/** Values of \`MLContextOptions.computePolicy\`. */
export type MLComputePolicy = 'default' | 'high-performance' | 'low-power' | 'fallback';

/** Names of extensions, for \`MLContextOptions.extensions\`. */
export type MLContextExtension = 'donation' | 'dynamic-shapes' | 'int4';

/** Extension "dynamic-shapes": a size, or a name that stands for one. Equal names stand for equal sizes. */
export type MLDimension = number | string;

/** Extension "dynamic-shapes": data type and shape of a graph input. */
export interface MLInputOperandDescriptor {
  /** Element type. */
  dataType: MLOperandDataType;
  /** Sizes, each at least 1, and nonempty names; an empty list for a scalar. */
  shape: Iterable<MLDimension>;
}

/**
 * Extension "dynamic-shapes": the builder that \`new MLGraphBuilder(context)\` returns for a context with the
 * extension. Shapes of its operands may contain names.
 */
export interface MLDynamicGraphBuilder extends MLGraphBuilder {
  /**
   * Adds a graph input whose named dimensions get their sizes from the tensor of each dispatch.
   * @throws {TypeError} for an empty name, or as without the extension
   */
  input(name: string, descriptor: MLInputOperandDescriptor): MLOperand;
  /** Completes the graph with these outputs. It is compiled when it is dispatched, for the sizes of the tensors. */
  build(outputs: MLNamedOperands): Promise<MLDynamicGraph>;
}

/** Extension "dynamic-shapes": a graph built in a context with the extension. */
export interface MLDynamicGraph extends MLGraph {
  /**
   * Returns the shapes of the outputs for inputs of these shapes, and computes nothing else.
   * @throws {TypeError} if the shapes do not fit the inputs or each other, or break the rules of an operator
   */
  computeShapes(inputShapes: Record<string, Iterable<number>>): Record<string, number[]>;
}

/** Extension "int4": the data types of constants. A byte holds two 4-bit elements, the first in its low bits. */
export type MLConstantDataType = MLOperandDataType | 'int4' | 'uint4';

/** Extension "int4": data type and shape of a constant. */
export interface MLConstantDescriptor {
  /** Element type. */
  dataType: MLConstantDataType;
  /** Sizes, each at least 1; empty for a scalar. */
  shape: Iterable<number>;
}

/** Extension "int4": a context with the extension. */
export interface MLInt4Context extends MLContext {
  /** As without the extension, also for 4-bit elements. */
  createConstantTensor(descriptor: MLConstantDescriptor, inputData: AllowSharedBufferSource): Promise<MLTensor>;
}

/** Extension "int4": the builder that \`new MLGraphBuilder(context)\` returns for a context with the extension. */
export interface MLInt4GraphBuilder extends MLGraphBuilder {
  /** As without the extension, also for 4-bit elements, which only dequantizeLinear() accepts. */
  constant(descriptor: MLConstantDescriptor, buffer: AllowSharedBufferSource): MLOperand;
  constant(dataType: MLConstantDataType, value: MLNumber): MLOperand;
  constant(tensor: MLTensor): MLOperand;
}

/** Extension "donation": options of dispatch(). */
export interface MLDispatchOptions {
  /**
   * Maps the name of an output to the name of the input whose memory it takes over; only the appended elements are
   * written. Such an output is a concat() of that input and something after it, along a dimension with a name. The
   * input keeps its contents.
   */
  donate?: Record<string, string> | undefined;
}

/** Extension "donation": a context with the extension. */
export interface MLDonationContext extends MLContext {
  /**
   * As without the extension; in addition, outputs can take over the memory of inputs.
   * @throws {TypeError} for names that the graph does not have, or an output that cannot take over the memory of its
   *   input
   */
  dispatch(graph: MLGraph, inputs: MLNamedTensors, outputs: MLNamedTensors, options?: MLDispatchOptions): void;
}
`;
