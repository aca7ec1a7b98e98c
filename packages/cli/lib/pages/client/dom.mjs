// DOM helpers for all pages. Text is always inserted as text, never as markup.

const SVG = 'http://www.w3.org/2000/svg';

/**
 * Sets properties whose names begin with `on` as listeners, all others as attributes; skips `false` and `null`.
 * @param {Element} node
 * @param {Record<string, any>} attributes
 */
function assign(node, attributes) {
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith('on')) {
      node.addEventListener(name.slice(2), value);
    } else if (value !== null && value !== undefined && value !== false) {
      node.setAttribute(name, value === true ? '' : value);
    }
  }
}

/**
 * Creates an HTML element; `children` are nodes or texts.
 * @template {keyof HTMLElementTagNameMap} K
 * @param {K} tag
 * @param {Record<string, any>} [attributes]
 * @param {...(Node | string)} children
 * @returns {HTMLElementTagNameMap[K]}
 */
export function html(tag, attributes = {}, ...children) {
  const node = document.createElement(tag);
  assign(node, attributes);
  node.append(...children);
  return node;
}

/**
 * Creates an SVG element; `children` are nodes or texts.
 * @template {keyof SVGElementTagNameMap} K
 * @param {K} tag
 * @param {Record<string, any>} [attributes]
 * @param {...(Node | string)} children
 * @returns {SVGElementTagNameMap[K]}
 */
export function svg(tag, attributes = {}, ...children) {
  const node = document.createElementNS(SVG, tag);
  assign(node, attributes);
  node.append(...children);
  return node;
}

/** Returns an existing element of the page. */
export const byId = (/** @type {string} */ id) => /** @type {HTMLElement} */ (document.getElementById(id));

/** Returns an existing form field or dialog of the page. */
export const fieldById = (/** @type {string} */ id) =>
  /** @type {HTMLInputElement & HTMLSelectElement & HTMLDialogElement} */ (/** @type {unknown} */ (byId(id)));

/** Returns the closest element around an event's target that matches a selector; null if there is none. */
export function closest(/** @type {Event} */ event, /** @type {string} */ selector) {
  return event.target instanceof Element ? /** @type {HTMLElement | null} */ (event.target.closest(selector)) : null;
}

/**
 * Returns the data embedded in the page.
 * @returns {any} ViewData or ProfileData of ../data.d.mts
 */
export function pageData() {
  return JSON.parse(byId('data').textContent ?? '');
}

/**
 * Announces `text` to screen readers.
 * @param {string} text
 */
export function announce(text) {
  byId('live').textContent = text;
}

/** Returns the scroll behavior: instant for people who prefer reduced motion. */
export function scrollBehavior() {
  return matchMedia('(prefers-reduced-motion: reduce)').matches ? 'instant' : 'smooth';
}

/**
 * Whether a key press goes to a text field.
 * @param {Event} event
 */
export function isTyping(event) {
  return event.target instanceof HTMLInputElement || event.target instanceof HTMLTextAreaElement || event.target instanceof HTMLSelectElement;
}

/**
 * Creates a list of facts: pairs of a name and a text.
 * @param {import('../data.mjs').Fact[]} facts
 */
export function factList(facts) {
  return html('dl', { class: 'facts' }, ...facts.map(([name, text]) => html('div', {}, html('dt', {}, name), html('dd', {}, text))));
}

/**
 * Creates a table with columns `{ name, numeric }`; cells are nodes or texts, and the first cell is the row's header.
 * @param {import('../data.mjs').Column[]} columns
 * @param {(Node | string)[][]} rows
 * @param {Record<string, any>} [attributes]
 */
export function dataTable(columns, rows, attributes = {}) {
  const heads = columns.map(({ name, numeric }) => html('th', { scope: 'col', class: numeric && 'number' }, name));
  const body = rows.map((cells) =>
    html(
      'tr',
      {},
      ...cells.map((cell, i) => {
        const className = columns[i].numeric && 'number';
        return i === 0 ? html('th', { scope: 'row', class: className }, cell) : html('td', { class: className }, cell);
      }),
    ),
  );
  return html('table', attributes, html('thead', {}, html('tr', {}, ...heads)), html('tbody', {}, ...body));
}
