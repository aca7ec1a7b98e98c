// examples/portable-builder in Chromium, from a server on this machine: with the interface of WebNN, and without.

import assert from 'node:assert/strict';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { createServer } from 'node:http';
import test, { after, before } from 'node:test';
import { fileURLToPath } from 'node:url';
import { startBrowser } from './browser.mjs';

const FOLDER = new URL('../../../../examples/portable-builder/', import.meta.url);
const FILES = ['index.html', 'page.mjs', 'main.mjs', 'network.mjs'];

const WEBNN = '--enable-features=WebMachineLearningNeuralNetwork';

const server = createServer(({ url }, response) => {
  const name = FILES.find((file) => url === `/${file}`);
  if (name === undefined) {
    response.writeHead(404).end();
    return;
  }
  response.writeHead(200, { 'content-type': name.endsWith('.html') ? 'text/html' : 'text/javascript' });
  response.end(readFileSync(fileURLToPath(new URL(name, FOLDER))));
});
before(() => once(server.listen(0, '127.0.0.1'), 'listening'));
after(() => server.close());

/** What the page shows in the end, by a browser with these flags. */
async function shown(t, flags, end) {
  const browser = await startBrowser(flags);
  t.after(() => browser.close());
  const { page } = await browser.visit(`http://127.0.0.1:${/** @type {import('node:net').AddressInfo} */ (server.address()).port}/index.html`);
  const output = page.locator('#output');
  await output.filter({ hasText: end }).waitFor();
  return { text: await output.innerText() };
}

test('a browser without WebNN is told so', async (t) => {
  const { text } = await shown(t, ['--disable-features=WebMachineLearningNeuralNetwork'], 'navigator.ml');
  assert.match(text, /^This browser has no WebNN: navigator\.ml is missing\./);
});

test('a browser with WebNN prints what Node prints, or says why it cannot', async (t) => {
  const { text } = await shown(t, [WEBNN], /after a loss|Error/);
  // Debian's Chromium has the interface without anything that computes.
  if (/^NotSupportedError: [^\n]*WebNN is not supported on this platform\.$/.test(text.trim())) return;
  const lines = text.split('\n').filter((line) => !/ ms$|^chosen: /.test(line));
  assert.equal(`${lines.join('\n').trim()}\n`, readFileSync(new URL('expected.txt', FOLDER), 'utf8'));
});
