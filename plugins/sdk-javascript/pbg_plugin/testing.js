// What the host asks of plugins, checked in Node.

import assert from 'node:assert/strict';

import { defaults } from './metadata.js';
import { trace } from './loss.js';
import { Pass } from './order.js';
import { Share } from './sampler.js';

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

/** The loss of one positive with its negatives, as the host computes it. */
export function evaluate(loss, positive, negatives) {
  const { nodes, output, parameters } = trace(loss);
  const values = [];
  const wide = (x) => (Array.isArray(x) ? x : negatives.map(() => x));
  const each = (f, ...at) => {
    const inputs = at.map((i) => values[i]);
    if (!inputs.some(Array.isArray)) return f(...inputs);
    return negatives.map((_, i) => f(...inputs.map((x) => wide(x)[i])));
  };
  for (const { tag, val } of nodes) {
    values.push(node[tag]({ val, each, values, positive, negatives, parameters }));
  }
  return values[output];
}

const UNARY = {
  neg: (x) => -x,
  abs: Math.abs,
  exp: Math.exp,
  log: Math.log,
  sqrt: Math.sqrt,
  sigmoid: (x) => 1 / (1 + Math.exp(-x)),
  softplus: (x) => Math.max(x, 0) + Math.log1p(Math.exp(-Math.abs(x))),
  relu: (x) => Math.max(x, 0),
  'stop-gradient': (x) => x,
};

const BINARY = {
  add: (a, b) => a + b,
  sub: (a, b) => a - b,
  mul: (a, b) => a * b,
  div: (a, b) => a / b,
  pow: Math.pow,
  min: Math.min,
  max: Math.max,
  less: (a, b) => Number(a < b),
  'less-equal': (a, b) => Number(a <= b),
  greater: (a, b) => Number(a > b),
  'greater-equal': (a, b) => Number(a >= b),
  equal: (a, b) => Number(a === b),
};

const sum = (row) => row.reduce((total, x) => total + x, 0);

const logsumexp = (row) => {
  const most = Math.max(...row);
  return row.length ? most + Math.log(sum(row.map((x) => Math.exp(x - most)))) : -Infinity;
};

const REDUCE = {
  sum,
  mean: (row) => sum(row) / Math.max(row.length, 1),
  max: (row) => Math.max(...row),
  logsumexp,
};

const node = {
  positive: ({ positive }) => positive,
  negative: ({ negatives }) => negatives,
  columns: ({ negatives }) => negatives.length,
  constant: ({ val }) => val,
  parameter: ({ val, parameters }) => parameters[val].value,
  unary: ({ val, each }) => each(UNARY[val.op], val.x),
  binary: ({ val, each }) => each(BINARY[val.op], val.left, val.right),
  reduce: ({ val, values }) => REDUCE[val.op](values[val.x]),
  softmax: ({ val, values }) => {
    const total = logsumexp(values[val]);
    return values[val].map((x) => Math.exp(x - total));
  },
  select: ({ val, each }) =>
    each((c, a, b) => (c ? a : b), val.condition, val.then, val.otherwise),
  clamp: ({ val, each }) =>
    each((x, low, high) => Math.min(Math.max(x, low), high), val.x, val.low, val.high),
};

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
