// One process that ends by process.exit() while another thread loads drivers or opens a device. See run.mjs.

import { GPU_WANTED, ml } from '../runtime/helpers.mjs';

void ml.createContext(GPU_WANTED);
setTimeout(() => process.exit(0), Number(process.argv[2]));
