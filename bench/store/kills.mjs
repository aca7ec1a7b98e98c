// Kills 200 processes while they write packed weights, and says how far they came: no file of the folder may be damaged.
//
//   node bench/store/kills.mjs [COUNT]

import { mkdtempSync, rmSync, utimesSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { killSaves } from '../../__test__/lib/killed-saves.mjs';
import { FLOAT, node, value, weight, writeModel } from '../../__test__/onnx/model-writer.mjs';
import { entry, say } from '../../scripts/process.mjs';

const COUNT = 200;

/** Rows and columns of a weight, and how many there are: 16 MB take some milliseconds to write. */
const WIDTH = 512;
const LAYERS = 16;

await entry(async () => {
  const folder = mkdtempSync(join(tmpdir(), 'webnn-kills-'));
  try {
    const source = join(folder, 'model.onnx');
    const names = Array.from({ length: LAYERS + 1 }, (_, i) => (i === 0 ? 'x' : i === LAYERS ? 'y' : `h${i}`));
    const numbers = Float32Array.from({ length: WIDTH * WIDTH }, (_, i) => ((i * 31) % 101) / 5000);
    const model = writeModel({
      inputs: [value('x', FLOAT, [1, WIDTH])],
      outputs: [value('y', FLOAT, [1, WIDTH])],
      weights: names.slice(1).map((name) => weight(`w${name}`, [WIDTH, WIDTH], numbers)),
      nodes: names.slice(1).map((name, i) => node('MatMul', [names[i], `w${name}`], [name])),
    });
    writeFileSync(source, model);
    // Files that were changed just now are not kept.
    const hourAgo = Date.now() / 1000 - 3600;
    utimesSync(source, hourAgo, hourAgo);
    const count = Number(process.argv[2] ?? COUNT);
    const { killed, unfinished, whole } = await killSaves({ folder: join(folder, 'weights'), task: { source, feeds: { x: [1, WIDTH] } }, count });
    say(`${killed} of ${count} processes were killed; ${unfinished} left an unfinished file, ${whole} a whole one, and none a damaged one`);
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
});
