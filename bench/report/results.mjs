// bench/RESULTS.md.

import { formatBytes } from '../../cli/format.mjs';
import { notesOf } from './rows.mjs';
import { tablesOf } from './tables.mjs';

const cell = (text) => text.replaceAll('|', '\\|');

function markdownTable({ head, rows }) {
  const line = (cells) => `| ${cells.map(cell).join(' | ')} |`;
  return [
    line(head.map((name) => name.replace(/^>/, ''))),
    `|${head.map((name) => (name.startsWith('>') ? '--:' : '---')).join('|')}|`,
    ...rows.map(line),
  ];
}

/**
 * The text of RESULTS.md.
 *
 * @param {import('./rows.mjs').Run} run
 * @returns {string}
 */
export function resultsMarkdown(run) {
  const { date, machine, versions, models, calls } = run;
  const notes = notesOf([...models, ...calls]);
  return [
    '# Results of the benchmark',
    '',
    `${date.slice(0, 10)}, ${machine.cpu}, ${machine.processors} processors, ${formatBytes(machine.memoryBytes)} memory, ${machine.system}, Node ${machine.node}. `
      + `${Object.entries(versions).map(([name, version]) => `${name} ${version}`).join(', ')}.`,
    '',
    'To repeat it on an otherwise idle machine with Linux: `npm run test:onnx-models`, which writes the models, then',
    '`npm run bench -- --write`, which writes this file. Each engine runs in a process of its own; samples of all engines are',
    'taken in turns; outputs are compared with the reference in the same run.',
    '',
    '![Speed of the engines](results.svg)',
    ...tablesOf(run).flatMap((table) => ['', `## ${table.title}`, '', ...(table.remark ? [table.remark, ''] : []), ...markdownTable(table)]),
    ...(notes.length === 0 ? [] : ['', '## Not compared', '', ...notes.map((note) => `- ${note.replace(/\s+/g, ' ')}`)]),
    '',
  ].join('\n');
}
