// Types of what testing.js has.

import type { Bucket, Draw, Order, Pass, Sampler, Share, TracedLoss, TracedOperator } from './index.js';

type Class<T> = new () => T;

/** An instance, configured as the host does it where a configuration sets nothing. */
export function withDefaults<T>(Plugin: Class<T>): T;
/** Asserts that an order keeps its promises for one pass, and returns the plan. */
export function checkPlan(order: Class<Order>, pass: Pass): Bucket[];
/** Asserts the promises of an order over grids of many shapes, buffers and seeds. */
export function checkOrder(order: Class<Order>): void;
/** Everything that a sampler draws of a share, each draw checked. */
export function drawsOf(sampler: Class<Sampler>, share: Share): Draw[];
/** Asserts that a sampler draws every edge of many shares once, and the same way again. */
export function checkSampler(sampler: Class<Sampler>): void;
/** The loss of one positive with its negatives, as the host computes it. */
export function evaluate(loss: TracedLoss, positive: number, negatives: number[]): number;
/** Asserts that a loss is finite for ordinary and extreme scores, and without negatives. */
export function checkTracedLoss(loss: Class<TracedLoss>): void;
/** What an operator makes of an embedding with the parameters of a relation, by name. */
export function apply(
  operator: TracedOperator,
  embedding: ArrayLike<number>,
  parameters: Record<string, ArrayLike<number>>,
): number[];
/**
 * Asserts that components, parameters and outputs of an operator fit each other, and that what it
 * makes of ordinary embeddings is finite.
 */
export function checkTracedOperator(operator: Class<TracedOperator>): void;
