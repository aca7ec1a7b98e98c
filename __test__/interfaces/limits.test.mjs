// opSupportLimits() beside the draft's tables of data types and ranks, which spec/limits.json holds.

import assert from 'node:assert/strict';
import test, { describe } from 'node:test';
import { readLimits, tablesOf } from '../../scripts/draft-limits.mjs';
import { webnn } from './helpers.mjs';

/** @typedef {import('../../scripts/draft-limits.mjs').Row} Row */

const ALL_TYPES = ['float32', 'float16', 'int32', 'uint32', 'int64', 'uint64', 'int8', 'uint8'];
const { tables } = readLimits();
const rows = tables.flatMap(({ operators, rows: table }) => operators.flatMap((operator) => table.map((row) => ({ operator, row, table }))));
const limits = await supportLimits();

/** Rows that the draft's own steps contradict; the limits follow the steps. */
const KNOWN = {
  // Element-wise logical operations: "If op is one of "isNaN", "isInfinite", then: If a's dataType is not one of « "float32", "float16" », then throw a TypeError."
  'isNaN.a': `allows ${ALL_TYPES}, not float32,float16`,
  'isInfinite.a': `allows ${ALL_TYPES}, not float32,float16`,
  // Its output has the dimensions of input but one, and those of indices: none for a scalar index into a vector.
  'gather.output': 'allows ranks 1 to N, not 0 to 8',
};

async function supportLimits() {
  const context = await webnn().ml.createContext({ accelerated: false });
  const { preferredInputLayout, maxTensorByteLength, input, constant, output, ...operators } = context.opSupportLimits();
  context.destroy();
  return operators;
}

/**
 * @param {Row} row
 * @param {Row[]} table that it stands in
 * @param {'allowed' | 'allowedRanks'} member
 * @returns {any} what it stands for
 */
function resolved(row, table, member) {
  const [, other] = /^same as (\w+)$/.exec(String(row[member])) ?? [];
  const named = table.find(({ operand }) => operand === other);
  return named === undefined ? row[member] : resolved(named, table, member);
}

/**
 * What the draft's row says and the limits of an operand do not.
 *
 * @param {Row} row
 * @param {Row[]} table that it stands in
 * @param {{ dataTypes: string[], rankRange: { min: number, max: number } }} supported
 */
function differences(row, table, { dataTypes, rankRange: { min, max } }) {
  const found = [];
  const missing = row.required.filter((type) => !dataTypes.includes(type));
  if (missing.length > 0) found.push(`requires ${missing}`);
  const types = resolved(row, table, 'allowed');
  const allowed = types === 'any' ? ALL_TYPES : types;
  if ([...allowed].sort().join() !== [...dataTypes].sort().join()) found.push(`allows ${allowed}, not ${dataTypes}`);
  const [least, most] = row.requiredRanks;
  if (least < min || most > max) found.push(`requires ranks ${least} to ${most}, not ${min} to ${max}`);
  const [lowest, highest] = resolved(row, table, 'allowedRanks');
  if (lowest !== min || (highest === 'N' ? max !== 8 : max !== highest)) found.push(`allows ranks ${lowest} to ${highest}, not ${min} to ${max}`);
  return found.join('; ');
}

describe('the limits', () => {
  test('are those of the draft, row by row', () => {
    assert.ok(rows.length >= 253, `${rows.length} rows`);
    const different = rows.map(({ operator, row, table }) => [`${operator}.${row.operand}`, differences(row, table, limits[operator][row.operand])]);
    assert.deepEqual(Object.fromEntries(different.filter(([, found]) => found !== '')), KNOWN);
  });

  test('have the operators and operands of the draft, and no others', () => {
    const ours = Object.entries(limits).flatMap(([operator, operands]) => Object.keys(operands).map((operand) => `${operator}.${operand}`));
    assert.deepEqual(ours.sort(), rows.map(({ operator, row }) => `${operator}.${row.operand}`).sort());
  });

  test('differ if they lack a type or a rank, or have one too many', () => {
    for (const { operator, row, table } of rows) {
      const own = limits[operator][row.operand];
      const { min, max } = own.rankRange;
      const expected = KNOWN[`${operator}.${row.operand}`] ?? '';
      assert.equal(differences(row, table, own), expected);
      for (const type of own.dataTypes) {
        const without = { ...own, dataTypes: own.dataTypes.filter((one) => one !== type) };
        assert.notEqual(differences(row, table, without), expected, `${operator}.${row.operand} without ${type}`);
      }
      assert.notEqual(differences(row, table, { ...own, dataTypes: [...own.dataTypes, 'int4'] }), expected);
      for (const rankRange of [
        { min: min + 1, max },
        { min, max: max - 1 },
        { min: min - 1, max },
        { min, max: max + 1 },
      ]) {
        assert.notEqual(differences(row, table, { ...own, rankRange }), expected, `${operator}.${row.operand} of ranks ${rankRange.min} to ${rankRange.max}`);
      }
    }
  });
});

describe('the reader of the draft', () => {
  const columns = ['operand', ...['allowed data types', 'required data types', 'allowed ranks', 'required ranks'].map((name) => `[=/${name}=]`)];
  const table = (cells, heads = columns) =>
    `<table id=tensor-limits-x class='data' link-for="MLGraphBuilder/sin(input, options), MLGraphBuilder/cos(input, options)"><thead><tr>${heads.map((head) => `<th>${head}</th>`).join('')}</tr></thead><tr>${cells.map((cell) => `<td>${cell}</td>`).join('')}</table>`;
  const float = '{{MLOperandDataType/"float32"}}';

  test('takes its references apart', () => {
    const cells = ['*outputs[1]* if {{MLGruOptions/returnSequence}} is true', '[=/same type as|same as=] {{input}}', float, '1 to [=/any rank|N=]', '2'];
    assert.deepEqual(tablesOf(table(cells)), [
      {
        operators: ['sin', 'cos'],
        rows: [{ operand: 'output1', allowed: 'same as input', required: ['float32'], allowedRanks: [1, 'N'], requiredRanks: [2, 2] }],
      },
    ]);
  });

  test('fails for what it does not know', () => {
    assert.throws(() => tablesOf(''), /there are no tables/);
    assert.throws(() => tablesOf(table([], columns.slice(1))), /a table of another form/);
    assert.throws(() => tablesOf(table(['{{input}}', float, float, '1'])), /a row of 4 cells/);
    assert.throws(() => tablesOf(table(['{{input}}', 'all', float, '1', '1'])), /"all" is no list of data types/);
    assert.throws(() => tablesOf(table(['{{input}}', float, float, 'few', '1'])), /"few" is no range of ranks/);
    assert.throws(() => tablesOf(table(['{{input}}', float, float, '1', '1 to N'])), /requires "float32" and the ranks "1 to N"/);
  });
});
