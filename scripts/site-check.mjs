// `npm run test:site`: builds the site of the documentation, and looks at it in Chromium. Options go to scripts/site.mjs.

import { entry, run } from './process.mjs';
import { buildSite } from './site.mjs';

await entry(async () => {
  await buildSite(process.argv.slice(2));
  await run('tests of the site', process.execPath, ['--test', '__test__/site/site.test.mjs']);
});
