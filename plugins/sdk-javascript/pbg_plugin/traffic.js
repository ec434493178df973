// Partition loads of a plan, counted as the host counts them.

/** Returns the traffic of `plan` with the buffer and the resident partitions of `pass`. */
export function traffic(pass, plan) {
  const needed = plan.map((bucket) => pass.needs(bucket));
  const later = laterUses(needed, pass.partitions());
  const nextUse = later.first;
  const right = pass.shared ? 0 : pass.lhsPartitions;
  const resident = [...pass.residentLhs, ...Array.from(pass.residentRhs, (p) => p + right)];
  const total = { loads: 0, swaps: 0, bytes: 0n };
  needed.forEach((partitions, position) => {
    // Update the next use of all partitions of the bucket before choosing a victim.
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

// Returns the first use of each partition, and for each position the next uses of its partitions.
function laterUses(needed, partitions) {
  const first = new Array(partitions).fill(Infinity);
  const after = needed.map(() => []);
  for (let position = needed.length - 1; position >= 0; position--) {
    after[position] = needed[position].map((partition) => first[partition]);
    for (const partition of needed[position]) first[partition] = position;
  }
  return { first, after };
}

// Returns the slot of the partition to evict: the one whose next use is furthest away, on a tie the lowest number; -1 if
// all are in use.
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
