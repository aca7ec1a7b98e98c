// The search box: a combobox whose hits are the nodes of both graphs.

import { announce, byId, fieldById, html } from './dom.mjs';

const MAX_HITS = 60;

/** @typedef {{ graph: import('./graph.mjs').Graph, item: import('../data.mjs').Item, rank: number }} Hit */

/**
 * Returns the rank of a hit, lower is better; undefined for no hit.
 * @param {import('../data.mjs').Item} item
 * @param {string} wanted
 */
function rank(item, wanted) {
  const texts = [item.label.toLowerCase(), item.operator.toLowerCase(), ...item.epilogue.map((operator) => operator.toLowerCase())];
  const ranks = texts.filter((text) => text.includes(wanted)).map((text) => (text === wanted ? 0 : text.startsWith(wanted) ? 1 : 2));
  return ranks.length === 0 ? undefined : Math.min(...ranks);
}

export class Search {
  #graphs;
  #onChoose;
  /** @type {Hit[]} */
  #hits = [];
  #active = -1;

  /**
   * @param {Record<import('../data.mjs').Side, import('./graph.mjs').Graph>} graphs
   * @param {{ onChoose(side: import('../data.mjs').Side, key: string): void }} events
   */
  constructor(graphs, { onChoose }) {
    this.#graphs = graphs;
    this.#onChoose = onChoose;
    const box = byId('search');
    box.addEventListener('input', () => this.#search());
    box.addEventListener('focus', () => this.#search());
    box.addEventListener('blur', () => this.#close());
    box.addEventListener('keydown', (event) => this.#onKey(event));
  }

  focus() {
    byId('search').focus();
    fieldById('search').select();
  }

  #search() {
    const wanted = fieldById('search').value.trim().toLowerCase();
    const all =
      wanted === ''
        ? []
        : Object.values(this.#graphs).flatMap((graph) =>
            graph.items.flatMap((item) => {
              const found = rank(item, wanted);
              return found === undefined ? [] : [{ graph, item, rank: found }];
            }),
          );
    this.#hits = all.sort((a, b) => a.rank - b.rank).slice(0, MAX_HITS);
    if (wanted === '') {
      this.#close();
      return;
    }
    const note =
      all.length === 0 ? 'No node has this name or operator.' : all.length > MAX_HITS ? `${all.length - MAX_HITS} more: keep typing to find them.` : '';
    byId('hits').replaceChildren(
      ...this.#hits.map((hit, i) => this.#option(hit, i)),
      ...(note === '' ? [] : [html('div', { class: 'note', role: 'option', 'aria-disabled': 'true', 'aria-selected': 'false' }, note)]),
    );
    byId('hits').hidden = false;
    byId('search').setAttribute('aria-expanded', 'true');
    announce(`${all.length} hits`);
    this.#activate(this.#hits.length > 0 ? 0 : -1);
  }

  /**
   * @param {Hit} hit
   * @param {number} place
   */
  #option({ graph, item }, place) {
    const option = html(
      'div',
      { id: `hit-${place}`, role: 'option', 'aria-selected': 'false', class: `hit kind-${item.category}` },
      html('b', {}, item.operator),
      html('span', { class: 'hit-name' }, item.label),
      html('small', {}, graph.name.toLowerCase()),
    );
    option.addEventListener('pointerdown', (event) => {
      event.preventDefault(); // keeps the focus in the box until a hit is chosen
      this.#choose(place);
    });
    return option;
  }

  /** @param {number} place */
  #activate(place) {
    byId('hits').querySelector('[aria-selected="true"]')?.setAttribute('aria-selected', 'false');
    this.#active = place;
    const option = document.getElementById(`hit-${place}`);
    option?.setAttribute('aria-selected', 'true');
    option?.scrollIntoView({ block: 'nearest' });
    if (option === null) {
      byId('search').removeAttribute('aria-activedescendant');
    } else {
      byId('search').setAttribute('aria-activedescendant', option.id);
    }
  }

  /** @param {number} place */
  #choose(place) {
    const { graph, item } = this.#hits[place];
    this.#close();
    this.#onChoose(graph.side, item.key);
  }

  #close() {
    byId('hits').hidden = true;
    byId('search').setAttribute('aria-expanded', 'false');
    byId('search').removeAttribute('aria-activedescendant');
  }

  /** @param {KeyboardEvent} event */
  #onKey(event) {
    const count = this.#hits.length;
    if ((event.key === 'ArrowDown' || event.key === 'ArrowUp') && count > 0) {
      event.preventDefault();
      this.#activate((this.#active + (event.key === 'ArrowDown' ? 1 : count - 1)) % count);
    } else if (event.key === 'Enter' && this.#active >= 0 && !byId('hits').hidden) {
      event.preventDefault();
      this.#choose(this.#active);
    } else if (event.key === 'Escape') {
      event.stopPropagation();
      byId('search').blur();
    }
  }
}
