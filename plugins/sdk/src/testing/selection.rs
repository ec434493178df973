//! Assertion of the contract of negative selectors, for the tests of plugins.

use super::defaults;
use crate::{NegativeChunk, NegativeSelection, NegativeSelector};

/// Asserts the contract of a negative selector, configured with its defaults: for many chunks, with few and many entities,
/// its selections are valid, and the same when it is asked again.
///
/// # Panics
/// If the contract is violated. The message describes the problem.
///
/// ```
/// # use pbg_plugin_sdk::{
/// #     Metadata, NegativeChunk, NegativeSelection, NegativeSelector, Result, SelectionRequirements,
/// # };
/// #[derive(Default)]
/// struct First;
///
/// impl NegativeSelector for First {
///     fn metadata() -> Metadata { Metadata::new("first", "0.1.0", "The first candidates.") }
///     fn required(&self) -> SelectionRequirements {
///         SelectionRequirements { candidates_per_negative: 1, scores: false }
///     }
///     fn select(&mut self, chunk: &NegativeChunk) -> Result<NegativeSelection> {
///         Ok(NegativeSelection::Entities(chunk.candidates.clone()))
///     }
/// }
///
/// pbg_plugin_sdk::testing::assert_negative_selector::<First>();
/// ```
pub fn assert_negative_selector<S: NegativeSelector>() {
    let mut selector = S::default();
    let configured = selector.configure(&defaults(&S::metadata()));
    assert_eq!(configured, Ok(()), "the plugin refuses its own defaults");
    let per_negative = selector.required().candidates_per_negative;
    assert!(
        (1..=64).contains(&per_negative),
        "{per_negative} candidates per negative are required; the number must be from 1 to 64"
    );
    for seed in 0..20 {
        for entities in [1, 2, 100] {
            for negatives in [1, 10] {
                assert_selection::<S>(&chunk(seed, entities, negatives));
            }
        }
    }
}

/// Returns a chunk of a partition with so many entities.
fn chunk(seed: u64, entities: u32, negatives: u32) -> NegativeChunk {
    let mut chunk = NegativeChunk::example(seed);
    let numbers = [&mut chunk.replaced, &mut chunk.candidates].into_iter();
    numbers.flatten().for_each(|entity| *entity %= entities);
    NegativeChunk {
        entities,
        negatives,
        ..chunk
    }
}

/// Asserts the contract of [`assert_negative_selector`] for a chunk, and returns the selection. The candidates of the chunk
/// are repeated or cut to the number that the plugin requires, and scores are left out if it requires none.
///
/// # Panics
/// If the contract is violated. The message has the chunk.
///
/// ```
/// # use pbg_plugin_sdk::{
/// #     Metadata, NegativeChunk, NegativeSelection, NegativeSelector, Result, SelectionRequirements, testing,
/// # };
/// # #[derive(Default)]
/// # struct First;
/// # impl NegativeSelector for First {
/// #     fn metadata() -> Metadata { Metadata::new("first", "0.1.0", "The first candidates.") }
/// #     fn required(&self) -> SelectionRequirements {
/// #         SelectionRequirements { candidates_per_negative: 1, scores: false }
/// #     }
/// #     fn select(&mut self, chunk: &NegativeChunk) -> Result<NegativeSelection> {
/// #         Ok(NegativeSelection::Entities(chunk.candidates.clone()))
/// #     }
/// # }
/// let selection = testing::assert_selection::<First>(&NegativeChunk::example(1));
/// assert!(matches!(selection, NegativeSelection::Entities(entities) if entities.len() == 10));
/// ```
pub fn assert_selection<S: NegativeSelector>(chunk: &NegativeChunk) -> NegativeSelection {
    let fresh = || {
        let mut selector = S::default();
        let configured = selector.configure(&defaults(&S::metadata()));
        assert_eq!(configured, Ok(()), "the plugin refuses its own defaults");
        selector
    };
    let mut selector = fresh();
    let chunk = &fitted(chunk, &selector);
    let select = |selector: &mut S| {
        let selected = selector.select(chunk);
        selected.unwrap_or_else(|refusal| panic!("the plugin refuses {chunk:?}: {refusal}"))
    };
    let selection = select(&mut selector);
    assert_eq!(
        select(&mut selector),
        selection,
        "a second selection differs for {chunk:?}"
    );
    assert_eq!(
        select(&mut fresh()),
        selection,
        "the selection of another instance differs for {chunk:?}"
    );
    match &selection {
        NegativeSelection::Entities(entities) => {
            let (found, wanted) = (entities.len(), chunk.negatives as usize);
            assert_eq!(found, wanted, "{found} entities for {chunk:?}");
            let exists = |entity: &u32| *entity < chunk.entities;
            assert!(entities.iter().all(exists), "{entities:?} for {chunk:?}");
        }
        NegativeSelection::Weights(weights) => {
            let (found, wanted) = (weights.len(), chunk.candidates.len());
            assert_eq!(found, wanted, "{found} weights for {chunk:?}");
            let valid = |weight: &f32| *weight >= 0.0 && weight.is_finite();
            assert!(weights.iter().all(valid), "{weights:?} for {chunk:?}");
            let drawn = weights.iter().any(|&weight| weight > 0.0);
            assert!(drawn, "all weights are 0 for {chunk:?}");
        }
    }
    selection
}

/// Returns the chunk as the host would pass it to the selector.
fn fitted<S: NegativeSelector>(chunk: &NegativeChunk, selector: &S) -> NegativeChunk {
    let required = selector.required();
    let mut chunk = chunk.clone();
    let pool = (chunk.negatives * required.candidates_per_negative) as usize;
    fit(&mut chunk.candidates, pool);
    match &mut chunk.scores {
        Some(scores) if required.scores => {
            fit(&mut scores.means, pool);
            fit(&mut scores.highest, pool);
        }
        scores => *scores = None,
    }
    chunk
}

fn fit<T: Copy>(values: &mut Vec<T>, length: usize) {
    let given = values.clone();
    values.clear();
    values.extend(given.iter().cycle().take(length));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Metadata, Result, SelectionRequirements};

    /// Selects other entities at every call.
    #[derive(Default)]
    struct Moody(u32);

    impl NegativeSelector for Moody {
        fn metadata() -> Metadata {
            Metadata::new("moody", "0.1.0", "Never the same.")
        }

        fn required(&self) -> SelectionRequirements {
            SelectionRequirements {
                candidates_per_negative: 1,
                scores: false,
            }
        }

        fn select(&mut self, chunk: &NegativeChunk) -> Result<NegativeSelection> {
            self.0 += 1;
            let entity = self.0 % chunk.entities;
            Ok(NegativeSelection::Entities(vec![
                entity;
                chunk.negatives as usize
            ]))
        }
    }

    #[test]
    #[should_panic(expected = "a second selection differs")]
    fn selections_that_depend_on_earlier_calls_are_found() {
        assert_negative_selector::<Moody>();
    }
}
