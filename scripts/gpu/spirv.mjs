// `.ci/run gpu-spirv`: validates the SPIR-V of all kernels as Vulkan takes it, with a current spirv-val.

import { spawn } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { availableParallelism } from 'node:os';
import { basename, join } from 'node:path';
import { entry, Failure, isProgram, outputOf } from '../process.mjs';
import { pythonEnvironment } from '../python.mjs';
import { kernelFiles } from './kernels.mjs';

/** The rules of a version of Vulkan, by the kind of files. */
const ENVIRONMENTS = /** @type {const} */ ({ 'spirv-1.3': 'vulkan1.1', 'spirv-1.6': 'vulkan1.3' });

/** Numbers of the specification of SPIR-V. */
const HEADER_WORDS = 5;
const OP = { typeArray: 28, typeRuntimeArray: 29, typeStruct: 30, typePointer: 32, decorate: 71, memberDecorate: 72 };
const DECORATION = { arrayStride: 6, offset: 35 };
const IN_BUFFERS = [2, 9, 12]; // Uniform, PushConstant, StorageBuffer

/** @typedef {{ rule: string, mend: (words: Uint32Array<ArrayBuffer>) => Uint32Array<ArrayBuffer> }} Fault */

/**
 * Known faults of naga's SPIR-V, which drivers do not mind. spirv-val stops at the first: each is mended, so that the
 * rest of the kernel is validated, too.
 *
 * @type {Fault[]}
 */
export const FAULTS = [
  // Arrays in variables of workgroups and functions have strides, as if they were in buffers.
  { rule: 'VUID-StandaloneSpirv-None-10684', mend: withoutLayoutsOfVariables },
];

/** @param {Uint32Array<ArrayBuffer>} words */
function* instructions(words) {
  for (let at = HEADER_WORDS; at < words.length; at += words[at] >>> 16) {
    yield words.subarray(at, at + (words[at] >>> 16));
  }
}

/**
 * Removes the strides and offsets of types that no buffer has.
 *
 * @param {Uint32Array<ArrayBuffer>} words
 */
export function withoutLayoutsOfVariables(words) {
  /** @type {Map<number, Uint32Array>} */
  const parts = new Map();
  const inBuffers = new Set();
  for (const instruction of instructions(words)) {
    const [first, result, second, third] = instruction;
    const op = first & 0xffff;
    if (op === OP.typeArray || op === OP.typeRuntimeArray) parts.set(result, instruction.subarray(2, 3));
    else if (op === OP.typeStruct) parts.set(result, instruction.subarray(2));
    else if (op === OP.typePointer && IN_BUFFERS.includes(second)) inBuffers.add(third);
  }
  // Iterating over a set also visits what the loop adds.
  for (const type of inBuffers) for (const part of parts.get(type) ?? []) inBuffers.add(part);
  const kept = [...words.subarray(0, HEADER_WORDS)];
  for (const instruction of instructions(words)) {
    const [first, type, second, third] = instruction;
    const isLayout =
      ((first & 0xffff) === OP.decorate && second === DECORATION.arrayStride) || ((first & 0xffff) === OP.memberDecorate && third === DECORATION.offset);
    if (!isLayout || inBuffers.has(type)) kept.push(...instruction);
  }
  return Uint32Array.from(kept);
}

/**
 * A kernel without these faults.
 *
 * @param {Uint32Array<ArrayBuffer>} words
 * @param {Fault[]} faults
 */
const mended = (words, faults) => faults.reduce((rest, { mend }) => mend(rest), words);

/** @returns {Promise<string>} the path of spirv-val */
async function validator() {
  const python = await pythonEnvironment('spirv');
  const packages = outputOf(python, ['-c', 'import sysconfig; print(sysconfig.get_path("purelib"))']);
  if (packages === undefined) throw new Failure(`${python} does not say where its packages are`);
  return join(packages, 'cmeel.prefix', 'bin', 'spirv-val');
}

/**
 * Validates a kernel.
 *
 * @param {string} program
 * @param {string} environment
 * @param {Uint32Array<ArrayBuffer>} words
 * @returns {Promise<string>} what is wrong; empty if nothing is
 */
async function problemOf(program, environment, words) {
  const child = spawn(program, ['--target-env', environment], { stdio: ['pipe', 'pipe', 'pipe'] });
  let text = '';
  for (const stream of [child.stdout, child.stderr]) stream.on('data', (chunk) => (text += chunk));
  // It stops reading where it has found something.
  child.stdin.on('error', (error) => (text += /** @type {NodeJS.ErrnoException} */ (error).code === 'EPIPE' ? '' : error.message));
  child.stdin.end(Buffer.from(words.buffer, words.byteOffset, words.byteLength));
  const status = await new Promise((resolve, reject) => child.on('error', reject).on('close', (code, signal) => resolve(code ?? signal)));
  return status === 0 ? '' : text.trim() || `spirv-val ended with ${status}`;
}

/**
 * Whether a kernel shows that naga still has a fault: only with it mended is it valid.
 *
 * @param {string} program
 * @param {string} environment
 * @param {Uint32Array<ArrayBuffer>} words
 * @param {Fault} fault
 */
async function hasFault(program, environment, words, fault) {
  const others = FAULTS.filter((other) => other !== fault);
  return (await problemOf(program, environment, mended(words, others))).includes(fault.rule);
}

async function main() {
  const program = await validator();
  const kernels = Object.entries(ENVIRONMENTS).flatMap(([kind, environment]) =>
    kernelFiles(/** @type {keyof typeof ENVIRONMENTS} */ (kind)).map((file) => ({ file, environment })),
  );
  /** @type {string[]} */
  const problems = [];
  const unseen = new Set(FAULTS);
  const queue = kernels.values();
  const work = async () => {
    for (const { file, environment } of queue) {
      const bytes = readFileSync(file);
      const words = new Uint32Array(bytes.buffer.slice(bytes.byteOffset, bytes.byteOffset + bytes.byteLength));
      const problem = await problemOf(program, environment, mended(words, FAULTS));
      if (problem !== '') problems.push(`${basename(file)}: ${problem}`);
      for (const fault of unseen) if (await hasFault(program, environment, words, fault)) unseen.delete(fault);
    }
  };
  await Promise.all(Array.from({ length: availableParallelism() }, work));
  for (const { rule } of unseen) problems.push(`no kernel violates ${rule} any more: remove it from scripts/gpu/spirv.mjs`);
  if (problems.length > 0) throw new Failure(`${problems.slice(0, 20).join('\n')}\n${problems.length} problems with ${kernels.length} kernels`);
  console.log(`${kernels.length} kernels are valid SPIR-V, but for ${FAULTS.map(({ rule }) => rule).join(', ')}`);
}

if (isProgram(import.meta.url)) {
  await entry(main);
}
