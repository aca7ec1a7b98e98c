// Writes reports to the terminal and to files.

import { writeFileSync } from 'node:fs';
import { Output } from '../../packages/cli/lib/output.mjs';
import { say } from '../../scripts/process.mjs';

/**
 * @param {import('./tables.mjs').ReportTable[]} tables
 * @param {string[]} notes
 */
export function printTables(tables, notes) {
  const output = new Output();
  for (const { title, remark, head, rows } of tables) {
    output.heading(title);
    if (remark) output.print(output.style('dim', remark));
    output.table(head, rows);
  }
  for (const note of notes) {
    output.note(note);
  }
}

/**
 * Writes the files that have a name.
 *
 * @param {(readonly [name: string | undefined, content: () => string])[]} files
 */
export function writeFiles(files) {
  for (const [file, content] of files) {
    if (file === undefined) continue;
    writeFileSync(file, content());
    say(`wrote ${file}`);
  }
}
