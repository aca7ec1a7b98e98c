// Programs that look inside, right and wrong ones. Compiled by types.test.mjs, never run.

import type { MLContext, MLGraph, MLTensor } from 'webnn-node';
import {
  describeGraph,
  listCache,
  profileGraph,
  pruneCache,
  systemInfo,
  verifyCache,
  type CacheListing,
  type GraphDescription,
  type GraphProfile,
} from 'webnn-node/inspect';

declare const context: MLContext;
declare const graph: MLGraph;
declare const tensor: MLTensor;

const description: GraphDescription = describeGraph(graph);
const operators: string[] = description.compiled.nodes.map(({ operator }) => operator);
const origins: number[] = description.compiled.nodes[0]!.origins;
const kernels: Record<number, string> = Object.fromEntries(description.steps.map(({ index, kernel }) => [index, kernel]));
const bytes: number = description.memory.arenaBytes + description.source.values[0]!.bytes;
const profile: GraphProfile = await profileGraph(context, graph, { x: tensor }, { y: tensor }, { runs: 5, warmup: 0 });
const durations: number[] = profile.runs.flatMap(({ steps }) => steps.map(({ duration }) => duration));
await profileGraph(context, graph, {}, { y: tensor });
const { threads, environment, limits } = systemInfo();
const value: string | null = environment[0]!.value;
const length: number = limits.maxTensorByteLength * (threads ?? 1);
const problem: string | null = environment[0]!.problem;

const { folder, files }: CacheListing = await listCache();
const used: number = (await pruneCache(folder, 2 ** 30)).files.reduce((last, file) => Math.max(last, file.used), 0);
const damaged: number[] = (await verifyCache('weights')).files.map((file) => file.damaged);
const owner: string | null = files[0]!.model;

// @ts-expect-error: a tensor is no graph
describeGraph(tensor);
// @ts-expect-error: the graph is missing
await profileGraph(context, { x: tensor }, { y: tensor });
// @ts-expect-error: no such option
await profileGraph(context, graph, {}, {}, { repeat: 5 });
// @ts-expect-error: a profile is a promise
profileGraph(context, graph, {}, {}).runs;
// @ts-expect-error: the source graph has no steps
description.source.steps;

export { bytes, damaged, durations, kernels, length, operators, origins, owner, used, value };
