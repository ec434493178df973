// Interpreter of formulas for tests, row by row or embedding by embedding.

import { traceComparator } from './comparator.js';
import { trace } from './loss.js';
import { traceOperator } from './operator.js';

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
  sin: Math.sin,
  cos: Math.cos,
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
  'not-equal': (a, b) => Number(a !== b),
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

// The nodes that all formulas share are elementwise; `each` applies a function to the elements.
const COMMON = {
  constant: ({ val }) => val,
  unary: ({ val, each }) => each(UNARY[val.op], val.x),
  binary: ({ val, each }) => each(BINARY[val.op], val.left, val.right),
  select: ({ val, each }) =>
    each((c, a, b) => (c ? a : b), val.condition, val.then, val.otherwise),
  clamp: ({ val, each }) =>
    each((x, low, high) => Math.min(Math.max(x, low), high), val.x, val.low, val.high),
};

const LOSS = {
  ...COMMON,
  positive: ({ positive }) => positive,
  negative: ({ negatives }) => negatives,
  columns: ({ negatives }) => negatives.length,
  parameter: ({ val, parameters }) => parameters[val].value,
  reduce: ({ val, values }) => REDUCE[val.op](values[val.x]),
  softmax: ({ val, values }) => {
    const total = logsumexp(values[val]);
    return values[val].map((x) => Math.exp(x - total));
  },
};

// Nodes of operators and comparators.
const VECTORS = {
  ...COMMON,
  constant: ({ val, wide }) => wide(() => val),
  component: ({ val, wide, embedding, width }) => wide((i) => embedding[val * width + i]),
  parameter: ({ val, wide, vectors }) => wide((i) => vectors[val][i]),
  sum: ({ val, wide, values }) => {
    const total = sum(values[val]);
    return wide(() => total);
  },
};

/** Computes the loss of one positive with its negatives, as the host does. */
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
    values.push(LOSS[tag]({ val, each, values, positive, negatives, parameters }));
  }
  return values[output];
}

/** Applies an operator to the embedding of a right entity, with the parameters of a relation by name. */
export function apply(operator, embedding, parameters) {
  const formula = traceOperator(operator);
  return transformed(formula, formula.outputs, embedding, parameters);
}

/** Applies an operator to the embedding of a left entity, as `apply` does to that of a right one. */
export function applyLhs(operator, embedding, parameters) {
  const formula = traceOperator(operator);
  if (formula.lhsOutputs.length === 0) return [...embedding];
  return transformed(formula, formula.lhsOutputs, embedding, parameters);
}

/** Returns the score of a left and a right embedding. */
export function compare(comparator, left, right) {
  return pairValues(traceComparator(comparator), left, right)[0];
}

/** Returns the elements of the score, which are equal if it is one number. */
export function pairValues({ components, nodes, score }, left, right) {
  if (left.length !== right.length) {
    throw new TypeError(`embeddings of ${left.length} and ${right.length} numbers cannot be compared`);
  }
  return vectorValues(nodes, widthOf(left.length, components), [...left, ...right], [])[score];
}

function transformed({ components: count, parameters: declared, nodes }, outputs, embedding, parameters) {
  const width = widthOf(embedding.length, count);
  const vectors = declared.map(({ name }) => {
    if (parameters[name]?.length === width) return parameters[name];
    throw new TypeError(`${name} needs ${width} numbers`);
  });
  const values = vectorValues(nodes, width, embedding, vectors);
  return outputs.flatMap((output) => values[output]);
}

function widthOf(dimension, components) {
  const width = dimension / components;
  if (Number.isInteger(width)) return width;
  throw new TypeError(`an embedding of ${dimension} numbers cannot be split into ${components} components`);
}

// Computes the values of all nodes; the components of `embedding` come one after the other.
function vectorValues(nodes, width, embedding, vectors) {
  const values = [];
  const wide = (f) => Array.from({ length: width }, (_, i) => f(i));
  const each = (f, ...operands) => wide((i) => f(...operands.map((operand) => values[operand][i])));
  for (const { tag, val } of nodes) {
    values.push(VECTORS[tag]({ val, each, wide, values, embedding, vectors, width }));
  }
  return values;
}
