//! Search in a graph, wherever it is stored.

use std::num::NonZeroUsize;
use std::sync::{Mutex, PoisonError};

use diskann::graph::DiskANNIndex;
use diskann::graph::config::{Builder, MaxDegree, PruneKind};
use diskann::graph::glue::{CopyIds, HybridPredicate, SearchAccessor, SearchStrategy};
use diskann::graph::search::Knn;
use diskann::neighbor::Neighbor;
use diskann::provider::{DataProvider, DefaultContext, HasId, NoopGuard};
use diskann::{ANNError, ANNResult};
use diskann_vector::distance::Metric;
use futures_util::FutureExt;

use crate::NeighborGraphError;
use crate::build::not_ready;

/// Points and their links, seen from a query.
pub trait Space: Send + Sync {
    /// Reason why points or links cannot be read.
    type Error: From<NeighborGraphError> + Send + Sync;

    /// Returns the entry point, at which searches start.
    fn entry(&self) -> u32;

    /// Replaces the contents of `out` by the points that `id` links to.
    ///
    /// # Errors
    /// When the links cannot be read.
    fn links(&mut self, id: u32, out: &mut Vec<u32>) -> Result<(), Self::Error>;

    /// Replaces the contents of `out` by the distance of each of `ids` from the query. A
    /// smaller distance is nearer, and no distance is NaN.
    ///
    /// # Errors
    /// When the points cannot be read.
    fn distances(&mut self, ids: &[u32], out: &mut Vec<f32>) -> Result<(), Self::Error>;
}

/// Searches graphs. Each thread needs one, since it has buffers.
pub struct GraphSearcher(DiskANNIndex<NoData>);

impl GraphSearcher {
    /// Creates a walker for graphs with up to `degree` links per point.
    ///
    /// # Errors
    /// When the degree is zero.
    pub fn new(degree: usize) -> Result<Self, NeighborGraphError> {
        let kind = PruneKind::from_metric(Metric::L2);
        let config = Builder::new(degree, MaxDegree::same(), degree, kind).build();
        let config = config.map_err(NeighborGraphError::of)?;
        let threads = NonZeroUsize::new(1);
        Ok(Self(DiskANNIndex::new(config, NoData, threads)))
    }

    /// Returns the nearest points that a search with a beam of `width` points finds: at most `width`, nearest first.
    ///
    /// # Errors
    /// When the space cannot be read.
    pub fn nearest<S: Space>(
        &mut self,
        space: &mut S,
        width: usize,
    ) -> Result<Vec<(u32, f32)>, S::Error> {
        let mut failure = None;
        let mut found: Vec<Neighbor<u32>> = Vec::with_capacity(width);
        let walk = IndexSearch {
            space,
            failure: &mut failure,
            links: Vec::new(),
            distances: Vec::new(),
        };
        let strategy = SingleSearch(Mutex::new(Some(walk)));
        let knn = Knn::new(width, None).map_err(NeighborGraphError::of)?;
        let context = DefaultContext;
        let walked = self
            .0
            .search_with(knn, &strategy, CopyIds, &context, (), &mut found)
            .now_or_never()
            .ok_or_else(not_ready)?;
        drop(strategy);
        if let Some(failure) = failure {
            return Err(failure);
        }
        walked.map_err(NeighborGraphError::of)?;
        // The library may return one point more, since it also makes room for the entry point.
        found.truncate(width);
        Ok(found.into_iter().map(Neighbor::as_tuple).collect())
    }
}

/// The library's data provider. It has no data, since each search brings its own space.
struct NoData;

impl DataProvider for NoData {
    type Context = DefaultContext;
    type InternalId = u32;
    type ExternalId = u32;
    type Error = diskann::error::Infallible;
    type Guard = NoopGuard<u32>;

    fn to_internal_id(&self, _: &DefaultContext, id: &u32) -> Result<u32, Self::Error> {
        Ok(*id)
    }

    fn to_external_id(&self, _: &DefaultContext, id: u32) -> Result<u32, Self::Error> {
        Ok(id)
    }
}

/// Search accessor of one search.
struct IndexSearch<'w, S: Space> {
    space: &'w mut S,
    /// Reason why the space could not be read, which also makes the library end the search.
    failure: &'w mut Option<S::Error>,
    links: Vec<u32>,
    distances: Vec<f32>,
}

/// Search strategy of one search, which gives its accessor to the library once.
struct SingleSearch<'w, S: Space>(Mutex<Option<IndexSearch<'w, S>>>);

impl<'w, S: Space> SearchStrategy<'_, NoData, ()> for SingleSearch<'w, S> {
    type SearchAccessorError = AccessorTaken;
    type SearchAccessor = IndexSearch<'w, S>;

    fn search_accessor(
        &self,
        _: &NoData,
        _: &DefaultContext,
        (): (),
    ) -> Result<IndexSearch<'w, S>, AccessorTaken> {
        let mut walk = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        walk.take().ok_or(AccessorTaken)
    }
}

/// The library requested the accessor of a search twice.
#[derive(Debug, thiserror::Error)]
#[error("the accessor of a search was requested twice")]
struct AccessorTaken;

impl From<AccessorTaken> for ANNError {
    fn from(twice: AccessorTaken) -> Self {
        Self::new(twice)
    }
}

impl<S: Space> IndexSearch<'_, S> {
    /// Records the failure of the space, which the library cannot pass on, and returns an error that ends the search.
    fn record_failure(&mut self, failure: S::Error) -> ANNError {
        *self.failure = Some(failure);
        ANNError::message("the space cannot be read")
    }

    fn measure(&mut self, mut tell: impl FnMut(u32, f32)) -> ANNResult<()> {
        let measured = self.space.distances(&self.links, &mut self.distances);
        measured.map_err(|failure| self.record_failure(failure))?;
        for (&id, &distance) in self.links.iter().zip(&self.distances) {
            tell(id, distance);
        }
        Ok(())
    }
}

impl<S: Space> HasId for IndexSearch<'_, S> {
    type Id = u32;
}

impl<S: Space> SearchAccessor for IndexSearch<'_, S> {
    async fn starting_points(&self) -> ANNResult<Vec<u32>> {
        Ok(vec![self.space.entry()])
    }

    async fn start_point_distances<F>(&mut self, f: F) -> ANNResult<()>
    where
        F: FnMut(u32, f32) + Send,
    {
        self.links.clear();
        self.links.push(self.space.entry());
        self.measure(f)
    }

    async fn expand_beam<Itr, P, F>(
        &mut self,
        ids: Itr,
        mut pred: P,
        mut on_neighbors: F,
    ) -> ANNResult<()>
    where
        Itr: Iterator<Item = u32> + Send,
        P: HybridPredicate<u32> + Send + Sync,
        F: FnMut(u32, f32) + Send,
    {
        for id in ids {
            let read = self.space.links(id, &mut self.links);
            read.map_err(|failure| self.record_failure(failure))?;
            self.links.retain(|id| pred.eval_mut(id));
            self.measure(&mut on_neighbors)?;
        }
        Ok(())
    }
}
