// Formats tables and notes as Markdown.

const cell = (/** @type {string} */ text) => text.replaceAll('|', '\\|');

/**
 * @param {import('./tables.mjs').ReportTable} table
 * @returns {string[]} lines
 */
export function markdownTable({ head, rows }) {
  const line = (/** @type {string[]} */ cells) => `| ${cells.map(cell).join(' | ')} |`;
  return [line(head.map((name) => name.replace(/^>/, ''))), `|${head.map((name) => (name.startsWith('>') ? '--:' : '---')).join('|')}|`, ...rows.map(line)];
}

/**
 * @param {string[]} notes about engines that were not compared
 * @returns {string[]} lines
 */
export function notesAsMarkdown(notes) {
  return notes.length === 0 ? [] : ['', '## Not compared', '', ...notes.map((note) => `- ${note.replace(/\s+/g, ' ')}`)];
}
