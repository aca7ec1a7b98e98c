// The extension "donation".

import { ml, type MLDispatchOptions, type MLDonationContext, type MLGraph, type MLTensor } from 'webnn-node';

declare const graph: MLGraph;
declare const tensor: MLTensor;

const context = await ml.createContext({ extensions: ['dynamic-shapes', 'donation'] });
const options: MLDispatchOptions = { donate: { present: 'past' } };
// @ts-expect-error this needs the extension
context.dispatch(graph, { past: tensor }, { present: tensor }, options);

const own = context as MLDonationContext;
own.dispatch(graph, { past: tensor }, { present: tensor }, options);
own.dispatch(graph, { past: tensor }, { present: tensor });
// @ts-expect-error inputs are named
own.dispatch(graph, { past: tensor }, { present: tensor }, { donate: { present: tensor } });
