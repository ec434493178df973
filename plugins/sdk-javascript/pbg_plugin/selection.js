// Negative selectors: the negatives of each chunk of edges, chosen by code.

import { Strategy } from './metadata.js';

/** Negatives: the entities themselves, as many as `chunk.negatives`, each below `chunk.entities`. */
export function entities(list) {
  return { tag: 'entities', val: plain(list) };
}

/**
 * Negatives that the host draws: a weight for each candidate, at least 0 and finite, not all 0. The host draws without
 * replacement, in proportion to the weights. If fewer candidates than negatives have a weight above 0, it begins again with
 * all of them.
 */
export function weights(list) {
  return { tag: 'weights', val: plain(list) };
}

// Returns the numbers of a typed array as an array.
function plain(list) {
  return ArrayBuffer.isView(list) && !(list instanceof DataView) ? Array.from(list) : list;
}

/** Chooses the negatives of every chunk of a batch. */
export class NegativeSelector extends Strategy {
  /** What `select` needs: `candidatesPerNegative`, from 1 to 64, and `scores`, which need training on the processor cores. */
  required() {
    return {};
  }

  /**
   * Returns the negatives of a chunk: `entities([...])` or `weights([...])`, the same for the same arguments. `chunk` has
   * `side` ('lhs' or 'rhs'), `entityType`, `partition`, `entities`, `keptPartition`, `relations`, `kept`, `replaced`,
   * `candidates`, `scores` (with `positives`, `means` and `highest`; undefined unless required), `negatives`, `position`
   * and `seed`.
   */
  select(_chunk) {
    throw new Error('select() is missing');
  }
}
