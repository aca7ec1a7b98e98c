// Numbers for Prometheus, under the names that Triton has, so that its boards work.

import { AggregatorRegistry, collectDefaultMetrics, Counter, Gauge, Registry } from 'prom-client';

const LABELS = ['model', 'version'];

/** Milliseconds to the microseconds that the counters have. */
const microseconds = (/** @type {number} */ ms) => Math.round(ms * 1000);

export class Metrics {
  #registry = new Registry();
  #counters;

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
   * @returns {import('../batcher/executor.js').Observer}
   */
  observer(model, version) {
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
    };
  }

  /** Gives the numbers to the first process of a cluster. */
  share() {
    AggregatorRegistry.setRegistries(this.#registry);
  }

  /** The text that Prometheus reads. */
  text() {
    return this.#registry.metrics();
  }
}
