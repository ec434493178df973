// How long the run is that a plugin works for: what a plan that changes over a run is measured by.
//
// It is known where a run calls the plugin while it trains: in `update`, `plan`, `begin` and so on. Elsewhere, and in tests
// that `provide` none, there is no run, and all numbers are 1.

let ask = () => ({ epochs: 1, edgesPerEpoch: 1, batches: 1 });

/** Who says how long the run is; the component sets it. */
export function setLength(length) {
  if (length) ask = length;
}

/**
 * The length of the run from its very beginning, as the configuration has it now: `epochs`, `edgesPerEpoch` without edges
 * that are held out, and `batches` of all epochs, which `progress.step` reaches at the end. All are at least 1; `batches` is
 * an upper bound where batches have one relation each. `share(step)` is how much of it is over, from 0 to 1.
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

/** Makes plugins part of a run of this length; only outside the sandbox. */
export function provide({ epochs = 1, edgesPerEpoch = 1, batches = 1 }) {
  ask = () => ({ epochs, edgesPerEpoch, batches });
}
