// Places the boxes of a graph and routes its edges, from top to bottom. dagre places some hundred boxes quickly, but
// its time grows faster than the graph, and its recursion is as deep as the longest path. The graph is therefore cut
// into bands at places that few values cross; dagre places each band, and the bands are stacked. Networks are long and
// narrow: only a few edges cross each cut, and they continue straight.

import dagre from '@dagrejs/dagre';

/**
 * Minimum number of boxes in a band: enough to rarely cut a block of a network, few enough for dagre to take a fraction
 * of a second.
 */
const MIN_BAND = 100;
const MAX_BAND = 300;

/** Edges across more rows than this are not routed: they would push aside the boxes of all these rows. */
const MAX_SPAN = 40;

/**
 * An edge between boxes.
 * @typedef {{ from: string, to: string, value: number }} Link
 */

/**
 * How to draw an edge: within a band, from one band to the next, or not at all.
 * @typedef {{ edge: Link, kind: 'inside', band: number }
 *   | { edge: Link, kind: 'crossing', band: number, rowsLeft: number, rowsInto: number, port: string }
 *   | { edge: Link, kind: 'far' }} Route
 */

/**
 * A band, with the position of its upper left corner on the page.
 * @typedef {{ graph: ReturnType<typeof placeBand>, x: number, y: number }} Placed
 */

const ROW_GAP = 40;
const COLUMN_GAP = 28;
const MARGIN = 32;

/**
 * Returns the keys of the items, producers before their readers, otherwise in the given order.
 * @param {{ key: string }[]} items
 * @param {import('./data.mjs').Total<string, string[]>} producersOf
 */
function topologicalOrder(items, producersOf) {
  const order = /** @type {string[]} */ ([]);
  const state = new Map();
  for (const item of items) {
    const stack = [item.key];
    while (stack.length > 0) {
      const key = stack[stack.length - 1];
      if (state.get(key) === undefined) {
        state.set(key, 'open');
        stack.push(
          ...producersOf
            .get(key)
            .filter((producer) => state.get(producer) === undefined)
            .reverse(),
        );
      } else {
        stack.pop();
        if (state.get(key) === 'open') {
          state.set(key, 'done');
          order.push(key);
        }
      }
    }
  }
  return order;
}

/**
 * To keep edges short, moves items without producers right before their first reader, and items without readers right
 * after their last producer.
 * @param {string[]} order
 * @param {Link[]} edges
 * @param {import('./data.mjs').Total<string, string[]>} producersOf
 */
function moveEndsToNeighbors(order, edges, producersOf) {
  const place = /** @type {import('./data.mjs').Total<string, number>} */ (new Map(order.map((key, i) => [key, i])));
  const firstReader = new Map();
  for (const { from, to } of edges) {
    firstReader.set(from, Math.min(firstReader.get(from) ?? Infinity, place.get(to)));
  }
  const wanted = /** @type {import('./data.mjs').Total<string, number>} */ (new Map());
  // Producers come before their readers: their positions are known.
  for (const key of order) {
    const producers = producersOf.get(key);
    if (producers.length === 0) {
      wanted.set(key, firstReader.has(key) ? firstReader.get(key) - 0.5 : place.get(key));
    } else {
      const last = producers.reduce((latest, producer) => Math.max(latest, wanted.get(producer)), -1);
      wanted.set(key, firstReader.has(key) ? place.get(key) : last + 0.25);
    }
  }
  return order.toSorted((a, b) => wanted.get(a) - wanted.get(b));
}

/**
 * Cuts an order into bands, each time at the position that the fewest values cross.
 * @param {string[]} order
 * @param {Link[]} edges
 * @returns {string[][]}
 */
function cutIntoBands(order, edges) {
  const place = /** @type {import('./data.mjs').Total<string, number>} */ (new Map(order.map((key, i) => [key, i])));
  const lastReader = new Map();
  for (const { from, to } of edges) {
    lastReader.set(from, Math.max(lastReader.get(from) ?? -1, place.get(to)));
  }
  const crossing = new Array(order.length + 1).fill(0); // crossing[i]: producers before i that are read at i or later
  for (const [key, last] of lastReader) {
    crossing[place.get(key) + 1]++;
    crossing[last + 1]--;
  }
  for (let i = 1; i < crossing.length; i++) {
    crossing[i] += crossing[i - 1];
  }
  const bands = [];
  let start = 0;
  while (order.length - start > MAX_BAND) {
    let best = start + MIN_BAND;
    for (let i = best; i <= start + MAX_BAND; i++) {
      best = crossing[i] <= crossing[best] ? i : best;
    }
    bands.push(order.slice(start, best));
    start = best;
  }
  bands.push(order.slice(start));
  return bands;
}

/**
 * Returns the longest path to each item within its band, in rows. An item without producers is placed right above its
 * first reader.
 * @param {string[][]} bands
 * @param {import('./data.mjs').Total<string, string[]>} producersOf
 * @param {Link[]} edges
 */
function rowsOf(bands, producersOf, edges) {
  const row = /** @type {import('./data.mjs').Total<string, number>} */ (new Map());
  for (const band of bands) {
    const inBand = new Set(band);
    for (const key of band) {
      const above = producersOf.get(key).filter((producer) => inBand.has(producer));
      row.set(
        key,
        above.reduce((lowest, producer) => Math.max(lowest, row.get(producer) + 1), 0),
      );
    }
  }
  const bandOf = /** @type {import('./data.mjs').Total<string, number>} */ (
    new Map(bands.flatMap((band, i) => band.map((key) => /** @type {const} */ ([key, i]))))
  );
  const firstRow = new Map();
  for (const { from, to } of edges) {
    if (producersOf.get(from).length === 0 && bandOf.get(from) === bandOf.get(to)) {
      firstRow.set(from, Math.min(firstRow.get(from) ?? Infinity, row.get(to)));
    }
  }
  for (const [key, first] of firstRow) {
    row.set(key, Math.max(0, first - 1));
  }
  return row;
}

/**
 * Decides for each edge whether it is drawn within a band, to the next band, or not at all because it is too long.
 * Names the ports where edges leave and enter a band.
 * @param {Link[]} edges
 * @param {string[][]} bands
 * @param {import('./data.mjs').Total<string, number>} row
 * @returns {Route[]}
 */
function routeEdges(edges, bands, row) {
  const bandOf = /** @type {import('./data.mjs').Total<string, number>} */ (
    new Map(bands.flatMap((band, i) => band.map((key) => /** @type {const} */ ([key, i]))))
  );
  const lastRow = bands.map((band) => band.reduce((last, key) => Math.max(last, row.get(key)), 0));
  return edges.map((edge) => {
    const { from, to, value } = edge;
    const [above, below] = [bandOf.get(from), bandOf.get(to)];
    if (above === below) {
      return row.get(to) - row.get(from) <= MAX_SPAN ? { edge, band: above, kind: 'inside' } : { edge, kind: 'far' };
    }
    const rowsLeft = lastRow[above] - row.get(from) + 1;
    const rowsInto = row.get(to) + 1;
    if (below !== above + 1 || rowsLeft + rowsInto > MAX_SPAN) {
      return { edge, kind: 'far' };
    }
    return { edge, band: above, kind: 'crossing', rowsLeft, rowsInto, port: `port ${value}` };
  });
}

/**
 * Places one band with dagre: its items, and a thin box per port in the first and the last row.
 * @param {number} index
 * @param {string[]} band
 * @param {Route[]} routes
 * @param {import('./data.mjs').Total<string, { width: number, height: number }>} boxes
 */
function placeBand(index, band, routes, boxes) {
  const graph = new dagre.graphlib.Graph({ multigraph: true });
  graph.setGraph({ rankdir: 'TB', ranksep: ROW_GAP, nodesep: COLUMN_GAP, edgesep: 14 });
  for (const key of band) {
    const { width, height } = boxes.get(key);
    graph.setNode(key, { width, height });
  }
  routes.forEach((route, i) => {
    const { edge } = route;
    if (route.kind === 'inside' && route.band === index) {
      graph.setEdge(edge.from, edge.to, { minlen: 1 }, `edge ${i}`);
    } else if (route.kind === 'crossing' && route.band === index) {
      graph.setNode(`out ${route.port}`, { width: 1, height: 1 });
      graph.setEdge(edge.from, `out ${route.port}`, { minlen: route.rowsLeft }, 'port');
    } else if (route.kind === 'crossing' && route.band === index - 1) {
      graph.setNode(`in ${route.port}`, { width: 1, height: 1 });
      graph.setEdge(`in ${route.port}`, edge.to, { minlen: route.rowsInto }, `edge ${i}`);
    }
  });
  dagre.layout(graph);
  return graph;
}

/**
 * Returns the horizontal position for a band at which the edges from the band above go straight down on average.
 * @param {Placed} above
 * @param {Placed['graph']} graph
 * @param {Route[]} routes
 * @param {number} index
 */
function leftUnder(above, graph, routes, index) {
  const ports = new Set(routes.flatMap((route) => (route.kind === 'crossing' && route.band === index - 1 ? [route.port] : [])));
  const wanted = Array.from(ports, (port) => above.x + above.graph.node(`out ${port}`).x - graph.node(`in ${port}`).x);
  return wanted.length === 0 ? above.x : wanted.reduce((total, x) => total + x, 0) / wanted.length;
}

/**
 * Returns the SVG path of a line through points. It is vertical at each of them, and straight where x does not change.
 * @param {{ x: number, y: number }[]} points
 */
function smoothPath(points) {
  const rounded = points.map(({ x, y }) => ({ x: Math.round(x), y: Math.round(y) }));
  const pieces = rounded.slice(1).map(({ x, y }, i) => {
    const above = rounded[i];
    const middle = Math.round((above.y + y) / 2);
    return x === above.x ? `V${y}` : `C${above.x} ${middle} ${x} ${middle} ${x} ${y}`;
  });
  return `M${rounded[0].x} ${rounded[0].y}${pieces.join('')}`;
}

/**
 * Returns the points of an edge on the page. It leaves from the middle of a box's lower side, and enters at the middle
 * of the upper side: at dagre's own end points, it could run along a box.
 * @param {Placed} placed
 * @param {string} from
 * @param {string} to
 * @param {string} name
 */
function pointsOf({ graph, x, y }, from, to, name) {
  const [upper, lower] = [graph.node(from), graph.node(to)];
  const between = graph.edge(from, to, name).points.slice(1, -1);
  const points = [{ x: upper.x, y: upper.y + upper.height / 2 }, ...between, { x: lower.x, y: lower.y - lower.height / 2 }];
  return points.map((point) => ({ x: x + point.x, y: y + point.y }));
}

/**
 * Places boxes and routes edges.
 *
 * @param {{ key: string, width: number, height: number }[]} items boxes, in pixels; `key` is unique
 * @param {{ from: string, to: string, value: number }[]} edges without cycles; `value` identifies the value, with one
 *   producer each
 * @returns {{ width: number, height: number, boxes: Map<string, { x: number, y: number }>, paths: (string | null)[] }}
 *   `boxes` has the upper left corners; `paths` the SVG path per edge, `null` for an edge that is too long to be drawn
 */
export function layOut(items, edges) {
  if (items.length === 0) {
    return { width: 2 * MARGIN, height: 2 * MARGIN, boxes: new Map(), paths: [] };
  }
  const boxes = /** @type {import('./data.mjs').Total<string, { width: number, height: number }>} */ (new Map(items.map((item) => [item.key, item])));
  const producersOf = /** @type {import('./data.mjs').Total<string, string[]>} */ (new Map(items.map(({ key }) => [key, []])));
  for (const { from, to } of edges) {
    producersOf.get(to).push(from);
  }
  const order = moveEndsToNeighbors(topologicalOrder(items, producersOf), edges, producersOf);
  const bands = cutIntoBands(order, edges);
  const routes = routeEdges(edges, bands, rowsOf(bands, producersOf, edges));

  const placed = /** @type {Placed[]} */ ([]);
  for (const [index, band] of bands.entries()) {
    const graph = placeBand(index, band, routes, boxes);
    /** @type {Placed | undefined} */
    const above = placed.at(-1);
    const y = above === undefined ? MARGIN : above.y + above.graph.graph().height + ROW_GAP;
    placed.push({ graph, x: above === undefined ? 0 : leftUnder(above, graph, routes, index), y });
  }
  const left = placed.reduce((least, { x }) => Math.min(least, x), Infinity);
  for (const band of placed) {
    band.x += MARGIN - left;
  }

  const corners = new Map();
  bands.forEach((band, i) => {
    const { graph, x, y } = placed[i];
    for (const key of band) {
      const box = graph.node(key);
      corners.set(key, { x: x + box.x - box.width / 2, y: y + box.y - box.height / 2 });
    }
  });
  const paths = routes.map((route, i) => {
    const { edge } = route;
    if (route.kind === 'far') {
      return null;
    }
    const { band } = route;
    if (route.kind === 'inside') {
      return smoothPath(pointsOf(placed[band], edge.from, edge.to, `edge ${i}`));
    }
    return smoothPath([
      ...pointsOf(placed[band], edge.from, `out ${route.port}`, 'port'),
      ...pointsOf(placed[band + 1], `in ${route.port}`, edge.to, `edge ${i}`),
    ]);
  });
  const right = placed.reduce((most, { graph, x }) => Math.max(most, x + graph.graph().width), 0);
  const lowest = placed[placed.length - 1];
  const bottom = lowest.y + lowest.graph.graph().height;
  return { width: right + MARGIN, height: bottom + MARGIN, boxes: corners, paths };
}
