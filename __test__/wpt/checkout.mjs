// A checkout of the Web Platform Tests on the disk.

import { execFileSync } from 'node:child_process';
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { join, relative, resolve, sep } from 'node:path';
import { fileURLToPath } from 'node:url';
import { testsOf } from './meta.mjs';

/** The interfaces of the draft that is implemented, which idlharness is asked to check. */
export const IDL = fileURLToPath(new URL('../../spec/webnn.idl', import.meta.url));

/** What a checkout must have: the tests, what they load, and the IDL files that those of WebNN refer to. */
const REQUIRED = ['webnn', 'resources/testharness.js', 'interfaces'];

/**
 * What is missing for a folder to be a checkout that can be run.
 *
 * @param {string} directory
 * @returns {string[]} paths in it
 */
export function missingParts(directory) {
  return REQUIRED.filter((part) => !existsSync(join(directory, part)));
}

/** Addresses that a test server of WPT answers with another file. */
const REWRITES = { '/resources/WebIDLParser.js': '/resources/webidl2/lib/webidl2.js' };

/**
 * The file that answers a request.
 *
 * @param {string} directory of the checkout
 * @param {string} pathname of the address, percent-encoded
 * @returns {string | undefined} its path; undefined for what lies outside of the checkout
 */
export function servedFile(directory, pathname) {
  if (pathname === '/interfaces/webnn.idl') return IDL;
  const file = resolve(directory, `.${decodeURIComponent(REWRITES[pathname] ?? pathname)}`);
  return file.startsWith(resolve(directory) + sep) ? file : undefined;
}

/**
 * All tests of `webnn/`, in the order of their addresses.
 *
 * @param {string} directory of the checkout
 * @returns {import('./meta.mjs').Test[]}
 */
export function findTests(directory) {
  return readdirSync(join(directory, 'webnn'), { recursive: true, withFileTypes: true })
    .filter((file) => file.isFile() && file.name.endsWith('.js'))
    .map((file) => join(file.parentPath, file.name))
    .flatMap((file) => testsOf(relative(directory, file).split(sep).join('/'), readFileSync(file, 'utf8')))
    .sort((a, b) => (a.url < b.url ? -1 : 1));
}

/** @returns {string | undefined} the commit of a checkout; undefined where git knows none, as in an unpacked archive */
export function revisionOf(directory) {
  if (!existsSync(join(directory, '.git'))) return undefined;
  return execFileSync('git', ['-C', directory, 'rev-parse', 'HEAD'], { encoding: 'utf8' }).trim();
}
