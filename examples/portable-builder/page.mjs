import { main } from './main.mjs';

const output = /** @type {HTMLOutputElement} */ (document.getElementById('output'));
const print = (/** @type {string} */ line) => output.append(`${line}\n`);

if (navigator.ml === undefined) {
  print('This browser has no WebNN: navigator.ml is missing. In Chromium, chrome://flags/#web-machine-learning-neural-network enables it.');
} else {
  main(print, print).catch((error) => print(`${error.name}: ${error.message}`));
}
