export { serve } from './lib/serve.js';
