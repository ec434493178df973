//! Assertion of the contract of relation samplers, for the tests of plugins.

use super::defaults;
use crate::{Draw, Draws as _, Sampler, Share};

/// Asserts the contract of a sampler, configured with its defaults: for shares of many shapes, batch
/// sizes and seeds, it draws every edge exactly once in batches of valid size, and two instances with
/// the same share and the same losses return the same draws.
///
/// # Panics
/// If the contract is violated. The message has the problem and the share.
///
/// ```
/// # use pbg_plugin_sdk::{Draw, Draws, Left, Metadata, Result, Sampler, Share, testing};
/// # #[derive(Default)]
/// # struct InOrder;
/// # struct Walk(Left);
/// # impl Sampler for InOrder {
/// #     type Draws = Walk;
/// #     fn metadata() -> Metadata { Metadata::new("in_order", "0.1.0", "") }
/// #     fn begin(&self, share: &Share) -> Result<Walk> { Ok(Walk(Left::new(share))) }
/// # }
/// # impl Draws for Walk {
/// #     fn next(&mut self) -> Result<Option<Draw>> {
/// #         Ok(self.0.relation_of(0).map(|relation| self.0.take(relation)))
/// #     }
/// # }
/// testing::assert_sampler::<InOrder>();
/// ```
pub fn assert_sampler<S: Sampler>() {
    let shapes: [&[u64]; 8] = [
        &[],
        &[0],
        &[0, 0, 0],
        &[1],
        &[1000],
        &[0, 7, 0, 13, 1],
        &[100, 300, 600],
        &[1; 50],
    ];
    for counts in shapes {
        for batch_size in [1, 7, 50, u32::MAX] {
            for seed in [0, 1, u64::MAX] {
                let share = Share {
                    counts: counts.to_vec(),
                    batch_size,
                    seed,
                };
                let drawn = assert_draws::<S>(&share);
                assert_eq!(
                    drawn,
                    assert_draws::<S>(&share),
                    "the draws of two instances differ for {share:?}"
                );
            }
        }
    }
}

/// Asserts the contract of [`assert_sampler`] for one share, and returns the draws. The sampler
/// observes the mean loss `1 / (1 + i)` for batch number `i`.
///
/// # Panics
/// If the contract is violated. The message has the share.
///
/// ```
/// # use pbg_plugin_sdk::{Draw, Draws, Left, Metadata, Result, Sampler, Share, testing};
/// # #[derive(Default)]
/// # struct InOrder;
/// # struct Walk(Left);
/// # impl Sampler for InOrder {
/// #     type Draws = Walk;
/// #     fn metadata() -> Metadata { Metadata::new("in_order", "0.1.0", "") }
/// #     fn begin(&self, share: &Share) -> Result<Walk> { Ok(Walk(Left::new(share))) }
/// # }
/// # impl Draws for Walk {
/// #     fn next(&mut self) -> Result<Option<Draw>> {
/// #         Ok(self.0.relation_of(0).map(|relation| self.0.take(relation)))
/// #     }
/// # }
/// let share = Share { counts: vec![5, 2], batch_size: 4, seed: 7 };
/// let relations: Vec<u32> = testing::assert_draws::<InOrder>(&share).iter().map(|d| d.relation).collect();
/// assert_eq!(relations, [0, 0, 1]);
/// ```
pub fn assert_draws<S: Sampler>(share: &Share) -> Vec<Draw> {
    let mut sampler = S::default();
    let configured = sampler.configure(&defaults(&S::metadata()));
    assert_eq!(configured, Ok(()), "the plugin refuses its own defaults");
    let mut walk = answered(sampler.begin(share), share);
    let mut left = share.counts.clone();
    let mut drawn = Vec::new();
    while let Some(draw) = answered(walk.next(), share) {
        let Draw { relation, edges } = draw;
        let of_relation = left.get_mut(relation as usize);
        let of_relation = of_relation
            .unwrap_or_else(|| panic!("it drew relation {relation}, which is not in {share:?}"));
        let most = (*of_relation).min(u64::from(share.batch_size));
        assert!(
            (1..=most).contains(&u64::from(edges)),
            "it drew {edges} edges of relation {relation}, of at most {most} edges, from {share:?}"
        );
        *of_relation -= u64::from(edges);
        walk.observe(relation, 1.0 / (1.0 + drawn.len() as f32));
        drawn.push(draw);
    }
    let left: u64 = left.iter().sum();
    assert_eq!(left, 0, "it ended before all edges of {share:?} were drawn");
    drawn
}

fn answered<T>(answer: crate::Result<T>, share: &Share) -> T {
    answer.unwrap_or_else(|refusal| panic!("the plugin refuses {share:?}: {refusal}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Left, Metadata, Result};

    /// Ends before the last edge is drawn.
    #[derive(Default)]
    struct Lazy;

    struct Walk(Left);

    impl Sampler for Lazy {
        type Draws = Walk;

        fn metadata() -> Metadata {
            Metadata::new("lazy", "0.1.0", "Ends early.")
        }

        fn begin(&self, share: &Share) -> Result<Walk> {
            Ok(Walk(Left::new(share)))
        }
    }

    impl crate::Draws for Walk {
        fn next(&mut self) -> Result<Option<Draw>> {
            let relation = self.0.relation_of(1);
            Ok(relation.map(|relation| self.0.take(relation)))
        }
    }

    #[test]
    #[should_panic(expected = "it ended before all edges")]
    fn an_early_end_is_found() {
        assert_sampler::<Lazy>();
    }

    /// Draws the same batch forever.
    #[derive(Default)]
    struct Stuck;

    impl Sampler for Stuck {
        type Draws = Self;

        fn metadata() -> Metadata {
            Metadata::new("stuck", "0.1.0", "Repeats itself.")
        }

        fn begin(&self, _share: &Share) -> Result<Self> {
            Ok(Self)
        }
    }

    impl crate::Draws for Stuck {
        fn next(&mut self) -> Result<Option<Draw>> {
            Ok(Some(Draw {
                relation: 0,
                edges: 1,
            }))
        }
    }

    #[test]
    #[should_panic(expected = "of at most 0")]
    fn edges_that_are_drawn_twice_are_found() {
        assert_draws::<Stuck>(&Share {
            counts: vec![2],
            batch_size: 1,
            seed: 0,
        });
    }
}
