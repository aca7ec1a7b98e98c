// One graph as data: its items by key, their producers and readers, and their neighbors in the drawing.

/** Maximum vertical distance, in pixels, of two boxes in the same row. */
const ROW_HEIGHT = 30;

export class Graph {
  /**
   * @param {import('../data.mjs').Side} side
   * @param {import('../data.mjs').GraphData} data
   */
  constructor(side, data) {
    this.side = side;
    this.name = side === 'source' ? 'As given' : 'Compiled';
    this.items = data.items;
    this.edges = data.edges;
    this.width = data.width;
    this.height = data.height;
    this.drawn = data.drawn;
    this.byKey = /** @type {import('../data.mjs').Total<string, import('../data.mjs').Item>} */ (new Map(data.items.map((item) => [item.key, item])));
    this.producers = /** @type {import('../data.mjs').Total<string, string[]>} */ (new Map(data.items.map(({ key }) => [key, []])));
    this.readers = /** @type {import('../data.mjs').Total<string, string[]>} */ (new Map(data.items.map(({ key }) => [key, []])));
    for (const { from, to } of data.edges) {
      this.producers.get(to).push(from);
      this.readers.get(from).push(to);
    }
  }

  /**
   * Returns the item that an arrow key leads to from `key`, or undefined.
   * @param {string} key
   * @param {string} direction
   * @returns {string | undefined}
   */
  neighbor(key, direction) {
    switch (direction) {
      case 'ArrowUp':
        return this.#nearest(key, this.producers.get(key));
      case 'ArrowDown':
        return this.#nearest(key, this.readers.get(key));
      default:
        return this.#beside(key, direction === 'ArrowRight' ? 1 : -1);
    }
  }

  /**
   * Returns the horizontal center of a box. Without a drawing, the index in the list serves as the coordinate.
   * @param {string} key
   */
  #place(key) {
    const { box } = this.byKey.get(key);
    return box === undefined ? { x: 0, y: 0 } : { x: box[0] + box[2] / 2, y: box[1] + box[3] / 2 };
  }

  /**
   * @param {string} key
   * @param {string[]} candidates
   * @returns {string | undefined}
   */
  #nearest(key, candidates) {
    const here = this.#place(key);
    const distance = (/** @type {string} */ other) => Math.hypot(this.#place(other).x - here.x, this.#place(other).y - here.y);
    return candidates.toSorted((a, b) => distance(a) - distance(b))[0];
  }

  /**
   * Siblings (items that share a producer or a reader) come before items that merely share the row.
   * @param {string} key
   * @param {number} sign
   */
  #beside(key, sign) {
    const here = this.#place(key);
    const siblings = new Set([
      ...this.producers.get(key).flatMap((producer) => this.readers.get(producer)),
      ...this.readers.get(key).flatMap((reader) => this.producers.get(reader)),
    ]);
    const inDirection = (/** @type {string[]} */ keys) => keys.filter((other) => (this.#place(other).x - here.x) * sign > 0);
    const sibling = this.#nearest(key, inDirection([...siblings]));
    if (sibling !== undefined || !this.drawn) {
      return sibling;
    }
    const row = this.items.filter((item) => Math.abs(this.#place(item.key).y - here.y) < ROW_HEIGHT).map((item) => item.key);
    return this.#nearest(key, inDirection(row));
  }
}

/**
 * Describes an item for screen readers and tooltips: its name, its results, and its mark or share of time.
 * @param {import('../data.mjs').Item} item
 */
export function describeItem(item) {
  const marks = { folded: 'folded away', view: 'a view, without a step' };
  const types = [...item.outputs.map(({ type }) => type), ...(item.kind === 'output' ? item.inputs.map(({ type }) => type) : [])];
  const parts = [
    item.operator,
    ...item.epilogue.map((operator) => `and ${operator}`),
    item.label,
    types.join(' and '),
    item.shareText && `${item.shareText} of the time`,
    item.mark && marks[item.mark],
  ];
  return parts.filter(Boolean).join(', ');
}
