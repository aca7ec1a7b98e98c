export { worker } from './lib/queue/worker.js';
export { serve } from './lib/serve.js';
