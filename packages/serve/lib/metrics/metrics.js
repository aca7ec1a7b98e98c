// Numbers for Prometheus, under the names that Triton has, and vLLM for generated texts, so that their boards work.

import { collectDefaultMetrics, Counter, Gauge, Histogram, Registry } from 'prom-client';
import { answerMetrics } from './processes.js';

const LABELS = ['model', 'version'];

/** Milliseconds to the microseconds that the counters have. */
const microseconds = (/** @type {number} */ ms) => Math.round(ms * 1000);

/** vLLM's labels. There is one engine for each model. */
const TEXT_LABELS = ['model_name', 'version', 'engine'];
const ENGINE = '0';

/** Why requests fail, in Triton's words. @type {import('../batcher/executor.js').Reason[]} */
const REASONS = ['REJECTED', 'CANCELED', 'BACKEND', 'OTHER'];

/** Seconds, for histograms of times of texts. */
const SECONDS = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 25, 60, 120];

const ignore = () => undefined;

/** Counts nothing. @type {import('../batcher/executor.js').Observer} */
export const UNOBSERVED = {
  request: ignore,
  batch: ignore,
  failed: ignore,
  texts: { read: ignore, token: ignore, first: ignore, between: ignore, end: ignore },
};

export class Metrics {
  #registry = new Registry();
  #counters;
  #texts;

  constructor() {
    collectDefaultMetrics({ register: this.#registry });
    const counter = (/** @type {string} */ name, /** @type {string} */ help, labelNames = LABELS) =>
      new Counter({ name, help, labelNames, registers: [this.#registry] });
    this.#counters = {
      success: counter('nv_inference_request_success', 'Number of successful inference requests'),
      failure: counter('nv_inference_request_failure', 'Number of failed inference requests', [...LABELS, 'reason']),
      count: counter('nv_inference_count', 'Number of inferences performed, each row of a batch counts'),
      exec: counter('nv_inference_exec_count', 'Number of model executions performed'),
      request: counter('nv_inference_request_duration_us', 'Cumulative inference request duration in microseconds'),
      queue: counter('nv_inference_queue_duration_us', 'Cumulative inference queuing duration in microseconds'),
      compute: counter('nv_inference_compute_infer_duration_us', 'Cumulative compute inference duration in microseconds'),
      retries: counter('webnn_serve_batch_retries_total', 'Number of batches that failed, so that their requests were computed one by one'),
    };
    const text = (/** @type {string} */ name, /** @type {string} */ help, labelNames = TEXT_LABELS) => ({
      name: `vllm:${name}`,
      help,
      labelNames,
      registers: [this.#registry],
    });
    this.#texts = {
      read: new Counter(text('prompt_tokens_total', 'Number of prompt tokens read')),
      token: new Counter(text('generation_tokens_total', 'Number of tokens generated')),
      first: new Histogram({ ...text('time_to_first_token_seconds', 'Seconds from the request to the first token'), buckets: SECONDS }),
      between: new Histogram({ ...text('inter_token_latency_seconds', 'Seconds from one token of a text to the next'), buckets: SECONDS }),
      latency: new Histogram({ ...text('e2e_request_latency_seconds', 'Seconds from the request to the end of its text'), buckets: SECONDS }),
      ended: new Counter(text('request_success_total', 'Number of sequences that have ended', [...TEXT_LABELS, 'finished_reason'])),
    };
  }

  /** Its media type. */
  get contentType() {
    return this.#registry.contentType;
  }

  /**
   * Numbers that are looked up when somebody asks: those of a model that is unloaded are gone with it.
   * @param {string} name
   * @param {string} help
   * @param {() => { labels: Record<string, string>, value: number }[]} read
   * @param {{ labelNames?: string[], aggregator?: 'sum' | 'max' | 'average' }} [options] how the numbers of several processes become one
   */
  gauge(name, help, read, { labelNames = LABELS, aggregator = 'sum' } = {}) {
    new Gauge({
      name,
      help,
      labelNames,
      aggregator,
      registers: [this.#registry],
      collect() {
        this.reset();
        for (const { value, labels } of read()) this.set(labels, value);
      },
    });
  }

  /**
   * Counts something of the whole server.
   * @param {string} name
   * @param {string} help
   * @returns {() => void} counts one more
   */
  counter(name, help) {
    const counter = new Counter({ name, help, registers: [this.#registry] });
    return () => counter.inc();
  }

  /**
   * The numbers of models now.
   * @param {() => import('../registry/registry.js').Version[]} ready models that can be used
   */
  watch(ready) {
    const waiting = () => ready().map(({ name, version, model }) => ({ labels: { model: name, version }, value: model?.waiting ?? 0 }));
    this.gauge('nv_inference_pending_request_count', 'Number of requests that wait to be computed', waiting);
    this.gauge('webnn_serve_queue_length', 'Number of requests that wait for a model', waiting);
    /** @type {(read: (model: import('../models/generator.js').Generator) => number) => () => { labels: Record<string, string>, value: number }[]} */
    const generators = (read) => () =>
      ready().flatMap(({ name, version, model }) =>
        model?.kind === 'generation' ? [{ labels: { model_name: name, version, engine: ENGINE }, value: read(model) }] : [],
      );
    /** @type {(name: string, help: string, read: (model: import('../models/generator.js').Generator) => number, aggregator?: 'sum' | 'max' | 'average') => void} */
    const text = (name, help, read, aggregator) => this.gauge(name, help, generators(read), { labelNames: TEXT_LABELS, aggregator });
    text('vllm:num_requests_running', 'Number of texts that are read and generated', (model) => model.running);
    text('vllm:num_requests_waiting', 'Number of texts that wait', (model) => model.waiting);
    text('vllm:kv_cache_usage_perc', 'Tokens of all texts, as a part of those that there is room for: 1 is all', (model) => model.cacheUsage, 'average');
    text('webnn_generation_max_batch', 'Number of texts computed at once, 1 if they take turns', (model) => model.batching.together, 'max');
  }

  /**
   * What requests and responses hold now.
   * @param {{ bodies: import('../byte-budget.js').ByteBudget, unread: import('../byte-budget.js').ByteBudget }} budgets
   */
  watchBytes({ bodies, unread }) {
    const held = (/** @type {import('../byte-budget.js').ByteBudget} */ budget) => () => [{ labels: {}, value: budget.held }];
    this.gauge('webnn_serve_request_bytes', 'Bytes of requests that arrive, wait and are computed', held(bodies), { labelNames: [] });
    this.gauge('webnn_serve_unread_bytes', 'Bytes of responses that wait until they are read', held(unread), { labelNames: [] });
  }

  /**
   * Counts for a model.
   * @param {string} model
   * @param {string} version
   * @param {import('../batcher/executor.js').Observer['failed']} failed
   * @returns {import('../batcher/executor.js').Observer}
   */
  observer(model, version, failed) {
    const { failure, ...counters } = this.#counters;
    const of = (/** @type {Counter} */ counter) => counter.labels(model, version);
    const { success, count, exec, request, queue, compute, retries } = counters;
    const own = { success: of(success), count: of(count), exec: of(exec), request: of(request), queue: of(queue), compute: of(compute), retries: of(retries) };
    for (const value of Object.values(own)) value.inc(0);
    for (const reason of REASONS) failure.labels(model, version, reason).inc(0);
    return {
      request({ reason, rows, queueMs, computeMs, totalMs }) {
        if (reason === null) {
          own.success.inc();
          own.count.inc(rows);
        } else failure.labels(model, version, reason).inc();
        own.queue.inc(microseconds(queueMs));
        own.compute.inc(microseconds(computeMs));
        own.request.inc(microseconds(totalMs));
      },
      batch() {
        own.exec.inc();
      },
      failed(error, requests) {
        own.retries.inc();
        failed(error, requests);
      },
      texts: this.#textObserver(model, version),
    };
  }

  /**
   * Counts of generated texts. Models that generate none have no such numbers.
   * @param {string} model
   * @param {string} version
   * @returns {import('../batcher/sequences.js').TextObserver}
   */
  #textObserver(model, version) {
    const labels = { model_name: model, version, engine: ENGINE };
    const { read, token, first, between, latency, ended } = this.#texts;
    return {
      read: (tokens) => read.inc(labels, tokens),
      token: () => token.inc(labels),
      first: (ms) => first.observe(labels, ms / 1000),
      between: (ms) => between.observe(labels, ms / 1000),
      end(reason, ms) {
        latency.observe(labels, ms / 1000);
        ended.inc({ ...labels, finished_reason: reason });
      },
    };
  }

  /** Gives the numbers to the first process of a cluster. */
  share() {
    answerMetrics(this.#registry);
  }

  /** The text that Prometheus reads. */
  text() {
    return this.#registry.metrics();
  }
}
