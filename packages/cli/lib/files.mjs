// Files that a user names.
import { access, readFile, stat, writeFile } from 'node:fs/promises';
import { Failure } from './errors.mjs';
import { printable } from './format.mjs';

/**
 * Runs `action` on a file and turns its error into a Failure that says what was attempted.
 * @template A
 * @param {string} what
 * @param {string} missing
 * @param {() => Promise<A>} action
 */
async function attempt(what, missing, action) {
  try {
    return await action();
  } catch (caught) {
    const cause = /** @type {NodeJS.ErrnoException} */ (caught);
    const reason = cause.code === 'ENOENT' ? missing : cause.message;
    throw new Failure(`${what}: ${reason}`, { cause });
  }
}

const NO_FILE = 'there is no such file';

/**
 * @param {string} path
 * @param {string} what its name in messages, as in "cannot read the labels x.txt"
 * @returns {Promise<string>} its text
 * @throws {Failure}
 */
export function readText(path, what) {
  return attempt(`cannot read the ${what} ${printable(path)}`, NO_FILE, () => readFile(path, 'utf8'));
}

/**
 * @param {string} path
 * @param {string} what
 * @throws {Failure} unless the path is an existing file
 */
export async function requireFile(path, what) {
  const subject = `cannot read the ${what} ${printable(path)}`;
  const found = await attempt(subject, NO_FILE, () => stat(path));
  if (!found.isFile()) throw new Failure(`${subject}: it is not a file`);
}

/**
 * @param {string} path
 * @param {string} subject
 * @throws {Failure} that begins with `subject`, unless the path can be read
 */
export async function requireReadable(path, subject) {
  await attempt(`${subject}: cannot read ${printable(path)}`, NO_FILE, () => access(path));
}

/**
 * @param {string} path
 * @param {string | Uint8Array} content
 * @throws {Failure} if the file cannot be written
 */
export async function write(path, content) {
  await attempt(`cannot write ${printable(path)}`, 'there is no such folder', () => writeFile(path, content));
}
