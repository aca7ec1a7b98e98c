/** Reads the JUnit reports that the test runners of all runtimes can write. */

import { parseXml } from '@rgrove/parse-xml';

/** @typedef {import('@rgrove/parse-xml').XmlElement} XmlElement */
/** @typedef {{name: string, outcome: 'passed' | 'failed' | 'skipped', message: string}} Test */

/**
 * The elements with this name, at any depth.
 *
 * @param {{children: import('@rgrove/parse-xml').XmlNode[]}} parent
 * @param {string} name
 * @returns {XmlElement[]}
 */
function descendants(parent, name) {
  return parent.children.filter((child) => child.type === 'element').flatMap((child) => (child.name === name ? [child] : descendants(child, name)));
}

/**
 * @param {XmlElement} element
 * @returns {Test}
 */
function readCase(element) {
  const [failure, skipped] = ['failure', 'skipped'].map((name) => descendants(element, name)[0]);
  return {
    // Node 20 escapes quotation marks twice.
    name: element.attributes.name.replaceAll('&quot;', '"'),
    // A test marked as "todo" counts as skipped, also when it fails.
    outcome: skipped !== undefined ? 'skipped' : failure !== undefined ? 'failed' : 'passed',
    message: failure === undefined ? '' : `${failure.attributes.message ?? ''}\n${failure.text}`.trim(),
  };
}

/** What Deno writes between the names of a suite, which it lists like a test, and of a test in it. */
const INSIDE = ' > ';

/**
 * Tests as other runtimes than Deno list them: without suites, which only stay where they failed themselves.
 *
 * @param {Test[]} tests
 */
function withoutSuites(tests) {
  const suites = tests.filter(({ name }) => tests.some((test) => test.name.startsWith(name + INSIDE)));
  const suiteOf = (/** @type {string} */ name) => suites.find((suite) => name.startsWith(suite.name + INSIDE));
  return tests
    .filter((test) => !suites.includes(test) || test.outcome === 'failed')
    .map((test) => ({ ...test, name: test.name.slice(suiteOf(test.name)?.name.concat(INSIDE).length ?? 0) }));
}

/**
 * @param {string} xml a report
 * @returns {Test[]} its tests
 */
export function readReport(xml) {
  return withoutSuites(descendants(parseXml(xml), 'testcase').map(readCase));
}
