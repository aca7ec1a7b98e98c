// The page has no Node: it asks the main process by the bridge of preload.cjs, and that asks the utility process.
const input = /** @type {HTMLInputElement} */ (document.getElementById('x'));
const output = /** @type {HTMLOutputElement} */ (document.getElementById('y'));

async function show() {
  try {
    const numbers = new Float32Array(input.value.trim().split(/\s+/).map(Number));
    output.value = [...(await window.webnn.affine(numbers))].join(' ');
  } catch (error) {
    output.value = error.message;
  }
}
input.addEventListener('input', show);
show();
