// The page of a graph: connects drawings, details, list and search, and holds the selection.

import { announce, byId, closest, fieldById, html, isTyping, pageData } from './dom.mjs';
import { describeItem, Graph } from './graph.mjs';
import { Drawing, FIRST_SCALE } from './drawing.mjs';
import { showItem, showOverview } from './details.mjs';
import { List } from './list.mjs';
import { Search } from './search.mjs';

/** @type {import('../data.mjs').ViewData} */
const data = pageData();
const graphs = { source: new Graph('source', data.sides.source), compiled: new Graph('compiled', data.sides.compiled) };
/** @type {Partial<Record<import('../data.mjs').Side, Drawing>>} */
const drawings = {};
/** @type {{ side: import('../data.mjs').Side, key: string } | null} */
let selection = null;

/** The side of the other graph. */
const opposite = (/** @type {import('../data.mjs').Side} */ side) => (side === 'source' ? 'compiled' : 'source');

/**
 * Explains why there is no drawing.
 * @param {Element} pane
 * @param {import('./graph.mjs').Graph} graph
 */
function explainMissing(pane, graph) {
  pane.append(
    html('div', { class: 'card-head' }, html('h2', { id: `${graph.side}-title` }, graph.name)),
    html(
      'p',
      { class: 'missing' },
      `This graph has ${graph.items.length} nodes, inputs and outputs; up to ${data.maxDrawn} are drawn. The list has all of them.`,
    ),
  );
}

/**
 * Selects an item everywhere; `null` as the key shows the overview.
 * @param {import('../data.mjs').Side} side
 * @param {string | null} key
 */
function select(side, key) {
  selection = key === null ? null : { side, key };
  const item = key === null ? null : graphs[side].byKey.get(key);
  drawings[side]?.select(key);
  drawings[side]?.relate([]);
  drawings[opposite(side)]?.select(null);
  drawings[opposite(side)]?.relate(item?.related ?? []);
  list.select(side, key);
  if (key === null || item === null) {
    showOverview(data.overview);
    announce('Nothing is selected');
    return;
  }
  drawings[side]?.reveal(key);
  showItem(graphs, side, key, go);
  const fate = side === 'source' ? 'became' : 'stands for';
  announce(
    `${graphs[side].name}: ${describeItem(item)}${item.related.length > 0 ? `; ${fate} ${item.related.length === 1 ? '1 node' : `${item.related.length} nodes`}` : ''}`,
  );
}

/**
 * Selects an item and moves the focus to it in the drawing, or to its details if there is no drawing.
 * @param {import('../data.mjs').Side} side
 * @param {string} key
 */
function go(side, key) {
  select(side, key);
  const drawing = drawings[side];
  if (drawing === undefined) {
    byId('details-title').focus();
  } else {
    drawing.focus(key);
  }
}

/** Goes from the selected item to a related one in the other graph. */
function cross() {
  if (selection === null) {
    return;
  }
  const [other] = graphs[selection.side].byKey.get(selection.key).related;
  if (other === undefined) {
    announce('Nothing in the other graph corresponds to this node');
  } else {
    go(opposite(selection.side), other);
  }
}

/**
 * Draws the legend for the colors of boxes, and of the stripes at their left.
 * @param {string} mode
 */
function drawLegend(mode) {
  const shares = mode === 'time' ? data.shareLegend.map((text, i) => [`share-${i}`, text]) : [];
  const kinds = Object.entries(data.categories).map(([kind, text]) => [`kind kind-${kind}`, text]);
  const marks = [
    ['folded', 'folded away'],
    ['view', 'view: no step of its own'],
    ['stub', 'edge to a distant node'],
  ];
  const swatch = (/** @type {string[]} */ [name, text]) => html('li', {}, html('span', { class: `swatch ${name}`, 'aria-hidden': 'true' }), text);
  const row = (/** @type {string} */ heading, /** @type {string[][]} */ entries) =>
    entries.length === 0 ? [] : [html('ul', { 'aria-label': heading }, html('li', { class: 'legend-head' }, heading), ...entries.map(swatch))];
  byId('legend').replaceChildren(...row('Share of a run', shares), ...row('Kind', [...kinds, ...marks]));
}

/**
 * Colors everything `by` kind or by share of time.
 * @param {string} by
 */
function colour(by) {
  document.body.dataset.colour = by;
  drawLegend(by);
}

/** @param {KeyboardEvent} event */
function onKey(event) {
  if (isTyping(event) || event.ctrlKey || event.metaKey || event.altKey || fieldById('help').open) {
    return;
  }
  const inDetails = byId('details').parentElement?.contains(/** @type {Node} */ (event.target));
  /** @type {Record<string, () => void>} */
  const actions = {
    '/': () => search.focus(),
    '?': () => fieldById('help').showModal(),
    x: cross,
    Escape: () => {
      if (inDetails && selection !== null && drawings[selection.side] !== undefined) {
        drawings[selection.side]?.focus(selection.key);
      } else if (selection !== null) {
        select(selection.side, null);
      }
    },
  };
  const item = closest(event, '.item');
  const action =
    event.key === 'Enter' && item !== null
      ? () => {
          const pane = /** @type {HTMLElement} */ (item.closest('.pane'));
          select(/** @type {import('../data.mjs').Side} */ (pane.id), item.dataset.key ?? null);
          byId('details-title').focus();
        }
      : Object.hasOwn(actions, event.key)
        ? actions[event.key]
        : undefined;
  if (action !== undefined) {
    event.preventDefault();
    action();
  }
}

byId('title').textContent = data.title;
byId('subtitle').textContent = data.subtitle;
const list = new List(graphs, data.timed, { onSelect: select });
const search = new Search(graphs, { onChoose: go });
for (const graph of Object.values(graphs)) {
  const { side } = graph;
  if (graph.drawn) {
    const drawing = new Drawing(byId(side), graph, { onSelect: (key) => select(side, key) });
    drawings[side] = drawing;
    drawing.fit(FIRST_SCALE);
  } else {
    explainMissing(byId(side), graph);
  }
}
list.show('compiled');
showOverview(data.overview);
byId('colour-choice').hidden = !data.timed;
fieldById('colour').value = data.timed ? 'time' : 'kind';
byId('colour').addEventListener('change', () => colour(fieldById('colour').value));
colour(fieldById('colour').value);
byId('help-button').addEventListener('click', () => fieldById('help').showModal());
document.addEventListener('keydown', onKey);
