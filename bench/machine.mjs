// The machine's load and hardware, from Linux's /proc.

import { existsSync, readdirSync, readFileSync } from 'node:fs';
import os from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';

/** Milliseconds of a tick, the unit of CPU time in /proc. It is fixed for user programs: USER_HZ is 100. */
const TICK_MS = 10;

/** Interval for checking whether processes rest, in milliseconds: two ticks, as one could go unseen. */
const REST_MS = 2 * TICK_MS;

/** Maximum wait for processes to rest, in milliseconds. */
const MAX_REST_MS = 1000;

/**
 * Parses the CPU time of the whole machine.
 *
 * @param {string} text of /proc/stat
 * @returns {{ busy: number, steal: number }} milliseconds in which its processors were busy, and in which the
 *   hypervisor gave them to others
 */
export function parseMachineTime(text) {
  const [, fields] = /** @type {RegExpExecArray} */ (/^cpu +(.*)$/m.exec(text));
  const [user, nice, system, , , irq, softirq, steal] = fields.split(' ').map(Number);
  return { busy: (user + nice + system + irq + softirq) * TICK_MS, steal: steal * TICK_MS };
}

/**
 * Parses the CPU time of a process with all its threads, in milliseconds.
 *
 * @param {string} text of /proc/PID/stat
 */
export function parseProcessTime(text) {
  // The second field is the program's name, which may contain spaces and parentheses.
  const fields = text.slice(text.lastIndexOf(')') + 2).split(' ');
  const [utime, stime] = [fields[11], fields[12]];
  return (Number(utime) + Number(stime)) * TICK_MS;
}

/**
 * Returns the resident memory of a process, in bytes.
 *
 * @param {number} pid
 * @returns {{ resident: number, anonymous: number }} total, and the part not backed by files
 */
export function residentMemory(pid) {
  const text = readFileSync(`/proc/${pid}/status`, 'utf8');
  const row = (/** @type {string} */ name) => {
    const [, kilobytes] = /** @type {RegExpExecArray} */ (new RegExp(`^${name}:\\s+(\\d+) kB$`, 'm').exec(text));
    return Number(kilobytes) * 1024;
  };
  return { resident: row('VmRSS'), anonymous: row('RssAnon') };
}

const machineTime = () => parseMachineTime(readFileSync('/proc/stat', 'utf8'));
const processTime = (/** @type {number} */ pid) => parseProcessTime(readFileSync(`/proc/${pid}/stat`, 'utf8'));

/**
 * Returns the total CPU time of processes, in milliseconds; an ended one counts 0.
 *
 * @param {number[]} pids
 */
function timeOfAll(pids) {
  const spent = (/** @type {number} */ pid) => {
    try {
      return processTime(pid);
    } catch (error) {
      const { code } = /** @type {NodeJS.ErrnoException} */ (error);
      if (code === 'ENOENT' || code === 'ESRCH') return 0;
      throw error;
    }
  };
  return pids.reduce((sum, pid) => sum + spent(pid), 0);
}

/**
 * Waits until processes use no CPU time: worker threads of some libraries spin for a while after a run, and disturb the
 * next one.
 *
 * @param {number[]} pids
 */
export async function untilAtRest(pids) {
  const start = performance.now();
  for (let before = timeOfAll(pids); ; ) {
    await sleep(REST_MS);
    const now = timeOfAll(pids);
    if (now === before || performance.now() - start > MAX_REST_MS) {
      return;
    }
    before = now;
  }
}

/**
 * Measures the load of the rest of the machine while one process works.
 *
 * @template T
 * @param {number} pid of that process
 * @param {() => Promise<T>} work
 * @returns {Promise<{ result: T, foreign: number }>} `foreign`: average number of processors that others kept busy
 *   meanwhile, including other machines on the same hardware
 */
export async function watched(pid, work) {
  const now = () => ({ time: performance.now(), ...machineTime(), own: processTime(pid), self: process.cpuUsage() });
  const before = now();
  const result = await work();
  const after = now();
  const self = process.cpuUsage(before.self);
  const busy = after.busy - before.busy - (after.own - before.own) - (self.user + self.system) / 1000;
  const foreign = (busy + after.steal - before.steal) / (after.time - before.time);
  return { result, foreign: Math.max(0, foreign) };
}

/** The folder in which Linux describes the caches of the first processor. */
const CACHES = '/sys/devices/system/cpu/cpu0/cache';

const UNITS = /** @type {Record<string, number>} */ ({ '': 1, K: 2 ** 10, M: 2 ** 20, G: 2 ** 30 });

/**
 * Parses a size as Linux writes it, `32K` or `260M`, to bytes.
 *
 * @param {string} text
 */
export function parseCacheSize(text) {
  const [, number, unit] = /** @type {RegExpExecArray} */ (/^(\d+)([KMG]?)$/.exec(text.trim()));
  return Number(number) * UNITS[unit];
}

/** Returns the bytes of the largest cache; 0 if the system does not report it. */
function largestCache() {
  if (!existsSync(CACHES)) return 0;
  const sizes = readdirSync(CACHES)
    .map((cache) => join(CACHES, cache, 'size'))
    .filter((file) => existsSync(file))
    .map((file) => parseCacheSize(readFileSync(file, 'utf8')));
  return Math.max(0, ...sizes);
}

/** Describes the machine. */
export function describeMachine() {
  const [{ model }] = os.cpus();
  return {
    cpu: model,
    cacheBytes: largestCache(),
    processors: os.availableParallelism(),
    memoryBytes: os.totalmem(),
    system: `${os.type()} ${os.release()} ${os.arch()}`,
    node: process.version,
  };
}
