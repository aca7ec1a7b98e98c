// The page of a profile: fills in figures, tables and charts.

import { byId, fieldById, html, pageData } from './dom.mjs';
import { sortableTable } from './sortable.mjs';
import { Timeline } from './timeline.mjs';
import { histogramChart } from './histogram.mjs';

/** @type {import('../data.mjs').ProfileData} */
const data = pageData();

byId('title').textContent = data.title;
byId('figures').append(...data.figures.map(([name, text]) => html('div', {}, html('dt', {}, name), html('dd', {}, text))));
byId('legend').append(
  ...Object.entries(data.categories).map(([kind, text]) => html('li', {}, html('span', { class: `swatch kind-${kind}`, 'aria-hidden': 'true' }), text)),
);
byId('operators').append(sortableTable('Operator types', data.operators).element);
byId('histogram').append(...histogramChart(data.histogram));

const steps = sortableTable('Steps', data.steps);
byId('steps').append(steps.element);

/** Shows the steps whose text contains the filter. */
function filterSteps() {
  const wanted = fieldById('filter').value.trim().toLowerCase();
  let shown = 0;
  for (const { element } of steps.rows) {
    element.hidden = !(element.textContent ?? '').toLowerCase().includes(wanted);
    shown += element.hidden ? 0 : 1;
  }
  byId('filter-count').textContent = wanted === '' ? '' : `${shown} of ${steps.rows.length} steps`;
}

/**
 * Marks the row of a step and brings it into view within its table.
 * @param {number} index
 */
function showRow(index) {
  byId('steps').querySelector('.selected')?.classList.remove('selected');
  const { element } = steps.rows[index];
  element.classList.add('selected');
  byId('steps').scrollTop = element.offsetTop - byId('steps').clientHeight / 2;
}

byId('filter').addEventListener('input', filterSteps);
new Timeline(data.timeline, { onStep: showRow });
