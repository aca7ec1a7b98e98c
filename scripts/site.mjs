// `npm run docs -- site`: builds the documentation site into target/site/, from docs/ and from what this program writes
// into docs/generated/: the start page, the pages of operators and the reference. Options are passed to VitePress, for
// example `--base /docs/`; `--dev` serves the site and shows changes to docs/ at once.

import { mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { entry, Failure, isProgram, root, run } from './process.mjs';
import { operatorPages } from './operator-pages.mjs';
import { installLocked } from './setup.mjs';

const DOCS = join(root, 'docs');
const GENERATED = join(DOCS, 'generated');

/** Folder of the built site. */
export const SITE = join(root, 'target', 'site');

/**
 * The start page: a title, and the part of README.md before its list of pages.
 * @param {string} readme
 * @throws {Failure} if README.md has no such list
 */
export function startPage(readme) {
  const [, text] = /^# .*\n([^]*?)^## Documentation$/m.exec(readme) ?? [];
  if (text === undefined) {
    throw new Failure('README.md has no title or no section "Documentation", between which the start page of the site lies');
  }
  const { description } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8'));
  return `---
sidebar: false
aside: false
pageClass: start
---
# webnn-node

<p class="tagline">${description}</p>

<div class="actions">

[Get started](/get-started) [All guides](/overview) [Operators](/operators/) [Reference](/reference/)

</div>
${text}`;
}

/** The table of operators with links to their pages. @param {string} page docs/operators.md */
const linkedTable = (page) => page.replaceAll(/^\| `(\w+)` \|/gm, '| [`$1`](/operators/$1) |');

/** A page, with relative links that work two folders below its own. @param {string} page */
const moved = (page) => page.replaceAll(/\]\((?![a-z]+:|[#/])/g, '](../../');

/** Writes a page into docs/generated/. @param {string} name @param {string} text */
function write(name, text) {
  const file = join(GENERATED, name);
  mkdirSync(join(file, '..'), { recursive: true });
  writeFileSync(file, text);
}

/** Runs a program of the site's packages. @param {string} step @param {string} program @param {string[]} args */
const runTool = (step, program, args) => run(step, process.execPath, [join('node_modules', ...program.split('/')), ...args], { cwd: DOCS });

/** Regenerates all generated files. */
async function generate() {
  rmSync(GENERATED, { recursive: true, force: true });
  await runTool('reference', 'typedoc/bin/typedoc', ['--logLevel', 'Warn', '--options', 'typedoc.config.mjs']);
  const { pages, families } = await operatorPages();
  pages.forEach((text, name) => write(`operators/${name}.md`, text));
  write('operators.json', JSON.stringify(families));
  write('operators/index.md', moved(linkedTable(readFileSync(join(DOCS, 'operators.md'), 'utf8'))));
  write('index.md', moved(startPage(readFileSync(join(root, 'README.md'), 'utf8'))));
}

/**
 * Builds or serves the site.
 * @param {string[]} args
 */
export async function buildSite(args = []) {
  const isServed = args.includes('--dev');
  await installLocked('the packages of the site', DOCS);
  await generate();
  const options = args.filter((argument) => argument !== '--dev');
  await runTool('site', 'vitepress/bin/vitepress.js', [isServed ? 'dev' : 'build', '.', ...options]);
}

if (isProgram(import.meta.url)) {
  await entry(() => buildSite(process.argv.slice(2)));
}
