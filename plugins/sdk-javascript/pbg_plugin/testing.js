// Assertions for a plugin's tests: the contracts that the host enforces, checked in Node.

import assert from 'node:assert/strict';

import { traceComparator } from './comparator.js';
import { apply, applyLhs, compare, evaluate, pairValues } from './interpret.js';
import { defaults } from './metadata.js';
import { traceOperator } from './operator.js';
import { Pass } from './order.js';
import { Rng } from './rng.js';
import { Share } from './sampler.js';
import { Position } from './schedule.js';

export { apply, applyLhs, compare, evaluate };

const GRIDS = [[1, 1], [1, 5], [5, 1], [2, 2], [3, 5], [5, 3], [4, 4], [16, 16]];

/** Creates an instance with default parameters, as the host does if the configuration sets none. */
export function withDefaults(Plugin) {
  const made = new Plugin();
  made.configure(defaults(Plugin));
  return made;
}

/** Asserts the contract of an order for one pass, and returns the plan. */
export function checkPlan(Order, pass) {
  const order = withDefaults(Order);
  const plan = order.plan(pass);
  const sorted = plan.map((bucket) => pass.index(bucket)).sort((a, b) => a - b);
  const grid = pass.grid().map((bucket) => pass.index(bucket));
  assert.deepEqual(sorted, grid, 'the plan is not a permutation of the grid');
  assert.deepEqual(order.plan(pass), plan, 'a second plan differs');
  assert.deepEqual(withDefaults(Order).plan(pass), plan, 'the plan of another instance differs');
  const half = Math.floor(plan.length / 2);
  const picked = order.pick(pass, plan.slice(0, half), plan.slice(half));
  assert.ok(picked >= 0 && picked < plan.length - half, `pick returned index ${picked}`);
  return plan;
}

/** Asserts the contract of an order for grids of many shapes, buffers and seeds. */
export function checkOrder(Order) {
  for (const [lhs, rhs] of GRIDS) {
    for (const seed of [0n, 1n, 2n ** 64n - 1n]) {
      for (const [shared, bufferPartitions] of [[lhs === rhs, 2], [lhs === rhs, 6], [false, 3]]) {
        checkPlan(Order, Object.assign(Pass.uniform(lhs, rhs, seed), { shared, bufferPartitions }));
      }
    }
  }
}

const SHARES = [[], [0, 0], [1], [7, 0, 3], [1000, 1, 200, 50]];

/** Returns all draws of a sampler for a share, and checks each of them. */
export function drawsOf(Sampler, share) {
  const walk = withDefaults(Sampler).begin(share);
  const left = [...share.counts];
  const draws = [];
  for (let draw = walk.next(); draw; draw = walk.next()) {
    const { relation, edges } = draw;
    const most = Math.min(left[relation], share.batchSize);
    assert.ok(edges >= 1 && edges <= most, `drew ${edges} of relation ${relation}, has ${most}`);
    left[relation] -= edges;
    draws.push({ relation, edges });
    walk.observe?.(relation, 0.5);
  }
  assert.ok(left.every((count) => count === 0), `it ended before all edges were drawn: ${left} remain`);
  return draws;
}

/** Asserts that a sampler draws every edge of many shares once, and that its draws are reproducible. */
export function checkSampler(Sampler) {
  for (const counts of SHARES) {
    for (const batchSize of [1, 3, 100]) {
      const share = new Share({ counts, batchSize, seed: 7n });
      assert.deepEqual(drawsOf(Sampler, share), drawsOf(Sampler, share), 'the draws of a second instance differ');
    }
  }
}

/** Returns candidates for tests: 100 entities, of which 20 are the tails of 50 edges. */
export function candidates(fields = {}) {
  return {
    relation: 0,
    relationName: 'likes',
    side: 'rhs',
    entityType: 'entity',
    partition: 0,
    entities: 100,
    edges: 50,
    seen: 20,
    replacedEntities: 30,
    keptEntities: 40,
    position: { epoch: 0, edgeSet: 0, edgeChunk: 0 },
    ...fields,
  };
}

/** Asserts the contract of a negative sampler for some candidates, and returns the distribution. */
export function checkDistribution(Sampler, given) {
  const sampler = withDefaults(Sampler);
  const parts = sampler.distribution(given);
  assert.deepEqual(withDefaults(Sampler).distribution(given), parts, 'the answers of two instances differ');
  assert.ok(parts.length > 0, 'no parts');
  const { sideCounts, relationCounts, names } = sampler.required();
  const required = { uniform: true, nothing: true, 'of-side': sideCounts, 'of-relation': relationCounts, listed: names };
  const kinds = parts.map(({ fraction, weights: { tag, val } }) => {
    assert.ok(fraction > 0 && Number.isFinite(fraction), `a fraction of ${fraction}`);
    const kind = tag === 'counted' ? val.edges : tag;
    assert.ok(required[kind], `${kind} is used, but not required`);
    return kind;
  });
  assert.equal(new Set(kinds).size, kinds.length, 'two parts of one kind');
  assert.ok(kinds.some((kind) => kind !== 'nothing'), 'all draws are left out');
  return parts;
}

/** Asserts the contract of a negative sampler for relations with no, few and many candidates. */
export function checkNegatives(Sampler) {
  for (const [entities, edges, seen] of [[1, 0, 0], [1, 1, 1], [100, 50, 20], [1000000, 9, 9]]) {
    for (const side of ['lhs', 'rhs']) {
      checkDistribution(Sampler, candidates({ side, entities, edges, seen }));
    }
  }
}

/** Returns a chunk for tests: 5 edges, 10 negatives and 40 scored candidates of 100 entities. */
export function chunk(fields = {}) {
  const seed = BigInt(fields.seed ?? 0);
  const rng = new Rng(seed);
  const numbers = (count, bound) => Array.from({ length: count }, () => Number(rng.below(bound)));
  const [kept, replaced, candidates] = [5, 5, 40].map((count) => numbers(count, 100));
  const means = numbers(40, 1000).map((number) => number / 250 - 2);
  return {
    side: 'rhs',
    entityType: 'entity',
    partition: 0,
    entities: 100,
    keptPartition: 0,
    relations: [0, 0, 0, 0, 0],
    kept,
    replaced,
    candidates,
    scores: { positives: [2, 1, 3, 2, 2], means, highest: means.map((mean) => mean + 1) },
    negatives: 10,
    position: { epoch: 0, edgeSet: 0, edgeChunk: 0 },
    ...fields,
    seed,
  };
}

/**
 * Asserts the contract of a negative selector for a chunk, and returns the selection. The candidates of the chunk are
 * repeated or cut to the number that the plugin requires, and scores are left out if it requires none.
 */
export function checkSelection(Selector, given) {
  const selector = withDefaults(Selector);
  const { candidatesPerNegative = 1, scores = false } = selector.required();
  const fit = (list) => Array.from({ length: given.negatives * candidatesPerNegative }, (_, at) => list[at % list.length]);
  const fitted = () => ({
    ...given,
    candidates: fit(given.candidates),
    scores: scores
      ? { ...given.scores, means: fit(given.scores.means), highest: fit(given.scores.highest) }
      : undefined,
  });
  const selection = selector.select(fitted());
  assert.deepEqual(selector.select(fitted()), selection, 'a second selection differs');
  assert.deepEqual(withDefaults(Selector).select(fitted()), selection, 'the selection of another instance differs');
  const { tag, val } = selection;
  if (tag === 'entities') {
    assert.equal(val.length, given.negatives, `${val.length} entities`);
    assert.ok(val.every((entity) => Number.isInteger(entity) && entity >= 0 && entity < given.entities), `[${val}]`);
  } else {
    assert.equal(tag, 'weights', `a selection of ${tag}`);
    assert.equal(val.length, given.negatives * candidatesPerNegative, `${val.length} weights`);
    assert.ok(val.every((weight) => weight >= 0 && Number.isFinite(weight)), `[${val}]`);
    assert.ok(val.some((weight) => weight > 0), 'all weights are 0');
  }
  return selection;
}

/** Asserts the contract of a negative selector for chunks with few and many entities. */
export function checkNegativeSelector(Selector) {
  const { candidatesPerNegative = 1 } = withDefaults(Selector).required();
  const inRange = Number.isInteger(candidatesPerNegative) && candidatesPerNegative >= 1 && candidatesPerNegative <= 64;
  assert.ok(inRange, `candidatesPerNegative is ${candidatesPerNegative}, not from 1 to 64`);
  for (let seed = 0; seed < 10; seed += 1) {
    for (const entities of [1, 2, 100]) {
      const given = chunk({ seed, entities });
      const below = (list) => list.map((entity) => entity % entities);
      checkSelection(Selector, { ...given, replaced: below(given.replaced), candidates: below(given.candidates) });
    }
  }
}

/** Asserts the contract of a schedule for one position, and returns the factor. */
export function checkFactor(Schedule, position) {
  const factor = withDefaults(Schedule).factor(position);
  const shown = JSON.stringify(position);
  assert.ok(factor >= 0 && factor <= 1000, `a factor of ${factor} for ${shown}, not from 0 to 1000`);
  assert.equal(withDefaults(Schedule).factor(position), factor, `the factors of two instances differ for ${shown}`);
  return factor;
}

/** Asserts the contract of a schedule in runs of different lengths, with and without a warm-up. */
export function checkSchedule(Schedule) {
  for (const start of [0, 0.5, 3]) {
    for (const end of [4, 30, 1000]) {
      const middles = Array.from({ length: end }, (_, n) => n + 0.5).filter((epoch) => epoch >= start);
      for (const epoch of [start, ...middles, end]) {
        checkFactor(Schedule, new Position({ epoch, start, end }));
      }
    }
  }
}

/** Asserts that a loss is finite for ordinary and extreme scores, and without negatives. */
export function checkTracedLoss(Loss) {
  const loss = withDefaults(Loss);
  const extreme = [0, 1, -1, 1e9, -1e8];
  for (const positive of extreme) {
    for (const negatives of [[], [0], [positive, positive], extreme]) {
      const found = evaluate(loss, positive, negatives);
      assert.ok(Number.isFinite(found), `loss ${found} for ${positive} and [${negatives}]`);
    }
  }
}

/**
 * Asserts that components, parameters and outputs of an operator are consistent, and that the results
 * for ordinary embeddings are finite.
 */
export function checkTracedOperator(Operator) {
  const operator = withDefaults(Operator);
  const { components, parameters, nodes, lhsOutputs } = traceOperator(operator);
  assert.ok([1, 2, 4, 8].includes(components), `the formula has ${components} outputs; it must have 1, 2, 4 or 8`);
  const ofLhs = lhsOutputs.length;
  assert.ok(ofLhs === 0 || ofLhs === components, `${ofLhs} outputs of the left side, ${components} of the right side`);
  for (const { tag, val } of nodes) {
    assert.ok(tag !== 'component' || val < components, `component ${val} of ${components}`);
  }
  assert.ok(parameters.length > 0, 'the formula has no parameters');
  const begin = { zero: 0, one: 1, angle: 2, normal: 0.1 };
  const embedding = Array.from({ length: 3 * components }, (_, at) => 0.5 - 0.2 * at);
  for (const by of [-0.3, 0, 0.3]) {
    const values = Object.fromEntries(
      parameters.map(({ name, initial }) => [name, Array(3).fill(begin[initial.tag] + by)]),
    );
    const found = [...apply(operator, embedding, values), ...applyLhs(operator, embedding, values)];
    assert.ok(found.every(Number.isFinite), `[${found}] with ${JSON.stringify(values)}`);
  }
}

/**
 * Asserts that the score of a comparator is one number that depends on both embeddings, and that it is finite
 * for ordinary ones.
 */
export function checkTracedComparator(Comparator) {
  const formula = traceComparator(withDefaults(Comparator));
  const { components } = formula;
  assert.ok([1, 2, 4, 8].includes(components), `embeddings have ${components} components; it must be 1, 2, 4 or 8`);
  const score = (left, right) => {
    const found = pairValues(formula, left, right);
    assert.ok(found.every(Number.isFinite), `[${found}] for [${left}] and [${right}]`);
    assert.equal(new Set(found).size, 1, 'the score differs from element to element: sum it over the vector');
    return found[0];
  };
  const wave = (by) => Array.from({ length: 3 * components }, (_, at) => Math.sin(0.9 * at + by));
  const [here, there] = [wave(0.3), wave(1.7)];
  const first = score(here, there);
  assert.notEqual(score(there, there), first, 'the score does not depend on the left embedding');
  assert.notEqual(score(here, here), first, 'the score does not depend on the right embedding');
}
