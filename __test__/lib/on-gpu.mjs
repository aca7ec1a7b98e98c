// `node --import`ed before tests that run on the CPU and again on the GPU.
import { askForGpuByDefault } from './gpu-by-default.mjs';

askForGpuByDefault();
