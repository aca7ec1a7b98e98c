// What the results of the tests mean, given the table of those that cannot pass.

/**
 * An entry of the table: why, which files, and which subtests of them fail with what message. `subtests: null` is the
 * file as a whole, which ends with an error; its subtests that have not run then are part of that.
 *
 * @typedef {{ clause: string, patch?: string, files: RegExp, subtests: RegExp | null, message: RegExp, without?: string, timing?: string }} Entry
 *   `patch` is what would have to change in the tests; `without` is the global whose absence makes them fail, for what a runtime lacks; `timing` is why the outcome depends on
 *   time, and they may pass as well
 */

/** Entries that hold in this runtime. @param {Entry[]} table */
const applicable = (table) => table.filter(({ without }) => without === undefined || !(without in globalThis));

/**
 * The entry that speaks about a subtest of a file, or about the file itself where the name is null.
 *
 * @param {Entry[]} table
 * @param {string} path
 * @param {string | null} name
 */
function entryFor(table, path, name) {
  return applicable(table).find(({ files, subtests }) => files.test(path) && (name === null ? subtests === null : (subtests?.test(name) ?? false)));
}

/**
 * What a status means. `normal` is the one of success, `listed` the only one that an entry explains.
 *
 * @param {Verdict['failures'][number]} outcome
 * @param {Entry | undefined} entry
 * @param {string} normal
 * @param {string} listed
 * @returns {{ kind: 'passed', entry?: Entry } | { kind: 'listed', entry: Entry } | { kind: 'failed', failure: Verdict['failures'][number] }}
 */
function verdictOn({ name, status, message }, entry, normal, listed) {
  if (entry === undefined) {
    return status === normal ? { kind: 'passed' } : { kind: 'failed', failure: { name, status, message } };
  }
  if (status === listed && entry.message.test(message ?? '')) return { kind: 'listed', entry };
  if (status === normal && entry.timing !== undefined) return { kind: 'passed', entry };
  const problem = status === normal ? 'no failure, but listed' : `${message}; this is not the listed failure`;
  return { kind: 'failed', failure: { name, status, message: `${problem}: ${entry.clause}` } };
}

/**
 * @typedef {object} Verdict
 * @property {number} passed
 * @property {Entry[]} listed
 * @property {Entry[]} inTime
 * @property {{ name: string | null, status: string, message: string | null }[]} failures
 */

/**
 * Judges the result of a test, subtest by subtest.
 *
 * @param {{ test: { path: string }, status: string, message: string | null,
 *   subtests: { name: string, status: string, message: string | null }[] }} result see `execute`
 * @param {Entry[]} table
 * @returns {Verdict} `passed` counts subtests; `listed`
 *   has an entry for each subtest, and perhaps the file, that fails as the table says, `inTime` one for each that passes
 *   as its entry allows; a failure without name is one of the file as a whole
 */
export function judge({ test, status, message, subtests }, table) {
  const isEmpty = status === 'OK' && subtests.length === 0;
  const file = isEmpty ? { status: 'ERROR', message: 'the file has no test' } : { status, message };
  const fileEntry = entryFor(table, test.path, null);
  const onFile = verdictOn({ name: null, ...file }, fileEntry, 'OK', 'ERROR');
  const verdicts = subtests.map((subtest) =>
    subtest.status === 'NOTRUN' && onFile.kind === 'listed' ? onFile : verdictOn(subtest, entryFor(table, test.path, subtest.name), 'PASS', 'FAIL'),
  );
  const all = [onFile, ...verdicts];
  return {
    passed: verdicts.filter(({ kind }) => kind === 'passed').length,
    listed: all.filter((one) => one.kind === 'listed').map(({ entry }) => entry),
    inTime: all.flatMap((one) => (one.kind === 'passed' && one.entry !== undefined ? [one.entry] : [])),
    failures: all.filter((one) => one.kind === 'failed').map(({ failure }) => failure),
  };
}

/**
 * Entries of the table that nothing in a complete run stands for.
 *
 * @param {Entry[]} table
 * @param {{ listed: Entry[], inTime: Entry[] }[]} verdicts see `judge`
 * @returns {Entry[]}
 */
export function unusedEntries(table, verdicts) {
  const used = new Set(verdicts.flatMap(({ listed, inTime }) => [...listed, ...inTime]));
  return applicable(table).filter((entry) => !used.has(entry));
}
