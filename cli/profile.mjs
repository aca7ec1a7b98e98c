// Profiles of opened models.
import { profileGraph } from 'webnn-node/inspect';
import { Failure } from './errors.mjs';
import { withProgress } from './progress.mjs';

/**
 * Profiles the graph of an opened model.
 * @param {{ context: MLContext, specialization: OnnxSpecialization }} opened
 * @param {Record<string, { data: ArrayBufferView }>} tensors by input name
 * @param {{ runs: number, warmup: number }} options
 * @returns {Promise<import('webnn-node/inspect').GraphProfile>}
 */
export async function profileModel({ context, specialization }, tensors, { runs, warmup }) {
  const { graph } = specialization;
  if (graph === null) throw new Failure('there is nothing to profile: no output of the model has any elements');
  const create = async (descriptors, access) => Object.fromEntries(
    await Promise.all(Object.entries(descriptors).map(async ([name, { dataType, shape }]) =>
      [name, await context.createTensor({ dataType, shape, ...access })])),
  );
  const inputs = await create(specialization.inputs, { writable: true });
  const outputs = await create(specialization.outputs, {});
  for (const [name, tensor] of Object.entries(inputs)) context.writeTensor(tensor, tensors[name].data);
  return withProgress('profiling', () => profileGraph(context, graph, inputs, outputs, { runs, warmup }));
}
