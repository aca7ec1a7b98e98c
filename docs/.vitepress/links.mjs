// What differs between a page at GitHub and on the site. Links lead to where things are: pages of docs/ are pages there,
// declarations are the reference, and all other files of the repository are found at its address.

import { statSync } from 'node:fs';
import { dirname, join, posix, relative, sep } from 'node:path';
import { fileURLToPath } from 'node:url';

const root = fileURLToPath(new URL('../..', import.meta.url));

/** Pages with other addresses than their names. */
export const PLACES = { 'docs/README.md': '/overview', 'docs/operators.md': '/operators/', 'README.md': '/' };

/**
 * Where a link of a page leads on the site.
 *
 * @param {string} href
 * @param {string} page path of the file that the link stands in
 * @param {{ repository: string, entries: string[] }} site address of the repository, and names of declarations in the reference
 * @returns {string}
 */
export function siteLink(href, page, { repository, entries }) {
  if (/^([a-z]+:|#|\/)/.test(href)) {
    return href;
  }
  const [path, anchor] = href.split('#');
  const target = relative(root, join(dirname(page), decodeURIComponent(path)))
    .split(sep)
    .join('/');
  const hash = anchor === undefined ? '' : `#${anchor}`;
  const entry = /^(\w+)\.d\.ts$/.exec(target)?.[1];
  if (entry !== undefined && entries.includes(entry)) {
    return `/reference/${entry}/`;
  }
  if (target in PLACES) {
    return `${PLACES[target]}${hash}`;
  }
  if (target.startsWith('docs/')) {
    return `/${target.slice('docs/'.length)}${hash}`;
  }
  const kind = statSync(join(root, target)).isDirectory() ? 'tree' : 'blob';
  return `${repository}/${posix.join(kind, 'main', target)}${hash}`;
}

/**
 * Makes markdown-it lead the links of pages to the site.
 *
 * @param {import('markdown-it')} md
 * @param {Parameters<typeof siteLink>[2]} site
 */
export function siteLinks(md, site) {
  md.core.ruler.push('site-links', ({ tokens, env }) => {
    const path = env.realPath ?? env.path;
    // Those of the reference lead to each other already.
    if (path.includes('/generated/reference/')) return;
    for (const token of tokens.flatMap(({ children }) => children ?? [])) {
      if (token.type === 'link_open') {
        token.attrSet('href', siteLink(token.attrGet('href'), path, site));
      }
    }
  });
}

/**
 * Makes corners of tables that say nothing plain cells: screen readers announce headers.
 *
 * @param {import('markdown-it')} md
 */
export function plainCorners(md) {
  md.core.ruler.push('plain-corners', ({ tokens }) => {
    tokens.forEach((token, i) => {
      if (token.type === 'th_open' && tokens[i + 1].content === '') {
        token.tag = 'td';
        tokens[i + 2].tag = 'td';
      }
    });
  });
}
