'use strict';

/** Native sessions: one call per run. */

const { setImmediate } = require('node:timers');
const { quote } = require('../errors.js');
const { Graph, createMLGraph } = require('../graph.js');
const native = require('../native.js');
const { TEXTS, feedName, nativeBytes, nativeTexts, requireSameType, requireType } = require('./data.js');
const { codedError, converting } = require('./errors.js');
const { bufferKind, bufferOf, bytesOf } = require('../webidl.js');
const { COPIED, FeedNumbers, FeedReader, GIVEN_UP, HeldGroup, IN_PLACE } = require('./feeds.js');
const { PAST, pastOf, presentOf } = require('./groups.js');
const { makeRoom } = require('./memory.js');
const { ResultMaker } = require('./results.js');
const { attachedBytes, moved } = require('./source.js');
const { holderOf, isResult, placeOf } = require('./unread.js');

const { ArrayBuffer, Map, Promise, Set, Uint32Array, Uint8Array, WeakRef } = globalThis;

/**
 * Maximum number of runs inside their calls before the event loop must turn. Each takes at most 0.25 ms, and
 * what copying its data would take; otherwise, the next run is handed to another thread.
 */
const RUNS_PER_TURN = 16;

/**
 * Counts runs inside their calls. Small runs are done within the call, because handing them to another thread takes
 * longer. Promises that settle at once starve the event loop: every {@link RUNS_PER_TURN}th run waits for it.
 */
class Turns {
  #runs = 0;
  /**
   * Settles when the event loop has turned; undefined unless the next run has to wait for that.
   *
   * @type {Promise<void> | undefined}
   */
  over;

  /** Counts a run that was done within its call. */
  count() {
    this.#runs += 1;
    if (this.#runs === RUNS_PER_TURN) {
      this.over = new Promise((resolve) => {
        setImmediate(() => {
          this.#runs = 0;
          this.over = undefined;
          resolve();
        });
      });
    }
  }
}

/** Shared by all sessions. */
const turns = new Turns();

/**
 * Returns descriptors by name.
 *
 * @param {import('../internal.js').NamedDescriptor[]} ports
 */
const descriptors = (ports) => Object.fromEntries(ports.map(({ name, dataType, shape }) => [name, { dataType, shape }]));

/** @typedef {import('./results.js').Target} Target */

/** @typedef {import('./results.js').Results} Results */

/** @typedef {import('./feeds.js').Feeds} Feeds */

/**
 * What feeds of the same names are for.
 *
 * @typedef {object} Plan
 * @property {readonly string[]} names
 * @property {Session} form
 * @property {boolean} isComplete whether they are exactly the inputs of the form
 * @property {(number | undefined | Pairing)[]} parts by feed: the index of its input, or what a group is for
 */

/**
 * The feeds and fetches of a run in the form that the native side takes.
 *
 * @typedef {object} Prepared
 * @property {Session} form
 * @property {import('../internal.js').NativeFeeds} values
 * @property {InstanceType<typeof FeedNumbers>} numbers
 * @property {import('../internal.js').NativeTarget[] | undefined} targets
 */

/**
 * What a group is for.
 *
 * @typedef {object} Pairing
 * @property {import('./feeds.js').Coverage} coverage of the group
 * @property {readonly import('./unread.js').OutputKind[]} kinds of the group's results, whose types are right
 * @property {number[]} pairs of indices of inputs, each followed by that of its result
 */

/**
 * Maximum number of forms of a session for sets of optional inputs that are fed; the least recently used one is
 * dropped.
 */
const MAX_FORMS = 8;

/**
 * What a session shares with its forms.
 *
 * @typedef {object} Shared
 * @property {number} pending number of unfinished native runs and compilations: promises settle in the order of the
 *   runs
 * @property {() => void} idle called when the last of them has finished
 * @property {Map<number, WeakRef<import('../../index.js').MLGraph>>} graphs weak references to those that `compile`
 *   returned, by the numbers of their specializations. `destroy()` reaches them also when their form is dropped
 */

/** State of an OnnxModel. It is destroyed with the model or with its context. */
class Session {
  #context;
  #handle;
  /** Sessions in which optional inputs are fed, by the names of these. @type {Map<string, Session>} */
  #forms = new Map();
  /** Indices of the inputs and outputs by name. */
  #inputs;
  #outputs;
  /** Names of the feeds in messages, created once. */
  #feedNames;
  #reader;
  #maker;
  /** Indices of the outputs in `results.present`, which share a handle whether or not they grow. */
  #grouped;
  /** That of the last run. @type {Plan | undefined} */
  #plan;
  /** Names of the optional inputs. */
  #optional;
  isDestroyed = false;
  #warn;
  #shared;

  /**
   * @param {import('../internal.js').ContextState} context state of the MLContext
   * @param {import('../internal.js').Handle<'session'>} handle native session
   * @param {import('../internal.js').Signature} signature
   * @param {import('../internal.js').Warn} [warn]
   * @param {Shared} [shared] of the session that this one is a form of
   */
  constructor(context, handle, { inputs, optionalInputs, outputs }, warn, shared = { pending: 0, idle: () => {}, graphs: new Map() }) {
    this.#context = context;
    this.#handle = handle;
    this.#warn = warn;
    this.#shared = shared;
    this.inputs = inputs;
    this.optionalInputs = optionalInputs;
    this.outputs = outputs;
    this.#optional = new Set(optionalInputs.map(({ name }) => name));
    this.#inputs = new Map(inputs.map(({ name }, place) => [name, place]));
    this.#outputs = new Map(outputs.map(({ name }, place) => [name, place]));
    this.#feedNames = new Map([PAST, ...inputs.map(({ name }) => name)].map((name) => [name, feedName(name)]));
    const all = [...inputs, ...optionalInputs];
    const pairs = presentOf(all, outputs);
    this.#reader = new FeedReader(inputs, (name) => this.#nameOf(name), pastOf(all));
    this.#maker = new ResultMaker(context, outputs, pairs);
    this.#grouped = Uint32Array.from(pairs?.places ?? []);
  }

  /** Number of unfinished native runs and compilations, which need the context, even after `destroy()`. */
  get pending() {
    return this.#shared.pending;
  }

  /** Called when the last of them has finished, before its promise settles. */
  set idle(/** @type {() => void} */ idle) {
    this.#shared.idle = idle;
  }

  /**
   * Returns the session for feeds of these names: itself, unless some are optional inputs.
   *
   * @param {Iterable<string>} names
   * @returns {Session}
   */
  #formFor(names) {
    if (this.#optional.size === 0) {
      return this;
    }
    const fed = [...names].filter((name) => this.#optional.has(name));
    if (fed.length === 0) {
      return this;
    }
    const key = JSON.stringify(fed.sort());
    const form = this.#forms.get(key) ?? this.#formWith(fed);
    this.#forms.delete(key);
    this.#forms.set(key, form);
    if (this.#forms.size > MAX_FORMS) {
      this.#forms.delete(/** @type {string} */ (this.#forms.keys().next().value));
    }
    return form;
  }

  /** @param {string[]} fed names of optional inputs */
  #formWith(fed) {
    const { handle, signature } = native.sessionWithInputs(this.#handle, fed);
    return new Session(this.#context, handle, JSON.parse(signature), this.#warn, this.#shared);
  }

  /**
   * Returns the name of a feed in messages, whether or not there is such an input.
   *
   * @param {string} name
   */
  #nameOf(name) {
    return this.#feedNames.get(name) ?? feedName(name);
  }

  /**
   * Reads the feeds of a run.
   *
   * @param {unknown} feeds
   * @param {string} what for messages
   * @returns {Feeds}
   */
  read(feeds, what) {
    return this.#reader.read(feeds, what);
  }

  /**
   * @param {Feeds} feeds
   * @param {Map<string, Target | null>} fetches null for an output that is dropped
   * @returns {Promise<Results> | Results} results by output name
   */
  run(feeds, fetches) {
    const prepared = converting(() => this.#prepared(feeds, fetches));
    return prepared.form.#runForm(prepared, fetches);
  }

  /**
   * @param {Prepared} prepared
   * @param {Map<string, Target | null>} fetches
   * @returns {Promise<Results> | Results}
   */
  #runForm(prepared, fetches) {
    const id = native.completions.nextId();
    // Promises of a session settle in the order of its runs.
    const mayRunHere = turns.over === undefined && this.pending === 0;
    const made = this.#runNative(id, prepared, mayRunHere);
    const results =
      made === null
        ? this.#outcome(id, (/** @type {import('../internal.js').Made} */ made) => this.#maker.results(made, fetches))
        : this.#maker.results(made, fetches);
    return turns.over === undefined ? results : Promise.all([results, turns.over]).then(([results]) => results);
  }

  /**
   * Returns feeds and fetches in the form that the native side takes.
   *
   * @param {Feeds} feeds
   * @param {Map<string, Target | null>} fetches
   * @returns {Prepared}
   */
  #prepared(feeds, fetches) {
    const plan = this.#planFor(feeds);
    return plan.form.#given(plan, feeds, fetches);
  }

  /**
   * Returns what these feeds are for.
   *
   * @param {Feeds} feeds
   * @returns {Plan}
   */
  #planFor(feeds) {
    const known = this.#plan;
    const form = this.#optional.size === 0 ? this : this.#formFor(this.#namesOf(feeds));
    if (known?.names === feeds.names && known.form === form && arePaired(known.parts, feeds.values)) {
      return known;
    }
    const parts = feeds.names.map((name, index) => {
      const value = feeds.values[index];
      return value instanceof HeldGroup ? form.#pairingOf(value) : form.#inputs.get(name);
    });
    const count = parts.reduce((/** @type {number} */ sum, part) => sum + (typeof part === 'object' ? part.pairs.length / 2 : 1), 0);
    this.#plan = { names: feeds.names, form, isComplete: count === form.#inputs.size && !parts.includes(undefined), parts };
    return this.#plan;
  }

  /**
   * Returns the names of the inputs that are fed, also by a group, and of feeds that are no inputs.
   *
   * @param {Feeds} feeds
   * @returns {string[]}
   */
  #namesOf({ names, values }) {
    return names.flatMap((name, index) => {
      const value = values[index];
      return value instanceof HeldGroup ? value.coverage.inputs : [name];
    });
  }

  /**
   * Returns what a group is for.
   *
   * @param {InstanceType<typeof HeldGroup>} group
   * @returns {Pairing}
   * @throws {TypeError} if a result does not have the type of its input
   */
  #pairingOf({ coverage, held: { kinds } }) {
    const pairs = coverage.inputs.flatMap((name, index) => {
      const input = /** @type {number} */ (this.#inputs.get(name));
      const place = coverage.places[index];
      requireSameType(kinds[place].dataType, this.inputs[input].dataType, feedName(name));
      return [input, place];
    });
    return { coverage, kinds, pairs };
  }

  /**
   * Like `run`, with the times of the run's graphs.
   *
   * @param {Feeds} feeds
   * @param {Map<string, Target | null>} fetches null for an output that is dropped
   * @returns {Promise<import('../../onnx.js').OnnxProfile>}
   */
  profile(feeds, fetches) {
    const prepared = converting(() => this.#prepared(feeds, fetches));
    return prepared.form.#profileForm(prepared, fetches);
  }

  /**
   * @param {Prepared} prepared
   * @param {Map<string, Target | null>} fetches
   * @returns {Promise<import('../../onnx.js').OnnxProfile>}
   */
  #profileForm({ values, numbers, targets }, fetches) {
    const id = native.completions.nextId();
    native.profileSession(this.#handle, id, values, numbers.array, targets, this.#warn, this.#grouped);
    numbers.leave();
    return this.#outcome(id, (/** @type {[...import('../internal.js').Made, string]} */ made) => {
      const times = JSON.parse(/** @type {string} */ (made.pop()));
      return { results: this.#maker.results(/** @type {import('../internal.js').Made} */ (/** @type {unknown} */ (made)), fetches), ...times };
    });
  }

  /**
   * @param {Plan} plan
   * @param {Feeds} feeds
   * @param {Map<string, Target | null>} fetches
   * @returns {Prepared}
   */
  #given({ parts, isComplete }, feeds, fetches) {
    const { names, values } = feeds;
    /** @type {import('../internal.js').NativeFeeds} */
    const fed = new Array(values.length);
    /** @type {Uint8Array[]} */
    const givenUp = [];
    const numbers = FeedNumbers.take();
    for (let index = 0; index < values.length; index++) {
      const part = parts[index];
      const value = values[index];
      if (typeof part === 'number') {
        const feed = /** @type {import('./data.js').Feed} */ (value);
        const native = this.#toNative(part, feed);
        fed[index] = native;
        const isGivenUp = !isResult(feed) && 'kind' in feed && feed.transfer === true;
        if (isGivenUp) {
          givenUp.push(bytesOf(feed.data, feed.kind));
        }
        numbers.addFeed(part, feed, accessTo(native, this.inputs[part].dataType, isGivenUp));
      } else if (part !== undefined) {
        const { held, coverage } = /** @type {InstanceType<typeof HeldGroup>} */ (value);
        requireUnread(names[index], !held.isAnyReleased(coverage.places));
        fed[index] = held.requireHandle();
        numbers.addGroup(part.pairs);
      }
    }
    const targets = fetches.size === 0 ? undefined : new Array(this.#outputs.size).fill(undefined);
    for (const [name, target] of fetches) {
      const place = this.#outputs.get(name);
      if (place !== undefined && targets !== undefined) {
        targets[place] = this.#targetOf(name, target);
      }
    }
    if (!isComplete || targets !== undefined) {
      native.checkNames(this.#handle, this.#namesOf(feeds), [...fetches.keys()]);
    }
    if (givenUp.length > 0) {
      takeAway(givenUp, fed);
    }
    return { form: this, values: fed, numbers, targets };
  }

  /**
   * Starts a native run. Returns its outputs if it was done within the call, otherwise null.
   *
   * @param {number} id
   * @param {Prepared} prepared
   * @param {boolean} mayRunHere
   */
  #runNative(id, { values, numbers, targets }, mayRunHere) {
    let made;
    try {
      made = native.runSession(this.#handle, id, values, numbers.array, targets, mayRunHere, makeRoom, this.#warn, this.#grouped);
    } finally {
      numbers.leave();
      // Failed runs count as well: they may have run within the call.
      if (made !== null && mayRunHere) {
        turns.count();
      }
    }
    return made;
  }

  /**
   * Returns the outcome of a native request.
   *
   * @template T
   * @param {number} id
   * @param {(made: any) => T} finish called with the results; its return value or exception settles the promise
   * @returns {Promise<T>}
   */
  #outcome(id, finish) {
    this.#shared.pending += 1;
    return native.completions.outcome(id, (error, made) => {
      this.#shared.pending -= 1;
      if (this.#shared.pending === 0) {
        this.#shared.idle();
      }
      if (error !== undefined) {
        throw error;
      }
      return finish(made);
    });
  }

  /**
   * Returns a fetch in the form that the native side takes.
   *
   * @param {string} name
   * @param {Target | null} target
   */
  #targetOf(name, target) {
    if (target === null) {
      return null;
    }
    if (target === 'tensor') {
      return true;
    }
    this.#context.requireBindable(`run: fetch ${quote(name)}`, target.state);
    return target.state.handle;
  }

  /**
   * Returns a feed in the form that the native side takes: a tensor, held values, or a view of bytes.
   *
   * @param {number} input its index
   * @param {import('./data.js').Feed} feed
   * @returns {import('../internal.js').NativeFeeds[number]}
   * @throws {TypeError} if it does not have the type of the input, or can no longer be used
   */
  #toNative(input, feed) {
    const { name, dataType } = this.inputs[input];
    const what = this.#nameOf(name);
    // By its brand: the caller may have given the object properties of any name.
    if (isResult(feed)) {
      const held = holderOf(feed);
      requireUnread(name, !held.isReleased(placeOf(feed)));
      requireSameType(feed.dataType, dataType, what);
      return held.requireHandle();
    }
    if ('tensor' in feed) {
      if (dataType === 'string') {
        throw new TypeError(`${what} is an MLTensor, expected an array of strings`);
      }
      this.#context.requireBindable(what, feed.tensor);
      return feed.tensor.handle;
    }
    if ('items' in feed) {
      return feed.items === null ? null : feed.items.flatMap(({ data, shape }) => [data, shape]);
    }
    requireType(feed, dataType, what);
    if (feed.kind === TEXTS) {
      return nativeTexts(/** @type {string[]} */ (feed.data));
    }
    return nativeBytes(attachedBytes(feed.data, feed.kind, what), dataType, what);
  }

  /**
   * @param {[string, number[]][]} shapes of inputs by name
   * @returns {Promise<import('../../onnx.js').OnnxSpecialization>}
   */
  compile(shapes) {
    return this.#formFor(shapes.map(([name]) => name)).#compileForm(shapes);
  }

  /**
   * @param {[string, number[]][]} shapes
   * @returns {Promise<import('../../onnx.js').OnnxSpecialization>}
   */
  #compileForm(shapes) {
    const id = native.completions.nextId();
    native.compileSession(
      this.#handle,
      id,
      shapes.map(([name]) => name),
      shapes.map(([, shape]) => shape),
      this.#warn,
    );
    return this.#outcome(id, (/** @type {[import('../internal.js').Handle<'graph'> | null, string]} */ [handle, json]) =>
      this.#compiledOf(handle, JSON.parse(json)),
    );
  }

  /**
   * @param {[string, number[]][]} shapes of inputs by name
   * @returns {Promise<import('../../onnx.js').OnnxDescription>}
   */
  describe(shapes) {
    return this.#formFor(shapes.map(([name]) => name)).#describeForm(shapes);
  }

  /**
   * @param {[string, number[]][]} shapes
   * @returns {Promise<import('../../onnx.js').OnnxDescription>}
   */
  #describeForm(shapes) {
    const id = native.completions.nextId();
    native.describeSession(
      this.#handle,
      id,
      shapes.map(([name]) => name),
      shapes.map(([, shape]) => shape),
      this.#warn,
    );
    return this.#outcome(id, (/** @type {[string]} */ [json]) => JSON.parse(json));
  }

  /**
   * @param {import('../internal.js').Handle<'graph'> | null} handle
   * @param {import('../internal.js').Compilation} compilation
   */
  #compiledOf(handle, { id, inputs, outputs, reads, writes }) {
    const graph = handle === null ? null : this.#graphOf(id, handle, reads, writes);
    return Object.freeze({ graph, inputs: descriptors(inputs), outputs: descriptors(outputs) });
  }

  /**
   * Returns the MLGraph of a specialization: always the same one while something holds it.
   *
   * @param {number} id
   * @param {import('../internal.js').Handle<'graph'>} handle
   * @param {import('../internal.js').NamedDescriptor[]} reads
   * @param {import('../internal.js').NamedDescriptor[]} writes
   */
  #graphOf(id, handle, reads, writes) {
    const { graphs } = this.#shared;
    const known = graphs.get(id)?.deref();
    if (known !== undefined) {
      return known;
    }
    const graph = createMLGraph(new Graph(this.#context, handle, reads, writes));
    graphs.forEach((reference, other) => reference.deref() ?? graphs.delete(other));
    graphs.set(id, new WeakRef(graph));
    return graph;
  }

  /**
   * Waits until what was packed is on disk, if it should be.
   *
   * @returns {Promise<void>}
   */
  saved() {
    const id = native.completions.nextId();
    native.whenSaved(id, this.#handle);
    return native.completions.outcome(id, (error) => {
      if (error !== undefined) {
        throw error;
      }
    });
  }

  /** Where its weights are. */
  get memory() {
    return JSON.parse(native.sessionMemory(this.#handle));
  }

  /**
   * Frees what the session and its forms can make again, once all earlier requests are done.
   *
   * @returns {Promise<void>}
   */
  release() {
    const id = native.completions.nextId();
    native.releaseSession(this.#handle, id);
    return this.#outcome(id, () => {});
  }

  /** Frees everything once all earlier requests are done. */
  destroy() {
    if (this.isDestroyed) {
      return;
    }
    this.isDestroyed = true;
    this.#forms.forEach((form) => form.destroy());
    this.#forms.clear();
    this.#shared.graphs.forEach((reference) => reference.deref()?.destroy());
    this.#shared.graphs.clear();
    native.destroySession(this.#handle);
  }
}

/**
 * Whether the groups among the feeds are those that the parts of a plan were made for.
 *
 * @param {Plan['parts']} parts
 * @param {Feeds['values']} values
 */
function arePaired(parts, values) {
  for (let index = 0; index < values.length; index++) {
    const part = parts[index];
    const value = values[index];
    if (value instanceof HeldGroup && !(typeof part === 'object' && part.coverage === value.coverage && part.kinds === value.held.kinds)) {
      return false;
    }
  }
  return true;
}

/**
 * @param {string} name of a feed
 * @param {boolean} isUnread whether the native side still holds it
 * @throws {TypeError} if its data have been read since it was read as a feed
 */
function requireUnread(name, isUnread) {
  if (!isUnread) {
    throw codedError('ERR_WEBNN_TYPE', `${feedName(name)} was read by a getter of another feed`);
  }
}

/** Size in bytes from which reading a feed in place saves time: smaller copies cost less than checking. */
const MIN_IN_PLACE = 4096;

/**
 * The types of inputs that hold no indices. Another thread may write to an array while a run reads it in place, for
 * example one that reads a file into it: other numbers are harmless, but an index must not change after it is checked.
 */
const WITHOUT_INDICES = new Set(['float32', 'float16', 'double', 'uint8', 'int8']);

/**
 * @param {import('../internal.js').NativeFeeds[number]} feed
 * @param {string} dataType of the input
 * @param {boolean} isGivenUp whether the caller has given up the data
 * @returns {number} how the native side reads the feed
 */
function accessTo(feed, dataType, isGivenUp) {
  const isLarge = feed instanceof Uint8Array && feed.byteLength >= MIN_IN_PLACE && WITHOUT_INDICES.has(dataType);
  if (!isLarge || bufferKind(bufferOf(feed)) !== 'ArrayBuffer') {
    return COPIED;
  }
  return isGivenUp ? GIVEN_UP : IN_PLACE;
}

/**
 * Detaches data that the caller has given up; feeds that are views of their buffers get views of the same bytes.
 *
 * @param {Uint8Array[]} givenUp their bytes
 * @param {import('../internal.js').NativeFeeds} fed changed
 * @throws {TypeError} if a buffer cannot be detached
 */
function takeAway(givenUp, fed) {
  const buffers = new Set(givenUp.map(bufferOf));
  const views = fed.flatMap((feed, index) => (ArrayBuffer.isView(feed) && buffers.has(bufferOf(/** @type {Uint8Array} */ (feed))) ? [index] : []));
  const own = moved([...givenUp, ...views.map((index) => /** @type {Uint8Array} */ (fed[index]))], 'run');
  views.forEach((index, at) => {
    fed[index] = own[givenUp.length + at];
  });
}

module.exports = { Session };
