// What the page may ask for. Preload scripts of a sandboxed window are CommonJS.
const { contextBridge, ipcRenderer } = require('electron');

contextBridge.exposeInMainWorld('webnn', {
  affine: (/** @type {Float32Array} */ numbers) => ipcRenderer.invoke('affine', numbers),
});
