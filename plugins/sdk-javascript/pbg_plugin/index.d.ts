// Types of index.js, for completion in editors and for TypeScript.

/** Error for a request that cannot be fulfilled; its text is shown to the user. */
export class Refused extends Error {}

/** Lines for the host's log. */
export namespace log {
  function debug(message: unknown): void;
  function info(message: unknown): void;
  function warn(message: unknown): void;
  function error(message: unknown): void;
  /** The [level, line] pairs since the last call; only outside the sandbox. */
  function take(): [string, string][];
}

/** Length of the run from its beginning, according to the current configuration. */
export interface RunLength {
  /** Number of epochs; at least 1, as are the other numbers. */
  epochs: number;
  /** Number of edges trained per epoch, without held-out edges. */
  edgesPerEpoch: number;
  /** Number of batches of all epochs and workers: the value of `progress.step` at the end, or an upper bound. */
  batches: number;
  /** Returns the share of the run that is finished after `step` batches, from 0 to 1. */
  share(step: number): number;
}

export namespace run {
  /** Returns the length, known in `update`, `plan`, `begin` and so on; in other functions all numbers are 1. */
  function length(): RunLength;
  /** Sets the length of the run for plugins; only outside the sandbox. */
  function provide(length: { epochs?: number; edgesPerEpoch?: number; batches?: number }): void;
}

export type Value = boolean | number | string;

/** A parameter that a plugin declares. */
export interface Parameter {
  name: string;
  doc: string;
  type: 'boolean' | 'integer' | 'number' | 'text' | 'choice';
  initial: Value;
  minimum?: number;
  maximum?: number;
  options?: string[];
}

interface Bounds {
  minimum?: number;
  maximum?: number;
}

/** Metadata of a plugin. */
export interface Metadata {
  name: string;
  version: string;
  summary: string;
  parameters?: Parameter[];
  /** Name of the plugin that replaces this one if it fails. */
  fallback?: string;
}

/** Functions that declare parameters; bounds are included and optional. */
export const parameter: {
  boolean(name: string, initial: boolean, doc: string): Parameter;
  integer(name: string, initial: number, doc: string, bounds?: Bounds): Parameter;
  number(name: string, initial: number, doc: string, bounds?: Bounds): Parameter;
  text(name: string, initial: string, doc: string): Parameter;
  /** Declares a choice of options; the first is the default. */
  choice(name: string, options: string[], doc: string): Parameter;
};

/** Returns the parameters that a plugin gets if the configuration sets none. */
export function defaults(plugin: { metadata(): Metadata }): Record<string, Value>;

/** xoshiro256++, seeded through SplitMix64; gives the same numbers as the other SDKs. */
export class Rng {
  constructor(seed: bigint | number);
  /** Returns 64 random bits. */
  nextU64(): bigint;
  /** Returns a whole number from 0 to `bound - 1`, each equally likely. */
  below(bound: number | bigint): number;
  /** Returns a number in [0, 1). */
  unit(): number;
  /** Puts an array in random order, in place. */
  shuffle(items: unknown[]): void;
  /** Returns an index with probability proportional to its weight; null if all are 0. */
  weighted(weights: (number | bigint)[]): number | null;
}

/** The edges from left partition `lhs` to right partition `rhs`. */
export interface Bucket {
  lhs: number;
  rhs: number;
}

/** Partition traffic of a plan; `swaps` are the loads that evict another partition. */
export interface Traffic {
  loads: number;
  swaps: number;
  bytes: bigint;
}

/** One pass over the grid of buckets. */
export class Pass {
  constructor(fields: Partial<Pass>);
  /** Creates a pass for tests: 1000 edges per bucket, 1 MiB per partition, a buffer of two. */
  static uniform(lhsPartitions: number, rhsPartitions: number, seed?: bigint | number): Pass;
  lhsPartitions: number;
  rhsPartitions: number;
  /** Whether left partition p and right partition p hold the same entities. */
  shared: boolean;
  /** Number of edges of each bucket, row by row. */
  edges: BigUint64Array;
  /** Bytes read when each partition is loaded, 0 for partitions that always stay in memory. */
  lhsBytes: BigUint64Array;
  rhsBytes: BigUint64Array;
  /** Number of partitions that fit the buffer. */
  bufferPartitions: number;
  /** Partitions in the buffer before the first bucket, all listed as left ones if shared. */
  residentLhs: number[];
  residentRhs: number[];
  position: { epoch: number; edgeSet: number; edgeChunk: number };
  /** Seed for everything random in this plan. */
  seed: bigint;
  /** Returns all buckets, row by row. */
  grid(): Bucket[];
  /** Returns the position of a bucket in `grid()` and `edges`. */
  index(bucket: Bucket): number;
  edgesOf(bucket: Bucket): bigint;
  /** Returns the number of partitions that two buckets share, which can stay in the buffer. */
  inCommon(a: Bucket, b: Bucket): number;
  /** Returns the bytes of a bucket's partitions that are not resident; 0n if it has no edges. */
  bytesToLoad(bucket: Bucket): bigint;
  /** Returns the number of partitions. */
  partitions(): number;
  /** Returns the partitions that a bucket needs in the buffer, numbered below `partitions()`. */
  needs(bucket: Bucket): number[];
  /** Returns the bytes read when a partition is loaded. */
  bytes(partition: number): bigint;
  /** Returns the traffic of a plan, counted as the host counts it. */
  traffic(plan: Bucket[]): Traffic;
  /** Returns the random number generator of this pass. */
  rng(): Rng;
}

/** Order in which the buckets of a pass are trained; must be a pure function of its arguments. */
export class Order {
  static metadata(): Metadata;
  /** Receives every declared parameter, already checked. */
  configure(parameters: Record<string, any>): void;
  /** Returns every bucket of `pass.grid()` exactly once, in the order of training. */
  plan(pass: Pass): Bucket[];
  /** Chooses the next bucket if several trainers share one grid: returns an index into `free`. */
  pick(pass: Pass, held: Bucket[], free: Bucket[]): number;
}

/** Returns the index of the free bucket with the fewest bytes to load, on a tie the first in `plan`. */
export function pickByPlan(pass: Pass, plan: Bucket[], free: Bucket[]): number;

/** Share of a bucket that one worker trains. */
export class Share {
  constructor(fields: { counts: ArrayLike<number>; batchSize: number; seed: bigint | number });
  /** Number of edges of each relation. */
  counts: number[];
  /** Maximum number of edges of a batch. */
  batchSize: number;
  seed: bigint;
  rng(): Rng;
}

/** A batch: a number of edges of one relation. */
export interface Draw {
  relation: number;
  edges: number;
}

/** Remaining edges of a share, by relation. */
export class Left {
  constructor(share: Share);
  counts: number[];
  total: number;
  /** Returns the relations with remaining edges, ascending. */
  relations(): number[];
  /** Draws a full batch, or all remaining edges of the relation. */
  take(relation: number): Draw;
}

/** Draws of a share; `next` returns null once every edge has been drawn. */
export interface Draws {
  next(): Draw | null | undefined;
  /** Called after each batch is trained. */
  observe?(relation: number, meanLoss: number): void;
}

/** Chooses the relation of each batch. */
export class Sampler {
  static metadata(): Metadata;
  configure(parameters: Record<string, any>): void;
  begin(share: Share): Draws;
}

/** The entities of a partition that may replace one side of a relation's edges. */
export interface NegativeCandidates {
  relation: number;
  relationName: string;
  /** Side of the edges that is replaced. */
  side: 'lhs' | 'rhs';
  entityType: string;
  partition: number;
  /** Number of entities in the partition. */
  entities: number;
  /** Number of the relation's edges whose replaced side is in the partition; 0 unless relation counts are required. */
  edges: number;
  /** Number of different entities on this side of these edges. */
  seen: number;
  /** Number of different entities on the replaced side of all edges of the relation; 0 unless relation entities are required. */
  replacedEntities: number;
  /** Number of different entities on the other side of these edges; 0 unless relation entities are required. */
  keptEntities: number;
  position: { epoch: number; edgeSet: number; edgeChunk: number };
}

/** Relative probabilities of entities, made by `uniform`, `counted` and `listed`, or `nothing`. */
export type CandidateWeights =
  | { tag: 'uniform' }
  | { tag: 'counted'; val: { edges: 'of-side' | 'of-relation'; power: number } }
  | { tag: 'listed'; val: { names: string[]; weights: number[] } }
  | { tag: 'nothing' };

/** Part of a distribution, which is a mixture. */
export interface NegativePart {
  /** Fraction of the draws that come from this part, relative to the other parts. */
  fraction: number;
  weights: CandidateWeights;
}

/** All entities are equally likely. */
export const uniform: CandidateWeights;
/** Weights by numbers of edges to a power, from -16 to 16. */
export function counted(edges: 'side' | 'relation', power?: number): CandidateWeights;
/** Entities by name, each once; without weights, all are equally likely. */
export function listed(names: string[], weights?: number[]): CandidateWeights;
/** No entity: this fraction of the draws is left out, so each edge has so many fewer negatives on this side. */
export const nothing: CandidateWeights;
/** Returns the mixture that draws `fraction` of the negatives, from 0 to 1, by `weights` and the others uniformly. */
export function mixed(fraction: number, weights: CandidateWeights): NegativePart[];

/** Decides from which entities negatives are drawn. It returns a distribution; the host draws from it. */
export class NegativeSampler {
  static metadata(): Metadata;
  configure(parameters: Record<string, any>): void;
  /** What distributions use. Without any, draws are uniform. */
  required(): { sideCounts?: boolean; relationCounts?: boolean; names?: boolean; relationEntities?: boolean };
  /** Returns the distribution among the candidates, with at most one part of each kind of weights. */
  distribution(candidates: NegativeCandidates): NegativePart[];
}

/** Edges that share negatives, and the entities that may replace one of their sides. Entities are numbered within their partition. */
export interface NegativeChunk {
  /** Side of the edges that is replaced. */
  side: 'lhs' | 'rhs';
  entityType: string;
  partition: number;
  /** Number of entities in the partition. */
  entities: number;
  /** Partition of the other side. */
  keptPartition: number;
  /** Relation of each edge: its index in the dataset. */
  relations: number[];
  /** Entity of each edge on the other side, which is kept. */
  kept: number[];
  /** Entity of each edge on the side that is replaced. */
  replaced: number[];
  /** Entities drawn uniformly and independently: one may occur several times. */
  candidates: number[];
  /** Scores, if they are required. */
  scores?: CandidateScores;
  /** Number of negatives to select. */
  negatives: number;
  position: { epoch: number; edgeSet: number; edgeChunk: number };
  /** Seed for everything random in this selection, for `new Rng(seed)`. */
  seed: bigint;
}

/** Scores by the model as it is before the batch. All are finite. */
export interface CandidateScores {
  /** Score of each edge. */
  positives: number[];
  /** Mean score of each candidate over the edges of the chunk that do not have it themselves; -1e9 if all have it. */
  means: number[];
  /** Highest of these scores; -1e9 if there are none. */
  highest: number[];
}

/** The negatives of a chunk, made by `entities` and `weights`. */
export type NegativeSelection = { tag: 'entities'; val: number[] } | { tag: 'weights'; val: number[] };

/** Negatives: the entities themselves, as many as `chunk.negatives`. */
export function entities(list: ArrayLike<number>): NegativeSelection;
/** Negatives that the host draws without replacement: a weight for each candidate, at least 0 and finite, not all 0. */
export function weights(list: ArrayLike<number>): NegativeSelection;

/** Chooses the negatives of every chunk of a batch. */
export class NegativeSelector {
  static metadata(): Metadata;
  configure(parameters: Record<string, any>): void;
  /** What `select` needs: a number from 1 to 64, and whether candidates are scored. */
  required(): { candidatesPerNegative?: number; scores?: boolean };
  /** Returns the negatives of a chunk, the same for the same arguments. */
  select(chunk: NegativeChunk): NegativeSelection;
}

/** Position of a pass in a schedule. Epochs are counted from the beginning of the run. */
export class Position {
  constructor(fields: { epoch: number; start?: number; end: number });
  /** Number of epochs until the middle of the pass, from `start` to `end`. */
  epoch: number;
  /** Number of epochs after which the schedule begins: those of the warm-up, in which the host does not ask it. */
  start: number;
  /** Number of epochs after which the schedule ends: those of the run, unless the configuration says otherwise. */
  end: number;
  /** Number of epochs since the beginning of the schedule. */
  readonly elapsed: number;
  /** Number of epochs from the beginning of the schedule to its end. */
  readonly length: number;
  /** Share of the schedule that has passed, from 0 to 1. */
  readonly share: number;
}

/** Decides by which factor the learning rates are multiplied in each pass of a run. */
export class RateSchedule {
  static metadata(): Metadata;
  configure(parameters: Record<string, any>): void;
  /** Returns the factor, from 0 to 1000; 1 stands for the rates of the configuration. */
  factor(position: Position): number;
}

type Operand = Expr | number;

/** A value of a formula. */
export class Expr {
  /** Throws an error: a value has no number while the formula is built. */
  [Symbol.toPrimitive](hint: string): never;
  add(other: Operand): this;
  sub(other: Operand): this;
  mul(other: Operand): this;
  div(other: Operand): this;
  pow(other: Operand): this;
  minimum(other: Operand): this;
  maximum(other: Operand): this;
  less(other: Operand): this;
  lessEqual(other: Operand): this;
  greater(other: Operand): this;
  greaterEqual(other: Operand): this;
  equal(other: Operand): this;
  notEqual(other: Operand): this;
  neg(): this;
  abs(): this;
  exp(): this;
  log(): this;
  sqrt(): this;
  sigmoid(): this;
  softplus(): this;
  relu(): this;
  stopGradient(): this;
  /** Returns the sum over the negatives of each positive. */
  sum(): this;
  mean(): this;
  max(): this;
  logsumexp(): this;
  /** Returns exp(x) divided by the row's sum of exp(x). */
  softmax(): this;
  /** Returns `then` where this value is not 0, `otherwise` elsewhere. */
  select(then: Operand, otherwise: Operand): this;
  clamp(low: Operand, high: Operand): this;
}

/** Inputs of a formula. */
export interface Scores {
  /** One number per positive. */
  positive: Expr;
  /** One number per negative. */
  negatives: Expr;
  /** Number of negatives per positive. */
  readonly columns: Expr;
  constant(value: number): Expr;
  /** Returns a number that `update` may change later. */
  parameter(name: string, value: number): Expr;
}

/** A loss as a formula on the scores of one row. */
export class TracedLoss {
  static metadata(): Metadata;
  /** Number of batches between two calls of `update`; 0: never. */
  updateEvery: number;
  configure(parameters: Record<string, any>): void;
  /** Builds the formula: the loss of each positive. */
  build(scores: Scores): Expr;
  /** Changes the values of parameters. */
  update(progress: { step: number; edges: number; meanLoss: number }, values: Record<string, number>): void;
}

/** Returns the graph of a loss, as passed to the host. */
export function trace(loss: TracedLoss): unknown;

/** A value of an operator's formula: a component, a parameter, or the result of an elementwise operation. */
export class Vector extends Expr {
  /** Returns the sine of an angle in radians. */
  sin(): this;
  /** Returns the cosine of an angle in radians. */
  cos(): this;
  /** Returns the sum over all elements of the vector, in every element. */
  sum(): this;
  /** Returns the inner product with another vector, in every element. */
  dot(other: Vector | number): this;
  /** No other operation mixes the elements of an embedding. */
  mean(): never;
  max(): never;
  logsumexp(): never;
  softmax(): never;
}

/** Initial values of the elements of a parameter; a number is the standard deviation of a normal distribution. */
export type Initial = 'zero' | 'one' | 'angle' | number;

/** Inputs of an operator's formula. */
export interface Embedding {
  /** Returns the component with this index, counted from 0. */
  component(index: number): Vector;
  /** Returns the first `count` components. */
  components(count: number): Vector[];
  /** Returns a parameter: a vector that belongs to the relation. The same name returns the same parameter. */
  parameter(name: string, initial: Initial): Vector;
  /** Returns a constant, the same in all elements. */
  constant(value: number): Vector;
}

/** An operator as a formula on the components of an embedding and the parameters of a relation. */
export class TracedOperator {
  static metadata(): Metadata;
  configure(parameters: Record<string, any>): void;
  /**
   * Builds the formula and returns the results for 1, 2, 4 or 8 components. The embedding is that of an edge's right
   * entity; with dynamic relations, of the entity that is not replaced.
   */
  build(x: Embedding): Vector[];
  /** Builds the formula of left entities with the same parameters; by default, left entities stay as they are. */
  buildLhs(x: Embedding): Vector[] | undefined;
}

/** Returns the formula of an operator, as passed to the host. */
export function traceOperator(operator: TracedOperator): unknown;

/** One of the two embeddings that are compared. */
export interface ComparedEmbedding {
  /** Returns the component with this index, counted from 0. */
  component(index: number): Vector;
  /** Returns the first `count` components. */
  components(count: number): Vector[];
  /** Returns a constant. */
  constant(value: number): Vector;
}

/** A comparator as a formula on the components of two embeddings. */
export class TracedComparator {
  static metadata(): Metadata;
  /** Number of components into which each embedding is split: 1, 2, 4 or 8. */
  components: number;
  configure(parameters: Record<string, any>): void;
  /**
   * Builds the formula and returns the score of a left and a right embedding, which is higher for embeddings that fit
   * better. It is one number, such as a sum, and depends on both embeddings.
   */
  build(left: ComparedEmbedding, right: ComparedEmbedding): Vector;
}

/** Returns the formula of a comparator, as passed to the host. */
export function traceComparator(comparator: TracedComparator): unknown;
