// The models of the benchmark.

import { bilstmTagger, gpt2, gruDenoise, minilm, unetBlock, vitSmall, whisperTinyEncoder } from './sequences.mjs';
import { efficientnetB0, mobilenetV2, resnet50, textDetector, u2netp, yolov8n } from './pictures.mjs';
import { quantizeDynamically } from './quantized.mjs';

/**
 * @typedef {import('./network.mjs').Network} Network
 *
 * @typedef {object} Entry
 * @property {() => Network} network
 * @property {() => Network} [reference] what the expected outputs come from, if another network
 * @property {() => Network} [unquantized] a network whose outputs tell how much quantization changes
 * @property {boolean} [calibrated] whether `network` is yet to be quantized, by the ranges of its activations
 */

/** @type {Record<string, Entry>} */
export const CATALOG = {
  bilstm_tagger: { network: bilstmTagger },
  efficientnet_b0: { network: efficientnetB0 },
  gpt2_decode: { network: () => gpt2({ length: 1, past: 255 }) },
  gpt2_prefill128: { network: () => gpt2({ length: 128, past: 0 }) },
  gru_denoise: { network: gruDenoise },
  minilm_l6: { network: minilm },
  minilm_l6_b8: { network: () => minilm({ batch: 8 }) },
  minilm_l6_dynamic: { network: () => quantizeDynamically(minilm()), unquantized: minilm },
  minilm_l6_fp16: { network: () => minilm({ dataType: 'float16' }), reference: () => minilm({ precision: 'float16' }) },
  mobilenet_v2: { network: mobilenetV2 },
  mobilenet_v2_qdq: { network: mobilenetV2, calibrated: true },
  resnet50: { network: resnet50 },
  text_detector: { network: textDetector },
  u2netp_dynamic: { network: () => quantizeDynamically(u2netp()), unquantized: u2netp },
  unet_block: { network: unetBlock },
  vit_small: { network: vitSmall },
  whisper_tiny_encoder: { network: whisperTinyEncoder },
  yolov8n: { network: yolov8n },
};
