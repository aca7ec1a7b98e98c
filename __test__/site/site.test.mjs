// The built site of the documentation in Chromium: accessible, without dead links, for phones too, and alone.

import assert from 'node:assert/strict';
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { join, relative, sep } from 'node:path';
import { after, before, test } from 'node:test';
import { startBrowser } from '../../packages/cli/__test__/browser/browser.mjs';
import { root } from '../../scripts/process.mjs';
import { SITE } from '../../scripts/site.mjs';
import { fileOf, serve } from './server.mjs';

/** One page of each kind. */
const KINDS = ['/', '/overview', '/onnx', '/errors', '/operators/', '/operators/conv2d', '/reference/', '/reference/onnx/classes/OnnxModel'];

const REPOSITORY = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8')).repository.url.replace(/^git\+|\.git$/g, '');

/** Paths of all pages in the site, and their addresses. */
const files = readdirSync(SITE, { recursive: true, withFileTypes: true })
  .filter((file) => file.isFile() && file.name.endsWith('.html') && file.name !== '404.html')
  .map((file) => `/${relative(SITE, join(file.parentPath, file.name)).split(sep).join('/')}`)
  .sort();
const addressOf = (file) => file.replace(/(index)?\.html$/, '');

/** Milliseconds for a test; one takes seconds. */
const timeout = 120_000;

let browser;
let server;

before(async () => {
  [browser, server] = await Promise.all([startBrowser(), serve()]);
});
after(() => Promise.all([browser.close(), server.close()]));

/** Opens a page of the site, which must not ask anybody else for anything. */
async function visit(path, options) {
  const opened = await browser.visit(server.origin + path, options);
  await opened.page.bringToFront();
  await opened.page.waitForLoadState('networkidle');
  assert.deepEqual(opened.complaints, []);
  assert.deepEqual(
    opened.requests.filter((url) => !url.startsWith(`${server.origin}/`) && !url.startsWith('data:')),
    [],
  );
  return opened;
}

for (const colorScheme of ['light', 'dark']) {
  for (const path of KINDS) {
    test(`${path} is accessible, ${colorScheme}`, { timeout }, async () => {
      const opened = await visit(path, { colorScheme });
      assert.equal(await opened.page.evaluate(() => document.documentElement.classList.contains('dark')), colorScheme === 'dark');
      await opened.checkAccessibility();
      await opened.page.close();
    });
  }
}

test('links lead to pages and headings, or to files of the repository', { timeout }, async () => {
  const { page } = await visit('/');
  const pages = new Map();
  for (const file of files) {
    // Parsed by Chromium, without running anything of it.
    pages.set(
      file,
      await page.evaluate(
        (html) => {
          const parsed = new DOMParser().parseFromString(html, 'text/html');
          const attributes = (name) => [...parsed.querySelectorAll(`[${name}]`)].map((element) => element.getAttribute(name));
          return { ids: attributes('id'), links: [...attributes('href'), ...attributes('src')] };
        },
        readFileSync(join(SITE, file), 'utf8'),
      ),
    );
  }
  await page.close();
  const faultOf = (from, link) => {
    const url = new URL(link, `${server.origin}${addressOf(from)}`);
    if (url.href.startsWith(`${REPOSITORY}/`)) {
      const [, path] = /^(?:blob|tree)\/main\/([^#]*)/.exec(url.href.slice(REPOSITORY.length + 1)) ?? [];
      return path === undefined || existsSync(join(root, decodeURIComponent(path))) ? '' : 'no such file in the repository';
    }
    if (url.origin !== server.origin) {
      return ['https:', 'data:'].includes(url.protocol) ? '' : 'neither of the site nor secure';
    }
    const target = fileOf(decodeURIComponent(url.pathname));
    if (target === undefined) return 'no such page';
    const anchor = decodeURIComponent(url.hash.slice(1));
    return anchor === '' || pages.get(target).ids.includes(anchor) ? '' : 'no such anchor';
  };
  const links = [...pages].flatMap(([file, { links }]) => [...new Set(links)].map((link) => ({ file, link })));
  const faults = links.map(({ file, link }) => ({ file, link, fault: faultOf(file, link) })).filter(({ fault }) => fault !== '');
  assert.ok(files.length > 150 && links.length > 5000, `${files.length} pages, ${links.length} links`);
  assert.deepEqual(
    faults.map(({ file, link, fault }) => `${file}: ${link}: ${fault}`),
    [],
  );
});

test('no page is wider than a phone', { timeout }, async () => {
  const { page } = await visit('/');
  await page.setViewportSize({ width: 390, height: 844 });
  // One after the other in one document, which has the style of all: opening each takes minutes.
  const widths = await page.evaluate(async (addresses) => {
    const result = {};
    for (const address of addresses) {
      const parsed = new DOMParser().parseFromString(await (await fetch(address)).text(), 'text/html');
      const [old, next] = [document, parsed].map((one) => /** @type {Element} */ (one.querySelector('#app')));
      old.replaceWith(document.adoptNode(next));
      result[address] = document.documentElement.scrollWidth;
    }
    return result;
  }, files.map(addressOf));
  await page.close();
  assert.equal(Object.keys(widths).length, files.length);
  assert.deepEqual(
    Object.entries(widths).filter(([, width]) => width !== 390),
    [],
  );
});

for (const [query, expected] of /** @type {[string, RegExp][]} */ ([
  ['batch', /^\/(tuning|serving)#/],
  ['dtype', /^\/(?!reference)/],
  ['quantize', /^\/(?!reference)/],
  ['forgot await', /^\/(get-started|onnx|troubleshooting)#/],
])) {
  test(`the search ranks guides above types: ${query}`, { timeout }, async () => {
    const { page } = await visit('/');
    await page.locator('#local-search button').click();
    await page.locator('#localsearch-input').fill(query);
    assert.match(String(await page.locator('#localsearch-list a').first().getAttribute('href')), expected);
    await page.close();
  });
}

test('commands of the start page fit', { timeout }, async () => {
  const { page } = await visit('/');
  await page.setViewportSize({ width: 1280, height: 800 });
  const cut = await page.evaluate(() =>
    [...document.querySelectorAll('div[class*="language-"]:not(.language-text) pre')]
      .filter((block) => block.scrollWidth > block.clientWidth)
      .map(({ textContent }) => textContent),
  );
  assert.deepEqual(cut, []);
  await page.close();
});

test('the search finds an operator, and leads there', { timeout }, async () => {
  const { page } = await visit('/');
  await page.locator('#local-search button').click();
  await page.locator('#localsearch-input').fill('conv2d');
  const first = page.locator('#localsearch-list a').first();
  assert.match(await first.innerText(), /^#\s*conv2d$/);
  await first.click();
  await page.waitForURL(/\/operators\/conv2d/);
  // The address changes before the page does.
  await page.locator('h1', { hasText: /^conv2d/ }).waitFor();
  await page.close();
});
