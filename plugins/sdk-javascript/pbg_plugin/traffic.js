// The partition loads that a plan asks for.

/** The traffic of `plan` with the buffer of `pass` and what is resident in it. */
export function traffic(pass, plan) {
  const needed = plan.map((bucket) => pass.needs(bucket));
  const later = laterUses(needed, pass.partitions());
  const nextUse = later.first;
  const right = pass.shared ? 0 : pass.lhsPartitions;
  const resident = [...pass.residentLhs, ...Array.from(pass.residentRhs, (p) => p + right)];
  const total = { loads: 0, swaps: 0, bytes: 0n };
  needed.forEach((partitions, position) => {
    // All of a bucket's partitions are in use before any of them is looked for.
    partitions.forEach((partition, end) => {
      nextUse[partition] = later.after[position][end];
    });
    for (const partition of partitions) {
      if (resident.includes(partition)) continue;
      if (resident.length >= pass.bufferPartitions) {
        const victim = latest(resident, partitions, nextUse);
        if (victim >= 0) {
          resident.splice(victim, 1);
          total.swaps += 1;
        }
      }
      resident.push(partition);
      total.loads += 1;
      total.bytes += pass.bytes(partition);
    }
  });
  return total;
}

// Where each partition is needed first, and per position where its partitions are needed next.
function laterUses(needed, partitions) {
  const first = new Array(partitions).fill(Infinity);
  const after = needed.map(() => []);
  for (let position = needed.length - 1; position >= 0; position--) {
    after[position] = needed[position].map((partition) => first[partition]);
    for (const partition of needed[position]) first[partition] = position;
  }
  return { first, after };
}

// The slot of what is needed again latest and not now, the lowest number among equals; -1 if there is none.
function latest(resident, now, nextUse) {
  let best = -1;
  resident.forEach((partition, slot) => {
    if (now.includes(partition)) return;
    const known = resident[best];
    const later = best < 0 || nextUse[partition] > nextUse[known]
      || (nextUse[partition] === nextUse[known] && partition < known);
    if (later) best = slot;
  });
  return best;
}
