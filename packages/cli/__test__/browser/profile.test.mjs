import assert from 'node:assert/strict';
import test, { after, before } from 'node:test';
import { profilePage, summarize } from '../../lib/pages/profile.mjs';
import { startBrowser } from './browser.mjs';
import { profileSqueezenet } from './graphs.mjs';

let browser;
let opened;
let page;
let profile;

before(async () => {
  browser = await startBrowser();
  profile = await profileSqueezenet();
  opened = await browser.open(profilePage({ title: 'SqueezeNet 1.0', profile }));
  page = opened.page;
});
after(() => browser?.close());

/** The texts of a column of a table, from top to bottom. */
const column = (table, place) => page.locator(`#${table} tbody tr > :nth-child(${place})`).allInnerTexts();

test('shows a row per operator type, the slowest first, and a row per step', async () => {
  const { perOperator, perStep } = summarize(profile);
  assert.deepEqual(
    await column('operators', 1),
    perOperator.map(({ operator }) => operator),
  );
  assert.deepEqual(
    await column('steps', 1),
    perStep.map(({ index }) => String(index)),
  );
  assert.equal(perOperator[0].operator, 'conv2d');
});

test('the heads of columns sort, and say how', async () => {
  const head = page.locator('#steps th', { hasText: 'Time' });
  await head.getByRole('button').press('Enter');
  assert.equal(await head.getAttribute('aria-sort'), 'descending');
  const slowest = summarize(profile).perStep.toSorted((a, b) => b.median - a.median);
  assert.equal((await column('steps', 1))[0], String(slowest[0].index));
  assert.match(await opened.announcement(), /sorted by Time, descending/);
  await head.getByRole('button').press('Enter');
  assert.equal(await head.getAttribute('aria-sort'), 'ascending');
});

test('steps are filtered by what they say', async () => {
  await page.fill('#filter', 'fire9_squeeze');
  assert.equal(await page.locator('#steps tbody tr:visible').count(), 1);
  await page.fill('#filter', '');
});

test('the timeline is walked with arrow keys, and zoomed', async () => {
  assert.equal(await page.locator('#timeline .slice-box').count(), profile.description.steps.length);
  await page.locator('#timeline .slice-box [tabindex="0"]').focus();
  await page.keyboard.press('ArrowRight');
  assert.equal(await page.evaluate(() => /** @type {HTMLElement} */ (document.activeElement).dataset.index), '1');
  assert.equal(await page.locator('#steps tr.selected th').innerText(), '1');
  assert.ok((await page.locator('#slice').innerText()).startsWith('1 '));
  const width = async () => (await page.locator('#timeline svg').boundingBox()).width;
  const before = await width();
  await page.keyboard.press('+');
  assert.ok((await width()) > 1.9 * before);
  assert.equal(await page.evaluate(() => /** @type {HTMLElement} */ (document.activeElement).dataset.index), '1', 'the focus stays');
  await page.selectOption('#run', { index: 1 });
  assert.match(await page.locator('#timeline svg').getAttribute('aria-label'), /fastest/);
  assert.ok((await opened.countColours('#timeline')) > 4);
});

test('the histogram counts every run, also as a table', async () => {
  await page.locator('#histogram summary').click();
  const counts = await column('histogram', 2);
  assert.equal(
    counts.reduce((total, count) => total + Number(count), 0),
    profile.runs.length,
  );
});

test('has no accessibility violations, in light and in dark, logs nothing and loads nothing', async () => {
  await opened.checkAccessibility();
  opened.checkSilence();
  const dark = await browser.open(profilePage({ title: 'SqueezeNet 1.0', profile }), { colorScheme: 'dark' });
  await dark.checkAccessibility();
  await dark.checkNarrow();
  dark.checkSilence();
});
