// Random number generator of plugins, seeded from the arguments.

const MASK = (1n << 64n) - 1n;

/** xoshiro256++, seeded through SplitMix64; gives the same numbers as the other SDKs for the same seed. */
export class Rng {
  #state = [];

  /** @param {bigint | number} seed */
  constructor(seed) {
    let s = BigInt(seed) & MASK;
    for (let i = 0; i < 4; i++) {
      s = (s + 0x9e3779b97f4a7c15n) & MASK;
      let z = s;
      z = ((z ^ (z >> 30n)) * 0xbf58476d1ce4e5b9n) & MASK;
      z = ((z ^ (z >> 27n)) * 0x94d049bb133111ebn) & MASK;
      this.#state.push(z ^ (z >> 31n));
    }
  }

  /** Returns 64 random bits, as a bigint. */
  nextU64() {
    let [a, b, c, d] = this.#state;
    const result = (rotated((a + d) & MASK, 23n) + a) & MASK;
    const t = (b << 17n) & MASK;
    c ^= a;
    d ^= b;
    b ^= c;
    a ^= d;
    c ^= t;
    this.#state = [a, b, c, rotated(d, 45n)];
    return result;
  }

  /** Returns a whole number from 0 to `bound - 1`, each equally likely (Lemire's method). */
  below(bound) {
    const wide = BigInt(bound);
    if (wide <= 0n) throw new RangeError(`below(${bound}): the bound must be at least 1`);
    for (;;) {
      const product = this.nextU64() * wide;
      const low = product & MASK;
      if (low >= wide || low >= (MASK + 1n - wide) % wide) return Number(product >> 64n);
    }
  }

  /** Returns a number in [0, 1). */
  unit() {
    return Number(this.nextU64() >> 11n) * 2 ** -53;
  }

  /** Puts an array in random order, in place (Fisher and Yates). */
  shuffle(items) {
    for (let end = items.length - 1; end > 0; end--) {
      const other = this.below(end + 1);
      [items[end], items[other]] = [items[other], items[end]];
    }
  }

  /** Returns an index with probability proportional to its weight (whole numbers); null if all are 0. */
  weighted(weights) {
    const wide = weights.map(BigInt);
    const total = wide.reduce((sum, weight) => sum + weight, 0n);
    if (total === 0n) return null;
    let left = BigInt(this.below(total));
    for (let i = 0; i < wide.length; i++) {
      if (left < wide[i]) return i;
      left -= wide[i];
    }
  }
}

function rotated(x, by) {
  return ((x << by) | (x >> (64n - by))) & MASK;
}
