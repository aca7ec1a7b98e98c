// Prints the section of CHANGELOG.md about a version, for the release on GitHub: node scripts/release-notes.mjs 0.1.0

import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { entry, Failure, isProgram, root } from './process.mjs';

/**
 * The text below the heading of a version.
 *
 * @param {string} changelog
 * @param {string} version
 * @throws {Failure} if there is none
 */
export function releaseNotes(changelog, version) {
  const sections = changelog.split(/^## (?=\[)/m).slice(1);
  const section = sections.find((text) => text.startsWith(`[${version}]`));
  const notes = section?.slice(section.indexOf('\n')).trim();
  if (!notes) throw new Failure(`CHANGELOG.md says nothing about version ${version}`);
  return notes;
}

if (isProgram(import.meta.url)) {
  await entry(() => console.log(releaseNotes(readFileSync(join(root, 'CHANGELOG.md'), 'utf8'), process.argv[2])));
}
