// Writes what the packages consist of, as CycloneDX documents: one for each platform's binary, with its crates, by
// cargo-cyclonedx; and one for what the JavaScript packages install, by npm. The release on GitHub has them.
//
//   node scripts/sbom.mjs      to dist/sbom/

import { mkdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { cargoTool } from './cargo-tools.mjs';
import { PLATFORMS, rustTarget } from './platforms.mjs';
import { entry, npmOutput, root, run } from './process.mjs';

/** The version of CycloneDX, which both tools write. */
const SPECIFICATION = '1.5';

const folder = join(root, 'dist', 'sbom');

/** @param {string} platform */
async function writeBinary(platform) {
  const { env } = await cargoTool('cyclonedx');
  const name = `webnn-node-${platform}.cdx`;
  const options = ['--format', 'json', '--spec-version', SPECIFICATION, '--no-build-deps', '--target', rustTarget(platform)];
  await run(`list of crates for ${platform}`, 'cargo', ['cyclonedx', ...options, '--override-filename', name], { env });
  // cargo-cyclonedx writes beside Cargo.toml, and names this crate by where it lies.
  const written = join(root, `${name}.json`);
  const text = readFileSync(written, 'utf8').replaceAll(pathToFileURL(root).href, 'file:///webnn-node');
  writeFileSync(written, text);
  renameSync(written, join(folder, `${name}.json`));
}

/** What a user installs, with the packages of this repository; binaries are listed by their own documents. */
function writePackages() {
  const text = npmOutput('list of packages', [
    'sbom',
    '--sbom-format',
    'cyclonedx',
    '--omit',
    'dev',
    '--omit',
    'optional',
    '--omit',
    'peer',
    '--package-lock-only',
  ]);
  const list = JSON.parse(text);
  // npm calls a workspace by its folder, which may have any name.
  for (const component of [list.metadata.component, ...list.components]) {
    component.name = decodeURIComponent(component.purl.replace(/^pkg:npm\//, '').replace(/@[^@]*$/, ''));
  }
  writeFileSync(join(folder, 'webnn-node.cdx.json'), `${JSON.stringify(list, null, 2)}\n`);
}

await entry(async () => {
  rmSync(folder, { recursive: true, force: true });
  mkdirSync(folder, { recursive: true });
  for (const platform of PLATFORMS) await writeBinary(platform);
  writePackages();
});
