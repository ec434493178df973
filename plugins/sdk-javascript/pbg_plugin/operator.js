// Operators as formulas: how a relation transforms an embedding before it is compared. The host
// derives the gradients and computes all of them at its own speed.
//
// Methods write the formula down, as they do for losses; complex numbers turned by an angle of the
// relation's (RotatE):
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
// An embedding is taken as a whole (one output) or cut into 2 or 4 components of equal length (as
// many outputs). Parameters are vectors of that length. The formula is about one element of each:
// there is no operation that mixes elements, and no way to look at a value and decide what to
// compute next; `x.select(a, b)` computes both and takes one.

import { Expr, Graph, assertComparisonsUsed, constant } from './loss.js';
import { Strategy } from './metadata.js';

// Every value is one number per element, so all have one shape.
const VECTOR = 0;

const INITIAL = ['zero', 'one', 'angle'];

/** A value of a formula: a component, a parameter, or made of those element by element. */
export class Vector extends Expr {
  /** Sine of an angle in radians. */
  sin = () => this.graph.push(VECTOR, 'unary', { op: 'sin', x: this.at });
  /** Cosine of an angle in radians. */
  cos = () => this.graph.push(VECTOR, 'unary', { op: 'cos', x: this.at });

  assertReducible(op) {
    throw new TypeError(`${op} would mix the elements of an embedding; there is no such operation`);
  }
}

/** A formula on vectors: its parameters have names and how they begin. */
class Formula extends Graph {
  push(shape, tag, val) {
    // Components, parameters and numbers are there once, however often one asks for them.
    const known = this.nodes.findIndex((node) => node.tag === tag && Object.is(node.val, val));
    return new Vector(this, known >= 0 ? known : super.push(shape, tag, val).at);
  }
}

/** What a formula starts from. */
export class Embedding {
  #formula;

  constructor(formula) {
    this.#formula = formula;
  }

  /** The component with this index, counted from 0. */
  component(index) {
    if (![0, 1, 2, 3].includes(index)) throw new TypeError(`component ${index}: they are 0 to 3`);
    return this.#formula.push(VECTOR, 'component', index);
  }

  /** The first `count` components. */
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
      throw new TypeError(`${name} begins with ${initial}: not a number, zero, one or angle`);
    }
    const begins = deviation ? { tag: 'normal', val: initial } : { tag: initial };
    return this.#formula.parameter(VECTOR, { name, initial: begins });
  }

  /** A number, the same in all elements. */
  constant(value) {
    return this.#formula.push(VECTOR, 'constant', constant(value));
  }
}

/** An operator as a formula on the components of an embedding and the parameters of a relation. */
export class TracedOperator extends Strategy {
  /** Writes the formula down: what each component becomes, 1, 2 or 4 of them. */
  build(_x) {
    throw new Error('build() is missing');
  }
}

/** The formula of an operator, as the host gets it. */
export function traceOperator(operator) {
  const formula = new Formula();
  const made = operator.build(new Embedding(formula));
  if (!Array.isArray(made) || !made.every((output) => output instanceof Vector)) {
    throw new TypeError('build() must give an array: what each component becomes');
  }
  if (!made.every(({ graph }) => graph === formula)) {
    throw new TypeError('build() returned a value of another formula');
  }
  const { nodes, parameters } = formula;
  const outputs = made.map(({ at }) => at);
  assertComparisonsUsed(nodes, outputs);
  return { components: made.length, parameters, nodes, outputs };
}
