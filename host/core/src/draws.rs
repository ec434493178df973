//! Check of a relation sampler: it must draw every edge of its share exactly once.

use crate::strategy::RelationDraw;

/// Edges of a share that a sampler has not drawn yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UndrawnEdges {
    left: Vec<u64>,
    total: u64,
    batch_size: u32,
}

/// Violation of a sampler's contract.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DrawError {
    /// The relation does not exist.
    #[error("it drew relation {relation}, but there are {relations} relations")]
    Relation {
        /// Relation that was drawn.
        relation: u32,
        /// Number of relations.
        relations: usize,
    },
    /// The draw is empty, or larger than the number of edges left.
    #[error(
        "it drew {edges} edges of relation {relation}, which has {left} left; draw at least 1 and \
         at most what is left"
    )]
    Edges {
        /// Relation that was drawn.
        relation: u32,
        /// Number of edges drawn.
        edges: u32,
        /// Number of edges left of the relation.
        left: u64,
    },
    /// The draw is larger than a batch.
    #[error("it drew {edges} edges at once, but a batch has at most {batch_size}")]
    Batch {
        /// Number of edges drawn.
        edges: u32,
        /// Most edges of a batch.
        batch_size: u32,
    },
    /// The sampler ended before every edge was drawn.
    #[error("it ended with {left} edges left to draw; every edge has to be drawn")]
    Early {
        /// Number of edges left.
        left: u64,
    },
}

impl UndrawnEdges {
    /// Creates a share of `counts[relation]` edges, drawn in batches of at most `batch_size`.
    #[must_use]
    pub fn new(counts: &[u64], batch_size: u32) -> Self {
        Self {
            left: counts.to_vec(),
            total: counts.iter().sum(),
            batch_size,
        }
    }

    /// Returns the number of edges left of each relation.
    #[must_use]
    pub fn left(&self) -> &[u64] {
        &self.left
    }

    /// Subtracts a draw, as returned by [`crate::strategy::RelationSampler::next`].
    ///
    /// # Errors
    /// Returns the violation, and subtracts nothing.
    pub fn take(&mut self, answer: Option<RelationDraw>) -> Result<(), DrawError> {
        let Some(RelationDraw { relation, edges }) = answer else {
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

    fn draw(relation: u32, edges: u32) -> Option<RelationDraw> {
        Some(RelationDraw { relation, edges })
    }

    #[test]
    fn what_is_drawn_is_gone() {
        let mut ledger = UndrawnEdges::new(&[3, 0, 5], 4);
        assert_eq!(ledger.take(draw(2, 4)), Ok(()));
        assert_eq!(ledger.left(), [3, 0, 1]);
        assert_eq!(ledger.take(None), Err(DrawError::Early { left: 4 }));
        assert_eq!(ledger.take(draw(0, 3)), Ok(()));
        assert_eq!(ledger.take(draw(2, 1)), Ok(()));
        assert_eq!(ledger.take(None), Ok(()));
    }

    #[test]
    fn a_wrong_draw_takes_nothing() {
        let mut ledger = UndrawnEdges::new(&[3, 0, 50], 4);
        let wrong = [draw(0, 4), draw(0, 0), draw(1, 1), draw(2, 5), draw(3, 1)];
        let texts = wrong.map(|answer| ledger.take(answer).unwrap_err().to_string());
        assert!(texts[0].contains("4 edges of relation 0, which has 3 left"));
        assert!(texts[1].contains("0 edges"));
        assert!(texts[2].contains("relation 1, which has 0 left"));
        assert!(texts[3].contains("5 edges at once, but a batch has at most 4"));
        assert!(texts[4].contains("relation 3, but there are 3"));
        assert_eq!(ledger, UndrawnEdges::new(&[3, 0, 50], 4));
    }
}
