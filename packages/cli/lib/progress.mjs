// Progress on standard error: only on a terminal, and only for long work.
import { setTimeout as sleep } from 'node:timers/promises';
import cliProgress from 'cli-progress';

/** Shorter work shows no progress. */
const SILENT_MS = 500;

const FRAMES = ['⠋', '⠙', '⠹', '⠸', '⠼', '⠴', '⠦', '⠧', '⠇', '⠏'];
const FRAME_MS = 100;
const BAR_WIDTH = 28;

/**
 * Formats one line: a bar if the amount of work is known, otherwise a spinner and the seconds.
 * @param {object} _
 * @param {{ progress: number, startTime: number }} state
 * @param {{ label: string, bounded: boolean }} payload
 */
function line(_, { progress, startTime }, { label, bounded }) {
  const elapsed = Date.now() - startTime;
  if (!bounded) {
    return `${FRAMES[Math.floor(elapsed / FRAME_MS) % FRAMES.length]} ${label} ${Math.round(elapsed / 1000)} s`;
  }
  const filled = Math.round(progress * BAR_WIDTH);
  const bar = '█'.repeat(filled) + '░'.repeat(BAR_WIDTH - filled);
  return `${label} ${bar} ${Math.floor(progress * 100)} %`;
}

/**
 * Runs `work` and shows its progress.
 * @template T
 * @param {string} label names the work, without a full stop
 * @param {(advance: (done: number) => void) => Promise<T>} work calls `advance` with the part of `total` that is done
 * @param {number} [total] amount of work, if known
 * @returns {Promise<T>} the result of `work`
 */
export function withProgress(label, work, total) {
  return shown(label, work, total, SILENT_MS);
}

/**
 * Runs `work`, which blocks timers: its label is shown from the start.
 * @template T
 * @param {string} label
 * @param {() => T} work
 * @returns {Promise<T>}
 */
export function withLabel(label, work) {
  return shown(label, () => sleep(1).then(work), undefined, 1);
}

/**
 * Shows progress after `silentMs`. See `withProgress`.
 * @template U
 * @param {string} label
 * @param {(advance: (done: number) => void) => Promise<U>} work
 * @param {number | undefined} total
 * @param {number} silentMs
 */
async function shown(label, work, total, silentMs) {
  if (!process.stderr.isTTY) return work(() => {});
  const bar = new cliProgress.SingleBar({
    format: line,
    stream: process.stderr,
    fps: 1000 / FRAME_MS,
    clearOnComplete: true,
    hideCursor: true,
  });
  let done = 0;
  const timer = setTimeout(() => bar.start(total ?? 1, done, { label, bounded: total !== undefined }), silentMs);
  try {
    return await work((now) => {
      done = now;
      if (bar.isActive) bar.update(now);
    });
  } finally {
    clearTimeout(timer);
    if (bar.isActive) bar.stop();
  }
}
