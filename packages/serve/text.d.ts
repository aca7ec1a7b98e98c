export { dtypesOf, fileNames, modelFile } from './lib/models/files.js';
export { RepositoryError } from './lib/registry/repository.js';
export { readTextFolder, type TextFolder } from './lib/text/folder.js';
export { chooseToken, GREEDY, type Sampling, type SamplingConfig, samplingOf } from './lib/text/sampling.js';
export { TextStream } from './lib/text/text-stream.js';
