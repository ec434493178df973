// Comparators as formulas: the score of two embeddings, after the operator. The host derives the gradients
// and computes all of them at native speed.
//
// The formula is written with methods, as for operators; minus the sum of the moduli of complex
// differences (RotatE):
//
//   components = 2;
//
//   build(left, right) {
//     const [[a, b], [c, d]] = [left.components(2), right.components(2)];
//     const [re, im] = [a.sub(c), b.sub(d)];
//     return re.mul(re).add(im.mul(im)).maximum(1e-30).sqrt().sum().neg();
//   }
//
// Both embeddings are one component or are split into 2, 4 or 8 components of equal length. `x.sum()` and
// `x.dot(y)` are one number, which may be used in further operations, elementwise ones too. A score is one
// number. There is no control flow that depends on values; `x.select(a, b)` computes both and selects one.

import { assertComparisonsUsed, constant } from './loss.js';
import { Strategy } from './metadata.js';
import { VECTOR, Vector, VectorFormula } from './operator.js';

/** One of the two embeddings that are compared. */
export class ComparedEmbedding {
  #formula;
  #components;
  #first;

  constructor(formula, components, first) {
    this.#formula = formula;
    this.#components = components;
    this.#first = first;
  }

  /** Returns the component with this index, counted from 0. */
  component(index) {
    if (!Number.isInteger(index) || index < 0 || index >= this.#components) {
      throw new RangeError(`there is no component ${index}: embeddings have ${this.#components} components`);
    }
    return this.#formula.push(VECTOR, 'component', this.#first + index);
  }

  /** Returns the first `count` components. */
  components(count) {
    return Array.from({ length: count }, (_, index) => this.component(index));
  }

  /** Returns a constant. */
  constant(value) {
    return this.#formula.push(VECTOR, 'constant', constant(value));
  }
}

/** A comparator as a formula on the components of two embeddings. */
export class TracedComparator extends Strategy {
  /** Number of components into which each embedding is split: 1, 2, 4 or 8. */
  components = 1;

  /**
   * Builds the formula and returns the score of a left and a right embedding, which is higher for embeddings
   * that fit better. It is one number, such as a sum, and depends on both embeddings.
   */
  build(_left, _right) {
    throw new Error('build() is missing');
  }
}

/** Returns the formula of a comparator, as passed to the host. */
export function traceComparator(comparator) {
  const { components } = comparator;
  if (!Number.isInteger(components) || components < 1) {
    throw new TypeError(`components is ${components}, not 1, 2, 4 or 8`);
  }
  const formula = new VectorFormula();
  const [left, right] = [0, components].map((first) => new ComparedEmbedding(formula, components, first));
  const score = comparator.build(left, right);
  if (!(score instanceof Vector)) throw new TypeError('build() must return the score, a value of the formula');
  if (score.graph !== formula) throw new TypeError('build() returned a value of another formula');
  const { nodes } = formula;
  assertComparisonsUsed(nodes, [score.at]);
  return { components, nodes, score: score.at };
}
