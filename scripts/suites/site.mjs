// `npm run suite -- site`: builds the documentation site, and checks it in Chromium. Options are passed to
// scripts/site.mjs.

import { entry, run } from '../process.mjs';
import { buildSite } from '../site.mjs';

await entry(async () => {
  await buildSite(process.argv.slice(2));
  await run('tests of the site', process.execPath, ['--test', '__test__/site/site.test.mjs']);
});
