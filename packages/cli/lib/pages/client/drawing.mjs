// The drawing of one graph: boxes and edges in an SVG inside a scrolling pane. Scrolling is the browser's own, by
// wheel, touch, scroll bars and keys; dragging and zooming are added.

import { closest, html, scrollBehavior, svg } from './dom.mjs';
import { describeItem } from './graph.mjs';

const MIN_SCALE = 0.02;
const MAX_SCALE = 3;
const ZOOM_STEP = 1.25;
/** Minimum scale of the first view: anything smaller is unreadable. */
export const FIRST_SCALE = 0.6;
/** Pointer movement, in pixels, that turns a press into a drag. */
const DRAG_THRESHOLD = 4;
const LINE_HEIGHT = 15;

/** Length of the stub of an edge that is too long to be drawn. */
const STUB = 13;

export class Drawing {
  #graph;
  #scroller;
  #svg = svg('svg');
  #canvas = svg('g');
  #scale = 1;
  #nodes = /** @type {import('../data.mjs').Total<string, SVGElement>} */ (new Map());
  #edgesOf = /** @type {import('../data.mjs').Total<string, SVGElement[]>} */ (new Map());
  #onSelect;
  /** @type {string | null} */
  #selected = null;

  /**
   * @param {HTMLElement} pane receives the drawing
   * @param {import('./graph.mjs').Graph} graph
   * @param {{ onSelect(key: string): void }} events
   */
  constructor(pane, graph, { onSelect }) {
    this.#graph = graph;
    this.#onSelect = onSelect;
    this.#scroller = html('div', { class: 'scroller canvas' });
    const button = (/** @type {string} */ text, /** @type {string} */ label, /** @type {() => void} */ action) =>
      html('button', { type: 'button', 'aria-label': `${label}: ${graph.name}`, title: label, onclick: action }, text);
    pane.append(
      html(
        'div',
        { class: 'card-head' },
        html('h2', { id: `${graph.side}-title` }, graph.name, ' ', html('small', {}, `${graph.items.filter(({ kind }) => kind === 'node').length} nodes`)),
        html(
          'div',
          { class: 'zoom' },
          button('−', 'Smaller', () => this.zoomBy(1 / ZOOM_STEP)),
          button('+', 'Larger', () => this.zoomBy(ZOOM_STEP)),
          button('Fit', 'Fit the width', () => this.fit(0)),
        ),
      ),
      this.#scroller,
    );
    this.#draw();
    this.#addPointer();
    this.#scroller.addEventListener('keydown', (event) => this.#onKey(event));
  }

  /**
   * Selects an item without notifying: marks it, and makes it the one that Tab reaches.
   * @param {string | null} key
   */
  select(key) {
    if (this.#selected !== null) {
      this.#mark(this.#selected, false);
    }
    this.#selected = key;
    if (key !== null) {
      this.#mark(key, true);
      this.#makeTabStop(key);
    }
  }

  /**
   * Marks the items related to the selection in the other graph, and scrolls to the first of them.
   * @param {string[]} keys
   */
  relate(keys) {
    for (const node of this.#canvas.querySelectorAll('.related')) {
      node.classList.remove('related');
    }
    for (const key of keys) {
      this.#nodes.get(key).classList.add('related');
    }
    if (keys.length > 0) {
      this.#makeTabStop(keys[0]);
      this.reveal(keys[0]);
    }
  }

  /** @param {string} key */
  focus(key) {
    this.reveal(key);
    this.#button(key).focus({ preventScroll: true });
  }

  /**
   * Scrolls until the box of `key` is well inside the pane.
   * @param {string} key
   */
  reveal(key) {
    const [x, y, width, height] = this.#graph.byKey.get(key).box.map((length) => length * this.#scale);
    const { scrollLeft, scrollTop, clientWidth, clientHeight } = this.#scroller;
    const margin = Math.min(80, clientHeight / 4);
    const side = Math.max(0, Math.min(60, (clientWidth - width) / 2));
    const isInside =
      x >= scrollLeft + side && x + width <= scrollLeft + clientWidth - side && y >= scrollTop + margin && y + height <= scrollTop + clientHeight - margin;
    if (!isInside) {
      const far = Math.abs(y - scrollTop) > 4 * clientHeight;
      this.#scroller.scrollTo({ left: x + width / 2 - clientWidth / 2, top: y + height / 2 - clientHeight / 2, behavior: far ? 'instant' : scrollBehavior() });
    }
  }

  /**
   * Scales the drawing to the width of the pane, but at least to the scale `least`; the topmost box is then centered.
   * @param {number} least
   */
  fit(least) {
    const scale = Math.min(1, this.#scroller.clientWidth / this.#graph.width);
    this.#setScale(Math.max(scale, least), 0.5, 0);
    const middle = (/** @type {import('../data.mjs').Box} */ [x, , width]) => (x + width / 2) * this.#scale - this.#scroller.clientWidth / 2;
    const boxes = this.#graph.items.map(({ box }) => box);
    if (boxes.length > 0) {
      this.#scroller.scrollLeft = middle(boxes.reduce((top, box) => (box[1] < top[1] ? box : top)));
    }
  }

  /**
   * Zooms by `factor`; the point at (x, y), as fractions of the pane's size, stays in place.
   * @param {number} factor
   */
  zoomBy(factor, x = 0.5, y = 0.5) {
    this.#setScale(this.#scale * factor, x, y);
  }

  /**
   * @param {number} scale
   * @param {number} x
   * @param {number} y
   */
  #setScale(scale, x, y) {
    const { scrollLeft, scrollTop, clientWidth, clientHeight } = this.#scroller;
    const next = Math.min(Math.max(scale, MIN_SCALE), MAX_SCALE);
    const ratio = next / this.#scale;
    this.#scale = next;
    this.#svg.setAttribute('width', String(this.#graph.width * next));
    this.#svg.setAttribute('height', String(this.#graph.height * next));
    this.#scroller.scrollLeft = (scrollLeft + clientWidth * x) * ratio - clientWidth * x;
    this.#scroller.scrollTop = (scrollTop + clientHeight * y) * ratio - clientHeight * y;
  }

  #draw() {
    const { items, edges, width, height, side, name } = this.#graph;
    const arrow = svg(
      'marker',
      { id: `arrow-${side}`, viewBox: '0 0 8 8', refX: 7, refY: 4, markerWidth: 7, markerHeight: 7, orient: 'auto-start-reverse' },
      svg('path', { d: 'M0 0.5L8 4L0 7.5z', class: 'arrow' }),
    );
    const drawnEdges = svg('g', { class: 'edges', 'aria-hidden': 'true' });
    const labels = svg('g', { class: 'edge-labels', 'aria-hidden': 'true' });
    const boxes = svg('g', { class: 'boxes' });
    this.#canvas = svg('g', {}, drawnEdges, labels, boxes);
    this.#svg = svg(
      'svg',
      { viewBox: `0 0 ${width} ${height}`, width, height, role: 'application', 'aria-label': `${name}: drawing, arrow keys go from node to node` },
      svg('defs', {}, arrow),
      this.#canvas,
    );
    items.forEach(({ key }) => this.#edgesOf.set(key, []));
    for (const edge of edges) {
      this.#drawEdge(edge, drawnEdges);
    }
    this.#labelEdges(labels);
    for (const item of items) {
      boxes.append(this.#drawItem(item));
    }
    if (items.length > 0) {
      this.#makeTabStop(items[0].key);
    }
    this.#scroller.append(this.#svg);
  }

  /**
   * @param {import('../data.mjs').Edge} edge
   * @param {Element} parent
   */
  #drawEdge(edge, parent) {
    const { from, to, path } = edge;
    const parts = path === null ? this.#drawFarEdge(from, to) : [svg('path', { d: path, class: 'edge', 'marker-end': `url(#arrow-${this.#graph.side})` })];
    parent.append(...parts);
    this.#edgesOf.get(from).push(...parts);
    this.#edgesOf.get(to).push(...parts);
  }

  /**
   * Draws a stub at both ends, and a straight line that only shows while one of the ends is selected.
   * @param {string} from
   * @param {string} to
   */
  #drawFarEdge(from, to) {
    const [fx, fy, fw, fh] = this.#graph.byKey.get(from).box;
    const [tx, ty, tw] = this.#graph.byKey.get(to).box;
    const start = { x: fx + fw - 14, y: fy + fh };
    const end = { x: tx + tw - 14, y: ty };
    return [
      svg('path', { d: `M${start.x} ${start.y}v${STUB}`, class: 'edge stub' }),
      svg('path', { d: `M${end.x} ${end.y - STUB}v${STUB}`, class: 'edge stub', 'marker-end': `url(#arrow-${this.#graph.side})` }),
      svg('path', { d: `M${start.x} ${start.y + STUB}L${end.x} ${end.y - STUB}`, class: 'edge far' }),
    ];
  }

  /**
   * Draws the type of a value once: below its producer, or above its reader if the producer has several results.
   * @param {Element} parent
   */
  #labelEdges(parent) {
    const labelled = new Set();
    for (const { from, to, value, type, path } of this.#graph.edges) {
      if (path === null || labelled.has(value)) {
        continue;
      }
      labelled.add(value);
      const {
        outputs,
        box: [fromX, fromY, fromWidth, fromHeight],
      } = this.#graph.byKey.get(from);
      const [toX, toY, toWidth] = this.#graph.byKey.get(to).box;
      const place = outputs.length > 1 ? { x: toX + toWidth / 2 + 6, y: toY - 12 } : { x: fromX + fromWidth / 2 + 6, y: fromY + fromHeight + 14 };
      parent.append(svg('text', place, type));
    }
  }

  /** @param {import('../data.mjs').Item} item */
  #drawItem(item) {
    const [x, y, width, height] = item.box;
    const lines = item.lines.map((line, i) => svg('text', { x: 14, y: 17 + i * LINE_HEIGHT, class: i === 0 ? 'name' : 'line' }, line));
    const corner = item.shareText ?? item.mark;
    const node = svg(
      'g',
      { transform: `translate(${x} ${y})`, class: this.#classes(item), 'data-key': item.key },
      svg('rect', {
        class: 'box',
        width,
        height,
        rx: item.kind === 'node' ? 4 : height / 3,
        role: 'button',
        tabindex: -1,
        'aria-pressed': 'false',
        'aria-label': describeItem(item),
      }),
      ...(item.kind === 'node' ? [svg('path', { class: 'stripe', d: `M4 0H6V${height}H4A4 4 0 0 1 0 ${height - 4}V4A4 4 0 0 1 4 0z` })] : []),
      // The button's name says all of this, in an order for listening.
      svg('g', { 'aria-hidden': 'true' }, ...lines, ...(corner === undefined ? [] : [svg('text', { x: width - 8, y: 17, class: 'corner' }, corner)])),
      svg('title', {}, item.label === '' ? item.operator : `${item.operator} ${item.label}`),
    );
    this.#nodes.set(item.key, node);
    return node;
  }

  /** @param {import('../data.mjs').Item} item */
  #classes({ kind, category, mark, shareClass }) {
    return ['item', kind, `kind-${category}`, mark, shareClass === undefined ? '' : `share-${shareClass}`].filter(Boolean).join(' ');
  }

  /**
   * @param {string} key
   * @param {boolean} on
   */
  #mark(key, on) {
    this.#nodes.get(key).classList.toggle('selected', on);
    this.#button(key).setAttribute('aria-pressed', String(on));
    for (const edge of this.#edgesOf.get(key)) {
      edge.classList.toggle('lit', on);
      if (on) {
        edge.parentNode?.append(edge); // on top of the others
      }
    }
  }

  /**
   * Returns the part of an item that has the focus and the name.
   * @param {string} key
   */
  #button(key) {
    return /** @type {SVGElement} */ (this.#nodes.get(key).querySelector('.box'));
  }

  /** @param {string} key */
  #makeTabStop(key) {
    this.#canvas.querySelector('[tabindex="0"]')?.setAttribute('tabindex', '-1');
    this.#button(key).setAttribute('tabindex', '0');
  }

  /** @param {KeyboardEvent} event */
  #onKey(event) {
    const key = closest(event, '.item')?.dataset.key;
    if (key === undefined || event.ctrlKey || event.metaKey || event.altKey) {
      return;
    }
    const { items } = this.#graph;
    /** @type {Record<string, () => void>} */
    const zooms = { '+': () => this.zoomBy(ZOOM_STEP), '=': () => this.zoomBy(ZOOM_STEP), '-': () => this.zoomBy(1 / ZOOM_STEP), 0: () => this.fit(0) };
    /** @type {Record<string, () => string>} */
    const targets = { Home: () => items[0].key, End: () => items[items.length - 1].key };
    if (zooms[event.key] !== undefined) {
      zooms[event.key]();
    } else if (event.key === ' ') {
      this.#onSelect(key);
    } else if (event.key.startsWith('Arrow') || targets[event.key] !== undefined) {
      const next = targets[event.key]?.() ?? this.#graph.neighbor(key, event.key);
      if (next !== undefined) {
        this.#onSelect(next);
        this.focus(next);
      }
    } else {
      return;
    }
    event.preventDefault();
  }

  #addPointer() {
    /** @type {{ x: number, y: number, left: number, top: number, moved: boolean } | null} */
    let drag = null;
    this.#scroller.addEventListener('pointerdown', (event) => {
      if (event.button === 0 && event.pointerType === 'mouse' && event.target instanceof Node && this.#svg.contains(event.target)) {
        drag = { x: event.clientX, y: event.clientY, left: this.#scroller.scrollLeft, top: this.#scroller.scrollTop, moved: false };
      }
    });
    this.#scroller.addEventListener('pointermove', (event) => {
      if (drag === null) {
        return;
      }
      const [dx, dy] = [event.clientX - drag.x, event.clientY - drag.y];
      if (!drag.moved && Math.hypot(dx, dy) > DRAG_THRESHOLD) {
        drag.moved = true;
        this.#scroller.setPointerCapture(event.pointerId);
      }
      if (drag.moved) {
        this.#scroller.scrollLeft = drag.left - dx;
        this.#scroller.scrollTop = drag.top - dy;
      }
    });
    this.#scroller.addEventListener('pointercancel', () => (drag = null));
    this.#scroller.addEventListener('pointerup', () => setTimeout(() => (drag = null))); // after the click that follows
    this.#scroller.addEventListener('click', (event) => {
      const key = closest(event, '.item')?.dataset.key;
      if (key !== undefined && !drag?.moved) {
        this.#onSelect(key);
        this.#button(key).focus({ preventScroll: true });
      }
    });
    this.#scroller.addEventListener(
      'wheel',
      (event) => {
        if (event.ctrlKey) {
          event.preventDefault();
          const { left, top, width, height } = this.#scroller.getBoundingClientRect();
          this.zoomBy(Math.exp(-event.deltaY / 300), (event.clientX - left) / width, (event.clientY - top) / height);
        }
      },
      { passive: false },
    );
  }
}
