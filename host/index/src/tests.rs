use std::sync::atomic::AtomicBool;

use proptest::prelude::*;

use super::*;

const WIDTH: usize = 3;

/// A graph and its points in memory, with a query.
struct Memory<'m> {
    graph: &'m NeighborGraph,
    rows: &'m [f32],
    from: &'m [f32],
    /// Number of points whose links may be read before reading fails.
    left: usize,
}

#[derive(Debug, PartialEq)]
enum Failure {
    Unreadable(u32),
    Library(String),
}

impl From<NeighborGraphError> for Failure {
    fn from(error: NeighborGraphError) -> Self {
        Self::Library(error.to_string())
    }
}

fn distance(from: &[f32], row: &[f32]) -> f32 {
    from.iter().zip(row).map(|(x, y)| (x - y) * (x - y)).sum()
}

impl Space for Memory<'_> {
    type Error = Failure;

    fn entry(&self) -> u32 {
        self.graph.entry
    }

    fn links(&mut self, id: u32, out: &mut Vec<u32>) -> Result<(), Failure> {
        self.left = self.left.checked_sub(1).ok_or(Failure::Unreadable(id))?;
        out.clone_from(&self.graph.links[id as usize]);
        Ok(())
    }

    fn distances(&mut self, ids: &[u32], out: &mut Vec<f32>) -> Result<(), Failure> {
        let row = |id: &u32| &self.rows[*id as usize * WIDTH..][..WIDTH];
        out.clear();
        out.extend(ids.iter().map(|id| distance(self.from, row(id))));
        Ok(())
    }
}

fn linked(rows: &[f32], threads: usize) -> NeighborGraph {
    let options = BuildOptions {
        degree: 12,
        beam_width: 40,
        threads,
    };
    let points = Points::new(rows.to_vec(), WIDTH);
    let graph = build_graph(points, options, &AtomicBool::new(false), &|_| ()).unwrap();
    graph.expect("nobody stopped it")
}

/// Returns coordinates with few different values, so that many points are equal.
fn rows() -> impl Strategy<Value = Vec<f32>> {
    let coordinate = prop_oneof![(-4_i8..4).prop_map(f32::from), -4.0_f32..4.0];
    (1_usize..300)
        .prop_flat_map(move |count| prop::collection::vec(coordinate.clone(), count * WIDTH))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    /// A search with room for all points finds the ten nearest, or others equally near, nearest first and each once.
    #[test]
    fn walks_find_the_nearest(rows in rows(), from in [-4.0_f32..4.0, -4.0..4.0, -4.0..4.0], threads in 1_usize..3) {
        let count = rows.len() / WIDTH;
        let graph = linked(&rows, threads);
        for (id, links) in (0..).zip(&graph.links) {
            prop_assert!(links.len() <= 15 && !links.contains(&id), "{id}: {links:?}");
        }
        let mut space = Memory { graph: &graph, rows: &rows, from: &from, left: count };
        let found = GraphSearcher::new(12).unwrap().nearest(&mut space, count).unwrap();
        prop_assert!(found.is_sorted_by(|a, b| a.1 <= b.1));
        let mut ids: Vec<u32> = found.iter().map(|(id, _)| *id).collect();
        ids.sort_unstable();
        ids.dedup();
        prop_assert_eq!(ids.len(), found.len());
        let mut exact: Vec<f32> = rows.chunks_exact(WIDTH).map(|row| distance(&from, row)).collect();
        exact.sort_by(f32::total_cmp);
        let last = exact[count.min(10) - 1];
        let good = found.iter().filter(|(_, d)| *d <= last).count();
        prop_assert!(good >= count.min(10), "{good} of {count}");
    }

    #[test]
    fn one_thread_links_the_same_graph_again(rows in rows()) {
        prop_assert_eq!(linked(&rows, 1).links, linked(&rows, 1).links);
    }
}

#[test]
fn a_space_that_fails_ends_the_walk_with_its_own_error() {
    let rows: Vec<f32> = (0_u8..90).map(f32::from).collect();
    let graph = linked(&rows, 1);
    let mut space = Memory {
        graph: &graph,
        rows: &rows,
        from: &[0.0; WIDTH],
        left: 2,
    };
    let mut walker = GraphSearcher::new(12).unwrap();
    let failure = walker.nearest(&mut space, 20).unwrap_err();
    assert!(matches!(failure, Failure::Unreadable(_)), "{failure:?}");
    space.left = 100;
    assert_eq!(walker.nearest(&mut space, 20).unwrap().len(), 20);
    assert!(matches!(
        walker.nearest(&mut space, 0),
        Err(Failure::Library(_))
    ));
}

#[test]
fn who_stops_it_gets_no_graph_and_nothing_is_a_graph_too() {
    let options = BuildOptions {
        degree: 4,
        beam_width: 10,
        threads: 2,
    };
    let points = Points::new(vec![0.5; 300], WIDTH);
    let stopped = build_graph(points, options, &AtomicBool::new(true), &|_| ()).unwrap();
    assert!(stopped.is_none());
    let none = build_graph(
        Points::new(Vec::new(), WIDTH),
        options,
        &AtomicBool::new(false),
        &|_| (),
    );
    assert!(none.unwrap().unwrap().links.is_empty());
}
