export { type Authenticate, type IncomingCall } from './lib/access.js';
export { worker, type WorkerOptions } from './lib/queue/worker.js';
export { type RequestLimits, type ServeOptions, type Server, serve } from './lib/serve.js';
