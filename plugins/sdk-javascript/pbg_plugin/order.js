// Bucket orders.

import { Strategy } from './metadata.js';
import { Rng } from './rng.js';
import { traffic } from './traffic.js';

/**
 * One walk over the grid of buckets. A bucket is `{ lhs, rhs }`: the edges from left partition
 * `lhs` to right partition `rhs`.
 *
 * `lhsPartitions`, `rhsPartitions`: at least 1. `shared`: whether left partition p and right
 * partition p are the same entities. `edges`: edges of each bucket, row by row. `lhsBytes`,
 * `rhsBytes`: what loading each partition reads, 0 for what always stays in memory.
 * `bufferPartitions`: how many partitions fit the buffer. `residentLhs`, `residentRhs`: what is
 * in the buffer before the first bucket, all on the left where shared. `position`: `{ epoch,
 * edgeSet, edgeChunk }`. `seed`: for everything random in this plan, a bigint. So are the counts
 * in `edges`, `lhsBytes` and `rhsBytes`.
 */
export class Pass {
  constructor(fields) {
    Object.assign(this, fields);
  }

  /** For tests: 1000 edges per bucket, 1 MiB per partition, a buffer of two. */
  static uniform(lhsPartitions, rhsPartitions, seed = 0n) {
    return new Pass({
      lhsPartitions,
      rhsPartitions,
      shared: lhsPartitions === rhsPartitions,
      edges: new BigUint64Array(lhsPartitions * rhsPartitions).fill(1000n),
      lhsBytes: new BigUint64Array(lhsPartitions).fill(1n << 20n),
      rhsBytes: new BigUint64Array(rhsPartitions).fill(1n << 20n),
      bufferPartitions: 2,
      residentLhs: [],
      residentRhs: [],
      position: { epoch: 0, edgeSet: 0, edgeChunk: 0 },
      seed: BigInt(seed),
    });
  }

  /** All buckets, row by row. */
  grid() {
    const buckets = [];
    for (let lhs = 0; lhs < this.lhsPartitions; lhs++) {
      for (let rhs = 0; rhs < this.rhsPartitions; rhs++) buckets.push({ lhs, rhs });
    }
    return buckets;
  }

  /** Position of a bucket in `grid()` and `edges`. */
  index(bucket) {
    return bucket.lhs * this.rhsPartitions + bucket.rhs;
  }

  /** How many partitions two buckets have in common: what stays in the buffer. */
  inCommon(a, b) {
    if (!this.shared) return Number(a.lhs === b.lhs) + Number(a.rhs === b.rhs);
    const held = new Set([a.lhs, a.rhs]);
    return [...new Set([b.lhs, b.rhs])].filter((p) => held.has(p)).length;
  }

  /** Bytes of a bucket's partitions that are not resident, a bigint; 0n where it has no edges. */
  bytesToLoad({ lhs, rhs }) {
    if (this.edges[this.index({ lhs, rhs })] === 0n) return 0n;
    const onLeft = (p) => (this.residentLhs.includes(p) ? 0n : this.lhsBytes[p]);
    if (this.shared) return onLeft(lhs) + (lhs === rhs ? 0n : onLeft(rhs));
    return onLeft(lhs) + (this.residentRhs.includes(rhs) ? 0n : this.rhsBytes[rhs]);
  }

  /** Edges of a bucket, a bigint. */
  edgesOf(bucket) {
    return this.edges[this.index(bucket)];
  }

  /** How many partitions there are to load: those of one side where shared, those of both otherwise. */
  partitions() {
    return this.lhsPartitions + (this.shared ? 0 : this.rhsPartitions);
  }

  /**
   * The partitions that training a bucket needs in the buffer, numbered below `partitions()`: left ones
   * come first. None for a bucket without edges and for what always stays in memory.
   */
  needs(bucket) {
    if (this.edgesOf(bucket) === 0n) return [];
    const rhs = this.shared ? bucket.rhs : this.lhsPartitions + bucket.rhs;
    const ends = bucket.lhs === rhs ? [rhs] : [bucket.lhs, rhs];
    return ends.filter((partition) => this.bytes(partition) > 0n);
  }

  /** What loading a partition reads, a bigint; 0n for what always stays in memory. */
  bytes(partition) {
    if (partition < this.lhsPartitions) return this.lhsBytes[partition];
    return this.rhsBytes[partition - this.lhsPartitions];
  }

  /**
   * What a plan loads, counted as the host counts it: `{ loads, swaps, bytes }`, the swaps being the loads
   * that evict another partition; evicted is what is needed again latest (Belady 1966).
   */
  traffic(plan) {
    return traffic(this, plan);
  }

  /** The generator that belongs to this pass. */
  rng() {
    return new Rng(this.seed);
  }
}

/**
 * Decides in which order the buckets of a pass are trained. It must be a pure function of its
 * arguments: the same pass, the same plan, or a run that was resumed would differ from one that
 * was not stopped.
 */
export class Order extends Strategy {
  /** Every bucket of `pass.grid()` exactly once, in the order of training. */
  plan(_pass) {
    throw new Error('plan() is missing');
  }

  /** Several trainers share one grid: index of the bucket of `free` to train next. */
  pick(pass, _held, free) {
    const empty = new Pass({ ...pass, residentLhs: [], residentRhs: [] });
    return pickByPlan(pass, this.plan(empty), free);
  }
}

/** The free bucket with fewest bytes to load, then first in `plan`. */
export function pickByPlan(pass, plan, free) {
  const position = new Map(plan.map((bucket, at) => [pass.index(bucket), at]));
  let best = 0;
  let bestRank;
  free.forEach((bucket, index) => {
    const rank = [pass.bytesToLoad(bucket), position.get(pass.index(bucket))];
    if (!bestRank || rank[0] < bestRank[0] || (rank[0] === bestRank[0] && rank[1] < bestRank[1])) {
      [best, bestRank] = [index, rank];
    }
  });
  return best;
}
