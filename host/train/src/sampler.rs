//! PBG's relation sampler, native until samplers are components: the next batch's relation is
//! drawn with probability proportional to the edges it has left.

use pbg_core::strategy::{Draw, RelationSampler, SamplerFactory, StrategyError, StrategyId};
use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

/// Makes [`ProportionalSampler`]s.
#[derive(Debug)]
pub struct Proportional {
    id: StrategyId,
}

impl Default for Proportional {
    fn default() -> Self {
        let id = StrategyId {
            name: "proportional".to_owned(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            sha256: String::new(),
        };
        Self { id }
    }
}

impl SamplerFactory for Proportional {
    fn id(&self) -> &StrategyId {
        &self.id
    }

    fn create(
        &self,
        counts: &[u64],
        batch_size: u32,
        seed: u64,
    ) -> Result<Box<dyn RelationSampler>, StrategyError> {
        Ok(Box::new(ProportionalSampler {
            left: counts.to_vec(),
            total: counts.iter().sum(),
            batch_size: u64::from(batch_size.max(1)),
            rng: Xoshiro256PlusPlus::seed_from_u64(seed),
        }))
    }
}

/// Draws relations until every edge is used.
#[derive(Debug)]
struct ProportionalSampler {
    left: Vec<u64>,
    total: u64,
    batch_size: u64,
    rng: Xoshiro256PlusPlus,
}

impl RelationSampler for ProportionalSampler {
    fn next(&mut self) -> Result<Option<Draw>, StrategyError> {
        if self.total == 0 {
            return Ok(None);
        }
        let mut target = self.rng.random_range(0..self.total);
        let mut relation = 0;
        while target >= self.left[relation] {
            target -= self.left[relation];
            relation += 1;
        }
        let edges = self.left[relation].min(self.batch_size);
        self.left[relation] -= edges;
        self.total -= edges;
        Ok(Some(Draw {
            relation: relation as u32,
            edges: edges as u32,
        }))
    }

    fn observe(&mut self, _relation: u32, _mean_loss: f32) -> Result<(), StrategyError> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn draws_every_edge_and_prefers_what_has_more_left() {
        let mut first = [0_u32; 3];
        for seed in 0..4000 {
            let mut sampler = Proportional::default()
                .create(&[100, 300, 600], 50, seed)
                .unwrap();
            let mut drawn = [0_u64; 3];
            let mut start = None;
            while let Some(draw) = sampler.next().unwrap() {
                assert!(draw.edges <= 50);
                start.get_or_insert(draw.relation);
                drawn[draw.relation as usize] += u64::from(draw.edges);
            }
            assert_eq!(drawn, [100, 300, 600]);
            first[start.unwrap() as usize] += 1;
        }
        // Chi-square with 2 degrees of freedom; 13.8 is the 0.1 % point.
        let chi: f64 = [0.1, 0.3, 0.6]
            .iter()
            .zip(first)
            .map(|(p, n)| (f64::from(n) - p * 4000.0).powi(2) / (p * 4000.0))
            .sum();
        assert!(chi < 13.8, "{first:?}");
    }
}
