// grpc.health.v1: what Kubernetes, load balancers and clients of gRPC ask whether the server is ready.

import { ServeError } from '../errors.js';
import { Health } from './gen/grpc/health/v1/health_pb.js';
import { GRPCInferenceService } from './gen/inference_pb.js';
import { methodsOf } from './methods.js';

/** Values of HealthCheckResponse.ServingStatus. */
const SERVING = 1;
const NOT_SERVING = 2;
const SERVICE_UNKNOWN = 3;

/** What callers ask for; nothing is the server as a whole. */
const SERVICES = ['', GRPCInferenceService.typeName];

/** How often it is looked at whether the server is ready. */
const INTERVAL_MS = 100;

/**
 * @param {import('../serve.js').Context} context
 * @returns {{ methods: [path: string, method: import('./methods.js').Method][], close: () => void }}
 */
export function createHealth({ registry }) {
  const current = () => (registry.isReady ? SERVING : NOT_SERVING);
  /** Those who watch. @type {Set<() => void>} */
  const watchers = new Set();
  let before = '';
  // The registry tells nobody; one timer looks for all.
  const timer = setInterval(() => {
    const now = `${current()} ${registry.isDraining}`;
    if (now === before) return;
    before = now;
    for (const wake of watchers) wake();
  }, INTERVAL_MS).unref();

  /** Waits for a change. @param {import('../departure.js').Signal} signal */
  function changed(signal) {
    return new Promise((resolve) => {
      const wake = () => {
        watchers.delete(wake);
        signal.removeEventListener('abort', wake);
        resolve(undefined);
      };
      watchers.add(wake);
      signal.addEventListener('abort', wake);
    });
  }

  /** @type {Record<string, import('./methods.js').Handler>} */
  const handlers = {
    Check({ service }) {
      if (!SERVICES.includes(service)) throw new ServeError('notFound', `there is no service ${JSON.stringify(service.slice(0, 100))}`);
      return { status: current() };
    },
    List: () => ({ statuses: Object.fromEntries(SERVICES.map((service) => [service, { status: current() }])) }),
    async *Watch({ service }, { signal }) {
      const statusOf = () => (SERVICES.includes(service) ? current() : SERVICE_UNKNOWN);
      let sent = -1;
      while (!signal.aborted) {
        const status = statusOf();
        if (status !== sent) {
          sent = status;
          yield { status };
        } else {
          if (registry.isDraining) throw new ServeError('unavailable', 'the server is shutting down');
          await changed(signal);
        }
      }
    },
  };
  return { methods: methodsOf(Health, handlers, { open: Object.keys(handlers) }), close: () => clearInterval(timer) };
}
