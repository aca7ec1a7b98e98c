// The shell of a page: one HTML file that loads nothing, with a content security policy that only its own script and
// style satisfy. Text from models never becomes markup: it is embedded as JSON, and the script shows it as text.

import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';

const read = (/** @type {string} */ file) => readFileSync(new URL(`client/${file}`, import.meta.url), 'utf8');

/**
 * Escapes `text` for the content of an element or a quoted attribute.
 * @param {string} text
 */
export function escapeHtml(text) {
  return text.replace(/[&<>"']/g, (character) => `&#${character.charCodeAt(0)};`);
}

/**
 * Formats `data` as JSON for a script element: without `<`, neither an end tag nor a comment can begin in it.
 * @param {unknown} data
 */
export function escapeJson(data) {
  return JSON.stringify(data).replace(/</g, '\\u003c');
}

/**
 * Joins the modules of `client/` into one. They are listed in dependency order and share one scope: their one-line
 * imports are dropped, and exports become plain declarations.
 * @param {string[]} files
 */
function joinModules(files) {
  return files
    .map(read)
    .join('\n')
    .replace(/^import .* from '\.\/[a-z-]+\.mjs';\n/gm, '')
    .replace(/^export /gm, '');
}

const hashOf = (/** @type {string} */ text) => `'sha256-${createHash('sha256').update(text).digest('base64')}'`;

/**
 * Returns a page.
 *
 * @param {{ title: string, body: string, data: unknown, scripts: string[], styles: string[] }} parts `body` is markup of
 *   the project's own; `data` is available to the script in the element `data`; `scripts` and `styles` are files of
 *   `client/`
 * @returns {string} HTML
 */
export function htmlPage({ title, body, data, scripts, styles }) {
  const script = joinModules(scripts);
  const style = styles.map(read).join('\n');
  const policy = `default-src 'none'; script-src ${hashOf(script)}; style-src ${hashOf(style)}; img-src data:; base-uri 'none'; form-action 'none'`;
  return `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="${policy}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta name="generator" content="webnn-node">
<title>${escapeHtml(title)}</title>
<link rel="icon" href="data:,">
<style>${style}</style>
</head>
<body>
${body}
<noscript><p>This page draws itself with JavaScript, which is switched off here.</p></noscript>
<script type="application/json" id="data">${escapeJson(data)}</script>
<script type="module">${script}</script>
</body>
</html>
`;
}
