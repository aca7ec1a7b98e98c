// What every page needs of the document. Text always goes in as text, never as markup.

const SVG = 'http://www.w3.org/2000/svg';

/** Sets properties that begin with `on` as listeners and everything else as attributes; `false` and `null` leave it out. */
function assign(node, attributes) {
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith('on')) {
      node.addEventListener(name.slice(2), value);
    } else if (value !== null && value !== undefined && value !== false) {
      node.setAttribute(name, value === true ? '' : value);
    }
  }
}

/** An HTML element; `children` are nodes or texts. */
export function html(tag, attributes = {}, ...children) {
  const node = document.createElement(tag);
  assign(node, attributes);
  node.append(...children);
  return node;
}

/** An SVG element; `children` are nodes or texts. */
export function svg(tag, attributes = {}, ...children) {
  const node = document.createElementNS(SVG, tag);
  assign(node, attributes);
  node.append(...children);
  return node;
}

export const byId = (id) => document.getElementById(id);

/** The data that the page was made with. */
export function pageData() {
  return JSON.parse(byId('data').textContent);
}

/** Has a screen reader say `text`. */
export function announce(text) {
  byId('live').textContent = text;
}

/** How to scroll: at once for people who asked for less motion. */
export function scrollBehavior() {
  return matchMedia('(prefers-reduced-motion: reduce)').matches ? 'instant' : 'smooth';
}

/** Whether a key press belongs to something that text is typed into. */
export function isTyping(event) {
  return event.target instanceof HTMLInputElement || event.target instanceof HTMLTextAreaElement || event.target instanceof HTMLSelectElement;
}

/** A list of facts: pairs of a name and a text. */
export function factList(facts) {
  return html('dl', { class: 'facts' }, ...facts.map(([name, text]) => html('div', {}, html('dt', {}, name), html('dd', {}, text))));
}

/** A table whose columns are `{ name, numeric }` and whose cells are nodes or texts; the first cell heads its row. */
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
