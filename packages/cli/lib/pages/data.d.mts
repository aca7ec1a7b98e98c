// What the scripts of the pages in client/ find in their page, and what they are made of.

import type { CATEGORIES } from './categories.mjs';

/** A map that has a value for every key that is asked for. */
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
  /** What its box says. */
  lines: string[];
  /** Operators that run with it. */
  epilogue: string[];
  /** `from` is the key of the item that computes it; null for constants, and for what is not given. */
  inputs: { type: string; from: string | null; note: string }[];
  /** `readers` are keys of items. */
  outputs: { type: string; readers: string[] }[];
  attributes: Fact[];
  /** Where the graph is drawn. */
  box: Box;
  /** Keys of items of the other graph. */
  related: string[];
  facts: Fact[];
  /** What became of a node that does not run. */
  mark?: 'view' | 'folded';
  /** Its part of the time of a run, 0 to 1, where there is a profile. */
  share?: number;
  shareText?: string;
  shareClass?: number;
}

/** What flows from one item to another, by their keys. */
export interface Edge {
  from: string;
  to: string;
  /** Id of the value. */
  value: number;
  type: string;
  /** An SVG path; null for an edge that is too long to be drawn. */
  path?: string | null;
}

/** A graph, laid out where it is `drawn`. */
export interface GraphData {
  items: Item[];
  edges: Edge[];
  width: number;
  height: number;
  drawn: boolean;
}

export type Side = 'source' | 'compiled';

/** What the page of `view` finds. */
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

/** A cell of a table: its text and what it is sorted by. */
export interface Cell {
  value: number | string | null;
  text: string;
}

export interface Column {
  name: string;
  numeric?: boolean;
  /** Whether its values, parts of 1, show as lengths, too. */
  bar?: boolean;
}

/** A table that its heads sort. */
export interface TableData {
  columns: Column[];
  sortedBy: { column: number; descending: boolean };
  rows: { category: Category; cells: Cell[] }[];
}

/** Times are nanoseconds, and texts of them. */
export interface TimelineData {
  zooms: number[];
  steps: { index: number; name: string; label: string; kernel: string; category: Category; usual: string }[];
  runs: {
    name: string;
    duration: number;
    slices: [start: number, duration: number, text: string][];
    /** Per magnification. */
    ticks: [at: number, text: string][][];
  }[];
}

/** Runs between two durations. */
export interface HistogramBin {
  from: string;
  to: string;
  count: number;
}

/** What the page of `profile` finds. */
export interface ProfileData {
  title: string;
  categories: typeof CATEGORIES;
  figures: Fact[];
  operators: TableData;
  steps: TableData;
  timeline: TimelineData;
  histogram: HistogramBin[];
}

/** Work and what it takes: nanoseconds, a part (0 to 1) of a run, rates (null where nothing is counted). */
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
