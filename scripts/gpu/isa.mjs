// `.ci/run gpu-isa`: what AMD's compiler in Mesa makes of the kernels that stand for all, on three families of GPUs, none of
// which has to be there. Compares it with bench/gpu/isa.md; with --write, writes that file. A kernel that spills is a failure.

import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { basename, join } from 'node:path';
import { parseArgs } from 'node:util';
import { entry, Failure, isProgram, root } from '../process.mjs';
import { buildProbe, onlyDriver, probe } from './driver.mjs';
import { kernelFiles } from './kernels.mjs';

const TABLE = 'bench/gpu/isa.md';

/** GPUs by their names for RADV_FORCE_FAMILY: RDNA 3, which newer versions call otherwise, RDNA 2, Vega. */
const FAMILIES = [['gfx1100', 'navi31'], ['navi21'], ['vega10']];

/** The driver's names of the columns. */
const COLUMNS = ['VGPRs', 'LDS size', 'Subgroups per SIMD', 'Instructions', 'Code size', 'Inverse Throughput'];

/** Numbers that must be 0. */
const SPILLS = ['Spilled SGPRs', 'Spilled VGPRs', 'Scratch size'];

/**
 * @typedef {object} Measured what the driver says of a family
 * @property {string} family
 * @property {string} mesa the version of Mesa
 * @property {Map<string, Record<string, string>>} kernels numbers by kernel
 */

/**
 * Compiles kernels for a family.
 *
 * @param {string[]} names of the family
 * @param {string[]} files
 * @returns {Measured}
 */
function measure([name, ...others], files) {
  try {
    const env = { ...onlyDriver('radeon'), RADV_FORCE_FAMILY: name, MESA_SHADER_CACHE_DISABLE: 'true' };
    return read(name, probe(['statistics', ...files], env));
  } catch (error) {
    if (others.length === 0) throw error;
    console.log(`not under the name ${name}: ${/** @type {Error} */ (error).message}`);
    return measure(others, files);
  }
}

/**
 * Reads the output of the program.
 *
 * @param {string} family
 * @param {string} output
 * @returns {Measured}
 */
export function read(family, output) {
  const [[device, driver], ...rows] = output
    .trimEnd()
    .split('\n')
    .map((line) => line.split('\t'));
  const mesa = /Mesa (\S+)/.exec(driver)?.[1];
  if (mesa === undefined || !device.toLowerCase().includes(family)) throw new Failure(`expected RADV for ${family}, got ${device}, ${driver}`);
  /** @type {Measured['kernels']} */
  const kernels = new Map();
  for (const [file, name, value] of rows) {
    const kernel = basename(file, '.spv').replaceAll('_', ' ');
    kernels.set(kernel, { ...kernels.get(kernel), [name]: value });
  }
  return { family, mesa, kernels };
}

/**
 * The kernels that need more registers than there are.
 *
 * @param {Measured[]} all
 * @returns {string[]}
 */
export const spilling = (all) =>
  all.flatMap(({ family, kernels }) =>
    [...kernels].flatMap(([kernel, numbers]) =>
      SPILLS.filter((name) => numbers[name] !== '0').map((name) => `${kernel} on ${family}: ${name} ${numbers[name]}, expected 0`),
    ),
  );

/**
 * The text of the table.
 *
 * @param {Measured[]} all
 */
export function tableOf(all) {
  const lines = [
    '# Kernels on AMD GPUs',
    '',
    '<!-- Written by `.ci/run gpu-kernels && node scripts/gpu/isa.mjs --write`. -->',
    '',
    `What the compiler in Mesa ${all[0].mesa} makes of the kernels in src/gpu/proof/kernels.rs. No GPU ran them: these are counts and the compiler's`,
    'estimates, which know nothing of conflicts between memory banks, caches, or how often loops turn. They compare versions of one kernel. LDS is',
    'workgroup memory in bytes, code size is in bytes, and a smaller inverse throughput is better.',
  ];
  for (const { family, kernels } of all) {
    lines.push('', `## ${family}`, '', `| kernel | ${COLUMNS.join(' | ')} |`, `|---|${COLUMNS.map(() => '--:|').join('')}`);
    for (const [kernel, numbers] of kernels) lines.push(`| ${kernel} | ${COLUMNS.map((name) => numbers[name]).join(' | ')} |`);
  }
  return `${lines.join('\n')}\n`;
}

/**
 * How a table differs from the committed one: lines that are only in one of them.
 *
 * @param {string} before
 * @param {string} now
 * @returns {string[]}
 */
export function differences(before, now) {
  const sections = (/** @type {string} */ text) => text.split(/^## /m).map((section) => section.split('\n'));
  const [old, fresh] = [sections(before), sections(now)];
  return fresh.flatMap((lines, index) => {
    const others = old[index] ?? [];
    const changed = [
      ...others.filter((line) => !lines.includes(line)).map((line) => `- ${line}`),
      ...lines.filter((line) => !others.includes(line)).map((line) => `+ ${line}`),
    ];
    return changed.length > 0 ? [lines[0], ...changed] : [];
  });
}

async function main() {
  const { values } = parseArgs({ options: { write: { type: 'boolean', default: false } } });
  await buildProbe();
  const files = kernelFiles('samples');
  const all = FAMILIES.map((names) => measure(names, files));
  const spills = spilling(all);
  if (spills.length > 0) throw new Failure(spills.join('\n'));
  const text = tableOf(all);
  const path = join(root, TABLE);
  if (values.write) {
    writeFileSync(path, text);
    console.log(`${TABLE} is written, with Mesa ${all[0].mesa}`);
    return;
  }
  const before = existsSync(path) ? readFileSync(path, 'utf8') : '';
  const version = /Mesa (\S+)/.exec(before)?.[1];
  if (version !== all[0].mesa && before !== '') {
    console.log(`NOT COMPARED with ${TABLE}: that is of Mesa ${version}, this is Mesa ${all[0].mesa}. No kernel spills.`);
    return;
  }
  const changed = differences(before, text);
  if (changed.length > 0) throw new Failure(`${TABLE} is not what the kernels are now (node scripts/gpu/isa.mjs --write):\n${changed.join('\n')}`);
  console.log(`${files.length} kernels on ${all.map(({ family }) => family).join(', ')} are as in ${TABLE}, with Mesa ${version}`);
}

if (isProgram(import.meta.url)) {
  await entry(main);
}
