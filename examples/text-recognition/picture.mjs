// Draws pictures/receipt.jpg, a receipt as a scanner sees it: a little blurred, gray and noisy. Needs the DejaVu fonts.
import { fileURLToPath } from 'node:url';
import sharp from 'sharp';

const WIDTH = 640;
const LINE = 58;

const LINES = [
  ['Harbor Cafe', ''],
  ['14 Quay Street', ''],
  ['2 Espresso', '5.60'],
  ['1 Cheese toast', '7.25'],
  ['1 Apple juice', '3.90'],
  ['TOTAL', '16.75'],
  ['Card ending 4071', ''],
  ['2026-11-25', '09:41'],
];

const text = LINES.map(([left, right], i) => {
  const y = (i + 1) * LINE;
  return `<text x="30" y="${y}">${left}</text><text x="${WIDTH - 30}" y="${y}" text-anchor="end">${right}</text>`;
});
const height = (LINES.length + 1) * LINE;
const svg = `<svg width="${WIDTH}" height="${height}" font-family="DejaVu Sans" font-size="37" fill="#333">
  <rect width="100%" height="100%" fill="#e8e4da"/>${text.join('')}</svg>`;

// The same noise each time: a linear congruential generator.
let state = 1;
const random = () => (state = (Math.imul(state, 1664525) + 1013904223) >>> 0) / 2 ** 32;

const scan = sharp(Buffer.from(svg)).removeAlpha().toColourspace('b-w').rotate(0.6, { background: '#e8e4da' }).blur(0.8);
const { data, info } = await scan.raw().toBuffer({ resolveWithObject: true });
const noisy = data.map((value) => Math.min(255, Math.max(0, Math.round(value + 24 * (random() - 0.5)))));
const raw = { width: info.width, height: info.height, channels: info.channels };
await sharp(noisy, { raw })
  .jpeg({ quality: 80 })
  .toFile(fileURLToPath(new URL('pictures/receipt.jpg', import.meta.url)));
