// The page of `webnn-node view`: a graph before and after compilation, side by side.

import { group } from 'd3-array';
import { formatBytes, formatCount, formatPlural, formatRate, formatShare, formatTime, processorFacts } from '../format.mjs';
import { CATEGORIES } from './categories.mjs';
import { graphData, MAX_DRAWN_ITEMS, nodeKey } from './graph-data.mjs';
import { htmlPage } from './html.mjs';
import { summarize } from './summary.mjs';

const SCRIPTS = ['dom.mjs', 'graph.mjs', 'drawing.mjs', 'details.mjs', 'list.mjs', 'search.mjs', 'view.mjs'];
const STYLES = ['base.css', 'view.css'];

/** Lower bounds of the classes of shares of time. The page has one color per class. */
const SHARE_CLASSES = [0, 0.005, 0.02, 0.05, 0.15, 0.3];

/** Returns the class of a share: the index of the highest bound that it reaches. */
const shareClass = (/** @type {number} */ share) => SHARE_CLASSES.findLastIndex((bound) => share >= bound);

/** Returns the legend of {@link SHARE_CLASSES}. */
function shareLegend() {
  const percent = (/** @type {number} */ share) => `${share * 100}`;
  return SHARE_CLASSES.map((bound, i) => {
    const next = SHARE_CLASSES[i + 1];
    return bound === 0 ? `under ${percent(next)} %` : next === undefined ? `${percent(bound)} % and more` : `${percent(bound)} to ${percent(next)} %`;
  });
}

/**
 * Returns the facts about a step for the details of a node, with times if there is a profile.
 * @param {import('webnn-node/inspect').StepDescription} step
 * @param {import('./data.mjs').StepSummary | undefined} timing
 */
function stepFacts(step, timing) {
  /** @type {import('./data.mjs').Fact[]} */
  const facts = [['Kernel', step.kernel]];
  if (timing !== undefined) {
    facts.push(['Time', `${formatTime(timing.median)} (median), ${formatShare(timing.share)} of a run`]);
  }
  if (step.beside !== undefined) {
    facts.push(['Step', `computes ${formatPlural(step.beside.length + 1, 'node')} together`]);
  }
  if (step.multiplyAdds > 0) {
    facts.push(['Multiply-adds', formatCount(step.multiplyAdds)]);
  }
  if (timing !== undefined && timing.gflops !== null) {
    facts.push(['Computes', `${formatRate(timing.gflops)} GFLOP/s`]);
  }
  facts.push(['Reads', formatBytes(step.bytesRead)], ['Writes', formatBytes(step.bytesWritten)]);
  if (timing !== undefined && timing.gigabytesPerSecond !== null) {
    facts.push(['Moves', `${formatRate(timing.gigabytesPerSecond)} GB/s`]);
  }
  return facts;
}

/**
 * Adds its steps to a compiled item, or marks an item without a step as a view.
 * @param {import('./data.mjs').Item} item
 * @param {import('webnn-node/inspect').StepDescription[]} steps
 * @param {import('./data.mjs').Total<number, import('./data.mjs').StepSummary> | undefined} timings
 */
function addSteps(item, steps, timings) {
  if (steps.length === 0) {
    item.mark = 'view';
    item.facts = [['Kernel', 'none: it shares the memory of its operands, so nothing runs']];
    return;
  }
  item.facts = steps.flatMap((step) => stepFacts(step, timings?.get(step.index)));
  if (timings !== undefined) {
    item.share = steps.reduce((total, { index }) => total + timings.get(index).share, 0);
  }
}

/**
 * Adds to a source item the compiled nodes that do its work; the time of a fused node covers all its parts.
 * @param {import('./data.mjs').Item} item
 * @param {import('./data.mjs').Item[]} compiledItems
 * @param {boolean} timed
 */
function addFate(item, compiledItems, timed) {
  if (compiledItems.length === 0) {
    item.mark = 'folded';
    item.facts = [['After compilation', 'removed: its value was known while compiling, or it does nothing']];
    return;
  }
  item.facts = [];
  if (compiledItems.every(({ mark }) => mark === 'view')) {
    item.mark = 'view';
  } else if (timed) {
    item.share = compiledItems.reduce((total, { share = 0 }) => total + share, 0);
    const together = compiledItems.some(({ related }) => related.length > 1) ? ', with everything it was fused with' : '';
    item.facts.push(['Time', `${formatShare(item.share)} of a run${together}`]);
  }
}

/**
 * Links the items of both graphs in `related`: nodes by origin, graph inputs and outputs by name.
 * @param {import('./data.mjs').GraphData} source
 * @param {import('./data.mjs').GraphData} compiled
 * @param {import('webnn-node/inspect').GraphDescription} description
 */
function relate(source, compiled, description) {
  const sourceItems = /** @type {import('./data.mjs').Total<string, import('./data.mjs').Item>} */ (new Map(source.items.map((item) => [item.key, item])));
  const compiledItems = /** @type {import('./data.mjs').Total<string, import('./data.mjs').Item>} */ (new Map(compiled.items.map((item) => [item.key, item])));
  for (const item of [...source.items, ...compiled.items]) {
    item.related = [];
  }
  for (const node of description.compiled.nodes) {
    const item = compiledItems.get(nodeKey(node.id));
    for (const origin of node.origins) {
      item.related.push(nodeKey(origin));
      sourceItems.get(nodeKey(origin)).related.push(item.key);
    }
  }
  for (const kind of ['input', 'output']) {
    const named = /** @type {import('./data.mjs').Total<string, import('./data.mjs').Item>} */ (
      new Map(compiled.items.filter((item) => item.kind === kind).map((item) => [item.label, item]))
    );
    for (const item of source.items.filter((candidate) => candidate.kind === kind && named.has(candidate.label))) {
      const other = named.get(item.label);
      item.related.push(other.key);
      other.related.push(item.key);
    }
  }
  return compiledItems;
}

/**
 * Returns both graphs, with everything that the page shows about their items.
 * @param {import('webnn-node/inspect').GraphDescription} description
 * @param {import('./data.mjs').Summary | undefined} summary
 */
function bothGraphs(description, summary) {
  const operators = /** @type {import('./data.mjs').Total<number, string>} */ (new Map(description.source.nodes.map(({ id, operator }) => [id, operator])));
  const [source, compiled] = [description.source, description.compiled].map((listing) => graphData(listing, (id) => operators.get(id)));
  const compiledItems = relate(source, compiled, description);
  const stepsOf = group(description.steps, ({ node }) => node);
  for (const step of description.steps) {
    for (const node of step.beside ?? []) {
      stepsOf.set(node, [step]);
    }
  }
  const timings =
    summary &&
    /** @type {import('./data.mjs').Total<number, import('./data.mjs').StepSummary>} */ (new Map(summary.perStep.map((timing) => [timing.index, timing])));
  for (const item of compiled.items.filter(({ kind }) => kind === 'node')) {
    addSteps(item, stepsOf.get(Number(item.key.slice(1))) ?? [], timings);
  }
  for (const item of source.items.filter(({ kind }) => kind === 'node')) {
    addFate(
      item,
      item.related.map((key) => compiledItems.get(key)),
      timings !== undefined,
    );
  }
  for (const item of [...source.items, ...compiled.items]) {
    item.facts ??= [];
    if (item.share !== undefined) {
      item.shareText = formatShare(item.share);
      item.shareClass = shareClass(item.share);
    }
  }
  return { source, compiled };
}

/**
 * Returns the facts of the overview: the graph and the machine, then the model file.
 * @param {import('webnn-node/inspect').GraphDescription} description
 * @param {import('./data.mjs').Summary | undefined} summary
 * @param {{ metadata?: import('webnn-node/onnx').OnnxMetadata } | undefined} model
 * @param {import('webnn-node/onnx').OnnxUnsupportedNode[]} cuts
 * @param {number} nodesLeft
 * @returns {import('./data.mjs').ViewData['overview']}
 */
function overview(description, summary, model, cuts, nodesLeft) {
  const { source, compiled, steps, memory, passes } = description;
  const multiplyAdds = steps.reduce((total, step) => total + step.multiplyAdds, 0);
  /** @type {import('./data.mjs').Fact[]} */
  const facts = [
    ['Nodes as given', String(source.nodes.length)],
    ['Nodes after compilation', String(compiled.nodes.length)],
    ['Steps that run', String(steps.length)],
    ['Multiply-adds per run', formatCount(multiplyAdds)],
    ['Constants', formatBytes(memory.constantBytes)],
    ['Constants packed for kernels', formatBytes(memory.packedBytes)],
    ['Memory of intermediate results', formatBytes(memory.arenaBytes)],
    ['Passes', passes.join(', ') || 'none'],
    ...processorFacts(description),
  ];
  if (summary !== undefined) {
    const { count, median, gflops } = summary.runs;
    facts.push(['Time of a run', `${formatTime(median)} (median of ${count})`]);
    if (gflops !== null) {
      facts.push(['Computes', `${formatRate(gflops)} GFLOP/s`]);
    }
  }
  return [
    { heading: cuts.length > 0 ? 'Graph of the first stage' : 'Graph', facts },
    ...(cuts.length > 0 ? [{ heading: 'Cuts', facts: cutFacts(cuts, nodesLeft) }] : []),
    ...(model?.metadata === undefined ? [] : [{ heading: 'Model file', facts: modelFacts(model.metadata) }]),
  ];
}

/**
 * Returns where and why a model is cut after the graph.
 * @param {import('webnn-node/onnx').OnnxUnsupportedNode[]} cuts
 * @param {number} nodesLeft
 */
function cutFacts(cuts, nodesLeft) {
  /** @type {import('./data.mjs').Fact[]} */
  const facts = cuts.map(({ name, operator, domain, reason }) => [name, `${domain === '' ? operator : `${domain}.${operator}`}: ${reason}`]);
  return [...facts, /** @type {import('./data.mjs').Fact} */ (['Nodes that run later', String(nodesLeft)])];
}

/**
 * Returns the nonempty metadata of a model file.
 * @param {import('webnn-node/onnx').OnnxMetadata} metadata
 */
function modelFacts({ graphName, producerName, producerVersion, domain, modelVersion, irVersion, opsets, description, properties }) {
  /** @type {import('./data.mjs').Fact[]} */
  const facts = [
    ['Graph', graphName],
    ['Producer', `${producerName} ${producerVersion}`.trim()],
    ['Domain', domain],
    ['Version', modelVersion ? String(modelVersion) : ''],
    ['IR version', String(irVersion)],
    [
      'Operator sets',
      Object.entries(opsets)
        .map(([name, version]) => `${name === '' ? 'ai.onnx' : name} ${version}`)
        .join(', '),
    ],
    ['Description', description],
    ...Object.entries(properties),
  ];
  return facts.filter(([, text]) => text !== '');
}

/** The page's markup; the script fills in everything that depends on the model. */
const BODY = `
<header class="top">
  <h1 id="title"></h1>
  <p id="subtitle" class="subtitle"></p>
  <div class="search">
    <label for="search" class="visually-hidden">Search nodes by name or operator</label>
    <input id="search" type="text" role="combobox" aria-expanded="false" aria-controls="hits" aria-autocomplete="list" aria-describedby="search-help" autocomplete="off" spellcheck="false" placeholder="Search name or operator">
    <kbd aria-hidden="true">/</kbd>
    <span id="search-help" class="visually-hidden">Arrow keys choose a hit, Enter jumps to it.</span>
    <div id="hits" class="hits" role="listbox" aria-label="Hits" hidden></div>
  </div>
  <div class="tools">
    <label id="colour-choice">Color <select id="colour"><option value="kind">by kind of operator</option><option value="time">by share of time</option></select></label>
    <button type="button" id="help-button" aria-haspopup="dialog">Keys <kbd aria-hidden="true">?</kbd></button>
  </div>
</header>
<section id="legend" class="legend" aria-label="Legend"></section>
<main>
  <section class="pane" id="source" aria-labelledby="source-title"></section>
  <section class="pane" id="compiled" aria-labelledby="compiled-title"></section>
  <div class="side">
    <section class="card details" aria-labelledby="details-title" tabindex="0"><h2 id="details-title" tabindex="-1">Overview</h2><div id="details"></div></section>
    <section class="card list" aria-labelledby="list-title">
      <div class="card-head">
        <h2 id="list-title">List</h2>
        <div class="segments" id="list-sides" role="group" aria-label="Graph in the list"></div>
        <label for="list-filter" class="visually-hidden">Filter of the list</label>
        <input id="list-filter" type="text" autocomplete="off" spellcheck="false" placeholder="Filter">
      </div>
      <div class="scroller" id="list" tabindex="0" role="region" aria-label="Table of the list"></div>
    </section>
  </div>
</main>
<div id="live" class="visually-hidden" role="status" aria-live="polite"></div>
<dialog id="help" aria-labelledby="help-title">
  <h2 id="help-title">Keys</h2>
  <table>
    <tbody>
      <tr><th scope="row"><kbd>/</kbd></th><td>search; <kbd>Enter</kbd> jumps to the hit, <kbd>Esc</kbd> leaves</td></tr>
      <tr><th scope="row"><kbd>↑</kbd> <kbd>↓</kbd></th><td>to the producer, to the reader</td></tr>
      <tr><th scope="row"><kbd>←</kbd> <kbd>→</kbd></th><td>to the neighboring node</td></tr>
      <tr><th scope="row"><kbd>Home</kbd> <kbd>End</kbd></th><td>to the first, to the last node</td></tr>
      <tr><th scope="row"><kbd>x</kbd></th><td>to the other graph, to the node that this one became or came from</td></tr>
      <tr><th scope="row"><kbd>Enter</kbd></th><td>to the details</td></tr>
      <tr><th scope="row"><kbd>Esc</kbd></th><td>from the details back to the node; from a node back to the overview</td></tr>
      <tr><th scope="row"><kbd>+</kbd> <kbd>−</kbd> <kbd>0</kbd></th><td>larger, smaller, fit the width (also <kbd>Ctrl</kbd> and the wheel)</td></tr>
      <tr><th scope="row"><kbd>?</kbd></th><td>these keys</td></tr>
    </tbody>
  </table>
  <form method="dialog"><button>Close</button></form>
</dialog>`;

/**
 * Returns the page of a graph: before and after compilation, how the nodes of both are related, and where time goes.
 *
 * @param {{ title: string, description: import('webnn-node/inspect').GraphDescription, profile?:
 *   import('webnn-node/inspect').GraphProfile, model?: { metadata?: import('webnn-node/onnx').OnnxMetadata }, cuts?:
 *   import('webnn-node/onnx').OnnxUnsupportedNode[], nodesLeft?: number }} parts `profile` belongs to the graph of
 *   `description`; for a model with `cuts`, that is the first stage
 * @returns {string} a self-contained HTML page
 * @throws {RangeError} when the profile has no runs or does not fit its description
 */
export function viewPage({ title, description, profile, model, cuts = [], nodesLeft = 0 }) {
  const summary = profile && summarize(profile);
  /** @type {import('./data.mjs').ViewData} */
  const data = {
    title,
    subtitle: `${cuts.length > 0 ? 'First stage: ' : ''}${formatPlural(description.source.nodes.length, 'node')} became ${description.compiled.nodes.length}, run in ${formatPlural(description.steps.length, 'step')}`,
    timed: summary !== undefined,
    categories: CATEGORIES,
    shareLegend: shareLegend(),
    maxDrawn: MAX_DRAWN_ITEMS,
    overview: overview(description, summary, model, cuts, nodesLeft),
    sides: bothGraphs(description, summary),
  };
  return htmlPage({ title: `${title} – graph`, body: BODY, data, scripts: SCRIPTS, styles: STYLES });
}
