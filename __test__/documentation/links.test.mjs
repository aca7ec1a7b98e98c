// Links, anchors, commands and numbers of the documentation lead to what there is.

import assert from 'node:assert/strict';
import { existsSync, readdirSync } from 'node:fs';
import { dirname, join, posix } from 'node:path';
import test from 'node:test';
import { root } from '../../scripts/process.mjs';
import { COMMANDS } from '../../scripts/subjects.mjs';
import { readResults, speedClaim, speedLoss } from '../../scripts/speed-table.mjs';
import { anchorsOf, codeOf, linksOf } from './page.mjs';
import { LINKED, PAGES, read } from './pages.mjs';

/** Folders and files whose comments and messages may name pages. */
const SOURCES = ['.ci', '.github', '__test__', 'bench', 'examples', 'fuzz', 'lib', 'packages', 'scripts', 'src'];

/** Paths of the repository in code, which also stand in commands. */
const PATHS = new RegExp(`(?<![\\w./-])(?:${SOURCES.join('|').replaceAll('.', '\\.')}|spec)/[\\w./-]*\\b`, 'g');

/** Pages whose commands and paths must exist. */
const INSTRUCTIONS = [...PAGES, '.github/GOOD_FIRST_ISSUES.md', 'CONTRIBUTING.md'];

/** Text as one line. */
const joined = (text) => text.replaceAll(/\s+/g, ' ');

const isExternal = (link) => /^[a-z]+:/.test(link);

/**
 * What is wrong with a relative link.
 *
 * @param {string} page
 * @param {string} link
 * @returns {string} empty for a valid one
 */
function faultOf(page, link) {
  const [path, anchor] = link.split('#');
  const target = path === '' ? page : posix.join(posix.dirname(page), decodeURIComponent(path));
  if (!existsSync(join(root, target))) {
    return `${page}: there is no ${target}`;
  }
  if (anchor !== undefined && target.endsWith('.md') && !anchorsOf(read(target)).has(anchor)) {
    return `${page}: ${target} has no heading #${anchor}`;
  }
  return '';
}

test('relative links lead to files and headings', () => {
  const faults = LINKED.flatMap((page) =>
    linksOf(read(page))
      .filter((link) => !isExternal(link))
      .map((link) => faultOf(page, link)),
  );
  assert.deepEqual(
    faults.filter((fault) => fault !== ''),
    [],
  );
});

test('the command line is run by the name of its package, with which npx finds it, outside of its own pages', () => {
  const own = ['CHANGELOG.md', 'docs/command-line.md', 'packages/cli/README.md'];
  const others = [...new Set([...INSTRUCTIONS, ...LINKED])].filter((page) => !own.includes(page));
  assert.deepEqual(
    others.filter((page) => /npx webnn-node(?![\w-])/.test(read(page))),
    [],
  );
});

test('other links are secure', () => {
  const links = LINKED.flatMap((page) => linksOf(read(page)).filter(isExternal));
  assert.ok(links.length > 10);
  assert.deepEqual(
    links.filter((link) => !URL.canParse(link) || !link.startsWith('https://')),
    [],
  );
});

test('a link to nothing is found', () => {
  assert.match(faultOf('docs/README.md', 'nowhere.md'), /there is no docs\/nowhere\.md/);
  assert.match(faultOf('docs/README.md', '../README.md#nowhere'), /README\.md has no heading #nowhere/);
  assert.match(faultOf('README.md', '#nowhere'), /README\.md has no heading #nowhere/);
  assert.equal(faultOf('docs/README.md', '../README.md#speed'), '');
});

test('the index names every page, and README.md leads to the index', () => {
  const linked = linksOf(read('docs/README.md')).map((link) => `docs/${link}`);
  const missing = PAGES.filter((page) => page.startsWith('docs/') && page !== 'docs/README.md' && !linked.includes(page));
  assert.deepEqual(missing, []);
  assert.ok(linksOf(read('README.md')).includes('docs/README.md'));
});

test('pages that the code names exist', () => {
  const files = SOURCES.flatMap((folder) => readdirSync(join(root, folder), { recursive: true, withFileTypes: true }))
    .filter((file) => file.isFile() && /\.(rs|mjs|js|cjs|ts|yml|sh|py|wgsl)$|^run$/.test(file.name))
    .map((file) => join(file.parentPath, file.name))
    .filter((file) => !file.includes('node_modules') && dirname(file) !== import.meta.dirname);
  const names = new Set(files.flatMap((file) => read(file.slice(root.length + 1)).match(/\bdocs\/[\w-]+\.md\b/g) ?? []));
  assert.ok(names.size > 0);
  assert.deepEqual(
    [...names].filter((name) => !PAGES.includes(name)),
    [],
  );
});

test('commands of npm that a page names are scripts of package.json', () => {
  const { scripts } = JSON.parse(read('package.json'));
  const named = INSTRUCTIONS.flatMap((page) =>
    codeOf(read(page)).flatMap((code) => [...code.matchAll(/\bnpm (?:run ([\w:-]+)|(start|test)\b)(?: -- ([a-z][\w-]*))?/g)]),
  ).map(([, script, short, subject]) => ({ name: script ?? short, subject }));
  assert.ok(['start', 'docs'].every((script) => named.some(({ name }) => name === script)));
  assert.deepEqual(
    named.filter(({ name, subject }) => !(name in scripts) || (name in COMMANDS && subject !== undefined && !(subject in COMMANDS[name]))),
    [],
  );
});

test('files that a page names exist', () => {
  const named = INSTRUCTIONS.flatMap((page) => codeOf(read(page)).flatMap((code) => code.match(PATHS) ?? []));
  assert.ok(named.length > 30);
  assert.deepEqual(
    named.filter((path) => !existsSync(join(root, path))),
    [],
  );
});

test('the numbers of README.md are those of bench/RESULTS.md', () => {
  const results = readResults(read('bench/RESULTS.md'));
  for (const claim of [speedClaim(results), speedLoss(results)]) {
    assert.ok(joined(read('README.md')).includes(claim), `README.md does not say "${claim}"`);
  }
});
