//! What a relation sampler owes: every edge of its share drawn once.

use crate::strategy::Draw;

/// What is left of a share while a sampler draws it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ledger {
    left: Vec<u64>,
    total: u64,
    batch_size: u32,
}

/// How a sampler broke its promise.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DrawError {
    /// There is no such relation.
    #[error("it drew relation {relation}, there are {relations}")]
    Relation {
        /// What it drew.
        relation: u32,
        /// How many there are.
        relations: usize,
    },
    /// It drew nothing, or more than there is.
    #[error(
        "it drew {edges} edges of relation {relation}, which has {left} left; draw at least 1 and \
         at most what is left"
    )]
    Edges {
        /// Of which relation.
        relation: u32,
        /// How many edges it drew.
        edges: u32,
        /// How many the relation has.
        left: u64,
    },
    /// It drew more than a batch takes.
    #[error("it drew {edges} edges at once, a batch takes at most {batch_size}")]
    Batch {
        /// How many edges it drew.
        edges: u32,
        /// How many fit.
        batch_size: u32,
    },
    /// It ended before everything was drawn.
    #[error("it ended with {left} edges left to draw; every edge has to be drawn")]
    Early {
        /// How many are left.
        left: u64,
    },
}

impl Ledger {
    /// A share of `counts[relation]` edges, drawn in batches of at most `batch_size`.
    #[must_use]
    pub fn new(counts: &[u64], batch_size: u32) -> Self {
        Self {
            left: counts.to_vec(),
            total: counts.iter().sum(),
            batch_size,
        }
    }

    /// Edges left of each relation.
    #[must_use]
    pub fn left(&self) -> &[u64] {
        &self.left
    }

    /// Takes an answer of [`crate::strategy::RelationSampler::next`] off.
    ///
    /// # Errors
    /// What is wrong with the answer; nothing is taken off then.
    pub fn take(&mut self, answer: Option<Draw>) -> Result<(), DrawError> {
        let Some(Draw { relation, edges }) = answer else {
            return match self.total {
                0 => Ok(()),
                left => Err(DrawError::Early { left }),
            };
        };
        let relations = self.left.len();
        let Some(left) = self.left.get_mut(relation as usize) else {
            return Err(DrawError::Relation {
                relation,
                relations,
            });
        };
        if edges == 0 || u64::from(edges) > *left {
            let left = *left;
            return Err(DrawError::Edges {
                relation,
                edges,
                left,
            });
        }
        if edges > self.batch_size {
            let batch_size = self.batch_size;
            return Err(DrawError::Batch { edges, batch_size });
        }
        *left -= u64::from(edges);
        self.total -= u64::from(edges);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn draw(relation: u32, edges: u32) -> Option<Draw> {
        Some(Draw { relation, edges })
    }

    #[test]
    fn what_is_drawn_is_gone() {
        let mut ledger = Ledger::new(&[3, 0, 5], 4);
        assert_eq!(ledger.take(draw(2, 4)), Ok(()));
        assert_eq!(ledger.left(), [3, 0, 1]);
        assert_eq!(ledger.take(None), Err(DrawError::Early { left: 4 }));
        assert_eq!(ledger.take(draw(0, 3)), Ok(()));
        assert_eq!(ledger.take(draw(2, 1)), Ok(()));
        assert_eq!(ledger.take(None), Ok(()));
    }

    #[test]
    fn a_wrong_draw_takes_nothing() {
        let mut ledger = Ledger::new(&[3, 0, 50], 4);
        let wrong = [draw(0, 4), draw(0, 0), draw(1, 1), draw(2, 5), draw(3, 1)];
        let texts = wrong.map(|answer| ledger.take(answer).unwrap_err().to_string());
        assert!(texts[0].contains("4 edges of relation 0, which has 3 left"));
        assert!(texts[1].contains("0 edges"));
        assert!(texts[2].contains("relation 1, which has 0 left"));
        assert!(texts[3].contains("5 edges at once, a batch takes at most 4"));
        assert!(texts[4].contains("relation 3, there are 3"));
        assert_eq!(ledger, Ledger::new(&[3, 0, 50], 4));
    }
}
