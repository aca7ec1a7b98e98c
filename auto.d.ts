import type * as webnn from './index.js';

/** `Theirs` if a library declares WebNN itself, which shows in its `NavigatorML`; otherwise `Ours`. */
type Declared<Theirs, Ours> = 'ml' extends keyof NavigatorML ? Theirs : Ours;

type OwnNavigator = Declared<{}, { /** Entry to the WebNN API; the same object every time. */ readonly ml: ML }>;
type OwnML = Declared<{}, webnn.ML>;
type OwnContext = Declared<{}, webnn.MLContext>;
type OwnGraph = Declared<{}, webnn.MLGraph>;
type OwnGraphBuilder = Declared<{}, webnn.MLGraphBuilder>;
type OwnOperand = Declared<{}, webnn.MLOperand>;
type OwnTensor = Declared<{}, webnn.MLTensor>;

declare global {
  /** Empty here: a library that declares WebNN adds `ml`. */
  interface NavigatorML {}
  /** Merges with the navigator types of DOM and runtime libraries. */
  interface Navigator extends OwnNavigator {}
  var navigator: Navigator;

  interface ML extends OwnML {}
  interface MLContext extends OwnContext {}
  interface MLGraph extends OwnGraph {}
  interface MLGraphBuilder extends OwnGraphBuilder {}
  interface MLOperand extends OwnOperand {}
  interface MLTensor extends OwnTensor {}

  // Declarations of a variable must agree: `Theirs` is the type that libraries give to interface objects.
  var ML: Declared<{ prototype: ML; new (): ML }, typeof webnn.ML>;
  var MLContext: Declared<{ prototype: MLContext; new (): MLContext }, typeof webnn.MLContext>;
  var MLGraph: Declared<{ prototype: MLGraph; new (): MLGraph }, typeof webnn.MLGraph>;
  var MLGraphBuilder: Declared<{ prototype: MLGraphBuilder; new (context: MLContext): MLGraphBuilder }, typeof webnn.MLGraphBuilder>;
  var MLOperand: Declared<{ prototype: MLOperand; new (): MLOperand }, typeof webnn.MLOperand>;
  var MLTensor: Declared<{ prototype: MLTensor; new (): MLTensor }, typeof webnn.MLTensor>;
}

export {};
