// Losses as formulas: the host derives the gradient and computes both at native speed.
//
// JavaScript has no operator overloading, so a formula is written with methods:
//
//   build({ positive, negatives }) {
//     return negatives.sub(positive).add(this.margin).softplus().mean();
//   }
//
// `positive` has one number per positive, `negatives` one per negative; the result must have one
// per positive. There is no operation that mixes rows, and no control flow that depends on values:
// `x.select(a, b)` computes both and selects one.
//
// `x > 0`, `Math.max(x, 0)` and everything else that uses a value as a number throws. In JavaScript
// every object is true, so `if (x)` and `x && y` cannot throw; a comparison
// that the formula does not use, as in `if (x.greater(0))`, is refused in `trace`.

import { Strategy } from './metadata.js';

const SCALAR = 0;
const ROW = 1;
const MATRIX = 2;

/** Formula in the host's format: nodes, their shapes, parameters. */
export class Graph {
  nodes = [];
  shapes = [];
  parameters = [];

  /** Adds a node with these operands. */
  push(shape, tag, val) {
    this.nodes.push(val === undefined ? { tag } : { tag, val });
    this.shapes.push(shape);
    return new Expr(this, this.nodes.length - 1);
  }

  /** Returns the index of a parameter; its other properties are set at the first call for a name. */
  parameter(shape, named) {
    const known = this.parameters.findIndex((p) => p.name === named.name);
    const index = known >= 0 ? known : this.parameters.push(named) - 1;
    return this.push(shape, 'parameter', index);
  }
}

const COMPARISONS = ['less', 'less-equal', 'greater', 'greater-equal', 'equal', 'not-equal'];

/** Converts a value to a constant of a formula; throws if it is not a finite number. */
export function constant(value) {
  const number = ['number', 'boolean', 'bigint'].includes(typeof value) ? Number(value) : NaN;
  if (Number.isFinite(number)) return number;
  if (value instanceof Expr) throw new TypeError('a constant is a number, not a value of the formula');
  const shown = typeof value === 'string' ? `the text '${value}'` : String(value);
  throw new TypeError(`a formula takes finite numbers and its own values, not ${shown}`);
}

/** Throws an error if the formula has a comparison on which none of `outputs` depends. */
export function assertComparisonsUsed(nodes, outputs) {
  const used = new Set();
  const open = [...outputs];
  while (open.length > 0) {
    const at = open.pop();
    if (used.has(at)) continue;
    used.add(at);
    const { tag, val } = nodes[at];
    if (['unary', 'reduce'].includes(tag)) open.push(val.x);
    else if (tag === 'binary') open.push(val.left, val.right);
    else if (tag === 'select') open.push(val.condition, val.then, val.otherwise);
    else if (tag === 'clamp') open.push(val.x, val.low, val.high);
    else if (tag === 'softmax' || tag === 'sum') open.push(val);
  }
  const unused = nodes.findIndex(({ val }, at) => COMPARISONS.includes(val?.op) && !used.has(at));
  if (unused < 0) return;
  throw new TypeError(
    `the formula does not use the result of ${nodes[unused].val.op} (node ${unused}): \`if\`, \`? :\`, ` +
      '`&&`, `||` and `!` take every value of a formula for true; use select, or leave the comparison out',
  );
}

/** A value of a formula. */
export class Expr {
  constructor(graph, at) {
    this.graph = graph;
    this.at = at;
  }

  /** Throws an error: JavaScript converts a value to a number or a text, and it has neither yet. */
  [Symbol.toPrimitive]() {
    throw new TypeError(
      'scores and embeddings have no value while the formula is built, so `<`, `>`, `+`, `Math` and similar ' +
        'operations cannot use them; use less, greater, add, minimum, maximum and select',
    );
  }

  get shape() {
    return this.graph.shapes[this.at];
  }

  #operand(other) {
    if (!(other instanceof Expr)) return this.graph.push(SCALAR, 'constant', constant(other));
    if (other.graph !== this.graph) throw new TypeError('a value of another formula: every build() makes its own');
    return other;
  }

  #unary(op) {
    return this.graph.push(this.shape, 'unary', { op, x: this.at });
  }

  #binary(op, other) {
    const right = this.#operand(other);
    const shape = Math.max(this.shape, right.shape);
    return this.graph.push(shape, 'binary', { op, left: this.at, right: right.at });
  }

  #reduce(op) {
    this.assertReducible(op);
    return this.graph.push(ROW, 'reduce', { op, x: this.at });
  }

  /** Throws an error if the value has no row of negatives for the reduction `op`. */
  assertReducible(op) {
    if (this.shape !== MATRIX) throw new TypeError(`${op} is for one number per negative`);
  }

  add = (other) => this.#binary('add', other);
  sub = (other) => this.#binary('sub', other);
  mul = (other) => this.#binary('mul', other);
  div = (other) => this.#binary('div', other);
  pow = (other) => this.#binary('pow', other);
  minimum = (other) => this.#binary('min', other);
  maximum = (other) => this.#binary('max', other);
  less = (other) => this.#binary('less', other);
  lessEqual = (other) => this.#binary('less-equal', other);
  greater = (other) => this.#binary('greater', other);
  greaterEqual = (other) => this.#binary('greater-equal', other);
  equal = (other) => this.#binary('equal', other);
  notEqual = (other) => this.#binary('not-equal', other);
  neg = () => this.#unary('neg');
  abs = () => this.#unary('abs');
  exp = () => this.#unary('exp');
  log = () => this.#unary('log');
  sqrt = () => this.#unary('sqrt');
  sigmoid = () => this.#unary('sigmoid');
  softplus = () => this.#unary('softplus');
  relu = () => this.#unary('relu');
  stopGradient = () => this.#unary('stop-gradient');
  /** Returns the sum over the negatives of each positive. */
  sum = () => this.#reduce('sum');
  mean = () => this.#reduce('mean');
  max = () => this.#reduce('max');
  logsumexp = () => this.#reduce('logsumexp');

  /** Returns exp(x) divided by the row's sum of exp(x). */
  softmax() {
    this.assertReducible('softmax');
    return this.graph.push(MATRIX, 'softmax', this.at);
  }

  /** Returns `then` where this value is not 0, `otherwise` elsewhere. */
  select(then, otherwise) {
    const [a, b] = [this.#operand(then), this.#operand(otherwise)];
    const shape = Math.max(this.shape, a.shape, b.shape);
    const val = { condition: this.at, then: a.at, otherwise: b.at };
    return this.graph.push(shape, 'select', val);
  }

  /** Returns min(max(x, low), high). */
  clamp(low, high) {
    const [a, b] = [this.#operand(low), this.#operand(high)];
    const shape = Math.max(this.shape, a.shape, b.shape);
    return this.graph.push(shape, 'clamp', { x: this.at, low: a.at, high: b.at });
  }
}

/** Inputs of a formula. */
export class Scores {
  #graph;

  constructor(graph) {
    this.#graph = graph;
    this.positive = graph.push(ROW, 'positive');
    this.negatives = graph.push(MATRIX, 'negative');
  }

  /** Returns the number of negatives per positive, including masked ones. */
  get columns() {
    return this.#graph.push(SCALAR, 'columns');
  }

  /** Returns a constant. */
  constant(value) {
    return this.#graph.push(SCALAR, 'constant', constant(value));
  }

  /** Returns a number that `update` may change later. */
  parameter(name, value) {
    return this.#graph.parameter(SCALAR, { name, value: constant(value) });
  }
}

/** A loss as a formula on the scores of one row. */
export class TracedLoss extends Strategy {
  /** Number of batches between two calls of `update`; 0: never. */
  updateEvery = 0;

  /** Builds the formula: the loss of each positive. */
  build(_scores) {
    throw new Error('build() is missing');
  }

  /**
   * Changes the object of `scores.parameter` values. `progress` has `step`, `edges` and `meanLoss`.
   * The result must depend only on these, the configuration and `run.length()`.
   */
  update(_progress, _values) {}
}

/** Returns the graph of a loss, as passed to the host. */
export function trace(loss) {
  const graph = new Graph();
  const result = loss.build(new Scores(graph));
  if (!(result instanceof Expr) || result.shape !== ROW) {
    throw new TypeError('a loss is one number per positive: reduce it over the negatives');
  }
  const { nodes, parameters } = graph;
  if (result.graph !== graph) throw new TypeError('build() returned a value of another formula');
  assertComparisonsUsed(nodes, [result.at]);
  return { nodes, output: result.at, parameters, updateEvery: loss.updateEvery };
}
