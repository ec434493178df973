// Negative samplers: distributions of the negatives.

import { Strategy } from './metadata.js';

/** All entities are equally likely. */
export const uniform = { tag: 'uniform' };

/**
 * Weights by numbers of edges to a power, from -16 to 16. `edges` is 'side': the edges of all relations that have the entity
 * on the replaced side; or 'relation': those of the relation. With power 0, all entities that have an edge are equally likely.
 */
export function counted(edges, power = 1) {
  return { tag: 'counted', val: { edges: `of-${edges}`, power } };
}

/** Entities by name, each once; without weights, all are equally likely. */
export function listed(names, weights = []) {
  return { tag: 'listed', val: { names, weights } };
}

/** No entity: this fraction of the draws is left out, so each edge has so many fewer negatives on this side. */
export const nothing = { tag: 'nothing' };

/** Returns the mixture that draws `fraction` of the negatives, from 0 to 1, by `weights` and the others uniformly. */
export function mixed(fraction, weights) {
  if (!(fraction >= 0 && fraction <= 1)) {
    throw new RangeError(`the fraction of a mixture is ${fraction}, not from 0 to 1`);
  }
  const parts = [{ fraction, weights }, { fraction: 1 - fraction, weights: uniform }];
  return parts.filter((part) => part.fraction > 0);
}

/** Decides from which entities negatives are drawn. It returns a distribution; the host draws from it. */
export class NegativeSampler extends Strategy {
  /** What distributions use: `sideCounts`, `relationCounts`, `names`, `relationEntities`. Without any, draws are uniform. */
  required() {
    return {};
  }

  /**
   * Returns the distribution among the candidates: an array of `{ fraction, weights }`, with at most one of each kind of
   * weights. `candidates` has `relation`, `relationName`, `side` ('lhs' or 'rhs'), `entityType`, `partition`, `entities`,
   * `edges`, `seen`, `replacedEntities`, `keptEntities` and `position`.
   */
  distribution(_candidates) {
    throw new Error('distribution() is missing');
  }
}
