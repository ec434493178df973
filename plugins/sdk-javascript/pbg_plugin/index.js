// SDK for pbg-host plugins in JavaScript.
//
// A plugin is a class; `component.js` of a project exports it to the host. The same class runs in
// Node: `pbg_plugin/testing.js` has assertions for tests.
//
// `console.log` writes to the host's log. Rules of the sandbox: no files, no network, no clock. `Math.random` gives the same
// numbers in every run and every pass, so draw from `pass.rng()`.

export { TracedComparator, traceComparator } from './comparator.js';
export { Refused } from './component.js';
export * as log from './log.js';
export { TracedLoss, trace } from './loss.js';
export { defaults, parameter } from './metadata.js';
export { NegativeSampler, counted, listed, mixed, nothing, uniform } from './negatives.js';
export { TracedOperator, traceOperator } from './operator.js';
export { Order, Pass, pickByPlan } from './order.js';
export { Rng } from './rng.js';
export * as run from './run.js';
export { Left, Sampler, Share } from './sampler.js';
export { Position, RateSchedule } from './schedule.js';
export { NegativeSelector, entities, weights } from './selection.js';
