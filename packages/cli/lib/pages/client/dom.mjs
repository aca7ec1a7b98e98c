// What every page needs of the document. Text always goes in as text, never as markup.

const SVG = 'http://www.w3.org/2000/svg';

/**
 * Sets properties that begin with `on` as listeners and everything else as attributes; `false` and `null` leave it out.
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
 * An HTML element; `children` are nodes or texts.
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
 * An SVG element; `children` are nodes or texts.
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

/** An element that the page has. */
export const byId = (/** @type {string} */ id) => /** @type {HTMLElement} */ (document.getElementById(id));

/** A field of a form, or a dialog, that the page has. */
export const fieldById = (/** @type {string} */ id) => /** @type {HTMLInputElement & HTMLSelectElement & HTMLDialogElement} */ (/** @type {unknown} */ (byId(id)));

/** The closest of the elements around what an event happened to that fits a selector; null where there is none. */
export function closest(/** @type {Event} */ event, /** @type {string} */ selector) {
  return event.target instanceof Element ? /** @type {HTMLElement | null} */ (event.target.closest(selector)) : null;
}

/**
 * The data that the page was made with.
 * @returns {any} ViewData or ProfileData of ../data.d.mts
 */
export function pageData() {
  return JSON.parse(byId('data').textContent ?? '');
}

/**
 * Has a screen reader say `text`.
 * @param {string} text
 */
export function announce(text) {
  byId('live').textContent = text;
}

/** How to scroll: at once for people who asked for less motion. */
export function scrollBehavior() {
  return matchMedia('(prefers-reduced-motion: reduce)').matches ? 'instant' : 'smooth';
}

/**
 * Whether a key press belongs to something that text is typed into.
 * @param {Event} event
 */
export function isTyping(event) {
  return event.target instanceof HTMLInputElement || event.target instanceof HTMLTextAreaElement || event.target instanceof HTMLSelectElement;
}

/**
 * A list of facts: pairs of a name and a text.
 * @param {import('../data.mjs').Fact[]} facts
 */
export function factList(facts) {
  return html('dl', { class: 'facts' }, ...facts.map(([name, text]) => html('div', {}, html('dt', {}, name), html('dd', {}, text))));
}

/**
 * A table whose columns are `{ name, numeric }` and whose cells are nodes or texts; the first cell heads its row.
 * @param {import('../data.mjs').Column[]} columns
 * @param {(Node | string)[][]} rows
 * @param {Record<string, any>} [attributes]
 */
export function dataTable(columns, rows, attributes = {}) {
  const heads = columns.map(({ name, numeric }) => html('th', { scope: 'col', class: numeric && 'number' }, name));
  const body = rows.map((cells) =>
    html('tr', {}, ...cells.map((cell, i) => {
      const className = columns[i].numeric && 'number';
      return i === 0 ? html('th', { scope: 'row', class: className }, cell) : html('td', { class: className }, cell);
    })),
  );
  return html('table', attributes, html('thead', {}, html('tr', {}, ...heads)), html('tbody', {}, ...body));
}
