// What the host asks of plugins, checked in Node.

import assert from 'node:assert/strict';

import { apply, evaluate } from './interpret.js';
import { defaults } from './metadata.js';
import { traceOperator } from './operator.js';
import { Pass } from './order.js';
import { Share } from './sampler.js';

export { apply, evaluate };

const GRIDS = [[1, 1], [1, 5], [5, 1], [2, 2], [3, 5], [5, 3], [4, 4], [16, 16]];

/** An instance, configured as the host does it where a configuration sets nothing. */
export function withDefaults(Plugin) {
  const made = new Plugin();
  made.configure(defaults(Plugin));
  return made;
}

/** Asserts that an order keeps its promises for one pass, and returns the plan. */
export function checkPlan(Order, pass) {
  const order = withDefaults(Order);
  const plan = order.plan(pass);
  const sorted = plan.map((bucket) => pass.index(bucket)).sort((a, b) => a - b);
  const grid = pass.grid().map((bucket) => pass.index(bucket));
  assert.deepEqual(sorted, grid, 'the plan is no permutation of the grid');
  assert.deepEqual(order.plan(pass), plan, 'a second plan differs');
  assert.deepEqual(withDefaults(Order).plan(pass), plan, 'another instance plans differently');
  const half = Math.floor(plan.length / 2);
  const picked = order.pick(pass, plan.slice(0, half), plan.slice(half));
  assert.ok(picked >= 0 && picked < plan.length - half, `pick answered ${picked}`);
  return plan;
}

/** Asserts the promises of an order over grids of many shapes, buffers and seeds. */
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

/** Everything that a sampler draws of a share, each draw checked. */
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
  assert.ok(left.every((count) => count === 0), `it ended with ${left} left`);
  return draws;
}

/** Asserts that a sampler draws every edge of many shares once, and the same way again. */
export function checkSampler(Sampler) {
  for (const counts of SHARES) {
    for (const batchSize of [1, 3, 100]) {
      const share = new Share({ counts, batchSize, seed: 7n });
      assert.deepEqual(drawsOf(Sampler, share), drawsOf(Sampler, share), 'a second walk differs');
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
 * Asserts that components, parameters and outputs of an operator fit each other, and that what it
 * makes of ordinary embeddings is finite.
 */
export function checkTracedOperator(Operator) {
  const operator = withDefaults(Operator);
  const { components, parameters, nodes } = traceOperator(operator);
  assert.ok([1, 2, 4].includes(components), `${components} outputs: 1, 2 or 4 components`);
  for (const { tag, val } of nodes) {
    assert.ok(tag !== 'component' || val < components, `component ${val} of ${components}`);
  }
  assert.ok(parameters.length > 0, 'it has no parameters');
  const begin = { zero: 0, one: 1, angle: 2, normal: 0.1 };
  const embedding = Array.from({ length: 3 * components }, (_, at) => 0.5 - 0.2 * at);
  for (const by of [-0.3, 0, 0.3]) {
    const values = Object.fromEntries(
      parameters.map(({ name, initial }) => [name, Array(3).fill(begin[initial.tag] + by)]),
    );
    const found = apply(operator, embedding, values);
    assert.ok(found.every(Number.isFinite), `[${found}] with ${JSON.stringify(values)}`);
  }
}
