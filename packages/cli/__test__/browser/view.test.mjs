import assert from 'node:assert/strict';
import test, { after, before, describe } from 'node:test';
import { viewPage } from '../../lib/pages/view.mjs';
import { startBrowser } from './browser.mjs';
import { describeWideGraph, HOSTILE, profileSmallGraph, profileSqueezenet } from './graphs.mjs';

let browser;
before(async () => {
  browser = await startBrowser();
});
after(() => browser?.close());

const selectedLabel = (page, side) => page.locator(`#${side} .item.selected .box`).getAttribute('aria-label');

describe('the page of SqueezeNet', () => {
  let opened;
  let page;
  let profile;

  before(async () => {
    profile = await profileSqueezenet();
    opened = await browser.open(viewPage({ title: 'SqueezeNet 1.0', description: profile.description, profile }));
    page = opened.page;
  });

  test('draws all nodes of both graphs', async () => {
    const { source, compiled } = profile.description;
    assert.equal(await page.locator('#source .item.node').count(), source.nodes.length);
    assert.equal(await page.locator('#compiled .item.node').count(), compiled.nodes.length);
    assert.ok(source.nodes.length > 60 && compiled.nodes.length < source.nodes.length);
    assert.ok((await opened.countColours('#source')) > 12, 'a drawing has many colours');
    assert.ok((await opened.countColours('#compiled')) > 12);
  });

  test('a node is found by its name with the keyboard alone, and its details are shown', async () => {
    await page.keyboard.press('/');
    await page.keyboard.type('fire5_e3x3');
    assert.equal(await page.locator('#hits [role=option]').count(), 2, 'the convolution as given and as compiled');
    await page.keyboard.press('Enter');
    assert.match(await selectedLabel(page, 'source'), /^conv2d, fire5_e3x3, float32 1×128×27×27/);
    assert.equal(await page.evaluate(() => /** @type {Element} */ (document.activeElement).closest('.item.selected') !== null), true, 'it has the focus');
    assert.ok(await page.locator('#source .item.selected').isVisible());
    const details = await page.locator('.details').innerText();
    for (const text of ['conv2d', 'fire5_e3x3', 'Attributes', 'padding', 'float32 128×32×3×3', 'constant']) {
      assert.ok(details.includes(text), `details say ${text}`);
    }
    assert.match(await opened.announcement(), /^As given: conv2d, fire5_e3x3.*became 1 node$/);
  });

  test('what was fused lights up on the other side, and the keyboard goes there and back', async () => {
    assert.equal(await page.locator('#compiled .item.related').count(), 1);
    await page.keyboard.press('x');
    assert.match(await selectedLabel(page, 'compiled'), /^conv2d, and relu, fire5_e3x3/);
    const related = await page.locator('#source .item.related .box').evaluateAll((nodes) => nodes.map((node) => node.getAttribute('aria-label').split(',')[0]));
    assert.deepEqual(related.sort(), ['conv2d', 'relu']);
    const details = await page.locator('.details').innerText();
    for (const text of ['Stands for', 'Kernel', 'Time', 'GFLOP/s', 'Multiply-adds']) {
      assert.ok(details.includes(text), `details say ${text}`);
    }
    await page.keyboard.press('x');
    assert.match(await selectedLabel(page, 'source'), /^conv2d, fire5_e3x3/);
  });

  test('arrow keys follow the connections', async () => {
    await page.keyboard.press('ArrowDown');
    assert.match(await selectedLabel(page, 'source'), /^relu/);
    await page.keyboard.press('ArrowDown');
    assert.match(await selectedLabel(page, 'source'), /^concat, fire5/);
    await page.keyboard.press('ArrowUp');
    assert.match(await selectedLabel(page, 'source'), /^relu/);
    await page.keyboard.press('Home');
    assert.match(await selectedLabel(page, 'source'), /^input, x/);
    assert.ok(await page.locator('#source .item.selected .box').evaluate((node) => node === document.activeElement));
  });

  test('Enter opens the details, Escape goes back to the node and then to the overview', async () => {
    await page.keyboard.press('Enter');
    assert.equal(await page.evaluate(() => document.activeElement?.id), 'details-title');
    await page.keyboard.press('Escape');
    assert.ok(await page.locator('#source .item.selected .box').evaluate((node) => node === document.activeElement));
    await page.keyboard.press('Escape');
    assert.match(await page.locator('#details-title').innerText(), /Overview/);
    assert.equal(await page.locator('.item.selected').count(), 0);
  });

  test('the list has the same nodes, filters them, and leads to them', async () => {
    await page.locator('#list-sides button[data-side=source]').click();
    assert.equal(await page.locator('#list tbody tr').count(), profile.description.source.nodes.length + 2);
    await page.fill('#list-filter', 'softmax');
    assert.equal(await page.locator('#list tbody tr:visible').count(), 1);
    await page.locator('#list tbody tr:visible button').click();
    assert.match(await selectedLabel(page, 'source'), /^softmax/);
    await page.fill('#list-filter', '');
  });

  test('colours follow time or kind, and zooming changes the size', async () => {
    const colourOf = () =>
      page
        .locator('#compiled .item[class*="share-"]:not(.share-0) .box')
        .first()
        .evaluate((box) => getComputedStyle(box).fill);
    const byTime = await colourOf();
    await page.selectOption('#colour', 'kind');
    assert.notEqual(await colourOf(), byTime);
    const width = async () => (await page.locator('#compiled svg').boundingBox()).width;
    const before = await width();
    await page.getByRole('button', { name: 'Larger: Compiled' }).click();
    assert.ok((await width()) > before);
    await page.selectOption('#colour', 'time');
  });

  test('has no accessibility violations, logs nothing and loads nothing', async () => {
    await opened.checkAccessibility();
    await opened.checkNarrow();
    opened.checkSilence();
  });
});

describe('the page of a small graph in the dark', () => {
  let opened;
  let page;

  before(async () => {
    const profile = await profileSmallGraph();
    opened = await browser.open(viewPage({ title: HOSTILE, description: profile.description, profile }), { colorScheme: 'dark' });
    page = opened.page;
  });

  test('shows hostile names as text', async () => {
    assert.equal(await page.title(), `${HOSTILE} – graph`);
    assert.equal(await page.locator('#title').innerText(), HOSTILE);
    await page.keyboard.press('/');
    await page.keyboard.type('onerror');
    await page.keyboard.press('Enter');
    assert.ok((await page.locator('.whole-label').innerText()).includes(HOSTILE));
    assert.equal(await page.locator('img').count(), 0);
  });

  test('marks what was folded and what is a view', async () => {
    assert.match(await page.locator('#source .item.folded .box').first().getAttribute('aria-label'), /sqrt, scale\/folded.*folded away/);
    assert.ok((await page.locator('#compiled .item.view').count()) > 0);
  });

  test('a search without hits says so', async () => {
    await page.keyboard.press('/');
    await page.keyboard.type('no such node');
    assert.match(await page.locator('#hits').innerText(), /No node has this name/);
    await page.keyboard.press('Escape');
    assert.ok(await page.locator('#hits').isHidden());
  });

  test('has no accessibility violations, logs nothing and loads nothing', async () => {
    await opened.checkAccessibility();
    await opened.checkNarrow();
    opened.checkSilence();
  });
});

test('the first view of a wide graph has its first node', async () => {
  const { page } = await browser.open(viewPage({ title: 'wide', description: await describeWideGraph() }));
  for (const side of ['source', 'compiled']) {
    const pane = await page.locator(`#${side} .canvas`).boundingBox();
    const drawing = await page.locator(`#${side} svg`).boundingBox();
    assert.ok(drawing.width > 2 * pane.width, 'it does not fit');
    const box = await page.locator(`#${side} .item .box`).first().boundingBox();
    assert.ok(box.x >= pane.x && box.x + box.width <= pane.x + pane.width, `${side}: from ${box.x} in ${pane.x} to ${pane.x + pane.width}`);
  }
});
