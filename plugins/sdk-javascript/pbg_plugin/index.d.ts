// Types of what index.js has, for completion in editors and for TypeScript.

/** Throw it where a wish cannot be met: its text is shown to the user. */
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

/** How long the run is that a plugin works for: from its beginning, as the configuration has it now. */
export interface RunLength {
  /** Epochs; at least 1, as the others. */
  epochs: number;
  /** Edges that an epoch trains, without those that are held out. */
  edgesPerEpoch: number;
  /** Batches of all epochs, all workers together: what `progress.step` is at the end, or an upper bound of it. */
  batches: number;
  /** The share of the run that is over after so many batches, from 0 to 1. */
  share(step: number): number;
}

export namespace run {
  /** Known in `update`, `plan`, `begin` and so on; elsewhere all numbers are 1. */
  function length(): RunLength;
  /** Makes plugins part of a run of this length; only outside the sandbox. */
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

/** Who a plugin is. */
export interface Metadata {
  name: string;
  version: string;
  summary: string;
  parameters?: Parameter[];
  /** The standard plugin that takes its place where it fails. */
  fallback?: string;
}

/** What declares parameters; bounds are included and may be left out. */
export const parameter: {
  boolean(name: string, initial: boolean, doc: string): Parameter;
  integer(name: string, initial: number, doc: string, bounds?: Bounds): Parameter;
  number(name: string, initial: number, doc: string, bounds?: Bounds): Parameter;
  text(name: string, initial: string, doc: string): Parameter;
  /** One of several words; the first is the default. */
  choice(name: string, options: string[], doc: string): Parameter;
};

/** The parameters that a plugin gets where a configuration sets nothing. */
export function defaults(plugin: { metadata(): Metadata }): Record<string, Value>;

/** xoshiro256++, seeded through SplitMix64: the same numbers as the other SDKs give. */
export class Rng {
  constructor(seed: bigint | number);
  /** 64 random bits. */
  nextU64(): bigint;
  /** A whole number from 0 to `bound - 1`, each equally likely. */
  below(bound: number | bigint): number;
  /** A number in [0, 1). */
  unit(): number;
  /** Puts an array in random order, in place. */
  shuffle(items: unknown[]): void;
  /** An index with probability proportional to its weight; null where all are 0. */
  weighted(weights: (number | bigint)[]): number | null;
}

/** The edges from left partition `lhs` to right partition `rhs`. */
export interface Bucket {
  lhs: number;
  rhs: number;
}

/** What a plan loads; `swaps` are the loads that evict another partition. */
export interface Traffic {
  loads: number;
  swaps: number;
  bytes: bigint;
}

/** One walk over the grid of buckets. */
export class Pass {
  constructor(fields: Partial<Pass>);
  /** For tests: 1000 edges per bucket, 1 MiB per partition, a buffer of two. */
  static uniform(lhsPartitions: number, rhsPartitions: number, seed?: bigint | number): Pass;
  lhsPartitions: number;
  rhsPartitions: number;
  /** Whether left partition p and right partition p are the same entities. */
  shared: boolean;
  /** Edges of each bucket, row by row. */
  edges: BigUint64Array;
  /** What loading each partition reads, 0 for what always stays in memory. */
  lhsBytes: BigUint64Array;
  rhsBytes: BigUint64Array;
  /** How many partitions fit the buffer. */
  bufferPartitions: number;
  /** What is in the buffer before the first bucket, all on the left where shared. */
  residentLhs: number[];
  residentRhs: number[];
  position: { epoch: number; edgeSet: number; edgeChunk: number };
  /** For everything random in this plan. */
  seed: bigint;
  /** All buckets, row by row. */
  grid(): Bucket[];
  /** Position of a bucket in `grid()` and `edges`. */
  index(bucket: Bucket): number;
  edgesOf(bucket: Bucket): bigint;
  /** How many partitions two buckets have in common: what stays in the buffer. */
  inCommon(a: Bucket, b: Bucket): number;
  /** Bytes of a bucket's partitions that are not resident; 0n where it has no edges. */
  bytesToLoad(bucket: Bucket): bigint;
  /** How many partitions there are to load. */
  partitions(): number;
  /** The partitions that training a bucket needs in the buffer, numbered below `partitions()`. */
  needs(bucket: Bucket): number[];
  /** What loading a partition reads. */
  bytes(partition: number): bigint;
  /** What a plan loads, counted as the host counts it. */
  traffic(plan: Bucket[]): Traffic;
  /** The generator that belongs to this pass. */
  rng(): Rng;
}

/** Decides in which order the buckets of a pass are trained: a pure function of its arguments. */
export class Order {
  static metadata(): Metadata;
  /** Takes every declared parameter, already checked. */
  configure(parameters: Record<string, any>): void;
  /** Every bucket of `pass.grid()` exactly once, in the order of training. */
  plan(pass: Pass): Bucket[];
  /** Several trainers share one grid: index of the bucket of `free` to train next. */
  pick(pass: Pass, held: Bucket[], free: Bucket[]): number;
}

/** The free bucket with fewest bytes to load, then first in `plan`. */
export function pickByPlan(pass: Pass, plan: Bucket[], free: Bucket[]): number;

/** What one worker trains of one bucket. */
export class Share {
  constructor(fields: { counts: ArrayLike<number>; batchSize: number; seed: bigint | number });
  /** Edges of each relation. */
  counts: number[];
  /** Edges that a batch takes at most. */
  batchSize: number;
  seed: bigint;
  rng(): Rng;
}

/** A batch: edges of one relation. */
export interface Draw {
  relation: number;
  edges: number;
}

/** The edges of a share that are left to draw, by relation. */
export class Left {
  constructor(share: Share);
  counts: number[];
  total: number;
  /** The relations that have edges left, ascending. */
  relations(): number[];
  /** Draws a batch: as many edges as one takes, or what is left of the relation. */
  take(relation: number): Draw;
}

/** What draws the batches of a share; null once every edge was drawn. */
export interface Draws {
  next(): Draw | null | undefined;
  /** Called after each batch was trained. */
  observe?(relation: number, meanLoss: number): void;
}

/** Chooses the relation of each batch. */
export class Sampler {
  static metadata(): Metadata;
  configure(parameters: Record<string, any>): void;
  begin(share: Share): Draws;
}

type Operand = Expr | number;

/** A value of a formula. */
export class Expr {
  /** Throws: it has no value while the formula is written down. */
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
  /** Over the negatives of each positive. */
  sum(): this;
  mean(): this;
  max(): this;
  logsumexp(): this;
  /** exp(x) divided by the sum of the row's. */
  softmax(): this;
  /** `then` where this is not 0, `otherwise` elsewhere. */
  select(then: Operand, otherwise: Operand): this;
  clamp(low: Operand, high: Operand): this;
}

/** What a formula starts from. */
export interface Scores {
  /** One number per positive. */
  positive: Expr;
  /** One number per negative. */
  negatives: Expr;
  /** Number of negatives per positive. */
  readonly columns: Expr;
  constant(value: number): Expr;
  /** A number that `update` may change later. */
  parameter(name: string, value: number): Expr;
}

/** A loss as a formula on the scores of one row. */
export class TracedLoss {
  static metadata(): Metadata;
  /** After how many batches `update` is called; 0: never. */
  updateEvery: number;
  configure(parameters: Record<string, any>): void;
  /** Writes the formula down: the loss of each positive. */
  build(scores: Scores): Expr;
  /** Changes the values of parameters. */
  update(progress: { step: number; edges: number; meanLoss: number }, values: Record<string, number>): void;
}

/** The graph of a loss, as the host gets it. */
export function trace(loss: TracedLoss): unknown;

/** A value of an operator's formula: a component, a parameter, or made of those element by element. */
export class Vector extends Expr {
  /** Sine of an angle in radians. */
  sin(): this;
  /** Cosine of an angle in radians. */
  cos(): this;
  /** There is no operation that mixes the elements of an embedding. */
  sum(): never;
  mean(): never;
  max(): never;
  logsumexp(): never;
  softmax(): never;
}

/** How the elements of a parameter begin; a number: normally distributed with this standard deviation. */
export type Initial = 'zero' | 'one' | 'angle' | number;

/** What an operator's formula starts from. */
export interface Embedding {
  /** The component with this index, counted from 0. */
  component(index: number): Vector;
  /** The first `count` components. */
  components(count: number): Vector[];
  /** A vector of the relation's own; the same one for the same name. */
  parameter(name: string, initial: Initial): Vector;
  /** A number, the same in all elements. */
  constant(value: number): Vector;
}

/** An operator as a formula on the components of an embedding and the parameters of a relation. */
export class TracedOperator {
  static metadata(): Metadata;
  configure(parameters: Record<string, any>): void;
  /** Writes the formula down: what each component becomes, 1, 2 or 4 of them. */
  build(x: Embedding): Vector[];
}

/** The formula of an operator, as the host gets it. */
export function traceOperator(operator: TracedOperator): unknown;
