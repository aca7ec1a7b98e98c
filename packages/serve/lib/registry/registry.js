// The models that are served: loads and unloads them, and knows their states.

import { ServeError } from '../errors.js';
import { Places, Turns } from '../batcher/turns.js';
import { loadVersion } from '../models/load.js';
import { readConfig } from './config.js';
import { listModels, nothingIn } from './repository.js';

/** @typedef {import('../models/load.js').Model} Model */

/**
 * A version of a model. `model` is there while the state is `ready`.
 * @typedef {object} Version
 * @property {string} name
 * @property {string} version
 * @property {'loading' | 'ready' | 'unloading' | 'unavailable'} state
 * @property {string} reason why it is unavailable, for whoever runs the server
 * @property {boolean} isBroken whether it could not be loaded: then the reason is not for callers
 * @property {Model | null} model
 * @property {import('./config.js').ModelConfig | null} config
 */

/** What callers hear of a version: reasons of the loader have paths. @param {Version} version */
const publicReason = ({ reason, isBroken }) => (isBroken ? "the model could not be loaded; see the server's log" : reason);

/** How many models a message names. */
const MOST_NAMES = 10;

const quoted = (/** @type {string} */ name) => JSON.stringify(name.length > 100 ? `${name.slice(0, 100)}...` : name);

export class Registry {
  #repository;
  #name;
  #defaults;
  #metrics;
  #log;
  #places = new Places();
  /** Newest version first. @type {Map<string, Version[]>} */
  #models = new Map();
  /** What the folder had when the server began. @type {import('./repository.js').Entry[]} */
  #found = [];
  #isOpen = false;
  #isLeaving = false;
  #isDraining = false;
  /** Loads and unloads happen one after the other. */
  #last = Promise.resolve();

  /**
   * @param {string} repository folder of models
   * @param {object} options
   * @param {string} [options.name] of the model that the folder itself is
   * @param {Partial<import('./config.js').ModelConfig>} options.defaults
   * @param {import('../metrics/metrics.js').Metrics} options.metrics
   * @param {import('pino').BaseLogger} options.log
   */
  constructor(repository, { name, defaults, metrics, log }) {
    this.#repository = repository;
    this.#name = name;
    this.#defaults = defaults;
    this.#metrics = metrics;
    this.#log = log;
  }

  /** Whether all models were loaded, and the server goes on. The load of the server does not matter. */
  get isReady() {
    return this.#isOpen && !this.#isLeaving;
  }

  /** Whether the server ends. */
  get isDraining() {
    return this.#isDraining;
  }

  /**
   * Finds the models of the folder: until they are loaded, callers hear that they will be.
   * @throws {import('./repository.js').RepositoryError} if there is no such folder
   */
  list() {
    const { entries, skipped } = listModels(this.#repository, this.#name);
    for (const { path, reason } of skipped) this.#log.warn({ path, reason }, 'skipped: no model');
    if (entries.length === 0) this.#log.warn(nothingIn(this.#repository));
    for (const { name, versions } of entries) {
      this.#models.set(name, [{ name, version: versions[0].version, state: 'loading', reason: '', isBroken: false, model: null, config: null }]);
    }
    this.#found = entries;
  }

  /** Loads all models that were found. One that cannot be loaded is logged, and stays unavailable. */
  async open() {
    for (const entry of this.#found) {
      // The reason is logged.
      await this.#inTurn(() => this.#load(entry)).catch(() => undefined);
    }
    this.#isOpen = true;
  }

  /**
   * All versions, those that are unavailable as well.
   * @returns {Version[]}
   */
  get versions() {
    return [...this.#models.values()].flat();
  }

  /**
   * The versions as both protocols list them.
   * @param {boolean} onlyReady
   */
  index(onlyReady) {
    const listed = this.versions.filter(({ state }) => !onlyReady || state === 'ready');
    return listed.map((entry) => ({ name: entry.name, version: entry.version, state: entry.state.toUpperCase(), reason: publicReason(entry) }));
  }

  /** The models that can be used: of each name the newest version. */
  get ready() {
    return [...this.#models.values()].flatMap((versions) => versions.find(({ state }) => state === 'ready') ?? []);
  }

  /** @param {string} name that no model has */
  #unknown(name) {
    const names = [...this.#models.keys()];
    const shown = names.slice(0, MOST_NAMES).map(quoted).join(', ');
    const more = names.length > MOST_NAMES ? ` and ${names.length - MOST_NAMES} more` : '';
    const known = names.length === 0 ? 'no models' : `${shown}${more}`;
    return new ServeError('notFound', `there is no model ${quoted(name)}, the server has ${known}`, { param: 'model', code: 'model_not_found' });
  }

  /**
   * @param {string} name
   * @param {string} [version] the newest that is ready if none is given
   * @returns {Version} in whatever state
   * @throws {ServeError} `notFound`
   */
  #find(name, version) {
    const versions = this.#models.get(name);
    if (versions === undefined) throw this.#unknown(name);
    const found =
      version === undefined || version === ''
        ? (versions.find(({ state }) => state === 'ready') ?? versions[0])
        : versions.find((entry) => entry.version === version);
    if (found === undefined) throw new ServeError('notFound', `model ${quoted(name)} has no version ${quoted(String(version))}`);
    return found;
  }

  /**
   * A model that can be used.
   * @param {string} name
   * @param {string} [version] the newest if none is given
   * @returns {Version & { model: Model, config: import('./config.js').ModelConfig }}
   * @throws {ServeError}
   */
  get(name, version) {
    const found = this.#find(name, version);
    if (found.model !== null && found.state === 'ready') return /** @type {any} */ (found);
    throw new ServeError('unavailable', `model ${quoted(name)} is not ready: ${publicReason(found) || found.state}`, { retryAfterMs: 1000 });
  }

  /**
   * Whether a model can be used now.
   * @param {string} name
   * @param {string} [version]
   * @throws {ServeError} `notFound`
   */
  isModelReady(name, version) {
    return this.#find(name, version).state === 'ready' && !this.#isDraining;
  }

  /**
   * Loads a model of the folder, or loads it again from changed files. What is loaded already serves until the new one is ready.
   * @param {string} name
   * @throws {ServeError}
   */
  load(name) {
    return this.#inTurn(async () => {
      const entry = listModels(this.#repository, this.#name).entries.find((candidate) => candidate.name === name);
      if (entry === undefined) throw new ServeError('notFound', `there is no model ${quoted(name)} in the repository`);
      await this.#load(entry);
    });
  }

  /**
   * Takes a model out of service, when what waits for it has been computed.
   * @param {string} name
   * @throws {ServeError}
   */
  unload(name) {
    return this.#inTurn(async () => {
      const versions = this.#models.get(name);
      if (versions === undefined) throw this.#unknown(name);
      await Promise.all(versions.map((version) => this.#retire(version, 'unloaded')));
    });
  }

  /**
   * @param {() => Promise<void>} task
   * @returns {Promise<void>}
   */
  #inTurn(task) {
    const done = this.#last.then(task);
    this.#last = done.catch(() => undefined);
    return done;
  }

  /** @param {import('./repository.js').Entry} entry */
  async #load(entry) {
    const { name } = entry;
    const before = this.#models.get(name) ?? [];
    /** @type {Version[]} */
    const versions = [];
    try {
      const config = await readConfig(entry.config, this.#defaults);
      const wanted = entry.versions.slice(0, config.versions === 'all' ? undefined : config.versions);
      for (const { version } of wanted) versions.push({ name, version, state: 'loading', reason: '', isBroken: false, model: null, config });
      if (before.every(({ state }) => state !== 'ready')) this.#models.set(name, versions);
      for (const [i, { version, path }] of wanted.entries()) {
        const start = performance.now();
        const observer = this.#metrics.observer(name, version, (err, requests) => {
          this.#log.warn({ model: name, version, err, requests }, 'a batch failed: its requests are computed one by one');
        });
        const model = await loadVersion(path, { config, turns: new Turns(this.#places), observer });
        Object.assign(versions[i], { state: 'ready', model });
        for (const warning of model.warnings) this.#log.warn({ model: name, version }, warning);
        this.#log.info({ model: name, version, kind: model.kind, ms: Math.round(performance.now() - start), ...model.about }, 'model loaded');
      }
    } catch (error) {
      const reason = /** @type {Error} */ (error).message;
      this.#log.error({ model: name, err: error }, 'model not loaded');
      for (const { model } of versions) model?.destroy();
      if (before.every(({ state }) => state !== 'ready')) {
        const states = versions.length === 0 ? [{ name, version: entry.versions[0].version, config: null }] : versions;
        this.#models.set(
          name,
          states.map((version) => ({ ...version, state: 'unavailable', reason, isBroken: true, model: null })),
        );
      }
      throw new ServeError('invalid', `model ${quoted(name)} could not be loaded; see the server's log`, { cause: error });
    }
    this.#models.set(name, versions);
    await Promise.all(before.map((version) => this.#retire(version, 'replaced')));
  }

  /**
   * @param {Version} version
   * @param {string} reason
   */
  async #retire(version, reason) {
    const { model } = version;
    if (model === null) return;
    version.state = 'unloading';
    await model.drain();
    model.destroy();
    Object.assign(version, { state: 'unavailable', reason, model: null });
    this.#log.info({ model: version.name, version: version.version }, `model ${reason}`);
  }

  /** The server is no longer ready; it still takes requests. */
  beginLeave() {
    this.#isLeaving = true;
  }

  /** It takes none any more; what it has begun goes on. */
  beginDrain() {
    this.#isLeaving = true;
    this.#isDraining = true;
  }

  /** Ends what waits, and frees all models. */
  async close() {
    this.beginDrain();
    await this.#inTurn(async () => {
      await Promise.all(this.versions.map((version) => this.#retire(version, 'closed')));
    });
  }
}
