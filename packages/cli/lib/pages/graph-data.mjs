// Converts a graph listing for the page: items (nodes, graph inputs, graph outputs) with all their text, and edges.

import { formatBytes } from '../format.mjs';
import { categoryOf } from './categories.mjs';
import { endOf, startOf } from './client/text.mjs';
import { layOut } from './layout.mjs';
import { shapeText, typeText } from './types.mjs';

/** With more items, browsers take too long to show the drawing; the list still has all of them. */
export const MAX_DRAWN_ITEMS = 10000;

const LINE_HEIGHT = 15;
const BOX_PADDING = 8;
const MIN_WIDTH = 104;
const MAX_WIDTH = 232;
/** Average character widths in the page's font, in pixels: bold for the first line, regular for the others. */
const BOLD_CHARACTER = 7.4;
const CHARACTER = 6.3;
const MAX_CHARACTERS = Math.floor((MAX_WIDTH - 3 * BOX_PADDING) / CHARACTER);

/** @typedef {import('./data.mjs').Total<number, import('webnn-node/inspect').ListedValue>} Values by their ids */

/** Keys of items. Nodes and values are numbered independently of each other. */
export const nodeKey = (/** @type {number} */ id) => `n${id}`;
const inputKey = (/** @type {number} */ value) => `i${value}`;
const outputKey = (/** @type {number} */ place) => `o${place}`;

/** Formats the value of an attribute; numbers and lists as JSON. */
const attributeText = (/** @type {unknown} */ value) => (typeof value === 'string' ? value : (JSON.stringify(value) ?? String(value)));

/**
 * Returns the constants that a node reads, as a line of its box: `weights 64×3×3×3, 64`. Scalars are left out.
 * @param {import('webnn-node/inspect').ListedNode} node
 * @param {Values} values
 */
function weightsLine(node, values) {
  const shapes = node.inputs
    .flatMap((id) => (id === null ? [] : [values.get(id)]))
    .filter(({ kind, shape }) => kind === 'constant' && shape.length > 0)
    .map(({ shape }) => shapeText(shape));
  return shapes.length === 0 ? [] : [`const ${shapes.join(', ')}`];
}

/**
 * Returns the operators fused into a node: `+ relu`; for a fused chain, its operators: `mul · add · exp`.
 * @param {import('webnn-node/inspect').ListedNode} node
 * @param {(id: number) => string} operatorOf
 */
function fusionLines({ operator, epilogue, origins }, operatorOf) {
  const chain = operator === 'fused' ? [origins.map(operatorOf).join(' · ')] : [];
  return [...chain, ...(epilogue.length === 0 ? [] : [`+ ${epilogue.join(' + ')}`])];
}

/**
 * Maps each value to its producer and its readers, by item key.
 * @param {import('webnn-node/inspect').GraphListing} listing
 */
function connections(listing) {
  const producer = new Map(listing.inputs.map(({ value }) => [value, inputKey(value)]));
  const readers = /** @type {import('./data.mjs').Total<number, string[]>} */ (new Map(listing.values.map(({ id }) => [id, []])));
  for (const node of listing.nodes) {
    for (const value of node.outputs) {
      producer.set(value, nodeKey(node.id));
    }
    for (const value of new Set(node.inputs)) {
      if (value !== null) {
        readers.get(value).push(nodeKey(node.id));
      }
    }
  }
  listing.outputs.forEach(({ value }, place) => readers.get(value).push(outputKey(place)));
  return { producer, readers };
}

/**
 * @param {import('webnn-node/inspect').ListedNode} node
 * @param {Values} values
 * @param {ReturnType<typeof connections>} links
 * @param {(id: number) => string} operatorOf
 */
function nodeItem(node, values, { producer, readers }, operatorOf) {
  const { operator, label } = node;
  return {
    key: nodeKey(node.id),
    kind: 'node',
    operator,
    label,
    category: categoryOf(operator),
    lines: [operator, ...fusionLines(node, operatorOf), ...(label === '' ? [] : [endOf(label, MAX_CHARACTERS)]), ...weightsLine(node, values)],
    epilogue: node.epilogue,
    inputs: node.inputs.map((id) => {
      if (id === null) {
        return { type: 'not given', from: null, note: '' };
      }
      const value = values.get(id);
      const isConstant = value.kind === 'constant';
      return { type: typeText(value), from: producer.get(id) ?? null, note: isConstant ? `constant, ${formatBytes(value.bytes)}` : '' };
    }),
    outputs: node.outputs.map((id) => ({ type: typeText(values.get(id)), readers: readers.get(id) })),
    attributes: Object.entries(node.attributes).map(([name, value]) => [name, attributeText(value)]),
  };
}

/**
 * @param {{ name: string, value: number }} input
 * @param {Values} values
 * @param {ReturnType<typeof connections>} links
 */
function inputItem({ name, value: id }, values, { readers }) {
  const type = typeText(values.get(id));
  return {
    key: inputKey(id),
    kind: 'input',
    operator: 'input',
    label: name,
    category: 'port',
    lines: ['input', startOf(name, MAX_CHARACTERS), type],
    epilogue: [],
    inputs: [],
    outputs: [{ type, readers: readers.get(id) }],
    attributes: [],
  };
}

/**
 * @param {{ name: string, value: number }} output
 * @param {number} place
 * @param {Values} values
 * @param {ReturnType<typeof connections>} links
 */
function outputItem({ name, value: id }, place, values, { producer }) {
  const type = typeText(values.get(id));
  const from = producer.get(id) ?? null;
  return {
    key: outputKey(place),
    kind: 'output',
    operator: 'output',
    label: name,
    category: 'port',
    lines: ['output', startOf(name, MAX_CHARACTERS), type],
    epilogue: [],
    inputs: [{ type, from, note: from === null ? 'constant' : '' }],
    outputs: [],
    attributes: [],
  };
}

/**
 * Returns one edge per value and reader; constants are part of the reader's box.
 * @param {import('webnn-node/inspect').GraphListing} listing
 * @param {Values} values
 * @param {ReturnType<typeof connections>} links
 * @returns {import('./data.mjs').Edge[]}
 */
function edgesOf(listing, values, { producer, readers }) {
  return listing.values.flatMap(({ id }) => {
    const from = producer.get(id);
    const type = from === undefined ? '' : typeText(values.get(id));
    return from === undefined ? [] : readers.get(id).map((to) => ({ from, to, value: id, type }));
  });
}

/**
 * Returns width and height of an item's box, given its lines and `reserve` extra characters in the first line.
 * @param {string[]} lines
 * @param {number} reserve
 */
function boxOf(lines, reserve) {
  const [first, ...others] = lines;
  const width = Math.max((first.length + reserve) * BOLD_CHARACTER, ...others.map((line) => line.length * CHARACTER)) + 4 * BOX_PADDING;
  return { width: Math.round(Math.min(Math.max(width, MIN_WIDTH), MAX_WIDTH)), height: lines.length * LINE_HEIGHT + 2 * BOX_PADDING - 3 };
}

/** Characters reserved in the first line of a box for the share of time or a mark. */
const FIRST_LINE_RESERVE = 8;

/** Right end of a value's type label, which starts at the middle of its producer's lower side. */
const labelEnd = (/** @type {import('./data.mjs').Item} */ { box: [x, , width], outputs }) =>
  x + width / 2 + Math.max(0, ...outputs.map(({ type }) => type.length)) * CHARACTER + BOX_PADDING;

/**
 * Converts a listing for the page.
 *
 * @param {import('webnn-node/inspect').GraphListing} listing
 * @param {(id: number) => string} operatorOf returns the operator of a source node, for fused nodes
 * @returns {import('./data.mjs').GraphData} the items have `box`
 *   ([x, y, width, height]) and the edges `path` where `drawn` is true; an edge with path `null` is too long to be drawn
 */
export function graphData(listing, operatorOf) {
  const values = /** @type {Values} */ (new Map(listing.values.map((value) => [value.id, value])));
  const links = connections(listing);
  // The boxes, related items and facts are added below and by the page.
  const items = /** @type {import('./data.mjs').Item[]} */ ([
    ...listing.inputs.map((input) => inputItem(input, values, links)),
    ...listing.nodes.map((node) => nodeItem(node, values, links, operatorOf)),
    ...listing.outputs.map((output, place) => outputItem(output, place, values, links)),
  ]);
  for (const item of items) {
    item.lines = item.lines.map((line) => startOf(line, MAX_CHARACTERS));
  }
  const edges = edgesOf(listing, values, links);
  if (items.length > MAX_DRAWN_ITEMS) {
    return { items, edges, width: 0, height: 0, drawn: false };
  }
  const sizes = items.map(({ key, lines }) => ({ key, ...boxOf(lines, FIRST_LINE_RESERVE) }));
  const layout = layOut(sizes, edges);
  sizes.forEach(({ key, width, height }, i) => {
    const { x, y } = /** @type {{ x: number, y: number }} */ (layout.boxes.get(key));
    items[i].box = [Math.round(x), Math.round(y), Math.round(width), Math.round(height)];
  });
  edges.forEach((edge, i) => {
    edge.path = layout.paths[i];
  });
  const width = items.reduce((most, item) => Math.max(most, labelEnd(item)), layout.width);
  return { items, edges, width: Math.ceil(width), height: Math.ceil(layout.height), drawn: true };
}
