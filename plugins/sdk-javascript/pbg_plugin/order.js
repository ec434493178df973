// Bucket orders.

import { Strategy } from './metadata.js';
import { Rng } from './rng.js';
import { traffic } from './traffic.js';

/**
 * One pass over the grid of buckets. A bucket is `{ lhs, rhs }`: the edges from left partition
 * `lhs` to right partition `rhs`.
 *
 * `lhsPartitions`, `rhsPartitions`: at least 1. `shared`: whether left partition p and right
 * partition p hold the same entities. `edges`: number of edges of each bucket, row by row. `lhsBytes`,
 * `rhsBytes`: bytes read when each partition is loaded, 0 for those that always stay in memory.
 * `bufferPartitions`: number of partitions that fit the buffer. `residentLhs`, `residentRhs`: partitions
 * in the buffer before the first bucket, all listed on the left if shared. `position`: `{ epoch,
 * edgeSet, edgeChunk }`. `seed`: for everything random in this plan, a bigint. So are the counts
 * in `edges`, `lhsBytes` and `rhsBytes`.
 */
export class Pass {
  constructor(fields) {
    Object.assign(this, fields);
  }

  /** Creates a pass for tests: 1000 edges per bucket, 1 MiB per partition, a buffer of two. */
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

  /** Returns all buckets, row by row. */
  grid() {
    const buckets = [];
    for (let lhs = 0; lhs < this.lhsPartitions; lhs++) {
      for (let rhs = 0; rhs < this.rhsPartitions; rhs++) buckets.push({ lhs, rhs });
    }
    return buckets;
  }

  /** Returns the position of a bucket in `grid()` and `edges`. */
  index(bucket) {
    return bucket.lhs * this.rhsPartitions + bucket.rhs;
  }

  /** Returns the number of partitions that two buckets share, which can stay in the buffer. */
  inCommon(a, b) {
    if (!this.shared) return Number(a.lhs === b.lhs) + Number(a.rhs === b.rhs);
    const holds = (p) => p === a.lhs || p === a.rhs;
    return Number(holds(b.lhs)) + Number(b.rhs !== b.lhs && holds(b.rhs));
  }

  /** Returns the bytes of a bucket's partitions that are not resident, a bigint; 0n if it has no edges. */
  bytesToLoad({ lhs, rhs }) {
    if (this.edges[this.index({ lhs, rhs })] === 0n) return 0n;
    const onLeft = (p) => (this.residentLhs.includes(p) ? 0n : this.lhsBytes[p]);
    if (this.shared) return onLeft(lhs) + (lhs === rhs ? 0n : onLeft(rhs));
    return onLeft(lhs) + (this.residentRhs.includes(rhs) ? 0n : this.rhsBytes[rhs]);
  }

  /** Returns the number of edges of a bucket, a bigint. */
  edgesOf(bucket) {
    return this.edges[this.index(bucket)];
  }

  /** Returns the number of partitions: those of one side if shared, otherwise those of both. */
  partitions() {
    return this.lhsPartitions + (this.shared ? 0 : this.rhsPartitions);
  }

  /**
   * Returns the partitions that a bucket needs in the buffer, numbered below `partitions()`, left ones
   * first, without those that always stay in memory; none for a bucket without edges.
   */
  needs(bucket) {
    if (this.edgesOf(bucket) === 0n) return [];
    const rhs = this.shared ? bucket.rhs : this.lhsPartitions + bucket.rhs;
    const ends = bucket.lhs === rhs ? [rhs] : [bucket.lhs, rhs];
    return ends.filter((partition) => this.bytes(partition) > 0n);
  }

  /** Returns the bytes read when a partition is loaded, a bigint; 0n if it always stays in memory. */
  bytes(partition) {
    if (partition < this.lhsPartitions) return this.lhsBytes[partition];
    return this.rhsBytes[partition - this.lhsPartitions];
  }

  /**
   * Returns the traffic of a plan as the host counts it: `{ loads, swaps, bytes }`; swaps are the loads that
   * evict another partition. The partition whose next use is furthest away is evicted (Belady 1966).
   */
  traffic(plan) {
    return traffic(this, plan);
  }

  /** Returns the random number generator of this pass. */
  rng() {
    return new Rng(this.seed);
  }
}

/**
 * Order in which the buckets of a pass are trained. It must be a pure function of its
 * arguments: the same pass must give the same plan, otherwise a resumed run would differ from an
 * uninterrupted one.
 */
export class Order extends Strategy {
  /** Returns every bucket of `pass.grid()` exactly once, in the order of training. */
  plan(_pass) {
    throw new Error('plan() is missing');
  }

  /** Chooses the next bucket if several trainers share one grid: returns an index into `free`. */
  pick(pass, _held, free) {
    const empty = new Pass({ ...pass, residentLhs: [], residentRhs: [] });
    return pickByPlan(pass, this.plan(empty), free);
  }
}

/** Returns the index of the free bucket with the fewest bytes to load, on a tie the first in `plan`. */
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
