'use strict';

/**
 * Finds and loads the native binary and connects its completions with promises.
 *
 * The functions of the binary are private and flat: they take handles, numbers and byte views, never a
 * caller's object.
 */

const fs = require('node:fs');
const path = require('node:path');

const { errorFromCode } = require('./errors.js');

const { Promise, setImmediate } = globalThis;
const packageDirectory = path.dirname(__dirname);

/** Architectures as they stand in the file name of musl's loader. */
const MUSL_ARCHITECTURES = { arm64: 'aarch64', x64: 'x86_64' };

/** @returns {'gnu' | 'musl'} the C library of this Linux system */
function linuxLibc() {
  // Deno says what it was built for. Reading files would need a permission that nothing else here needs.
  const target = globalThis.Deno?.build?.target;
  if (target !== undefined) {
    return target.includes('musl') ? 'musl' : 'gnu';
  }
  try {
    // A script that names its library; a glibc system can have musl installed beside it.
    const ldd = fs.readFileSync('/usr/bin/ldd', 'latin1');
    if (/musl|GNU C Library|GLIBC/.test(ldd)) {
      return ldd.includes('musl') ? 'musl' : 'gnu';
    }
  } catch {
    // Minimal images have no ldd: there, the loader of the only library tells.
  }
  return fs.existsSync(`/lib/ld-musl-${MUSL_ARCHITECTURES[process.arch] ?? process.arch}.so.1`) ? 'musl' : 'gnu';
}

/** @returns {string} platform, architecture and, on Linux, C library, as they stand in file and package names */
function platformName() {
  const { platform, arch } = process;
  return platform === 'linux' ? `${platform}-${arch}-${linuxLibc()}` : `${platform}-${arch}`;
}

/**
 * Loads the binary beside the package root if there is one, else the one in the platform's package.
 *
 * @returns {object} the native exports
 * @throws {Error} that names the platform, the package to install and every reason that the system gave
 */
function loadBinding() {
  const name = platformName();
  const packageName = `webnn-node-${name}`;
  const file = path.join(packageDirectory, `webnn-node.${name}.node`);
  const reasons = [];
  // Tried without a look at the file first: Deno allows to load what it does not allow to look at.
  for (const attempt of [file, packageName]) {
    try {
      return require(attempt);
    } catch (error) {
      // In an installed package, the binary is in the platform's package only.
      if (attempt === packageName || error.code !== 'MODULE_NOT_FOUND') {
        // The rest of "Cannot find module" is the stack of requires.
        reasons.push(`  ${attempt}: ${error.message.split('\n')[0]}`);
      }
    }
  }
  throw new Error(
    [
      `webnn-node has no usable native binary for ${name}. Install it with: npm install ${packageName}`,
      '(Package managers leave it out when optional dependencies are omitted, or when the lockfile was',
      'written on another platform.) Tried:',
      ...reasons,
    ].join('\n'),
  );
}

/** @returns {Error} the API's error for one that a native function threw */
function translate(error) {
  return errorFromCode(error.code, error.message);
}

/** A native function whose errors are those of the API. */
function translated(nativeFunction) {
  return (...args) => {
    try {
      return nativeFunction(...args);
    } catch (error) {
      throw translate(error);
    }
  };
}

/** Work that the native side has begun and will report on, once per environment (main thread or worker). */
class Completions {
  /** The native side of this environment. */
  environment;

  #next = 1;
  #pending = new Map();

  /** Completions that wait for a task of their own. */
  #waiting = 0;

  constructor(binding) {
    this.environment = binding.initialize((ids, codes, messages) => {
      ids.forEach((id, index) => {
        const complete = () => this.#complete(id, codes[index] ?? '', messages[index]);
        // A task for each: what waits for one promise runs before the next one is settled and its data are written.
        // This call is the task of the first, unless some of an earlier call still wait for theirs.
        if (index === 0 && this.#waiting === 0) {
          complete();
          return;
        }
        this.#waiting++;
        setImmediate(() => {
          this.#waiting--;
          complete();
        });
      });
    });
  }

  /** @returns {number} an id that no other pending work of this environment has */
  nextId() {
    const id = this.#next;
    // The native side has 32 bits; a server may ask more often than that.
    this.#next = (id + 1) >>> 0;
    return id;
  }

  /**
   * The outcome of work that a native call has begun. To be called after that call has returned: it
   * never completes within.
   *
   * @template T
   * @param {number} id
   * @param {(error: Error | undefined) => T} finish called on completion with the failure or undefined;
   *   what it returns or throws settles the promise
   * @returns {Promise<T>}
   */
  outcome(id, finish) {
    return new Promise((resolve, reject) => {
      this.#pending.set(id, { resolve, reject, finish });
    });
  }

  /**
   * Rejects at once; a later completion of the same id has no effect.
   *
   * @param {number} id
   * @param {Error} error
   */
  abandon(id, error) {
    const { reject } = this.#pending.get(id);
    this.#pending.delete(id);
    reject(error);
  }

  /** Settles the promise of a native completion; an empty code is a success. */
  #complete(id, code, message) {
    const entry = this.#pending.get(id);
    if (entry === undefined) {
      return; // abandoned before
    }
    this.#pending.delete(id);
    try {
      entry.resolve(entry.finish(code === '' ? undefined : errorFromCode(code, message)));
    } catch (error) {
      entry.reject(error);
    }
  }
}

/**
 * The native side has one completion handler per environment. Test runners and bundlers may evaluate
 * this module several times in one environment, and then all share what is kept on the exports of the
 * binary.
 */
const SHARED = Symbol.for('webnn-node.completions');

const binding = loadBinding();
const completions = (binding[SHARED] ??= new Completions(binding));

module.exports = {
  completions,
  createContext: translated(binding.createContext.bind(undefined, completions.environment)),
  destroyContext: translated(binding.destroyContext),
  supportLimits: translated(binding.supportLimits),
  createTensor: translated(binding.createTensor),
  createConstantTensor: translated(binding.createConstantTensor),
  readTensor: translated(binding.readTensor),
  takeRead: translated(binding.takeRead),
  writeTensor: translated(binding.writeTensor),
  destroyTensor: translated(binding.destroyTensor),
  createBuilder: translated(binding.createBuilder),
  input: translated(binding.input),
  constant: translated(binding.constant),
  constantScalar: translated(binding.constantScalar),
  constantTensor: translated(binding.constantTensor),
  operator: translated(binding.operator),
  build: translated(binding.build),
  weighGraph: translated(binding.weighGraph),
  dispatch: translated(binding.dispatch),
  destroyGraph: translated(binding.destroyGraph),
  /** Functions of the ONNX reader, as they are: it has errors of its own. */
  onnx: binding,
  translate,
  describeGraph: translated(binding.describeGraph),
  profile: translated(binding.profile),
  systemInfo: translated(binding.systemInfo),
};
