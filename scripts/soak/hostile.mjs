// `npm run soak -- hostile`: a server with a small heap among callers that mean it ill. They send messages of all sizes and kinds over
// HTTP and gRPC, without the key and then without any key, while others ask for health and for valid work. Afterwards the server must
// live, hold nothing, and have answered health in time.
//
//   npm run soak -- hostile --messages 100000 --seed 7
//   npm run soak -- hostile --kinds 'gRPC: packed: int64_contents' --messages 50 --size 8388608
//   npm run soak -- hostile --key without --program ../other/packages/serve/bin/webnn-node-serve.js
//   npm run soak -- hostile --from 812 --messages 1    one message again, by its number

import { fork, spawn } from 'node:child_process';
import { once } from 'node:events';
import { cpSync, mkdirSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import http2 from 'node:http2';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { writeFolder } from '../../__test__/examples/model-folder.mjs';
import { generator } from '../../__test__/lib/random.mjs';
import { DIGITS } from '../../packages/serve/__test__/support.mjs';
import { GRPC } from './hostile/grpc.mjs';
import { HTTP } from './hostile/http.mjs';
import { entry, Failure, root, say, withUsage } from '../process.mjs';
import { freePort } from '../services.mjs';

const PROGRAM = join(root, 'packages/serve/bin/webnn-node-serve.js');
const PROBE = fileURLToPath(new URL('hostile/probe.mjs', import.meta.url));

/** V8's heap, in MB. Bodies and tensors lie outside of it, within the server's own limits. */
const HEAP = 512;

/** Callers at the same time, connections that they hold open, and connections for gRPC that they share. */
const [CALLERS, HELD, SESSIONS] = [64, 300, 4];

/** Sizes of messages: how many, out of 10,000, are at most this large. */
const SIZES = /** @type {const} */ ([
  [9000, 2 ** 12],
  [9800, 2 ** 17],
  [9980, 2 ** 22],
  [10_000, 2 ** 26],
]);

/**
 * Memory that a server may have more after than before: what its limits let requests, responses and kept bodies take, and a part of the heap.
 * The allocator gives little of it back. Bytes that the server still holds are seen in its metrics.
 */
const MARGIN = (256 + 256 + 64 + 128) * 2 ** 20;

/** Messages to name where the server ends. */
const LARGE = 2 ** 17;

/** Outcomes that the server is to blame for, whatever came. */
const FAULTS = /^(500|grpc 2$|grpc 13 \(its own)/;

/** Ordinary requests before the memory is compared. */
const ORDINARY = 2000;

/** How long it may take to come to rest: longer than a request may take to arrive. */
const REST_MS = 90_000;

const KINDS = { ...named('HTTP', HTTP), ...named('gRPC', GRPC) };

/** @param {string} protocol @param {Record<string, import('./hostile/http.mjs').Kind>} kinds */
function named(protocol, kinds) {
  return Object.fromEntries(Object.entries(kinds).map(([name, kind]) => [`${protocol}: ${name}`, kind]));
}

const megabytes = (/** @type {number} */ bytes) => `${Math.round(bytes / 2 ** 20)} MB`;

const count = (/** @type {Record<string, number>} */ counts, /** @type {string} */ what) => {
  counts[what] = (counts[what] ?? 0) + 1;
};

/** A size, most often a small one. @param {import('./hostile/http.mjs').Random} random */
function sizeOf({ below, next }) {
  const at = below(10_000);
  const index = SIZES.findIndex(([most]) => at < most);
  const [smallest, largest] = [index === 0 ? 1 : SIZES[index - 1][1], SIZES[index][1]];
  return Math.floor(smallest * (largest / smallest) ** next());
}

/** The server as a process. */
class Target {
  /** @param {string} repository @param {string | null} key @param {string} program */
  static async start(repository, key, program) {
    const ports = { http: await freePort(), grpc: await freePort(), metrics: await freePort() };
    const args = ['--host', '0.0.0.0', '--http', ports.http, '--grpc', ports.grpc, '--metrics', ports.metrics, '--log-level', 'fatal'].map(String);
    const env = { ...process.env, NODE_OPTIONS: `--max-old-space-size=${HEAP}`, ...(key === null ? {} : { WEBNN_SERVE_API_KEY: key }) };
    const child = spawn(process.execPath, [program, repository, ...args], { env, stdio: ['ignore', 'ignore', 'pipe'] });
    const target = new Target(child, ports, key);
    for (;;) {
      const response = await fetch(`http://127.0.0.1:${ports.http}/v2/health/ready`).catch(() => null);
      if (response?.ok) return target;
      if (!target.lives) throw new Failure(`the server did not start:\n${target.log}`);
      await sleep(20);
    }
  }

  /** The end of what it wrote to its standard error. */
  log = '';

  /**
   * @param {import('node:child_process').ChildProcess} child
   * @param {{ http: number, grpc: number, metrics: number }} ports
   * @param {string | null} key
   */
  constructor(child, ports, key) {
    this.child = child;
    this.ports = ports;
    this.key = key;
    child.stderr?.setEncoding('utf8').on('data', (text) => {
      this.log = (this.log + text).slice(-2000);
    });
  }

  get lives() {
    return this.child.exitCode === null && this.child.signalCode === null;
  }

  /** Resident bytes: now, and at most so far; the last known ones where the process has ended. */
  get memory() {
    if (!this.lives) return this.#memory;
    const status = readFileSync(`/proc/${this.child.pid}/status`, 'utf8');
    // A process that is just ending has no memory.
    const bytes = (/** @type {string} */ row, /** @type {number} */ known) => {
      const [, kilobytes] = new RegExp(`^${row}:\\s+(\\d+) kB$`, 'm').exec(status) ?? [];
      return kilobytes === undefined ? known : Number(kilobytes) * 1024;
    };
    this.#memory = { now: bytes('VmRSS', this.#memory.now), peak: bytes('VmHWM', this.#memory.peak) };
    return this.#memory;
  }

  #memory = { now: 0, peak: 0 };

  /** The sums of metrics by name. @returns {Promise<Map<string, number>>} */
  async metrics() {
    const response = await fetch(`http://127.0.0.1:${this.ports.metrics}/metrics`);
    const sums = new Map();
    for (const [, name, value] of (await response.text()).matchAll(/^([\w:]+)(?:{.*})? (\S+)$/gm)) sums.set(name, (sums.get(name) ?? 0) + Number(value));
    return sums;
  }

  /** Lets it do ordinary work, during which V8 collects what is left. */
  async work() {
    const headers = this.key === null ? {} : { authorization: `Bearer ${this.key}` };
    const body = JSON.stringify({ model: 'embeddings', input: 'Which plant needs the least water?', encoding_format: 'float' });
    for (let i = 0; i < ORDINARY && this.lives; i++) {
      const response = await fetch(`http://127.0.0.1:${this.ports.http}/v1/embeddings`, { method: 'POST', headers, body });
      if (!response.ok) throw new Failure(`after the attack, an ordinary request got ${response.status} ${await response.text()}`);
      await response.arrayBuffer();
    }
  }

  /** Watches the heap while the server lives. @returns {() => number} the most bytes so far */
  watchHeap() {
    let most = 0;
    const timer = setInterval(async () => {
      const metrics = await this.metrics().catch(() => null);
      void this.memory;
      most = Math.max(most, metrics?.get('nodejs_heap_size_used_bytes') ?? 0);
    }, 1000);
    this.child.once('exit', () => clearInterval(timer));
    return () => most;
  }

  async stop() {
    if (!this.lives) return;
    const ended = once(this.child, 'exit');
    this.child.kill('SIGKILL');
    await ended;
  }
}

/** What the attackers hold. */
class Attack {
  /** @type {Set<{ destroy: () => void }>} */
  #held = new Set();
  /** @type {(http2.ClientHttp2Session | undefined)[]} */
  #sessions = [];
  #ports;
  /** Outcomes by kind. @type {Record<string, Record<string, number>>} */
  outcomes = {};
  /** The last large messages. @type {string[]} */
  large = [];

  /** @param {{ http: number, grpc: number }} ports */
  constructor(ports) {
    this.#ports = ports;
  }

  /** @type {import('./hostile/http.mjs').Place['hold']} */
  #hold = (connection) => {
    this.#held.add(connection);
    connection.once('close', () => this.#held.delete(connection));
    if (this.#held.size <= HELD) return;
    const [oldest] = this.#held;
    this.#held.delete(oldest);
    oldest.destroy();
  };

  /** @param {import('./hostile/http.mjs').Random} random */
  #session({ below }) {
    const at = below(SESSIONS);
    const known = this.#sessions[at];
    if (known !== undefined && !known.destroyed && !known.closed) return known;
    // Node refuses streams of a connection on which more than 10 MB wait.
    const session = http2.connect(`http://127.0.0.1:${this.#ports.grpc}`, { maxSessionMemory: 1000 });
    session.on('error', () => undefined);
    this.#sessions[at] = session;
    return session;
  }

  /**
   * Sends the message with a number: the same one in every run.
   * @param {number} number
   * @param {Options} options
   */
  async send(number, { seed, kinds, size: given }) {
    const random = generator((seed * 1_000_003 + number) >>> 0);
    random.next();
    const kind = random.pick(kinds);
    const size = given ?? sizeOf(random);
    if (size >= LARGE) this.large = [...this.large, `${number}: ${kind}, ${size} bytes`].slice(-CALLERS);
    const outcome = await KINDS[kind]({ random, size, ports: this.#ports, hold: this.#hold, session: () => this.#session(random) });
    this.outcomes[kind] ??= {};
    count(this.outcomes[kind], outcome);
  }

  end() {
    for (const connection of [...this.#held, ...this.#sessions]) connection?.destroy();
  }
}

/** Whether a metric says that something runs, waits or is held. */
const isBusy = (/** @type {[string, number]} */ [name, value]) =>
  /^(webnn_serve_(queue_length|\w+_bytes)|vllm:num_requests_(running|waiting))$/.test(name) && value > 0;

/**
 * Waits until nothing runs or waits, and the budgets are empty.
 * @param {Target} target
 * @returns {Promise<string[]>} what it still has, or that it ended
 */
async function restFaults(target) {
  const deadline = performance.now() + REST_MS;
  while (target.lives) {
    const metrics = await target.metrics().catch(() => null);
    const busy = metrics === null ? [] : [...metrics].filter(isBusy);
    if (metrics !== null && busy.length === 0) return [];
    if (performance.now() > deadline)
      return [`after ${REST_MS / 1000} s it still has ${metrics === null ? 'no answer' : busy.map((pair) => pair.join(' ')).join(', ')}`];
    await sleep(500);
  }
  return [];
}

/**
 * Lets a process ask for health and for valid work, until the attack is over.
 * @param {Target} target
 * @param {() => Promise<void>} attack
 * @returns {Promise<import('./hostile/probe.mjs').Report>}
 */
async function probed(target, attack) {
  const probe = fork(PROBE, { execArgv: [] });
  try {
    const report = once(probe, 'message');
    probe.send({ ports: target.ports, key: target.key });
    await attack();
    probe.send('stop');
    return (await report)[0];
  } finally {
    probe.kill();
  }
}

/** @param {import('./hostile/probe.mjs').Report} report @param {number} healthMs */
function probeFaults({ slowest, failed, ownDelay }, healthMs) {
  const slow = Object.entries(slowest).filter(([what, ms]) => what.startsWith('health') && ms > healthMs);
  return [
    ...slow.map(([what, ms]) => `${what} took ${Math.round(ms)} ms, more than ${healthMs} (delay of the caller itself: ${Math.round(ownDelay)} ms)`),
    ...Object.entries(failed).map(([why, times]) => `failed ${times} times: ${why}`),
  ];
}

/** @param {Attack['outcomes']} outcomes */
function outcomeFaults(outcomes) {
  return Object.entries(outcomes).flatMap(([kind, counts]) => {
    const own = Object.keys(counts).filter((outcome) => FAULTS.test(outcome));
    return own.map((outcome) => `${kind}: ${outcome}, ${counts[outcome]} times`);
  });
}

/**
 * @typedef {object} Options
 * @property {number} from
 * @property {number} messages
 * @property {number} seed
 * @property {number} healthMs
 * @property {string[]} kinds
 * @property {string} program
 * @property {number} [size] of each message; by default all sizes, most of them small
 */

/**
 * Attacks one server.
 * @param {string} repository
 * @param {string | null} key that the attackers do not have
 * @param {Options} options
 * @returns {Promise<string[]>} what was wrong
 */
async function soak(repository, key, options) {
  const { from, messages, healthMs, program } = options;
  const target = await Target.start(repository, key, program);
  const attack = new Attack(target.ports);
  try {
    await sleep(1000);
    const before = target.memory.now;
    const [start, heap] = [performance.now(), target.watchHeap()];
    let sent = 0;
    const attacker = async () => {
      while (sent < messages && target.lives) {
        const number = from + sent;
        sent += 1;
        if (sent % Math.ceil(messages / 10) === 0)
          say(`${sent} messages, ${Math.round((performance.now() - start) / 1000)} s, ${megabytes(target.memory.now)}`);
        await attack.send(number, options);
      }
    };
    const report = await probed(target, async () => void (await Promise.all(Array.from({ length: CALLERS }, attacker))));
    attack.end();
    say(`slowest, in ms: ${JSON.stringify(report.slowest, (_, value) => (typeof value === 'number' ? Math.round(value) : value))}`);
    say(`asked: ${JSON.stringify(report.count)}, refused with a time to try again: ${report.refused}`);
    const rest = await restFaults(target);
    if (target.lives) await target.work();
    const { now, peak } = target.memory;
    say(`memory: ${megabytes(before)} before, ${megabytes(peak)} at most, ${megabytes(now)} after; heap at most ${megabytes(heap())}`);
    const left = await target.metrics().catch(() => new Map());
    const of = (/** @type {string} */ name) => megabytes(left.get(name) ?? 0);
    say(`left: heap ${of('nodejs_heap_size_used_bytes')} of ${of('nodejs_heap_size_total_bytes')}, outside of it ${of('nodejs_external_memory_bytes')}`);
    for (const [kind, outcomes] of Object.entries(attack.outcomes).sort()) say(`${kind}: ${JSON.stringify(outcomes)}`);
    if (!target.lives) {
      const { exitCode, signalCode } = target.child;
      return [`the server ended with ${exitCode ?? signalCode} after ${sent} messages; the last large ones:\n  ${attack.large.join('\n  ')}\n${target.log}`];
    }
    const kept = now > before + MARGIN ? [`the server keeps ${megabytes(now - before)} more than before`] : [];
    return [...probeFaults(report, healthMs), ...outcomeFaults(attack.outcomes), ...rest, ...kept];
  } finally {
    attack.end();
    await target.stop();
  }
}

const USAGE = `usage: npm run soak -- hostile [--messages N] [--from N] [--seed N] [--health-ms N] [--kinds LIST] [--key with|without]
                                 [--program FILE] [--size N]`;

await entry(async () => {
  const options = /** @type {const} */ ({
    messages: { type: 'string', default: '100000' },
    from: { type: 'string', default: '0' },
    seed: { type: 'string', default: '1' },
    'health-ms': { type: 'string', default: '1000' },
    kinds: { type: 'string', default: Object.keys(KINDS).join() },
    key: { type: 'string', default: 'with,without' },
    program: { type: 'string', default: PROGRAM },
    size: { type: 'string' },
  });
  const { values } = withUsage(USAGE, () => parseArgs({ options }));
  const [messages, from, seed, healthMs] = [values.messages, values.from, values.seed, values['health-ms']].map(Number);
  const size = values.size === undefined ? undefined : Number(values.size);
  const wanted = Object.keys(KINDS).filter((name) => values.kinds.split(',').some((part) => name.startsWith(part)));
  if (![messages, from, seed, healthMs, size ?? 0].every(Number.isInteger) || wanted.length === 0)
    throw new Failure(`--messages, --from, --seed, --size and --health-ms must be whole numbers, --kinds some of:\n${Object.keys(KINDS).join('\n')}`, 2);
  const repository = mkdtempSync(join(tmpdir(), 'webnn-soak-hostile-'));
  const faults = [];
  try {
    mkdirSync(join(repository, 'digits'));
    cpSync(DIGITS, join(repository, 'digits', 'model.onnx'));
    cpSync(join(root, 'packages/serve/models/embeddings'), join(repository, 'embeddings'), { recursive: true });
    await writeFolder(join(repository, 'letters'));
    for (const way of values.key.split(',')) {
      say(`${messages} hostile messages to a server ${way} a key`);
      faults.push(
        ...(await soak(repository, way === 'with' ? 'secret' : null, { from, messages, seed, healthMs, kinds: wanted, program: values.program, size })).map(
          (fault) => `${way} a key: ${fault}`,
        ),
      );
    }
  } finally {
    rmSync(repository, { recursive: true });
  }
  if (faults.length > 0) throw new Failure(faults.join('\n'));
});
