// Relation samplers.

import { Strategy } from './metadata.js';
import { Rng } from './rng.js';

/**
 * Share of a bucket that one worker trains: `counts`, edges of each relation, 0 for relations that the
 * share lacks; `batchSize`, maximum number of edges of a batch; `seed`, for everything random.
 */
export class Share {
  constructor({ counts, batchSize, seed }) {
    this.counts = Array.from(counts, Number);
    this.batchSize = batchSize;
    this.seed = BigInt(seed);
  }

  /** Returns the random number generator of this share. */
  rng() {
    return new Rng(this.seed);
  }
}

/** Remaining edges of a share, by relation. */
export class Left {
  #batchSize;

  constructor(share) {
    this.counts = [...share.counts];
    this.total = this.counts.reduce((sum, count) => sum + count, 0);
    this.#batchSize = share.batchSize;
  }

  /** Returns the relations with remaining edges, ascending. */
  relations() {
    return [...this.counts.keys()].filter((relation) => this.counts[relation] > 0);
  }

  /** Draws a full batch, or all remaining edges of the relation. */
  take(relation) {
    const edges = Math.min(this.counts[relation], this.#batchSize);
    if (!(edges > 0)) throw new RangeError(`relation ${relation} has no edges left`);
    this.counts[relation] -= edges;
    this.total -= edges;
    return { relation, edges };
  }
}

/**
 * Chooses the relation of each batch, where all edges of a batch have the same relation. An instance serves one
 * worker in one bucket; everything random must come from the share's seed.
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
