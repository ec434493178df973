//! How many entities walks keep in view, and what share of the nearest they find with that.

use std::fmt;

use pbg_store::index::Recall;

use super::{IndexReport, WalkKind, WithIndex};

/// The recall that is expected of walks whose width nobody chose.
pub(super) const GOOD: f64 = 0.95;
/// Below it, answers by a width that somebody chose are worth a warning.
const POOR: f64 = 0.9;
/// The width of walks of which nothing was measured.
const UNMEASURED: u32 = 128;

/// What a walk keeps in view, and what share of the nearest it found when that was measured.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Width {
    /// Entities in view in each partition.
    pub width: u32,
    /// The width and the share of the ten nearest that were measured: of this width, or else of the next larger one,
    /// which finds more.
    measured: Option<(u32, f64)>,
}

/// Why all entities are looked at where an index was asked for.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum AllInstead {
    /// It takes less time for these questions.
    Cheaper,
    /// No width was chosen, and none that was measured finds enough: the best of them.
    Unproven(Width),
}

impl Width {
    /// The width that `with` asks for, or else the least that finds enough, or the largest that was measured.
    pub(super) fn of(recalls: &[Recall], kind: WalkKind, with: WithIndex) -> Self {
        let measured = |of: &Recall| Some((of.width, kind.of(of)?));
        if let Some(width) = with.width {
            let next = recalls.iter().find(|of| of.width >= width);
            return Self {
                width,
                measured: next.and_then(measured),
            };
        }
        let is_good = |of: &&Recall| kind.of(of).is_some_and(|recall| recall >= GOOD);
        let chosen = recalls.iter().find(is_good).or(recalls.last());
        Self {
            width: chosen.map_or(UNMEASURED, |of| of.width),
            measured: chosen.and_then(measured),
        }
    }

    /// The recall, if it was measured with this width.
    #[must_use]
    pub fn recall(&self) -> Option<f64> {
        let measured = self.measured.filter(|(width, _)| *width == self.width);
        measured.map(|(_, recall)| recall)
    }

    /// Whether so much is missed that it is worth a warning.
    #[must_use]
    pub fn is_poor(&self) -> bool {
        self.measured.is_some_and(|(_, recall)| recall < POOR)
    }

    /// Whether walks are made with this width: it was chosen, or finds enough.
    pub(crate) fn suffices(&self, with: WithIndex) -> bool {
        with.width.is_some() || self.recall().is_some_and(|recall| recall >= GOOD)
    }
}

impl IndexReport {
    /// What was built and will not be used unless a width is chosen, since walks find too little with every width that
    /// was measured.
    #[must_use]
    pub fn advice(&self) -> Vec<String> {
        let kinds = [
            (WalkKind::Neighbors, "neighbors"),
            (WalkKind::Predictions, "predictions"),
        ];
        let mut advice = Vec::new();
        for of in &self.types {
            for (kind, what) in kinds {
                let found = Width::of(&of.recall, kind, WithIndex::default());
                if let Some(recall) = found.recall().filter(|recall| *recall < GOOD) {
                    advice.push(format!(
                        "{what} of {}: walks find {recall:.3} of the ten best with {} in view, and {GOOD} is wanted: all \
                         entities are looked at unless `--width` says otherwise; more `--links` and `--build-width` find \
                         more",
                        of.entity_type, found.width
                    ));
                }
            }
        }
        advice
    }
}

impl fmt::Display for Width {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let width = self.width;
        write!(f, "approximate, by the index: ")?;
        match self.measured {
            Some((same, recall)) if same == width => write!(
                f,
                "recall@10 {recall:.3} measured when it was built, with {width} in view"
            )?,
            Some((larger, recall)) if self.is_poor() => write!(
                f,
                "recall@10 was {recall:.3} with {larger} in view when it was built, and is no higher with {width}"
            )?,
            _ => write!(
                f,
                "nothing was measured with {width} in view when it was built"
            )?,
        }
        match self.is_poor() {
            true => write!(
                f,
                "; leave out `--width` for a recall of at least {GOOD}, or a look at all entities where no width has that"
            ),
            false => Ok(()),
        }
    }
}

impl fmt::Display for AllInstead {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Cheaper => write!(
                f,
                "exact: a look at all entities takes less than the index, which `--width` insists on"
            ),
            Self::Unproven(width) => match width.recall() {
                Some(recall) => write!(
                    f,
                    "exact: when the index was built, walks found {recall:.3} of the ten best with {} in view, and {GOOD} is \
                     wanted, so all entities are looked at; `--width {}` walks all the same",
                    width.width, width.width
                ),
                None => write!(
                    f,
                    "exact: what walks find was not measured when the index was built, so all entities are looked at; \
                     `--width {}` walks all the same",
                    width.width
                ),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(recalls: &[(u32, Option<f64>)], width: Option<u32>) -> (Width, bool) {
        let recall = |&(width, neighbors): &(u32, Option<f64>)| Recall {
            width,
            neighbors,
            predictions: None,
        };
        let recalls: Vec<Recall> = recalls.iter().map(recall).collect();
        let with = WithIndex { width };
        let found = Width::of(&recalls, WalkKind::Neighbors, with);
        (found, found.suffices(with))
    }

    #[test]
    fn the_least_width_that_finds_enough_is_taken() {
        let recalls = [(32, Some(0.5)), (64, Some(0.96)), (128, Some(0.99))];
        let (found, suffices) = of(&recalls, None);
        assert_eq!(
            (found.width, found.recall(), suffices),
            (64, Some(0.96), true)
        );
        assert!(!found.is_poor());
    }

    #[test]
    fn walks_that_miss_much_are_made_only_where_they_are_asked_for() {
        let recalls = [(32, Some(0.2)), (64, Some(0.44))];
        let (found, suffices) = of(&recalls, None);
        assert_eq!((found.width, suffices), (64, false));
        for (recalls, width) in [(&[][..], 128), (&[(32, None), (64, None)], 64)] {
            let (found, suffices) = of(recalls, None);
            assert_eq!(
                (found.width, found.recall(), suffices),
                (width, None, false)
            );
        }
        let (found, suffices) = of(&recalls, Some(64));
        assert!(suffices && found.is_poor());
    }

    #[test]
    fn a_width_that_was_not_measured_finds_no_more_than_the_next() {
        let recalls = [(32, Some(0.2)), (64, Some(0.44)), (128, Some(0.99))];
        for (width, is_poor) in [(40, true), (64, true), (100, false), (200, false)] {
            let (found, suffices) = of(&recalls, Some(width));
            assert_eq!((found.is_poor(), suffices), (is_poor, true), "{width}");
        }
        let (found, _) = of(&recalls, Some(40));
        assert!(
            found.to_string().contains("0.440 with 64 in view"),
            "{found}"
        );
        assert_eq!(found.recall(), None);
    }
}
