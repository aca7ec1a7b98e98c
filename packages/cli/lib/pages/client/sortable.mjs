// A table that is sorted by its column headers.

import { announce, html } from './dom.mjs';

/**
 * Compares numbers and texts; `null` and empty texts come last in either direction.
 * @param {number | string | null} a
 * @param {number | string | null} b
 * @param {boolean} descending
 */
function compare(a, b, descending) {
  const [noA, noB] = [a === null || a === '', b === null || b === ''];
  if (noA || noB) {
    return Number(noA) - Number(noB);
  }
  const order = typeof a === 'number' && typeof b === 'number' ? a - b : String(a).localeCompare(String(b), 'en', { numeric: true });
  return descending ? -order : order;
}

/**
 * Creates a cell. In a column with bars, its number, a fraction of 1, is also shown as a length.
 * @param {'td' | 'th'} tag
 * @param {import('../data.mjs').Cell} cell
 * @param {import('../data.mjs').Column} column
 */
function tableCell(tag, { value, text }, { numeric, bar }) {
  const content = bar ? [html('span', { class: 'bar', 'aria-hidden': 'true' }), text] : [text];
  const made = html(tag, { scope: tag === 'th' && 'row', class: numeric && 'number' }, ...content);
  if (bar) {
    /** @type {HTMLElement} */ (made.firstChild).style.width = `${Math.min(Number(value), 1) * 100}%`;
  }
  return made;
}

/**
 * Creates the table of `{ columns, rows, sortedBy }` from the page's data.
 * @param {string} label
 * @param {import('../data.mjs').TableData} table
 * @returns {{ element: HTMLTableElement, rows: { element: HTMLTableRowElement, cells: import('../data.mjs').Cell[] }[] }} `rows` as given
 */
export function sortableTable(label, { columns, rows, sortedBy }) {
  const made = rows.map(({ category, cells }) => ({
    cells,
    element: html('tr', { class: `kind-${category}` }, ...cells.map((cell, i) => tableCell(i === 0 ? 'th' : 'td', cell, columns[i]))),
  }));
  const body = html('tbody');
  const sorts = { ...sortedBy };
  const heads = columns.map(({ name, numeric }, i) =>
    html(
      'th',
      { scope: 'col', class: numeric && 'number' },
      html('button', { type: 'button', onclick: () => sortBy(i) }, name, html('span', { class: 'direction', 'aria-hidden': 'true' })),
    ),
  );

  const show = () => {
    const { column, descending } = sorts;
    const sorted = made.toSorted((a, b) => compare(a.cells[column].value, b.cells[column].value, descending));
    body.replaceChildren(...sorted.map(({ element }) => element));
    heads.forEach((head, i) => {
      const direction = i !== column ? null : descending ? 'descending' : 'ascending';
      /** @type {Element} */ (head.querySelector('.direction')).textContent = direction === 'ascending' ? '▴' : '▾';
      if (direction === null) {
        head.removeAttribute('aria-sort');
      } else {
        head.setAttribute('aria-sort', direction);
      }
    });
  };
  const sortBy = (/** @type {number} */ column) => {
    // Numbers sort descending first: large ones are of interest.
    sorts.descending = sorts.column === column ? !sorts.descending : Boolean(columns[column].numeric) && column !== 0;
    sorts.column = column;
    show();
    announce(`${label}: sorted by ${columns[column].name}, ${sorts.descending ? 'descending' : 'ascending'}`);
  };
  show();
  return { element: html('table', { 'aria-label': label }, html('thead', {}, html('tr', {}, ...heads)), body), rows: made };
}
