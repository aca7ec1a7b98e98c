// Numbers for Prometheus, under the names that Triton has, and vLLM for generated texts, so that their boards work.

import { collectDefaultMetrics, Counter, Gauge, Histogram, Registry } from 'prom-client';
import { answerMetrics } from './processes.js';

const LABELS = ['model', 'version'];

/** Milliseconds to the microseconds that the counters have. */
const microseconds = (/** @type {number} */ ms) => Math.round(ms * 1000);

/** vLLM's labels. */
const TEXT_LABELS = ['model_name', 'version'];

/** Seconds, for histograms of times to a token. */
const SECONDS = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 25, 60, 120];

const ignore = () => undefined;

/** Counts nothing. @type {import('../batcher/executor.js').Observer} */
export const UNOBSERVED = {
  request: ignore,
  batch: ignore,
  failed: ignore,
  texts: { read: ignore, token: ignore, first: ignore, between: ignore, count: ignore, together: ignore },
};

export class Metrics {
  #registry = new Registry();
  #counters;
  #texts;

  constructor() {
    collectDefaultMetrics({ register: this.#registry });
    const counter = (/** @type {string} */ name, /** @type {string} */ help) => new Counter({ name, help, labelNames: LABELS, registers: [this.#registry] });
    this.#counters = {
      success: counter('nv_inference_request_success', 'Number of successful inference requests'),
      failure: counter('nv_inference_request_failure', 'Number of failed inference requests'),
      count: counter('nv_inference_count', 'Number of inferences performed, each row of a batch counts'),
      exec: counter('nv_inference_exec_count', 'Number of model executions performed'),
      request: counter('nv_inference_request_duration_us', 'Cumulative inference request duration in microseconds'),
      queue: counter('nv_inference_queue_duration_us', 'Cumulative inference queuing duration in microseconds'),
      compute: counter('nv_inference_compute_infer_duration_us', 'Cumulative compute inference duration in microseconds'),
    };
    const text = (/** @type {string} */ name, /** @type {string} */ help) => ({
      name: `vllm:${name}`,
      help,
      labelNames: TEXT_LABELS,
      registers: [this.#registry],
    });
    this.#texts = {
      read: new Counter(text('prompt_tokens_total', 'Number of prompt tokens read')),
      token: new Counter(text('generation_tokens_total', 'Number of tokens generated')),
      first: new Histogram({ ...text('time_to_first_token_seconds', 'Seconds from the request to the first token'), buckets: SECONDS }),
      between: new Histogram({ ...text('inter_token_latency_seconds', 'Seconds from one token of a text to the next'), buckets: SECONDS }),
      running: new Gauge(text('num_requests_running', 'Number of texts that are read and generated')),
      waiting: new Gauge(text('num_requests_waiting', 'Number of texts that wait')),
      together: new Gauge({ ...text('', 'Number of texts computed at once, 1 if they take turns'), name: 'webnn_generation_max_batch', aggregator: 'max' }),
    };
  }

  /** Its media type. */
  get contentType() {
    return this.#registry.contentType;
  }

  /**
   * A number that is looked up when somebody asks.
   * @param {string} name
   * @param {string} help
   * @param {() => { model: string, version: string, value: number }[]} read
   */
  gauge(name, help, read) {
    new Gauge({
      name,
      help,
      labelNames: LABELS,
      registers: [this.#registry],
      collect() {
        this.reset();
        for (const { value, ...labels } of read()) this.set(labels, value);
      },
    });
  }

  /**
   * Counts for a model.
   * @param {string} model
   * @param {string} version
   * @param {import('../batcher/executor.js').Observer['failed']} failed
   * @returns {import('../batcher/executor.js').Observer}
   */
  observer(model, version, failed) {
    const of = (/** @type {Counter} */ counter) => counter.labels(model, version);
    const { success, failure, count, exec, request, queue, compute } = this.#counters;
    const own = { success: of(success), failure: of(failure), count: of(count), exec: of(exec), request: of(request), queue: of(queue), compute: of(compute) };
    for (const value of Object.values(own)) value.inc(0);
    return {
      request({ ok, rows, queueMs, computeMs, totalMs }) {
        (ok ? own.success : own.failure).inc();
        if (ok) own.count.inc(rows);
        own.queue.inc(microseconds(queueMs));
        own.compute.inc(microseconds(computeMs));
        own.request.inc(microseconds(totalMs));
      },
      batch() {
        own.exec.inc();
      },
      failed,
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
    const labels = { model_name: model, version };
    const { read, token, first, between, running, waiting, together } = this.#texts;
    return {
      read: (tokens) => read.inc(labels, tokens),
      token: () => token.inc(labels),
      first: (ms) => first.observe(labels, ms / 1000),
      between: (ms) => between.observe(labels, ms / 1000),
      count(now) {
        running.set(labels, now.running);
        waiting.set(labels, now.waiting);
      },
      together: (most) => together.set(labels, most),
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
