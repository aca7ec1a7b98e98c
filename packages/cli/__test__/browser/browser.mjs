// Debian's Chromium, and pages in it that must neither complain nor ask the network for anything.

import assert from 'node:assert/strict';
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { chromium } from 'playwright-core';
import sharp from 'sharp';

const CHROMIUM = '/usr/bin/chromium';

/** No sandbox, because containers have none; no service of Chromium's that talks to the network. */
const FLAGS = [
  '--headless',
  '--no-sandbox',
  '--disable-gpu',
  '--disable-quic',
  '--no-first-run',
  '--disable-background-networking',
  '--disable-component-update',
  '--disable-sync',
];

const axe = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');

/**
 * Starts Chromium with an empty profile.
 * @param {string[]} [flags] more of them
 * @returns {Promise<{ open(html: string, options?: { colorScheme?: 'light' | 'dark' }): Promise<OpenPage>, visit(url: string, options?: { colorScheme?: 'light' | 'dark' }): Promise<OpenPage>, close(): Promise<void> }>}
 */
export async function startBrowser(flags = []) {
  assert.ok(existsSync(CHROMIUM), `${CHROMIUM} is missing, which these tests need; scripts/install-debian-packages.sh installs it`);
  const folder = mkdtempSync(join(tmpdir(), 'webnn-browser-'));
  const context = await chromium.launchPersistentContext(join(folder, 'profile'), {
    executablePath: CHROMIUM,
    args: [...FLAGS, ...flags],
    viewport: { width: 1440, height: 900 },
  });
  let count = 0;
  return {
    open: async (/** @type {string} */ html, /** @type {{ colorScheme?: 'light' | 'dark' }} */ { colorScheme = 'light' } = {}) => {
      const file = join(folder, `${count++}.html`);
      writeFileSync(file, html);
      return OpenPage.open(context, pathToFileURL(file).href, colorScheme);
    },
    visit: (/** @type {string} */ url, /** @type {{ colorScheme?: 'light' | 'dark' }} */ { colorScheme = 'light' } = {}) =>
      OpenPage.open(context, url, colorScheme),
    close: async () => {
      await context.close();
      rmSync(folder, { recursive: true });
    },
  };
}

/** A page that is open, with everything that it should not have done. */
export class OpenPage {
  /**
   * What the console and the page's own errors said.
   * @type {string[]}
   */
  complaints = [];
  /**
   * Addresses that the page asked for, its own included.
   * @type {string[]}
   */
  requests = [];
  /** @type {import('playwright-core').Page} */
  page;
  /** @type {string} */
  url;

  /**
   * @param {import('playwright-core').Page} page
   * @param {string} url
   */
  constructor(page, url) {
    this.page = page;
    this.url = url;
  }

  /**
   * @param {import('playwright-core').BrowserContext} context
   * @param {string} url
   * @param {'light' | 'dark'} colorScheme
   */
  static async open(context, url, colorScheme) {
    const page = await context.newPage();
    const opened = new OpenPage(page, url);
    page.on('console', (message) => opened.complaints.push(`${message.type()}: ${message.text()}`));
    page.on('pageerror', (error) => opened.complaints.push(`error: ${error.message}`));
    page.on('request', (request) => opened.requests.push(request.url()));
    page.on('dialog', (dialog) => {
      opened.complaints.push(`dialog: ${dialog.message()}`);
      return dialog.dismiss();
    });
    await page.emulateMedia({ colorScheme, reducedMotion: 'reduce' });
    await page.goto(url);
    return opened;
  }

  /** @throws {AssertionError} where the page logged something, or loaded anything but itself */
  checkSilence() {
    assert.deepEqual(this.complaints, []);
    assert.deepEqual(
      this.requests.filter((url) => url !== this.url && !url.startsWith('data:')),
      [],
    );
  }

  /** @throws {AssertionError} where axe-core finds anything */
  async checkAccessibility() {
    // Evaluated by the debugger, so that the page's policy against foreign scripts stays in force.
    await this.page.evaluate(axe);
    const { violations, passes } = /** @type {import('axe-core').AxeResults} */ (await this.page.evaluate('axe.run()'));
    const report = violations.map(
      ({ id, help, nodes }) =>
        `${id}: ${help}\n${nodes
          .slice(0, 3)
          .map(({ html, failureSummary }) => `  ${html.slice(0, 200)}\n  ${failureSummary}`)
          .join('\n')}`,
    );
    assert.equal(violations.length, 0, report.join('\n'));
    assert.ok(passes.length > 10, 'axe-core looked at the page');
  }

  /** @throws {AssertionError} where a telephone would have to scroll sideways, or axe-core finds anything there */
  async checkNarrow() {
    const wide = /** @type {{ width: number, height: number }} */ (this.page.viewportSize());
    await this.page.setViewportSize({ width: 400, height: 800 });
    assert.equal(await this.page.evaluate('document.documentElement.scrollWidth'), 400);
    await this.checkAccessibility();
    await this.page.setViewportSize(wide);
  }

  /**
   * How many different colours (of 4096) cover at least 1 of 10000 pixels of a part of the page.
   * @param {string} selector
   */
  async countColours(selector) {
    const picture = await this.page.locator(selector).screenshot();
    const { data, info } = await sharp(picture).removeAlpha().raw().toBuffer({ resolveWithObject: true });
    const counts = new Map();
    for (let i = 0; i < data.length; i += info.channels) {
      const colour = ((data[i] >> 4) << 8) | ((data[i + 1] >> 4) << 4) | (data[i + 2] >> 4);
      counts.set(colour, (counts.get(colour) ?? 0) + 1);
    }
    return [...counts.values()].filter((count) => count * 10000 >= info.width * info.height).length;
  }

  /** What a screen reader was last told. */
  async announcement() {
    return this.page.locator('#live').textContent();
  }
}
