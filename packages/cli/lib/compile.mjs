// A file of its own: the imports of model.mjs would count as memory of the engine that `bench` measures.

/**
 * Compiles a model for these shapes before its first run. A model that is cut is compiled as it runs.
 * @param {import('webnn-node/onnx').OnnxModel} model
 * @param {Record<string, readonly number[]>} shapes
 */
export async function compile(model, shapes) {
  try {
    await model.compile(shapes);
  } catch (caught) {
    const error = /** @type {NodeJS.ErrnoException} */ (caught);
    if (error.code !== 'ERR_WEBNN_NOT_SUPPORTED') throw error;
  }
}
