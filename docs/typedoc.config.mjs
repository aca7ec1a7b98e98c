// The reference: one page for each declaration of the entries, in generated/reference/. See scripts/site.mjs.

/** The entries of the package, by the names of their declarations. */
const ENTRIES = { index: 'webnn-node', onnx: 'webnn-node/onnx', inspect: 'webnn-node/inspect', auto: 'webnn-node/auto' };

/** @type {import('typedoc').TypeDocOptions & import('typedoc-plugin-markdown').PluginOptions} */
export default {
  plugin: ['typedoc-plugin-markdown'],
  entryPoints: Object.keys(ENTRIES).map((name) => `../${name}.d.ts`),
  sort: ['source-order'],
  tsconfig: 'tsconfig.json',
  out: 'generated/reference',
  navigationJson: 'generated/reference.json',
  name: 'Reference',
  readme: 'none',
  entryFileName: 'index',
  pageTitleTemplates: { module: ({ name }) => ENTRIES[name] },
  hidePageHeader: true,
  hideBreadcrumbs: true,
  disableSources: true,
  excludePrivate: true,
  useCodeBlocks: true,
  expandObjects: true,
  parametersFormat: 'table',
  interfacePropertiesFormat: 'table',
  typeAliasPropertiesFormat: 'table',
  indexFormat: 'table',
  sanitizeComments: true,
  treatWarningsAsErrors: true,
};
