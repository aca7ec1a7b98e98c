// What only a terminal gets: colours and progress.
import assert from 'node:assert/strict';
import { setTimeout as sleep } from 'node:timers/promises';
import test, { afterEach, beforeEach } from 'node:test';
import { until } from '../../../__test__/lib/wait.mjs';
import { Output, Styled } from '../lib/output.mjs';
import { withLabel, withProgress } from '../lib/progress.mjs';

const HIDE_CURSOR = '\x1b[?25l';
const SHOW_CURSOR = '\x1b[?25h';

const streams = { stdout: process.stdout, stderr: process.stderr };
const kept = {};
let shown;

beforeEach(() => {
  shown = '';
  kept.env = { ...process.env };
  delete process.env.NO_COLOR;
  process.env.TERM = 'xterm';
  for (const [name, stream] of Object.entries(streams)) {
    kept[name] = Object.getOwnPropertyDescriptor(stream, 'isTTY');
    Object.defineProperty(stream, 'isTTY', { value: true, configurable: true });
  }
  kept.write = process.stderr.write;
  process.stderr.write = (text) => {
    shown += text;
    return true;
  };
});

afterEach(() => {
  process.stderr.write = kept.write;
  process.env = kept.env;
  for (const [name, stream] of Object.entries(streams)) {
    Reflect.deleteProperty(stream, 'isTTY');
    if (kept[name] !== undefined) Object.defineProperty(stream, 'isTTY', kept[name]);
  }
});

test('colours on a terminal, unless they are not wanted', () => {
  const bold = (options) => new Output(options).style('bold', 'x');
  assert.equal(bold(), '\x1b[1mx\x1b[22m');
  assert.equal(bold({ color: false }), 'x');
  process.env.NO_COLOR = '1';
  assert.equal(bold(), 'x');
  delete process.env.NO_COLOR;
  process.env.TERM = 'dumb';
  assert.equal(bold(), 'x');
  process.env.TERM = 'xterm';
  Object.defineProperty(process.stdout, 'isTTY', { value: false, configurable: true });
  assert.equal(bold(), 'x');
});

test('columns of a table are as wide as what they show, with wide characters and styles', () => {
  const write = process.stdout.write;
  let printed = '';
  process.stdout.write = (text) => {
    printed += text;
    return true;
  };
  try {
    new Output({ color: false }).table(
      ['label', '>share'],
      [
        ['東京', '12 %'],
        ['Rio', new Styled('bold', '3 %')],
      ],
    );
  } finally {
    process.stdout.write = write;
  }
  assert.equal(printed, 'label  share\n東京    12 %\nRio      3 %\n');
});

test('short work shows nothing', async () => {
  assert.equal(await withProgress('loading', async () => 7), 7);
  assert.equal(shown, '');
});

test('work above half a second shows a bar, and leaves the terminal as it was', async () => {
  const result = await withProgress(
    'measuring',
    async (advance) => {
      await until(() => shown.includes('measuring'), 'a bar');
      advance(25);
      await until(() => shown.includes('25 %'), 'progress');
      return 7;
    },
    100,
  );
  assert.equal(result, 7);
  assert.match(shown, /measuring █{7}░{21} 25 %/);
  assert.ok(shown.lastIndexOf(SHOW_CURSOR) > shown.lastIndexOf(HIDE_CURSOR));
  assert.ok(shown.endsWith('\x1b[2K'), 'the line is cleared');
});

test('work that blocks shows its label while it does, and its error passes', async () => {
  let before;
  const work = () => {
    before = shown;
    throw new RangeError('too large');
  };
  await assert.rejects(withLabel('drawing', work), new RangeError('too large'));
  assert.match(before, /drawing 0 s/);
  assert.ok(shown.endsWith('\x1b[2K'), 'the line is cleared');
});

test('no terminal, no progress', async () => {
  Object.defineProperty(process.stderr, 'isTTY', { value: false, configurable: true });
  await withProgress('measuring', () => sleep(600), 100);
  await withLabel('drawing', () => {});
  assert.equal(shown, '');
});
