// Runs every code block of the documentation, and compares what it prints with what the page shows.

import assert from 'node:assert/strict';
import { availableParallelism } from 'node:os';
import test, { describe } from 'node:test';
import operatorTable from '../../lib/operators.js';
import { operatorExample, operatorPages } from '../../scripts/operator-pages.mjs';
import { blocksOf } from './page.mjs';
import { PAGES, read } from './pages.mjs';
import { checkSyntax, createProject, isShown, programsOf, runProgram } from './program.mjs';

const toPage = (name, markdown) => ({ name, programs: programsOf(blocksOf(markdown, name)) });

/** The pages of the repository, and the examples of operators, whose pages are written when the site is built. */
const pages = [
  ...PAGES.map((name) => toPage(name, read(name))),
  ...[...(await operatorPages()).pages.keys()].map((name) => toPage(`page of ${name}`, operatorExample(name))),
];

/** Runs a program, or checks what is not run, and compares the outputs. */
async function check(page, project, parts) {
  const unrun = parts.filter(({ notRun }) => notRun !== undefined);
  if (unrun.length > 0) {
    assert.deepEqual(unrun, parts, 'a program is run as a whole or not at all');
    for (const part of parts.filter(({ language }) => language === 'js')) await checkSyntax(project, part);
    return;
  }
  const outputs = await runProgram(project, parts);
  parts.forEach(({ line, output }, index) => {
    const printed = outputs[index];
    if (output === undefined) {
      assert.equal(printed, '', `${page}:${line} prints what the page does not show`);
    } else if (output.notRun === undefined && !isShown(output.text, printed)) {
      assert.equal(printed, output.text, `${page}:${line} prints something else than the page shows`);
    }
  });
}

describe('the code of the documentation', { concurrency: availableParallelism() }, () => {
  for (const { name, programs } of pages.filter((page) => page.programs.length > 0)) {
    test(name, async (t) => {
      const blocks = programs.flat().flatMap((block) => [block, ...(block.output === undefined ? [] : [block.output])]);
      for (const { line, notRun } of blocks) if (notRun !== undefined) t.diagnostic(`line ${line} is not run: ${notRun}`);
      const project = createProject(t);
      // In order: later blocks use the files that earlier ones write.
      for (const parts of programs) await t.test(`line ${parts[0].line}`, () => check(name, project, parts));
    });
  }
});

test('the pages of operators show their examples', async () => {
  const { pages } = await operatorPages();
  assert.deepEqual(
    [...pages.keys()],
    operatorTable.operators.map(({ name }) => name),
  );
  pages.forEach((text, name) => assert.ok(text.includes(operatorExample(name)), name));
});
