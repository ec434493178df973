//! Beam widths of walks, and their recall.

use std::fmt;

use pbg_checkpoint::index::Recall;

use super::options::IndexQueryOptions;
use super::part::WalkKind;

/// Recall required of a width that is chosen automatically.
pub(super) const GOOD: f64 = 0.95;
/// Recall below which a width chosen by the user is worth a warning.
const POOR: f64 = 0.9;
/// Width of walks without any measured recall.
const UNMEASURED: u32 = 128;

/// Beam width of a walk, and the recall that was measured with it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BeamWidth {
    /// Number of candidates that a walk keeps in each partition.
    pub width: u32,
    /// Measured width and its recall among the ten nearest: for this width, or else for the next larger measured one,
    /// whose recall is higher.
    measured: Option<(u32, f64)>,
}

/// Reason why all entities are compared although an index was requested.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum ExactReason {
    /// It takes less time for these questions.
    Cheaper,
    /// No width was chosen, and no measured width has enough recall. Contains the best one.
    LowRecall(BeamWidth),
}

impl BeamWidth {
    /// Returns the width in `with`; without it, the smallest width with enough recall, or else the largest measured
    /// one.
    pub(super) fn of(recalls: &[Recall], kind: WalkKind, with: IndexQueryOptions) -> Self {
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

    /// Returns the recall, if it was measured with exactly this width.
    #[must_use]
    pub fn recall(&self) -> Option<f64> {
        let measured = self.measured.filter(|(width, _)| *width == self.width);
        measured.map(|(_, recall)| recall)
    }

    /// Whether the recall is so low that it is worth a warning.
    #[must_use]
    pub fn is_poor(&self) -> bool {
        self.measured.is_some_and(|(_, recall)| recall < POOR)
    }

    /// Whether walks use this width: it was chosen by the user or has enough recall.
    pub(crate) fn is_used(&self, with: IndexQueryOptions) -> bool {
        with.width.is_some() || self.recall().is_some_and(|recall| recall >= GOOD)
    }
}

impl fmt::Display for BeamWidth {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let width = self.width;
        write!(f, "approximate, by the index: ")?;
        match self.measured {
            Some((same, recall)) if same == width => write!(
                f,
                "recall@10 was {recall:.3} with width {width} when it was built"
            )?,
            Some((larger, recall)) if self.is_poor() => write!(
                f,
                "recall@10 was {recall:.3} with width {larger} when it was built, and is not higher with width {width}"
            )?,
            _ => write!(f, "its recall with width {width} was not measured")?,
        }
        match self.is_poor() {
            true => write!(
                f,
                "; without `--width`, the recall is at least {GOOD}, or all entities are compared if no width reaches that"
            ),
            false => Ok(()),
        }
    }
}

impl fmt::Display for ExactReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Cheaper => write!(
                f,
                "exact: comparing all entities takes less time than the index; `--width` forces walks"
            ),
            Self::LowRecall(width) => match width.recall() {
                Some(recall) => write!(
                    f,
                    "exact: when the index was built, walks found {recall:.3} of the ten best with width {}, less than the \
                     required {GOOD}, so all entities are compared; `--width {}` forces walks",
                    width.width, width.width
                ),
                None => write!(
                    f,
                    "exact: the recall of walks was not measured when the index was built, so all entities are compared; \
                     `--width {}` forces walks",
                    width.width
                ),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(recalls: &[(u32, Option<f64>)], width: Option<u32>) -> (BeamWidth, bool) {
        let recall = |&(width, neighbors): &(u32, Option<f64>)| Recall {
            width,
            neighbors,
            predictions: None,
        };
        let recalls: Vec<Recall> = recalls.iter().map(recall).collect();
        let with = IndexQueryOptions { width };
        let found = BeamWidth::of(&recalls, WalkKind::Neighbors, with);
        (found, found.is_used(with))
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
        assert!(found.to_string().contains("0.440 with width 64"), "{found}");
        assert_eq!(found.recall(), None);
    }
}
