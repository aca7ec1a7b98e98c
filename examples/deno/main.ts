// Reads handwritten digits in Deno. The program needs one permission: to load the addon in node_modules.
import { loadModel, type OnnxResult } from 'webnn-node/onnx';
import pictures from './pictures.json' with { type: 'json' };

const SIDE = 8;
const CLASSES = 10;

// The addon reads the file, so Deno asks for no permission to read.
const model = await loadModel(new URL('digits.onnx', import.meta.url));
const pixels = { data: Float32Array.from(pictures.flat(2)), shape: [pictures.length, 1, SIDE, SIDE] };
const { probabilities } = await model.run<{ probabilities: OnnxResult<Float32Array> }>({ pixels });

for (const i of pictures.keys()) {
  const row = probabilities.data.subarray(i * CLASSES, (i + 1) * CLASSES);
  const probability = Math.max(...row);
  console.log(`picture ${i + 1}: a ${row.indexOf(probability)}, probability ${probability.toFixed(2)}`);
}
model.destroy();
