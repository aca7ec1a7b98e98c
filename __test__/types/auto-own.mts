// Objects of the package and of its globals are the same where no library declares WebNN. Compiled by types.test.mjs,
// never run.

import 'webnn-node/auto';
import { ml, MLContext as Context, type MLOperand as Operand } from 'webnn-node';

const global: MLContext = await ml.createContext();
const own: Context = await navigator.ml.createContext();
const operand: Operand = new MLGraphBuilder(own).constant('float32', 1);
// @ts-expect-error: contexts come from createContext()
new MLContext();

export { global, operand };
