// Operators as formulas: how a relation transforms an embedding before it is compared. The host
// derives the gradients and computes all of them at native speed.
//
// The formula is written with methods, as for losses; complex numbers rotated by an angle of the
// relation (RotatE):
//
//   build(x) {
//     const [re, im] = x.components(2);
//     const angle = x.parameter('angle', 'angle');
//     return [
//       re.mul(angle.cos()).sub(im.mul(angle.sin())),
//       re.mul(angle.sin()).add(im.mul(angle.cos())),
//     ];
//   }
//
// An embedding is one component (one output) or is split into 2, 4 or 8 components of equal length (as
// many outputs). Parameters are vectors of that length. The formula computes one element from the same
// element of each, and from sums over all elements of a vector: `x.sum()` and `x.dot(y)`. There is no
// control flow that depends on values; `x.select(a, b)` computes both and selects one. `buildLhs` may
// transform left entities as well.

import { Expr, Graph, assertComparisonsUsed, constant } from './loss.js';
import { Strategy } from './metadata.js';

// Every value is one number per element, so all values have the same shape.
export const VECTOR = 0;

const INITIAL = ['zero', 'one', 'angle'];

/** A value of a formula: a component, a parameter, or the result of an elementwise operation. */
export class Vector extends Expr {
  /** Returns the sine of an angle in radians. */
  sin = () => this.graph.push(VECTOR, 'unary', { op: 'sin', x: this.at });
  /** Returns the cosine of an angle in radians. */
  cos = () => this.graph.push(VECTOR, 'unary', { op: 'cos', x: this.at });

  /** Returns the sum over all elements of the vector, in every element. */
  sum = () => this.graph.push(VECTOR, 'sum', this.at);
  /** Returns the inner product with another vector, in every element. */
  dot = (other) => this.mul(other).sum();

  assertReducible(op) {
    throw new TypeError(`${op} would mix the elements of an embedding; only sum and dot do`);
  }
}

/** Formula on vectors, whose parameters have names and initial values. */
export class VectorFormula extends Graph {
  push(shape, tag, val) {
    // Each component, parameter and constant has only one node, even if it is requested several times.
    const known = this.nodes.findIndex((node) => node.tag === tag && Object.is(node.val, val));
    return new Vector(this, known >= 0 ? known : super.push(shape, tag, val).at);
  }
}

/** Inputs of a formula. */
export class Embedding {
  #formula;

  constructor(formula) {
    this.#formula = formula;
  }

  /** Returns the component with this index, counted from 0. */
  component(index) {
    if (![0, 1, 2, 3, 4, 5, 6, 7].includes(index)) throw new TypeError(`component ${index}: they are 0 to 7`);
    return this.#formula.push(VECTOR, 'component', index);
  }

  /** Returns the first `count` components. */
  components(count) {
    return Array.from({ length: count }, (_, index) => this.component(index));
  }

  /**
   * A vector of the relation's own; the same one for the same name. Its elements begin as 'zero',
   * as 'one', as 'angle' (uniformly distributed from -pi to pi), or as a number says: normally
   * distributed with this standard deviation.
   */
  parameter(name, initial) {
    const deviation = typeof initial === 'number';
    if (!deviation && !INITIAL.includes(initial)) {
      throw new TypeError(`initial value ${initial} of ${name} is not a number, zero, one or angle`);
    }
    const begins = deviation ? { tag: 'normal', val: initial } : { tag: initial };
    return this.#formula.parameter(VECTOR, { name, initial: begins });
  }

  /** Returns a constant, the same in all elements. */
  constant(value) {
    return this.#formula.push(VECTOR, 'constant', constant(value));
  }
}

/** An operator as a formula on the components of an embedding and the parameters of a relation. */
export class TracedOperator extends Strategy {
  /**
   * Builds the formula and returns the results for 1, 2, 4 or 8 components. The embedding is that of an
   * edge's right entity; with dynamic relations, of the entity that is not replaced.
   */
  build(_x) {
    throw new Error('build() is missing');
  }

  /**
   * Builds the formula of left entities, as `build` does that of right ones; a parameter of the same name
   * is the same one. By default, it returns `undefined`, and left entities stay as they are; an empty array is an
   * error. An operator of both sides cannot be used with dynamic relations.
   */
  buildLhs(_x) {
    return undefined;
  }
}

/** Returns the formula of an operator, as passed to the host. */
export function traceOperator(operator) {
  const formula = new VectorFormula();
  const outputs = indices(formula, 'build()', operator.build(new Embedding(formula)));
  const lhs = operator.buildLhs(new Embedding(formula));
  const lhsOutputs = lhs === undefined ? [] : indices(formula, 'buildLhs()', lhs);
  if (lhs !== undefined && lhsOutputs.length === 0) {
    throw new Error('buildLhs() returned no outputs; return undefined to leave left entities as they are');
  }
  const { nodes, parameters } = formula;
  assertComparisonsUsed(nodes, [...outputs, ...lhsOutputs]);
  return { components: outputs.length, parameters, nodes, outputs, lhsOutputs };
}

function indices(formula, name, made) {
  if (!Array.isArray(made) || !made.every((output) => output instanceof Vector)) {
    throw new TypeError(`${name} must give an array: what each component becomes`);
  }
  if (!made.every(({ graph }) => graph === formula)) {
    throw new TypeError(`${name} returned a value of another formula`);
  }
  return made.map(({ at }) => at);
}
