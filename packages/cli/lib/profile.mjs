// Profiles of opened models.
import { describeGraph, profileGraph } from 'webnn-node/inspect';
import { shapesOf } from 'webnn-node-text/elements';
import { Failure } from './errors.mjs';
import { withProgress } from './progress.mjs';

/**
 * Profiles the graph of an opened model.
 * @param {import('./types.mjs').Opened} opened
 * @param {import('./types.mjs').Tensors} tensors by input name
 * @param {{ runs: number, warmup: number }} options
 * @returns {Promise<import('webnn-node/inspect').GraphProfile>}
 * @throws {Failure} for a model that is not a single graph
 */
export async function profileModel({ context, model, description }, tensors, { runs, warmup }) {
  if (description.cuts.length > 0) {
    throw new Failure(
      'data decide sizes or branches of the model, so it runs in stages: there is no single graph to profile; "webnn-node bench" times whole runs, "webnn-node view" shows the first stage',
    );
  }
  const specialization = await model.compile(shapesOf(tensors));
  const { graph } = specialization;
  if (graph === null) throw new Failure('there is nothing to profile: no output of the model has any elements');
  /**
   * @param {{ name: string }[]} values
   * @param {Readonly<Record<string, import('webnn-node/onnx').OnnxDescriptor>>} descriptors
   * @param {{ writable?: boolean }} access
   * @returns {Promise<Record<string, import('webnn-node').MLTensor>>}
   */
  const create = async (values, descriptors, access) =>
    Object.fromEntries(
      await Promise.all(
        values.map(async ({ name }) => {
          const { dataType, shape } = descriptors[name];
          return [name, await context.createTensor({ dataType, shape, ...access })];
        }),
      ),
    );
  // Inputs that are not read, and outputs without elements, belong to the model but not to the graph.
  const { source } = describeGraph(graph);
  const inputs = await create(source.inputs, specialization.inputs, { writable: true });
  const outputs = await create(source.outputs, specialization.outputs, {});
  for (const [name, tensor] of Object.entries(inputs)) context.writeTensor(tensor, tensors[name].data);
  return withProgress('profiling', () => profileGraph(context, graph, inputs, outputs, { runs, warmup }));
}
