// One run as a strip of steps over time.

import { byId, fieldById, html, svg } from './dom.mjs';
import { endOf, startOf } from './text.mjs';

const LANE = 34;
const AXIS = 22;
const TOP = 26;
const HEIGHT = TOP + LANE + AXIS;
/** Slices narrower than this, in pixels, have no text. */
const MIN_TEXT_WIDTH = 44;
const CHARACTER_WIDTH = 6.6;
/** Width of a tick's text, in pixels. */
const TICK_WIDTH = 64;

export class Timeline {
  #data;
  #run = 0;
  #level = 0;
  #current = 0;
  #onStep;

  /**
   * @param {import('../data.mjs').TimelineData} data
   * @param {{ onStep(index: number): void }} events
   */
  constructor(data, { onStep }) {
    this.#data = data;
    this.#onStep = onStep;
    byId('run').append(...data.runs.map(({ name }, i) => html('option', { value: i }, name)));
    byId('run').addEventListener('change', () => {
      this.#run = Number(fieldById('run').value);
      this.#draw();
      this.#describe(this.#current);
    });
    byId('zoom-in').addEventListener('click', () => this.#zoom(1));
    byId('zoom-out').addEventListener('click', () => this.#zoom(-1));
    byId('timeline').addEventListener('keydown', (event) => this.#onKey(event));
    byId('timeline').addEventListener(
      'wheel',
      (event) => {
        if (event.ctrlKey) {
          event.preventDefault();
          this.#zoom(event.deltaY < 0 ? 1 : -1);
        }
      },
      { passive: false },
    );
    new ResizeObserver(() => this.#draw()).observe(byId('timeline'));
    this.#describe(0);
  }

  /** @param {number} by */
  #zoom(by) {
    const level = Math.min(Math.max(this.#level + by, 0), this.#data.zooms.length - 1);
    if (level === this.#level) {
      return;
    }
    const scroller = byId('timeline');
    const middle = this.#hasFocus() ? this.#middleOfCurrent() : (scroller.scrollLeft + scroller.clientWidth / 2) / scroller.scrollWidth;
    this.#level = level;
    this.#draw();
    scroller.scrollLeft = middle * scroller.scrollWidth - scroller.clientWidth / 2;
  }

  /** Whether one of the steps has the focus. */
  #hasFocus() {
    return document.activeElement?.closest('.slice-box') != null;
  }

  /** The center of the current step, as a fraction of the width. */
  #middleOfCurrent() {
    const run = this.#data.runs[this.#run];
    const [start, duration] = run.slices[this.#current];
    return (start + duration / 2) / run.duration;
  }

  #draw() {
    const scroller = byId('timeline');
    const hadFocus = this.#hasFocus();
    const { name, duration, slices, ticks } = this.#data.runs[this.#run];
    const width = Math.max(scroller.clientWidth, 200) * this.#data.zooms[this.#level];
    const scale = (width - 24) / Math.max(duration, 1);
    const at = (/** @type {number} */ time) => 8 + time * scale;
    const every = Math.ceil((TICK_WIDTH * ticks[this.#level].length) / width);
    const axis = ticks[this.#level]
      .filter((_, i) => i % every === 0)
      .map(([time, label]) =>
        svg(
          'g',
          { transform: `translate(${at(time)} 0)` },
          svg('path', { d: `M0 ${TOP}V${HEIGHT - AXIS + 5}`, class: 'tick' }),
          svg('text', { y: HEIGHT - 5, class: 'tick-label', 'text-anchor': time === 0 ? 'start' : 'middle' }, label),
        ),
      );
    const steps = slices.map((slice, i) => this.#drawSlice(slice, i, at, scale));
    scroller.replaceChildren(
      svg(
        'svg',
        { width, height: HEIGHT, role: 'application', 'aria-label': `Steps of the ${name}; arrow keys go from step to step` },
        svg(
          'g',
          { 'aria-hidden': 'true' },
          ...axis,
          svg('rect', { x: at(0), y: 4, width: Math.max(duration * scale, 1), height: 16, rx: 2, class: 'run' }),
          svg('text', { x: at(0) + 6, y: 16, class: 'run-label' }, name),
        ),
        ...steps,
      ),
    );
    if (hadFocus) {
      /** @type {SVGElement | undefined} */ (steps[this.#current]?.firstChild)?.focus({ preventScroll: true });
    }
  }

  /**
   * @param {[start: number, duration: number, text: string]} slice
   * @param {number} index
   * @param {(time: number) => number} at
   * @param {number} scale
   */
  #drawSlice([start, duration, time], index, at, scale) {
    const { name, label, category } = this.#data.steps[index];
    const width = Math.max(duration * scale, 0.75);
    const gap = width > 4 ? 1 : 0;
    const room = Math.floor((width - 8) / CHARACTER_WIDTH);
    const texts =
      width < MIN_TEXT_WIDTH ? [] : [svg('text', { x: 5, y: 15 }, startOf(name, room)), svg('text', { x: 5, y: 28, class: 'soft' }, endOf(label, room))];
    const button = svg('rect', {
      width: width - gap,
      height: LANE,
      role: 'button',
      tabindex: index === this.#current ? 0 : -1,
      'data-index': index,
      'aria-label': `step ${index}, ${name} ${label}, ${time}`,
      onfocus: () => this.#focused(index),
    });
    const events = { onclick: () => this.#go(index), onpointerenter: () => this.#describe(index) };
    return svg(
      'g',
      { class: `slice-box kind-${category}`, transform: `translate(${at(start)} ${TOP})`, ...events },
      button,
      svg('rect', { width: width - gap, height: 3, class: 'stripe' }),
      svg('g', { 'aria-hidden': 'true' }, ...texts),
    );
  }

  /** @param {number} index */
  #focused(index) {
    byId('timeline').querySelector('[tabindex="0"]')?.setAttribute('tabindex', '-1');
    byId('timeline').querySelector(`[data-index="${index}"]`)?.setAttribute('tabindex', '0');
    this.#current = index;
    this.#describe(index);
  }

  /** @param {number} index */
  #describe(index) {
    const step = this.#data.steps[index];
    if (step === undefined) {
      byId('slice').textContent = 'This graph has no steps.';
      return;
    }
    const [, , time] = this.#data.runs[this.#run].slices[index];
    byId('slice').replaceChildren(html('b', {}, `${index} ${step.name}`), ` ${step.label} · ${step.kernel} · ${time} in this run, ${step.usual} in the median`);
  }

  /**
   * Focuses a step and shows its description.
   * @param {number} index
   */
  #go(index) {
    const target = /** @type {SVGElement | null} */ (byId('timeline').querySelector(`[data-index="${index}"]`));
    target?.focus();
    if (target !== null) {
      this.#onStep(index);
    }
  }

  /** @param {KeyboardEvent} event */
  #onKey(event) {
    if (event.ctrlKey || event.metaKey || event.altKey) {
      return;
    }
    const last = this.#data.steps.length - 1;
    /** @type {Record<string, number>} */
    const moves = { ArrowRight: this.#current + 1, ArrowLeft: this.#current - 1, Home: 0, End: last };
    if (Object.hasOwn(moves, event.key)) {
      event.preventDefault();
      this.#go(Math.min(Math.max(moves[event.key], 0), last));
    } else if (event.key === '+' || event.key === '=' || event.key === '-') {
      event.preventDefault();
      this.#zoom(event.key === '-' ? -1 : 1);
    }
  }
}
