// The data that the page scripts in client/ find in their page, and its parts.

import type { CATEGORIES } from './categories.mjs';

/** A map that has a value for every key in use. */
export interface Total<K, V> extends Map<K, V> {
  get(key: K): V;
}

export type Category = string;

/** A name and a text about it. */
export type Fact = [name: string, text: string];

export type Box = [x: number, y: number, width: number, height: number];

/** A node, a graph input or a graph output. */
export interface Item {
  key: string;
  kind: 'node' | 'input' | 'output';
  operator: string;
  label: string;
  category: Category;
  /** The text of its box. */
  lines: string[];
  /** Operators fused into it. */
  epilogue: string[];
  /** `from` is the key of the item that computes it; null for constants and absent operands. */
  inputs: { type: string; from: string | null; note: string }[];
  /** `readers` are keys of items. */
  outputs: { type: string; readers: string[] }[];
  attributes: Fact[];
  /** Present if the graph is drawn. */
  box: Box;
  /** Keys of items of the other graph. */
  related: string[];
  facts: Fact[];
  /** The fate of a node that does not run. */
  mark?: 'view' | 'folded';
  /** Its fraction of the time of a run, 0 to 1, if there is a profile. */
  share?: number;
  shareText?: string;
  shareClass?: number;
}

/** A value that flows from one item to another, by their keys. */
export interface Edge {
  from: string;
  to: string;
  /** Id of the value. */
  value: number;
  type: string;
  /** An SVG path; null for an edge that is too long to be drawn. */
  path?: string | null;
}

/** A graph, with a layout if it is `drawn`. */
export interface GraphData {
  items: Item[];
  edges: Edge[];
  width: number;
  height: number;
  drawn: boolean;
}

export type Side = 'source' | 'compiled';

/** The data of the page of `view`. */
export interface ViewData {
  title: string;
  subtitle: string;
  timed: boolean;
  categories: typeof CATEGORIES;
  shareLegend: string[];
  maxDrawn: number;
  overview: { heading: string; facts: Fact[] }[];
  sides: Record<Side, GraphData>;
}

/** A cell of a table: its text and its sort value. */
export interface Cell {
  value: number | string | null;
  text: string;
}

export interface Column {
  name: string;
  numeric?: boolean;
  /** Whether its values, fractions of 1, are also shown as lengths. */
  bar?: boolean;
}

/** A table that is sorted by its headers. */
export interface TableData {
  columns: Column[];
  sortedBy: { column: number; descending: boolean };
  rows: { category: Category; cells: Cell[] }[];
}

/** Times in nanoseconds, and as text. */
export interface TimelineData {
  zooms: number[];
  steps: { index: number; name: string; label: string; kernel: string; category: Category; usual: string }[];
  runs: {
    name: string;
    duration: number;
    slices: [start: number, duration: number, text: string][];
    /** Ticks per magnification. */
    ticks: [at: number, text: string][][];
  }[];
}

/** Number of runs between two durations. */
export interface HistogramBin {
  from: string;
  to: string;
  count: number;
}

/** The data of the page of `profile`. */
export interface ProfileData {
  title: string;
  categories: typeof CATEGORIES;
  figures: Fact[];
  operators: TableData;
  steps: TableData;
  timeline: TimelineData;
  histogram: HistogramBin[];
}

/** Work and its cost: nanoseconds, a fraction (0 to 1) of a run, rates (null where nothing is counted). */
interface Work {
  median: number;
  share: number;
  multiplyAdds: number;
  bytes: number;
  gflops: number | null;
  gigabytesPerSecond: number | null;
}

export interface StepSummary extends Work {
  index: number;
  kernel: string;
  operator: string;
  operators: string[];
  label: string;
  node: number | null;
}

export interface OperatorSummary extends Work {
  operator: string;
  kernels: string[];
  steps: number;
}

export interface RunsSummary extends Omit<Work, 'share'> {
  count: number;
  fastest: number;
  slowest: number;
  p95: number;
  betweenSteps: number;
}

/** The numbers of a profile; `perStep` in the order of execution, `perOperator` with the slowest first. */
export interface Summary {
  runs: RunsSummary;
  perStep: StepSummary[];
  perOperator: OperatorSummary[];
}
