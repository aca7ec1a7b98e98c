/** What is wrong with test runs in several runtimes. */

/**
 * What is wrong with the tests that a runtime has run.
 *
 * @param {{name: string, outcome: string, message: string}[]} tests
 * @param {{test: string}[]} lacking tests that must fail
 * @returns {string[]} a text for each fault; none when everything is as it should be
 */
export function findFaults(tests, lacking) {
  const mustFail = new Set(lacking.map(({ test }) => test));
  const names = new Set(tests.map(({ name }) => name));
  const faults = tests.flatMap(({ name, outcome, message }) => {
    if (mustFail.has(name)) {
      return outcome === 'failed' ? [] : [`${name}: ${outcome}, although the table says that the runtime lacks what it needs`];
    }
    return outcome === 'passed' ? [] : [`${name}: ${outcome}\n${message}`.trim()];
  });
  const missing = [...mustFail].filter((name) => !names.has(name));
  return [...faults, ...missing.map((name) => `${name}: in the table of what the runtime lacks, but there is no such test`)];
}

/** Tests whose names begin so exist only where the runtime has Float16Array. */
export const FLOAT16_ARRAY = /^Float16Array\b/;

/**
 * Compares which tests the runtimes have run: all the same, but for those of Float16Array.
 *
 * @param {{runtime: string, float16Array: boolean, names: string[]}[]} runs of one suite
 * @param {boolean} hasFloat16Tests whether the suite has tests of Float16Array
 * @returns {string[]} a text for each fault
 */
export function compareRuns(runs, hasFloat16Tests) {
  const everywhere = new Set(runs.flatMap(({ names }) => names).filter((name) => !FLOAT16_ARRAY.test(name)));
  return runs.flatMap(({ runtime, float16Array, names }) => {
    const missing = [...everywhere].filter((name) => !names.includes(name));
    const faults = missing.map((name) => `${runtime}: "${name}" ran elsewhere and not here`);
    const ranFloat16 = names.some((name) => FLOAT16_ARRAY.test(name));
    if (ranFloat16 !== (float16Array && hasFloat16Tests)) {
      faults.push(`${runtime}: the tests of Float16Array ${ranFloat16 ? 'ran' : 'did not run'}`);
    }
    return faults;
  });
}
