// Types of testing.js.

import type { Bucket, Draw, NegativeCandidates, NegativeChunk, NegativePart, NegativeSampler, NegativeSelection, NegativeSelector, Order, Pass, Position, RateSchedule, Sampler, Share, TracedComparator, TracedLoss, TracedOperator } from './index.js';

type Class<T> = new () => T;

/** Creates an instance with default parameters, as the host does if the configuration sets none. */
export function withDefaults<T>(Plugin: Class<T>): T;
/** Asserts the contract of an order for one pass, and returns the plan. */
export function checkPlan(order: Class<Order>, pass: Pass): Bucket[];
/** Asserts the contract of an order for grids of many shapes, buffers and seeds. */
export function checkOrder(order: Class<Order>): void;
/** Returns all draws of a sampler for a share, and checks each of them. */
export function drawsOf(sampler: Class<Sampler>, share: Share): Draw[];
/** Asserts that a sampler draws every edge of many shares once, and that its draws are reproducible. */
export function checkSampler(sampler: Class<Sampler>): void;
/** Returns candidates for tests: 100 entities, of which 20 are the tails of 50 edges. */
export function candidates(fields?: Partial<NegativeCandidates>): NegativeCandidates;
/** Asserts the contract of a negative sampler for some candidates, and returns the distribution. */
export function checkDistribution(sampler: Class<NegativeSampler>, given: NegativeCandidates): NegativePart[];
/** Asserts the contract of a negative sampler for relations with no, few and many candidates. */
export function checkNegatives(sampler: Class<NegativeSampler>): void;
/** Returns a chunk for tests: 5 edges, 10 negatives and 40 scored candidates of 100 entities. */
export function chunk(fields?: Partial<Omit<NegativeChunk, 'seed'>> & { seed?: number | bigint }): NegativeChunk;
/** Asserts the contract of a negative selector for a chunk, and returns the selection. */
export function checkSelection(selector: Class<NegativeSelector>, given: NegativeChunk): NegativeSelection;
/** Asserts the contract of a negative selector for chunks with few and many entities. */
export function checkNegativeSelector(selector: Class<NegativeSelector>): void;
/** Asserts the contract of a schedule for one position, and returns the factor. */
export function checkFactor(schedule: Class<RateSchedule>, position: Position): number;
/** Asserts the contract of a schedule in runs of different lengths, with and without a warm-up. */
export function checkSchedule(schedule: Class<RateSchedule>): void;
/** Computes the loss of one positive with its negatives, as the host does. */
export function evaluate(loss: TracedLoss, positive: number, negatives: number[]): number;
/** Asserts that a loss is finite for ordinary and extreme scores, and without negatives. */
export function checkTracedLoss(loss: Class<TracedLoss>): void;
/** Applies an operator to an embedding, with the parameters of a relation by name. */
export function apply(
  operator: TracedOperator,
  embedding: ArrayLike<number>,
  parameters: Record<string, ArrayLike<number>>,
): number[];

/** Applies an operator to the embedding of a left entity, as `apply` does to that of a right one. */
export function applyLhs(
  operator: TracedOperator,
  embedding: ArrayLike<number>,
  parameters: Record<string, ArrayLike<number>>,
): number[];
/**
 * Asserts that components, parameters and outputs of an operator are consistent, and that the results
 * for ordinary embeddings are finite.
 */
export function checkTracedOperator(operator: Class<TracedOperator>): void;
/** Returns the score of a left and a right embedding. */
export function compare(comparator: TracedComparator, left: ArrayLike<number>, right: ArrayLike<number>): number;
/**
 * Asserts that the score of a comparator is one number that depends on both embeddings, and that it is finite
 * for ordinary ones.
 */
export function checkTracedComparator(comparator: Class<TracedComparator>): void;
