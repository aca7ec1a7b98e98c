// What the outcome of a test means, given the table of tests that WebNN cannot express.

/**
 * Checks the table against the index: every name exists and stands there once, and what a reason claims of its
 * tests (`dataType`, `operator`, `opset`, `emptyTensors`) is true of each.
 *
 * @param {Record<string, any>[]} table
 * @param {Record<string, any>[]} index
 * @returns {string[]} what is wrong
 */
export function tableProblems(table, index) {
  const byName = new Map(index.map((test) => [test.name, test]));
  const seen = new Set();
  const problems = [];
  for (const { reason, tests, dataType, operator, opset, emptyTensors } of table) {
    for (const name of tests) {
      const test = byName.get(name);
      const complain = (what) => problems.push(`${name}: ${what} ("${reason}")`);
      if (seen.has(name)) complain('is in the table twice');
      seen.add(name);
      if (test === undefined) {
        complain('there is no such test');
        continue;
      }
      if (dataType !== undefined && !test.dataTypes.includes(dataType)) complain(`has no ${dataType}`);
      if (operator !== undefined && !(operator in test.operators)) complain(`has no ${operator}`);
      if (opset !== undefined && test.opset[''] !== opset) complain(`is not of opset ${opset}`);
      if (emptyTensors && test.emptyTensors.length === 0) complain('has no empty tensor');
    }
  }
  return problems;
}

/**
 * Judges a test's outcome. A test of the table must be refused: neither computed rightly, which makes its entry
 * wrong, nor wrongly; where its results are random numbers, some of them have to differ, unless they have no seed. Every
 * other test must agree.
 *
 * @param {{ outcome: string, message?: string }} result see `runCase`
 * @param {{ corrected: string | null }} test its row of the index
 * @param {{ reason: string, random?: boolean, unseeded?: boolean }} [entry] of the table
 * @returns {{ status: 'passed' | 'passed as corrected' | 'failed' | 'not expressible', message?: string }}
 *   `passed as corrected` where the package's own expected values are wrong and have been computed anew
 */
export function judge({ outcome, message }, { corrected }, entry) {
  if (entry === undefined) {
    if (outcome !== 'agrees') return { status: 'failed', message: `${outcome}: ${message}` };
    return corrected === null ? { status: 'passed' } : { status: 'passed as corrected', message: corrected };
  }
  const { reason, random = false, unseeded = false } = entry;
  const isRandom = (outcome === 'differs' && / elements differ/.test(message ?? '')) || (unseeded && outcome === 'agrees');
  const expected = random ? isRandom : outcome === 'refused';
  if (expected) return { status: 'not expressible', message: reason };
  const verdict = outcome === 'agrees' ? 'it passes' : `its outcome is "${outcome}" (${message})`;
  return { status: 'failed', message: `${verdict}, but the table of inexpressible tests says "${reason}"` };
}
