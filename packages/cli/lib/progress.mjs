// Progress on standard error: only on a terminal, and only for long work.
import { setTimeout as sleep } from 'node:timers/promises';

/** Shorter work shows no progress. */
const SILENT_MS = 500;

const FRAMES = ['⠋', '⠙', '⠹', '⠸', '⠼', '⠴', '⠦', '⠧', '⠇', '⠏'];
const FRAME_MS = 100;
const BAR_WIDTH = 28;

const HIDE_CURSOR = '\x1b[?25l';
const SHOW_CURSOR = '\x1b[?25h';
/** Moves to the first column and clears the line. */
const CLEAR_LINE = '\r\x1b[2K';

/**
 * Formats one line: a bar if the amount of work is known, otherwise a spinner and the seconds.
 * @param {string} label
 * @param {number} elapsed milliseconds
 * @param {number} [progress] the part that is done, from 0 to 1
 */
function lineOf(label, elapsed, progress) {
  if (progress === undefined) {
    return `${FRAMES[Math.floor(elapsed / FRAME_MS) % FRAMES.length]} ${label} ${Math.round(elapsed / 1000)} s`;
  }
  const filled = Math.round(progress * BAR_WIDTH);
  return `${label} ${'█'.repeat(filled)}${'░'.repeat(BAR_WIDTH - filled)} ${Math.floor(progress * 100)} %`;
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
  const begin = Date.now();
  let done = 0;
  let isShown = false;
  const show = () => {
    const line = lineOf(label, Date.now() - begin, total === undefined ? undefined : Math.min(done / total, 1));
    process.stderr.write((isShown ? '' : HIDE_CURSOR) + CLEAR_LINE + line.slice(0, process.stderr.columns));
    isShown = true;
    timer = setTimeout(show, FRAME_MS);
  };
  let timer = setTimeout(show, silentMs);
  try {
    return await work((now) => {
      done = now;
    });
  } finally {
    clearTimeout(timer);
    if (isShown) process.stderr.write(SHOW_CURSOR + CLEAR_LINE);
  }
}
