/**
 * Returns session options, the same for all engines with the interface of onnxruntime-node.
 *
 * @param {number} threads
 */
export const sessionOptions = (threads) => ({ intraOpNumThreads: threads, interOpNumThreads: 1 });
