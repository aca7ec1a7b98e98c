// In Node, `webnn-node/auto` makes what a browser with WebNN has: navigator.ml and MLGraphBuilder.
import 'webnn-node/auto';
import { main } from './main.mjs';

await main(console.log, console.error);
