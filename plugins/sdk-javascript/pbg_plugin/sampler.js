// Relation samplers.

import { Strategy } from './metadata.js';
import { Rng } from './rng.js';

/**
 * What one worker trains of one bucket: `counts`, edges of each relation, 0 for those that the
 * share lacks; `batchSize`, edges that a batch takes at most; `seed`, for everything random.
 */
export class Share {
  constructor({ counts, batchSize, seed }) {
    this.counts = Array.from(counts, Number);
    this.batchSize = batchSize;
    this.seed = BigInt(seed);
  }

  /** The generator that belongs to this share. */
  rng() {
    return new Rng(this.seed);
  }
}

/** The edges of a share that are left to draw, by relation. */
export class Left {
  #batchSize;

  constructor(share) {
    this.counts = [...share.counts];
    this.total = this.counts.reduce((sum, count) => sum + count, 0);
    this.#batchSize = share.batchSize;
  }

  /** The relations that have edges left, ascending. */
  relations() {
    return [...this.counts.keys()].filter((relation) => this.counts[relation] > 0);
  }

  /** Draws a batch: as many edges as one takes, or what is left of the relation. */
  take(relation) {
    const edges = Math.min(this.counts[relation], this.#batchSize);
    if (!(edges > 0)) throw new RangeError(`relation ${relation} has no edges left`);
    this.counts[relation] -= edges;
    this.total -= edges;
    return { relation, edges };
  }
}

/**
 * Chooses the relation of each batch, where all edges of a batch share one. One instance serves one
 * worker in one bucket: everything random has to come from the share's seed.
 */
export class Sampler extends Strategy {
  /**
   * An object with `next()`, which gives `{ relation, edges }`, or null once every edge was drawn,
   * and, if it likes, `observe(relation, meanLoss)`, called after each batch was trained.
   */
  begin(_share) {
    throw new Error('begin() is missing');
  }
}
