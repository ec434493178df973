//! The order of PBG's first releases: a chain of mirrored pairs that share a partition.

use pbg_plugin_sdk::{Bucket, Pass, Rng};

/// Returns the plan of `chained_symmetric_pairs`.
#[must_use]
pub fn plan(pass: &Pass) -> Vec<Bucket> {
    let mut chain = Chain::new(pass, &mut pass.rng());
    let mut plan = Vec::with_capacity(pass.edges.len());
    while let Some([a, b]) = chain.step() {
        plan.extend(pass.between(a, b));
    }
    if pass.shared {
        plan.extend((0..pass.lhs_partitions).map(|p| Bucket::new(p, p)));
    }
    plan
}

/// Pairs and the state of the chain.
struct Chain {
    /// All pairs, shuffled.
    pairs: Vec<[usize; 2]>,
    used: Vec<bool>,
    /// For each partition, its pairs as positions in `pairs`, in descending order.
    of_partition: Vec<Vec<usize>>,
    /// All pairs from this position on are used.
    end: usize,
    last: Option<[usize; 2]>,
}

impl Chain {
    fn new(pass: &Pass, rng: &mut Rng) -> Self {
        let mut pairs: Vec<[usize; 2]> = pass
            .grid()
            .into_iter()
            .map(|bucket| pass.ends(bucket))
            .filter(|[a, b]| a < b)
            .collect();
        rng.shuffle(&mut pairs);
        let mut of_partition = vec![Vec::new(); pass.partitions()];
        for (position, &[a, b]) in pairs.iter().enumerate().rev() {
            of_partition[a].push(position);
            of_partition[b].push(position);
        }
        Self {
            used: vec![false; pairs.len()],
            end: pairs.len(),
            pairs,
            of_partition,
            last: None,
        }
    }

    fn step(&mut self) -> Option<[usize; 2]> {
        let sharing = self.last.and_then(|[a, b]| {
            let (a, b) = (self.first_of(a), self.first_of(b));
            a.into_iter().chain(b).min()
        });
        let position = sharing.or_else(|| self.last_left())?;
        self.used[position] = true;
        self.last = Some(self.pairs[position]);
        self.last
    }

    /// Returns the position of the first unused pair of a partition.
    fn first_of(&mut self, partition: usize) -> Option<usize> {
        let list = &mut self.of_partition[partition];
        while list.pop_if(|position| self.used[*position]).is_some() {}
        list.last().copied()
    }

    fn last_left(&mut self) -> Option<usize> {
        while self.end > 0 && self.used[self.end - 1] {
            self.end -= 1;
        }
        self.end.checked_sub(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Searches the list as the original does.
    fn by_searching(mut pairs: Vec<[usize; 2]>) -> Vec<[usize; 2]> {
        let mut chain: Vec<[usize; 2]> = pairs.pop().into_iter().collect();
        while let Some(&last) = chain.last() {
            let shares = |pair: &[usize; 2]| pair.iter().any(|p| last.contains(p));
            let next = match pairs.iter().position(shares) {
                Some(position) => pairs.remove(position),
                None => match pairs.pop() {
                    Some(pair) => pair,
                    None => break,
                },
            };
            chain.push(next);
        }
        chain
    }

    #[test]
    fn the_chain_is_the_one_that_searching_the_list_finds() {
        for seed in 0..200 {
            let mut pass = Pass::uniform(2 + seed as u32 % 9, 7, seed);
            if seed % 2 == 0 {
                pass = Pass::uniform(2 + seed as u32 % 13, 2 + seed as u32 % 13, seed);
            }
            let mut chain = Chain::new(&pass, &mut pass.rng());
            let expected = by_searching(chain.pairs.clone());
            let found: Vec<[usize; 2]> = std::iter::from_fn(|| chain.step()).collect();
            assert_eq!(found, expected);
        }
    }
}
