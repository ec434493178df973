// Length of the run, for strategies that change over a run.
//
// It is known in functions that are called during training: `update`, `plan`, `begin` and so on. In other functions, and
// in tests that `provide` none, all numbers are 1.

let ask = () => ({ epochs: 1, edgesPerEpoch: 1, batches: 1 });

/** Function that returns the length of the run; set by the component. */
export function setLength(length) {
  if (length) ask = length;
}

/**
 * Length of the run from its beginning, according to the current configuration: `epochs`, `edgesPerEpoch` without
 * held-out edges, and `batches` of all epochs, which `progress.step` reaches at the end. All are at least 1; `batches` is
 * an upper bound if batches have one relation each. `share(step)` is the finished share, from 0 to 1.
 */
export function length() {
  const told = ask();
  // Counts of 64 bits may come as BigInt; they stay below 2^53.
  const batches = Number(told.batches);
  return {
    epochs: told.epochs,
    edgesPerEpoch: Number(told.edgesPerEpoch),
    batches,
    share: (step) => Math.min(Number(step) / batches, 1),
  };
}

/** Sets the length of the run for plugins; only outside the sandbox. */
export function provide({ epochs = 1, edgesPerEpoch = 1, batches = 1 }) {
  ask = () => ({ epochs, edgesPerEpoch, batches });
}
