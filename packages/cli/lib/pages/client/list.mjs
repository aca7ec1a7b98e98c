// A graph as a table, for reading in order and for screen readers.

import { byId, closest, dataTable, fieldById, html } from './dom.mjs';

export class List {
  #graphs;
  #onSelect;
  /** @type {import('../data.mjs').Side | undefined} */
  #side;
  #timed;
  /** @type {Map<string, HTMLTableRowElement>} */
  #rows = new Map();

  /**
   * @param {Record<import('../data.mjs').Side, import('./graph.mjs').Graph>} graphs
   * @param {boolean} timed
   * @param {{ onSelect(side: import('../data.mjs').Side, key: string): void }} events
   */
  constructor(graphs, timed, { onSelect }) {
    this.#graphs = graphs;
    this.#timed = timed;
    this.#onSelect = onSelect;
    for (const graph of Object.values(graphs)) {
      byId('list-sides').append(html('button', { type: 'button', 'data-side': graph.side, onclick: () => this.show(graph.side) }, graph.name));
    }
    byId('list-filter').addEventListener('input', () => this.#filter());
    byId('list').addEventListener('keydown', (event) => this.#onKey(event));
  }

  /**
   * Lists one of the graphs.
   * @param {import('../data.mjs').Side} side
   */
  show(side) {
    if (side === this.#side) {
      return;
    }
    this.#side = side;
    for (const button of /** @type {NodeListOf<HTMLElement>} */ (byId('list-sides').querySelectorAll('button'))) {
      button.setAttribute('aria-pressed', String(button.dataset.side === side));
    }
    const columns = [{ name: 'Operator' }, { name: 'Name' }, { name: 'Result' }, ...(this.#timed ? [{ name: 'Time', numeric: true }] : [])];
    const graph = this.#graphs[side];
    const rows = graph.items.map((item) => this.#cells(graph, item));
    const table = dataTable(columns, rows, { class: this.#timed ? 'timed' : null, 'aria-label': `${graph.name}: all nodes` });
    byId('list').replaceChildren(table);
    this.#rows = new Map(Array.from(table.tBodies[0].rows, (row, i) => [graph.items[i].key, row]));
    if (graph.items.length > 0) {
      this.#makeTabStop(graph.items[0].key);
    }
    this.#filter();
  }

  /**
   * Marks an item as the selected one, and scrolls to it.
   * @param {import('../data.mjs').Side} side
   * @param {string | null} key
   */
  select(side, key) {
    this.show(side);
    byId('list').querySelector('.selected')?.classList.remove('selected');
    if (key !== null) {
      const row = /** @type {HTMLTableRowElement} */ (this.#rows.get(key));
      row.classList.add('selected');
      this.#makeTabStop(key);
      const list = byId('list');
      list.scrollTop = row.offsetTop - list.clientHeight / 2;
    }
  }

  /**
   * @param {import('./graph.mjs').Graph} graph
   * @param {import('../data.mjs').Item} item
   */
  #cells(graph, item) {
    const fusions = item.epilogue.map((operator) => ` + ${operator}`).join('');
    const button = html(
      'button',
      { type: 'button', class: `link kind-${item.category}`, tabindex: -1, onclick: () => this.#onSelect(graph.side, item.key) },
      html('b', {}, item.operator),
      fusions,
    );
    const results = (item.kind === 'output' ? item.inputs : item.outputs).map(({ type }) => type).join(', ');
    const name = html('bdi', {}, item.label);
    return [button, html('span', { class: 'path', title: item.label }, name), results, ...(this.#timed ? [item.shareText ?? item.mark ?? ''] : [])];
  }

  /** @param {string} key */
  #makeTabStop(key) {
    byId('list').querySelector('button[tabindex="0"]')?.setAttribute('tabindex', '-1');
    this.#rows.get(key)?.querySelector('button')?.setAttribute('tabindex', '0');
  }

  #filter() {
    const wanted = fieldById('list-filter').value.trim().toLowerCase();
    for (const row of this.#rows.values()) {
      row.hidden = wanted !== '' && !(row.textContent ?? '').toLowerCase().includes(wanted);
    }
  }

  /**
   * The arrow keys go from row to row: tabbing through thousands of rows would be endless.
   * @param {KeyboardEvent} event
   */
  #onKey(event) {
    const row = closest(event, 'tr');
    if (row === null || !['ArrowUp', 'ArrowDown'].includes(event.key)) {
      return;
    }
    event.preventDefault();
    const step = event.key === 'ArrowDown' ? 'nextElementSibling' : 'previousElementSibling';
    /** @type {any} */
    let next = row[step];
    while (next?.hidden) {
      next = next[step];
    }
    next?.querySelector('button')?.focus();
  }
}
