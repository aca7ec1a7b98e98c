// The page of a graph: joins drawings, details, list and search, and holds what is selected.

import { announce, byId, html, isTyping, pageData } from './dom.mjs';
import { describeItem, Graph } from './graph.mjs';
import { Drawing, FIRST_SCALE } from './drawing.mjs';
import { showItem, showOverview } from './details.mjs';
import { List } from './list.mjs';
import { Search } from './search.mjs';

const data = pageData();
const graphs = { source: new Graph('source', data.sides.source), compiled: new Graph('compiled', data.sides.compiled) };
const drawings = {};
let selection = null;

/** What the other graph is called inside of this script. */
const opposite = (side) => (side === 'source' ? 'compiled' : 'source');

/** Says instead of a drawing why there is none. */
function explainMissing(pane, graph) {
  pane.append(
    html('div', { class: 'card-head' }, html('h2', { id: `${graph.side}-title` }, graph.name)),
    html('p', { class: 'missing' }, `This graph has ${graph.items.length} nodes, inputs and outputs; up to ${data.maxDrawn} are drawn. The list has all of them.`),
  );
}

/** Selects an item everywhere; `null` for the key shows the overview. */
function select(side, key) {
  selection = key === null ? null : { side, key };
  const item = key === null ? null : graphs[side].byKey.get(key);
  drawings[side]?.select(key);
  drawings[side]?.relate([]);
  drawings[opposite(side)]?.select(null);
  drawings[opposite(side)]?.relate(item?.related ?? []);
  list.select(side, key);
  if (item === null) {
    showOverview(data.overview);
    announce('Nothing is selected');
    return;
  }
  drawings[side]?.reveal(key);
  showItem(graphs, side, key, go);
  const fate = side === 'source' ? 'became' : 'stands for';
  announce(`${graphs[side].name}: ${describeItem(item)}${item.related.length > 0 ? `; ${fate} ${item.related.length === 1 ? '1 node' : `${item.related.length} nodes`}` : ''}`);
}

/** Selects an item and moves the focus to it: in the drawing, or to its details where there is none. */
function go(side, key) {
  select(side, key);
  if (drawings[side] === undefined) {
    byId('details-title').focus();
  } else {
    drawings[side].focus(key);
  }
}

/** From the selected item to the one that it became or came from. */
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

/** Explains the colours, of boxes and of the stripes at their left. */
function drawLegend(mode) {
  const shares = mode === 'time' ? data.shareLegend.map((text, i) => [`share-${i}`, text]) : [];
  const kinds = Object.entries(data.categories).map(([kind, text]) => [`kind kind-${kind}`, text]);
  const marks = [['folded', 'folded away'], ['view', 'view: no step of its own'], ['stub', 'edge to far away']];
  const swatch = ([name, text]) => html('li', {}, html('span', { class: `swatch ${name}`, 'aria-hidden': 'true' }), text);
  const row = (heading, entries) => (entries.length === 0 ? [] : [html('ul', { 'aria-label': heading }, html('li', { class: 'legend-head' }, heading), ...entries.map(swatch))]);
  byId('legend').replaceChildren(...row('Share of a run', shares), ...row('Kind', [...kinds, ...marks]));
}

/** Colours everything `by` kind or share of time. */
function colour(by) {
  document.body.dataset.colour = by;
  drawLegend(by);
}

function onKey(event) {
  if (isTyping(event) || event.ctrlKey || event.metaKey || event.altKey || byId('help').open) {
    return;
  }
  const inDetails = byId('details').parentElement.contains(event.target);
  const actions = {
    '/': () => search.focus(),
    '?': () => byId('help').showModal(),
    x: cross,
    Escape: () => {
      if (inDetails && selection !== null && drawings[selection.side] !== undefined) {
        drawings[selection.side].focus(selection.key);
      } else if (selection !== null) {
        select(selection.side, null);
      }
    },
  };
  const opensDetails = event.key === 'Enter' && event.target.closest?.('.item') !== null;
  const action = opensDetails
    ? () => {
        select(event.target.closest('.canvas').parentElement.id, event.target.closest('.item').dataset.key);
        byId('details-title').focus();
      }
    : Object.hasOwn(actions, event.key) ? actions[event.key] : undefined;
  if (action !== undefined) {
    event.preventDefault();
    action();
  }
}

byId('title').textContent = data.title;
byId('subtitle').textContent = data.subtitle;
const list = new List(graphs, data.timed, { onSelect: select });
const search = new Search(graphs, { onChoose: go });
for (const [side, graph] of Object.entries(graphs)) {
  if (graph.drawn) {
    drawings[side] = new Drawing(byId(side), graph, { onSelect: (key) => select(side, key) });
    drawings[side].fit(FIRST_SCALE);
  } else {
    explainMissing(byId(side), graph);
  }
}
list.show('compiled');
showOverview(data.overview);
byId('colour-choice').hidden = !data.timed;
byId('colour').value = data.timed ? 'time' : 'kind';
byId('colour').addEventListener('change', () => colour(byId('colour').value));
colour(byId('colour').value);
byId('help-button').addEventListener('click', () => byId('help').showModal());
document.addEventListener('keydown', onKey);
