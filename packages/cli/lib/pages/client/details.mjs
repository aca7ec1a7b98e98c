// Shows the details of one item, or the overview if nothing is selected.

import { byId, factList, html } from './dom.mjs';

/** @type {Record<import('../data.mjs').Side, import('../data.mjs').Side>} */
const OTHER = { source: 'compiled', compiled: 'source' };

/**
 * Creates a button that leads to an item.
 * @param {import('./graph.mjs').Graph} graph
 * @param {string} key
 * @param {(side: import('../data.mjs').Side, key: string) => void} go
 */
function itemLink(graph, key, go) {
  const { operator, label, category } = graph.byKey.get(key);
  return html(
    'button',
    { type: 'button', class: `link kind-${category}`, onclick: () => go(graph.side, key) },
    html('b', {}, operator),
    label === '' ? '' : ` ${label}`,
  );
}

/**
 * @param {import('./graph.mjs').Graph} graph
 * @param {string[]} keys
 * @param {(side: import('../data.mjs').Side, key: string) => void} go
 */
const linkList = (graph, keys, go) => html('ul', { class: 'links' }, ...keys.map((key) => html('li', {}, itemLink(graph, key, go))));

/**
 * Returns a section with a heading, or nothing for an empty list.
 * @param {string} heading
 * @param {Node} content
 * @param {boolean} isEmpty
 */
function section(heading, content, isEmpty) {
  return isEmpty ? [] : [html('h3', {}, heading), content];
}

/**
 * Lists the related items of the other graph.
 * @param {import('./graph.mjs').Graph} graph
 * @param {import('./graph.mjs').Graph} other
 * @param {import('../data.mjs').Item} item
 * @param {(side: import('../data.mjs').Side, key: string) => void} go
 */
function relation(graph, other, item, go) {
  const heading = graph.side === 'compiled' ? 'Stands for' : 'Became';
  return section(heading, linkList(other, item.related, go), item.related.length === 0);
}

/**
 * Returns everything known about an item.
 * @param {import('./graph.mjs').Graph} graph
 * @param {import('./graph.mjs').Graph} other
 * @param {import('../data.mjs').Item} item
 * @param {(side: import('../data.mjs').Side, key: string) => void} go
 */
function itemDetails(graph, other, item, go) {
  const inputs = item.inputs.map(({ type, from, note }, place) =>
    html('li', {}, html('span', { class: 'type' }, `${place}: ${type}`), from === null ? html('span', { class: 'note' }, note) : itemLink(graph, from, go)),
  );
  const outputs = item.outputs.map(({ type, readers }) =>
    html('li', {}, html('span', { class: 'type' }, type), ...readers.map((key) => itemLink(graph, key, go))),
  );
  return [
    html('p', { class: 'whole-label' }, item.label),
    ...(item.facts.length === 0 ? [] : [factList(item.facts)]),
    ...relation(graph, other, item, go),
    ...section('Runs with it', html('p', {}, item.epilogue.join(', ')), item.epilogue.length === 0),
    ...section('Attributes', factList(item.attributes), item.attributes.length === 0),
    ...section('Inputs', html('ul', { class: 'operands' }, ...inputs), inputs.length === 0),
    ...section('Outputs and their readers', html('ul', { class: 'operands' }, ...outputs), outputs.length === 0),
  ];
}

/**
 * Shows an item of a graph. `go(side, key)` selects another one.
 * @param {Record<import('../data.mjs').Side, import('./graph.mjs').Graph>} graphs
 * @param {import('../data.mjs').Side} side
 * @param {string} key
 * @param {(side: import('../data.mjs').Side, key: string) => void} go
 */
export function showItem(graphs, side, key, go) {
  const item = graphs[side].byKey.get(key);
  byId('details-title').replaceChildren(item.operator, ' ', html('small', {}, graphs[side].name.toLowerCase()));
  byId('details').replaceChildren(...itemDetails(graphs[side], graphs[OTHER[side]], item, go));
  /** @type {HTMLElement} */ (byId('details').parentElement).scrollTop = 0;
}

/**
 * Shows facts about the whole, in sections with headings.
 * @param {import('../data.mjs').ViewData['overview']} sections
 */
export function showOverview(sections) {
  byId('details-title').replaceChildren('Overview');
  byId('details').replaceChildren(...sections.flatMap(({ heading, facts }) => [html('h3', {}, heading), factList(facts)]));
}
