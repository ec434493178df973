//! Construction of a graph from points in memory.

use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use diskann::ANNResult;
use diskann::graph::config::{Builder, MaxDegree, PruneKind};
use diskann::graph::glue::{
    HybridPredicate, InsertStrategy, PruneAccessor, PruneStrategy, SearchAccessor,
};
use diskann::graph::workingset::View;
use diskann::graph::{AdjacencyList, DiskANNIndex};
use diskann::provider::{
    DataProvider, DefaultContext, HasId, NeighborAccessor, NeighborAccessorMut, Neighbors,
    NoopGuard, SetElement,
};
use diskann::utils::VectorRepr;
use diskann_vector::DistanceFunction;
use diskann_vector::distance::Metric;
use futures_util::FutureExt;

use crate::{NeighborGraphError, Points};

/// Options of the construction of a graph.
#[derive(Clone, Copy, Debug)]
pub struct BuildOptions {
    /// Greatest number of links per point.
    pub degree: usize,
    /// Beam width of the search for a new point's neighbours; a larger width yields a better graph, more slowly.
    pub beam_width: usize,
    /// Number of threads. With one thread, the same points yield the same graph.
    pub threads: usize,
}

/// Links from each point to points near it.
#[derive(Debug)]
pub struct NeighborGraph {
    /// Entry point, at which searches start.
    pub entry: u32,
    /// Points that each point links to.
    pub links: Vec<Vec<u32>>,
}

impl NeighborGraph {
    /// Returns the bytes that linking `points` points with up to `degree` links takes in addition to their coordinates.
    #[must_use]
    pub fn bytes(points: u64, degree: usize) -> u64 {
        let list = size_of::<Mutex<Vec<u32>>>() as u64;
        // A list is a separate allocation, and grows by doubling.
        points * (list + 16 + 2 * 4 * most_links(degree) as u64)
    }
}

/// Returns the greatest number of links that a list holds before it is pruned to `degree`.
const fn most_links(degree: usize) -> usize {
    degree + degree / 4
}

/// Builds a graph of `points`; returns `None` if `stop` is set meanwhile. `progress` is called from time to time with
/// the number of points linked so far.
///
/// # Errors
/// When the library fails, or an option is zero.
pub fn build_graph(
    points: Points,
    options: BuildOptions,
    stop: &AtomicBool,
    progress: &(dyn Fn(u32) + Sync),
) -> Result<Option<NeighborGraph>, NeighborGraphError> {
    let (count, entry) = (points.len() as u32, points.medoid());
    let most = MaxDegree::new(most_links(options.degree));
    let kind = PruneKind::from_metric(Metric::L2);
    let config = Builder::new(options.degree, most, options.beam_width, kind).build();
    let provider = InMemory {
        lists: points_of(&points),
        points,
        entry,
    };
    let threads = options.threads.max(1);
    let index = DiskANNIndex::new(
        config.map_err(NeighborGraphError::of)?,
        provider,
        NonZeroUsize::new(threads),
    );
    let (next, done) = (AtomicU32::new(0), AtomicU32::new(0));
    let failed = AtomicBool::new(false);
    let work = || -> Result<(), NeighborGraphError> {
        // If a thread fails or panics, its alarm is dropped, and the other threads stop.
        let alarm = FailureFlag(&failed);
        while !stop.load(Ordering::Relaxed) && !failed.load(Ordering::Relaxed) {
            let first = next.fetch_add(STEP, Ordering::Relaxed);
            if first >= count {
                break;
            }
            let last = first.saturating_add(STEP).min(count);
            for id in (first..last).filter(|&id| id != entry) {
                let inserted = index.insert(&BuildStrategy, &DefaultContext, &id, id);
                // The future is ready at once, since everything is in memory.
                let inserted = inserted.now_or_never();
                inserted
                    .ok_or_else(not_ready)?
                    .map_err(NeighborGraphError::of)?;
            }
            let step = last - first;
            progress(done.fetch_add(step, Ordering::Relaxed) + step);
        }
        std::mem::forget(alarm);
        Ok(())
    };
    std::thread::scope(|scope| {
        let handles: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        handles.into_iter().try_for_each(|handle| {
            let panicked = |_| NeighborGraphError("a thread panicked".to_owned());
            handle.join().map_err(panicked)?
        })
    })?;
    if stop.load(Ordering::Relaxed) {
        return Ok(None);
    }
    let lists = index.data_provider.lists.into_iter();
    let links = lists.map(|list| list.into_inner().unwrap_or_else(PoisonError::into_inner));
    Ok(Some(NeighborGraph {
        entry,
        links: links.collect(),
    }))
}

/// Sets a flag when it is dropped, unless it is forgotten before: a thread has failed.
struct FailureFlag<'a>(&'a AtomicBool);

impl Drop for FailureFlag<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Number of points that a thread takes at once.
const STEP: u32 = 64;

fn points_of(points: &Points) -> Vec<Mutex<Vec<u32>>> {
    (0..points.len()).map(|_| Mutex::default()).collect()
}

pub(crate) fn not_ready() -> NeighborGraphError {
    NeighborGraphError("an operation did not complete immediately".to_owned())
}

/// Points and their links in memory, as the library's data provider.
struct InMemory {
    points: Points,
    lists: Vec<Mutex<Vec<u32>>>,
    entry: u32,
}

impl InMemory {
    fn list(&self, id: u32) -> MutexGuard<'_, Vec<u32>> {
        let list = self.lists[id as usize].lock();
        list.unwrap_or_else(PoisonError::into_inner)
    }
}

impl DataProvider for InMemory {
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

impl SetElement<u32> for InMemory {
    type SetError = diskann::error::Infallible;

    async fn set_element(
        &self,
        _: &DefaultContext,
        id: &u32,
        _: u32,
    ) -> Result<NoopGuard<u32>, Self::SetError> {
        Ok(NoopGuard::new(*id))
    }
}

/// Search accessor: the distances of points to a new point, whose neighbours are searched.
struct InsertAccessor<'a> {
    points: &'a InMemory,
    id: u32,
    distance: <f32 as VectorRepr>::Distance,
    list: Vec<u32>,
}

/// Prune accessor: the lists of links, and the points by which links are chosen.
#[derive(Clone)]
struct LinkLists<'a>(&'a InMemory);

/// Insert strategy, by which the library obtains both accessors.
#[derive(Clone, Copy)]
struct BuildStrategy;

fn distance(points: &InMemory) -> <f32 as VectorRepr>::Distance {
    f32::distance(Metric::L2, Some(points.points.width()))
}

impl InsertAccessor<'_> {
    fn to(&self, id: u32) -> f32 {
        let points = &self.points.points;
        self.distance
            .evaluate_similarity(points.get(self.id), points.get(id))
    }
}

impl HasId for InsertAccessor<'_> {
    type Id = u32;
}

impl SearchAccessor for InsertAccessor<'_> {
    async fn starting_points(&self) -> ANNResult<Vec<u32>> {
        Ok(vec![self.points.entry])
    }

    async fn start_point_distances<F>(&mut self, mut f: F) -> ANNResult<()>
    where
        F: FnMut(u32, f32) + Send,
    {
        let entry = self.points.entry;
        f(entry, self.to(entry));
        Ok(())
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
            self.list.clone_from(&self.points.list(id));
            self.list.retain(|id| pred.eval_mut(id));
            for &id in &self.list {
                on_neighbors(id, self.to(id));
            }
        }
        Ok(())
    }
}

impl HasId for LinkLists<'_> {
    type Id = u32;
}

impl NeighborAccessor for LinkLists<'_> {
    async fn get_neighbors(
        &mut self,
        id: u32,
        neighbors: &mut AdjacencyList<u32>,
    ) -> ANNResult<()> {
        neighbors.overwrite_trusted(&self.0.list(id));
        Ok(())
    }
}

impl NeighborAccessorMut for LinkLists<'_> {
    async fn set_neighbors(&mut self, id: u32, neighbors: &[u32]) -> ANNResult<()> {
        *self.0.list(id) = neighbors.to_vec();
        Ok(())
    }

    async fn append_vector(&mut self, id: u32, neighbors: &[u32]) -> ANNResult<()> {
        let mut list = self.0.list(id);
        // Another thread may have added the neighbour since the library read the list.
        for neighbor in neighbors {
            if !list.contains(neighbor) {
                list.push(*neighbor);
            }
        }
        Ok(())
    }
}

impl View<u32> for &Points {
    type ElementRef<'a> = &'a [f32];
    type Element<'a>
        = &'a [f32]
    where
        Self: 'a;

    fn get(&self, id: u32) -> Option<&[f32]> {
        Some(Points::get(self, id))
    }
}

impl PruneAccessor for LinkLists<'_> {
    type Neighbors<'a>
        = Neighbors<'a, Self>
    where
        Self: 'a;
    type ElementRef<'a> = &'a [f32];
    type View<'a>
        = &'a Points
    where
        Self: 'a;
    type Distance<'a>
        = <f32 as VectorRepr>::Distance
    where
        Self: 'a;

    fn neighbors(&mut self) -> Self::Neighbors<'_> {
        Neighbors(self)
    }

    async fn fill<Itr>(&mut self, _: Itr) -> ANNResult<(Self::View<'_>, Self::Distance<'_>)>
    where
        Itr: ExactSizeIterator<Item = u32> + Clone + Send + Sync,
    {
        Ok((&self.0.points, distance(self.0)))
    }
}

impl PruneStrategy<InMemory> for BuildStrategy {
    type PruneAccessor<'a> = LinkLists<'a>;
    type PruneAccessorError = diskann::error::Infallible;

    fn prune_accessor<'a>(
        &'a self,
        points: &'a InMemory,
        _: &'a DefaultContext,
        _: usize,
    ) -> Result<LinkLists<'a>, Self::PruneAccessorError> {
        Ok(LinkLists(points))
    }
}

impl<'a> InsertStrategy<'a, InMemory, u32> for BuildStrategy {
    type SearchAccessor = InsertAccessor<'a>;
    type SearchAccessorError = diskann::error::Infallible;
    type PruneStrategy = Self;

    fn insert_search_accessor(
        &'a self,
        points: &'a InMemory,
        _: &'a DefaultContext,
        id: u32,
    ) -> Result<InsertAccessor<'a>, Self::SearchAccessorError> {
        Ok(InsertAccessor {
            points,
            id,
            distance: distance(points),
            list: Vec::new(),
        })
    }

    fn prune_strategy(&self) -> Self {
        *self
    }
}
