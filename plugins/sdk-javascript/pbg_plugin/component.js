// Connects the host's calls with the author's classes.
//
// Whole numbers of 64 bits are passed as numbers, which are exact up to 2^53. Counts and bytes stay below that; larger seeds
// are rounded.

import { traceComparator } from './comparator.js';
import * as log from './log.js';
import { trace } from './loss.js';
import { traceOperator } from './operator.js';
import { Pass } from './order.js';
import * as run from './run.js';
import { Share } from './sampler.js';
import { Position } from './schedule.js';

/** Error for a request that cannot be fulfilled; its text is shown to the user. */
export class Refused extends Error {}

/**
 * Returns the exports of an order's component; `write` is the host's log, `length` returns the length of the run.
 * `export const { metadata, bucketOrder } = exportOrder(MyOrder, write, length);`
 */
export function exportOrder(Plugin, write, length) {
  const { plugin, metadata, configure } = begin(Plugin, write, length);
  return {
    metadata,
    bucketOrder: {
      configure,
      plan: (pass) => call(() => plan(plugin.plan(passOf(pass)))),
      pick: (pass, held, free) => call(() => index(plugin.pick(passOf(pass), held, free))),
    },
  };
}

/** Returns the exports of a relation sampler's component. */
export function exportSampler(Plugin, write, length) {
  const { plugin, metadata, configure } = begin(Plugin, write, length);
  class Sampler {
    static create(counts, batchSize, seed) {
      const walk = new Sampler();
      walk.draws = call(() => plugin.begin(new Share({ counts, batchSize, seed })));
      return walk;
    }

    next() {
      return call(() => draw(this.draws.next()));
    }

    observe(relation, meanLoss) {
      this.draws.observe?.(relation, meanLoss);
    }
  }
  return {
    metadata,
    relationSampler: { configure, Sampler },
  };
}

/** Returns the exports of a traced loss's component. */
export function exportTracedLoss(Plugin, write, length) {
  const { plugin, metadata, configure } = begin(Plugin, write, length);
  const update = (progress, numbers) => {
    const { parameters } = trace(plugin);
    const values = Object.fromEntries(parameters.map((p, at) => [p.name, numbers[at]]));
    const answer = plugin.update(progress, values);
    if (answer !== undefined && answer !== values) {
      throw new TypeError('update returned something; it changes the values that it gets');
    }
    const names = parameters.map((p) => p.name);
    for (const [name, value] of Object.entries(values)) {
      if (!names.includes(name)) {
        throw new TypeError(`update set ${name}; the formula has ${names.join(', ') || 'no parameters'}`);
      }
      if (typeof value !== 'number') throw new TypeError(`update left ${value} as ${name}, not a number`);
    }
    return names.map((name) => values[name]);
  };
  return {
    metadata,
    lossTraced: {
      configure,
      build: () => call(() => trace(plugin)),
      update: (progress, numbers) => call(() => update(progress, numbers)),
    },
  };
}

/** Returns the exports of a traced operator's component. */
export function exportTracedOperator(Plugin, write, length) {
  const { plugin, metadata, configure } = begin(Plugin, write, length);
  return {
    metadata,
    operatorFormula: { configure, build: () => call(() => traceOperator(plugin)) },
  };
}

/** Returns the exports of a traced comparator's component. */
export function exportTracedComparator(Plugin, write, length) {
  const { plugin, metadata, configure } = begin(Plugin, write, length);
  return {
    metadata,
    comparatorFormula: { configure, build: () => call(() => traceComparator(plugin)) },
  };
}

/** Returns the exports of a negative sampler's component. */
export function exportNegatives(Plugin, write, length) {
  const { plugin, metadata, configure } = begin(Plugin, write, length);
  const require = () => {
    const { sideCounts, relationCounts, names, relationEntities } = plugin.required();
    return {
      sideCounts: !!sideCounts,
      relationCounts: !!relationCounts,
      names: !!names,
      relationEntities: !!relationEntities,
    };
  };
  // Counts cross the boundary as 64-bit integers, which do not mix with numbers.
  const candidatesOf = (given) => ({
    ...given,
    edges: Number(given.edges),
    replacedEntities: Number(given.replacedEntities),
    keptEntities: Number(given.keptEntities),
  });
  return {
    metadata,
    negativeDistribution: {
      configure,
      require: () => call(require),
      distribution: (candidates) => call(() => parts(plugin.distribution(candidatesOf(candidates)))),
    },
  };
}

/** Returns the exports of a negative selector's component. */
export function exportNegativeSelector(Plugin, write, length) {
  const { plugin, metadata, configure } = begin(Plugin, write, length);
  const require = () => {
    const { candidatesPerNegative = 1, scores = false } = plugin.required();
    return { candidatesPerNegative: whole(candidatesPerNegative, 'candidatesPerNegative'), scores: !!scores };
  };
  return {
    metadata,
    negativeSelection: {
      configure,
      require: () => call(require),
      select: (chunk) => call(() => selection(plugin.select(chunkOf(chunk)))),
    },
  };
}

/** Returns the exports of a learning rate schedule's component. */
export function exportSchedule(Plugin, write, length) {
  const { plugin, metadata, configure } = begin(Plugin, write, length);
  const factor = (position) => {
    const answer = plugin.factor(new Position(position));
    if (typeof answer !== 'number') throw new TypeError(`factor returned ${shown(answer)}, not a number`);
    return answer;
  };
  return {
    metadata,
    learningRateSchedule: { configure, factor: (position) => call(() => factor(position)) },
  };
}

// Creates the only instance of a class in this component, and returns it with the exports that every kind of strategy has.
function begin(Plugin, write, length) {
  log.setWriter(write);
  run.setLength(length);
  const plugin = new Plugin();
  const configure = (parameters) => call(() => plugin.configure(named(parameters)));
  return { plugin, metadata: metadataOf(Plugin), configure };
}

// An error of the author's code becomes a text for the user with the author's line, and its stack becomes log lines.
function call(run) {
  try {
    return run();
  } catch (error) {
    if (error instanceof Refused) throw error.message;
    log.error(error?.stack || 'no stack');
    throw told(error);
  }
}

// Describes an error and the innermost line of the author's code: frames are `at NAME (/FILE:LINE:COLUMN)`.
function told(error) {
  const frames = String(error?.stack ?? '').split('\n');
  const places = frames.map((frame) => frame.match(/at (\S+) \(\/(.+):(\d+):\d+\)/));
  const author = places.find((place) => place && !place[2].startsWith('pbg_plugin/'));
  return author ? `${error} (${author[2]}, line ${author[3]}, in ${author[1]})` : String(error);
}

// Converts a pass to the class that authors use.
function passOf(fields) {
  const wide = (counts) => BigUint64Array.from(counts, BigInt);
  return new Pass({
    ...fields,
    edges: wide(fields.edges),
    lhsBytes: wide(fields.lhsBytes),
    rhsBytes: wide(fields.rhsBytes),
    seed: BigInt(fields.seed),
  });
}

// A result that does not have the interface's type would end the call without a message, so it is checked first.
function plan(answer) {
  if (!Array.isArray(answer)) throw new TypeError(`plan returned ${shown(answer)}, not an array of buckets`);
  return Array.from(answer, (bucket, at) => pair(bucket, `bucket ${at} of the plan`, 'lhs', 'rhs'));
}

function parts(answer) {
  if (!Array.isArray(answer)) throw new TypeError(`distribution returned ${shown(answer)}, not an array of parts`);
  return Array.from(answer, (part, at) => {
    const known = ['uniform', 'counted', 'listed', 'nothing'].includes(part?.weights?.tag);
    if (typeof part?.fraction !== 'number' || !known) {
      throw new TypeError(`part ${at} is ${shown(part)}, not { fraction, weights }`);
    }
    return part;
  });
}

// Converts a chunk to the form that authors use.
function chunkOf(given) {
  const { relations, kept, replaced, candidates, scores } = given;
  const [lists, of] = [{ relations, kept, replaced, candidates }, scores ?? undefined];
  const arrays = (fields) => Object.fromEntries(Object.entries(fields).map(([name, list]) => [name, Array.from(list)]));
  return { ...given, ...arrays(lists), scores: of && arrays(of), seed: BigInt(given.seed) };
}

function selection(answer) {
  const { tag, val } = answer ?? {};
  const known = tag === 'entities' || tag === 'weights';
  if (!known || !Array.isArray(val)) {
    throw new TypeError(`select returned ${shown(answer)}, not entities([...]) or weights([...])`);
  }
  val.forEach((number, at) => {
    if (tag === 'entities') whole(number, `entity ${at}`);
    else if (typeof number !== 'number') throw new TypeError(`weight ${at} is ${shown(number)}, not a number`);
  });
  return answer;
}

function index(answer) {
  return whole(answer, 'what pick returned');
}

function draw(answer) {
  if (answer === null || answer === undefined) return undefined;
  return pair(answer, 'a draw', 'relation', 'edges');
}

// Converts `value` to an object with two whole numbers; an error that names `what` if it is something else.
function pair(value, what, first, second) {
  if (value?.[first] === undefined || value[second] === undefined) {
    throw new TypeError(`${what} is ${shown(value)}, not { ${first}, ${second} }`);
  }
  return {
    [first]: whole(value[first], `${first} of ${what}`),
    [second]: whole(value[second], `${second} of ${what}`),
  };
}

// Checks that a number is whole and fits 32 bits; an error that names `what` if it does not.
function whole(number, what) {
  if (!Number.isInteger(number)) throw new TypeError(`${what} is ${shown(number)}, not a whole number`);
  if (number < 0 || number >= 2 ** 32) {
    throw new RangeError(`${what} is ${number}, not a number from 0 to ${2 ** 32 - 1}`);
  }
  return number;
}

// Formats a value as in source code.
function shown(value) {
  if (typeof value === 'bigint') return `${value}n`;
  try {
    return JSON.stringify(value) ?? String(value);
  } catch {
    return String(value);
  }
}

// Converts parameters to an object by name.
function named(parameters) {
  return Object.fromEntries(parameters.map(({ name, value }) => [name, value.val]));
}

function metadataOf(Plugin) {
  return {
    describe() {
      const { name, version, summary, parameters = [], fallback } = Plugin.metadata();
      const kinds = parameters.map((p) => ({ name: p.name, doc: p.doc, kind: kind(p) }));
      return { name, version, summary, parameters: kinds, fallback };
    },
  };
}

function kind({ type, initial, minimum, maximum, options }) {
  switch (type) {
    case 'integer':
    case 'number':
      return { tag: type, val: { default: initial, minimum, maximum } };
    case 'choice':
      return { tag: type, val: { options, default: options.indexOf(initial) } };
    default:
      return { tag: type, val: initial };
  }
}
