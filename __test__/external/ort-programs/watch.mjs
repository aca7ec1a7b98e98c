// Preloaded before a program: says last which addons and libraries of engines it had loaded.

process.on('exit', () => {
  const { sharedObjects } = /** @type {any} */ (process.report.getReport());
  const libraries = sharedObjects.map((path) => path.split(/[\\/]/).at(-1)).filter((name) => /onnxruntime|webnn/.test(name));
  console.log(JSON.stringify({ libraries }));
});
