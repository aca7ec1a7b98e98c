// `npm run docs -- pictures`: the pages that `webnn-node profile` and `webnn-node view` write for
// examples/image-classification, as screenshots by Debian's Chromium in docs/images/. Times in the pictures are those
// of this machine.

import { mkdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import sharp from 'sharp';
import { startBrowser } from '../packages/cli/__test__/browser/browser.mjs';
import { entry, root, run } from './process.mjs';

const CLI = join(root, 'packages', 'cli', 'bin', 'webnn-node.js');
const MODEL = join(root, 'examples', 'image-classification', 'squeezenet.onnx');
const PAGES = join(root, 'target', 'pictures');
const IMAGES = join(root, 'docs', 'images');

/** Pages by the names of their pictures: the command's arguments, before the path of the page. */
const PICTURES = {
  profile: ['profile', MODEL, '--threads', '1', '--runs', '50', '--html'],
  view: ['view', MODEL, '--threads', '1', '--runs', '50', '--profile', '-o'],
};

async function main() {
  for (const folder of [PAGES, IMAGES]) mkdirSync(folder, { recursive: true });
  const browser = await startBrowser();
  try {
    for (const [name, args] of Object.entries(PICTURES)) {
      const file = join(PAGES, `${name}.html`);
      await run(`page of ${args[0]}`, process.execPath, [CLI, ...args, file]);
      const { page } = await browser.open(readFileSync(file, 'utf8'));
      await sharp(await page.screenshot())
        .png({ palette: true, effort: 10 })
        .toFile(join(IMAGES, `${name}.png`));
    }
  } finally {
    await browser.close();
  }
}

await entry(main);
