// Draws the speeds of bench/RESULTS.md as the chart of README.md: a bar per model, small enough to read at a glance.

/** Pixels. Bars begin at `left`; `scale` is the width of 1×. */
const SIZE = { width: 760, left: 170, top: 58, bar: 14, gap: 6, bottom: 34, scale: 250 };

const STYLE = [
  'svg{background:#ffffff}text{fill:#27272a}.grid{stroke:#e4e4e7}.one{stroke:#52525b}.ours{fill:#2563eb}.other{fill:#d97706}',
  '@media (prefers-color-scheme:dark){svg{background:#18181b}text{fill:#e4e4e7}.grid{stroke:#3f3f46}.one{stroke:#a1a1aa}.ours{fill:#60a5fa}.other{fill:#fbbf24}}',
].join('');

const at = (/** @type {number} */ number) => number.toFixed(1);

/**
 * Returns the chart as SVG: speeds relative to onnxruntime-node with one CPU thread, the largest first.
 * @param {import('./speed-table.mjs').Results} results
 */
export function speedChart({ models, means }) {
  const rows = [{ name: 'geometric mean', speeds: means }, ...models]
    .map(({ name, speeds }) => {
      const [overOnnxruntime, , overOpenvino] = speeds.map(Number.parseFloat);
      return { name, speed: overOnnxruntime, openvino: overOnnxruntime / overOpenvino };
    })
    .sort((a, b) => b.speed - a.speed);
  const { width, left, top, bar, gap, bottom, scale } = SIZE;
  const height = top + rows.length * (bar + gap) + bottom;
  const x = (/** @type {number} */ speed) => left + speed * scale;
  const grid = [0, 0.5, 1, 1.5, 2].map(
    (tick) =>
      `<line class="${tick === 1 ? 'one' : 'grid'}" x1="${at(x(tick))}" x2="${at(x(tick))}" y1="${top - 4}" y2="${height - bottom + 4}"/>` +
      `<text x="${at(x(tick))}" y="${height - bottom + 18}" text-anchor="middle">${tick}×</text>`,
  );
  const bars = rows.map(({ name, speed, openvino }, row) => {
    const y = top + row * (bar + gap);
    const weight = name === 'geometric mean' ? ' font-weight="600"' : '';
    return (
      `<text x="${left - 8}" y="${y + bar - 3}" text-anchor="end"${weight}>${name}</text>` +
      `<rect class="ours" x="${left}" y="${y}" width="${at(speed * scale)}" height="${bar}"/>` +
      `<rect class="other" x="${at(x(openvino) - 2)}" y="${y - 2}" width="4" height="${bar + 4}"/>` +
      `<text x="${at(x(Math.max(speed, openvino)) + 8)}" y="${y + bar - 3}"${weight}>${speed.toFixed(2)}×</text>`
    );
  });
  const title = 'Speed with one CPU thread; onnxruntime-node is 1×, longer is faster';
  return [
    `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${width} ${height}" width="${width}" height="${height}" role="img" aria-labelledby="title" font-family="system-ui, sans-serif" font-size="12">`,
    `<style>${STYLE}</style>`,
    `<title id="title">${title}</title>`,
    `<text x="${left}" y="20" font-size="14" font-weight="600">${title}</text>`,
    `<rect class="ours" x="${left}" y="32" width="11" height="11"/><text x="${left + 17}" y="42">webnn-node</text>`,
    `<rect class="other" x="${left + 110}" y="30" width="4" height="15"/><text x="${left + 121}" y="42">OpenVINO</text>`,
    `<text x="${left + 200}" y="42">models with random weights</text>`,
    ...grid,
    ...bars,
    '</svg>',
    '',
  ].join('\n');
}
