// Between the host's calls and the author's classes.

import * as log from './log.js';
import { trace } from './loss.js';
import { Pass } from './order.js';
import { Share } from './sampler.js';

/** Throw it where a wish cannot be met: its text is shown to the user. */
export class Refused extends Error {}

/**
 * What the component of an order exports; `write` is the host's log.
 * `export const { metadata, bucketOrder } = exportOrder(MyOrder, write);`
 */
export function exportOrder(Plugin, write) {
  log.setWriter(write);
  const plugin = new Plugin();
  return {
    metadata: metadataOf(Plugin),
    bucketOrder: {
      configure: (parameters) => call(() => plugin.configure(named(parameters))),
      plan: (pass) => call(() => plugin.plan(new Pass(pass))),
      pick: (pass, held, free) => call(() => plugin.pick(new Pass(pass), held, free)),
    },
  };
}

/** What the component of a relation sampler exports. */
export function exportSampler(Plugin, write) {
  log.setWriter(write);
  const plugin = new Plugin();
  class Sampler {
    static create(counts, batchSize, seed) {
      const walk = new Sampler();
      walk.draws = call(() => plugin.begin(new Share({ counts, batchSize, seed })));
      return walk;
    }

    next() {
      return call(() => this.draws.next()) ?? undefined;
    }

    observe(relation, meanLoss) {
      this.draws.observe?.(relation, meanLoss);
    }
  }
  return {
    metadata: metadataOf(Plugin),
    relationSampler: {
      configure: (parameters) => call(() => plugin.configure(named(parameters))),
      Sampler,
    },
  };
}

/** What the component of a traced loss exports. */
export function exportTracedLoss(Plugin, write) {
  log.setWriter(write);
  const plugin = new Plugin();
  const update = (progress, numbers) => {
    const { parameters } = trace(plugin);
    const values = Object.fromEntries(parameters.map((p, at) => [p.name, numbers[at]]));
    plugin.update(progress, values);
    return parameters.map((p) => values[p.name]);
  };
  return {
    metadata: metadataOf(Plugin),
    lossTraced: {
      configure: (parameters) => call(() => plugin.configure(named(parameters))),
      build: () => call(() => trace(plugin)),
      update: (progress, numbers) => call(() => update(progress, numbers)),
    },
  };
}

// What the author's code throws becomes a text for the user, and where it was thrown a log line:
// there is no console in the sandbox.
function call(run) {
  try {
    return run();
  } catch (error) {
    if (error instanceof Refused) throw error.message;
    log.error(error?.stack || 'no stack');
    throw String(error);
  }
}

// Parameters by their names. Whole numbers come as BigInt, which does not mix with others.
function named(parameters) {
  const plain = ({ tag, val }) => (tag === 'integer' ? Number(val) : val);
  return Object.fromEntries(parameters.map(({ name, value }) => [name, plain(value)]));
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
  const wide = (value) => (value === undefined ? undefined : BigInt(value));
  switch (type) {
    case 'integer':
      return {
        tag: type,
        val: { default: wide(initial), minimum: wide(minimum), maximum: wide(maximum) },
      };
    case 'number':
      return { tag: type, val: { default: initial, minimum, maximum } };
    case 'choice':
      return { tag: type, val: { options, default: options.indexOf(initial) } };
    default:
      return { tag: type, val: initial };
  }
}
