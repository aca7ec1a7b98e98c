// What programs that generate text themselves can take from the server.
export { dtypesOf, fileNames, modelFile } from './lib/models/files.js';
export { RepositoryError } from './lib/registry/repository.js';
export { readTextFolder } from './lib/text/folder.js';
export { chooseToken, GREEDY, samplingOf } from './lib/text/sampling.js';
export { TextStream } from './lib/text/text-stream.js';
