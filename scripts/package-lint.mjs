// What other people's tools say about a packed package: publint about its manifest and files, and "Are the types
// wrong?" about its declarations, as every kind of module resolution of TypeScript finds them.

import { readFileSync } from 'node:fs';
import { checkPackage, createPackageFromTarballData } from '@arethetypeswrong/core';
import { problemKindInfo } from '@arethetypeswrong/core/problems';
import { publint } from 'publint';
import { formatMessage } from 'publint/utils';
import { Failure } from './process.mjs';

/** `node10` is the resolution of TypeScript 4 and earlier, which reads no `exports`. */
const NOT_CHECKED = ['node10'];

/**
 * Not a fault of a package that consists of ECMAScript modules: Node can `require()` those since 20.19.
 *
 * @type {string[]}
 */
const ACCEPTED = ['CJSResolvesToESM'];

/**
 * @param {Buffer} tarball
 * @returns {Promise<string[]>}
 */
async function typeProblems(tarball) {
  const result = await checkPackage(createPackageFromTarballData(tarball));
  if (!result.types) return [];
  return result.problems
    .filter((problem) => !('resolutionKind' in problem && NOT_CHECKED.includes(problem.resolutionKind)) && !ACCEPTED.includes(problem.kind))
    .map((problem) => `${problemKindInfo[problem.kind].title}: ${JSON.stringify(problem)}`);
}

/**
 * Checks a tarball.
 *
 * @param {string} file
 * @throws {Failure} with everything that the tools say, suggestions included
 */
export async function lintPackage(file) {
  const tarball = readFileSync(file);
  const { buffer, byteOffset, byteLength } = tarball;
  const { messages, pkg } = await publint({ pack: { tarball: /** @type {ArrayBuffer} */ (buffer.slice(byteOffset, byteOffset + byteLength)) } });
  const found = [...messages.map((message) => formatMessage(message, pkg) ?? message.code), ...(await typeProblems(tarball))];
  if (found.length > 0) {
    throw new Failure(`${file}:\n${found.map((line) => `  ${line}`).join('\n')}`);
  }
}
