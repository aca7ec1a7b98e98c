// Writes bench/RESULTS.md.

import { formatBytes } from '../../packages/cli/lib/format.mjs';
import { markdownTable, notesAsMarkdown } from './markdown.mjs';
import { notesOf } from './rows.mjs';
import { tablesOf } from './tables.mjs';

/** The heading of the part written by a run on a GPU. */
const GPU_PART = '# Results on a GPU\n';

/**
 * Replaces a part of RESULTS.md: the CPU part comes first, then the GPU part.
 *
 * @param {string} old text; empty for none
 * @param {{ cpu?: string, gpu?: string }} parts that are new
 * @returns {string}
 */
export function withParts(old, { cpu, gpu }) {
  const at = old.indexOf(GPU_PART);
  const [oldCpu, oldGpu] = at < 0 ? [old, ''] : [old.slice(0, at), old.slice(at)];
  return (
    [cpu ?? oldCpu, gpu ?? oldGpu]
      .map((part) => part.trim())
      .filter((part) => part !== '')
      .join('\n\n') + '\n'
  );
}

/**
 * Returns the part of RESULTS.md about the CPU.
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
    `${date.slice(0, 10)}, ${machine.cpu}, ${machine.processors} processors, ${formatBytes(machine.memoryBytes)} memory, ${machine.system}, Node ${machine.node}. ` +
      `${Object.entries(versions)
        .map(([name, version]) => `${name} ${version}`)
        .join(', ')}.`,
    '',
    'To repeat it on an otherwise idle machine with Linux: `npm run bench -- models --write`, which writes the models and this file.',
    'Each engine runs in a process of its own; samples of all engines are taken in turns; outputs are compared with the reference in',
    'the same run.',
    '',
    '![Speed of the engines](results.svg)',
    ...tablesOf(run).flatMap((table) => ['', `## ${table.title}`, '', ...(table.remark ? [table.remark, ''] : []), ...markdownTable(table)]),
    ...notesAsMarkdown(notes),
    '',
  ].join('\n');
}
