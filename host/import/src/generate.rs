//! Generator of random graphs of any size, for tests of scale. Edges are written as text.

use std::io::{self, Write};

use pbg_core::seed::{self, StreamPurpose};
use rand::{Rng, RngExt};
use rand_distr::{Distribution, Zipf};

/// Parameters of a random graph.
///
/// On either side, entity `k` of `entities` is drawn with a probability proportional to `(k + 1)^-skew`, so that
/// degrees follow a power law. Relations are drawn in the same way. No edge joins an entity with itself; an edge may
/// occur twice.
///
/// Groups make the graph learnable. Entity `k` is in group `k mod groups`, and each relation maps each group to a group
/// that is drawn by the seed. The right entity of an edge is in the group to which the relation maps the left entity's
/// group, except for a share `noise` of the edges, whose right entity is arbitrary.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RandomGraph {
    /// Number of entities, at least 2.
    pub entities: u64,
    /// Number of edges.
    pub edges: u64,
    /// Number of relations, at least 1.
    pub relations: u64,
    /// Exponent of the power law; 0 is uniform.
    pub skew: f64,
    /// Number of groups of entities; 0 makes the right entity independent of the left one.
    pub groups: u64,
    /// Share of the edges that ignore the groups, from 0 to 1.
    pub noise: f64,
    /// Seed: the same seed gives the same edges.
    pub seed: u64,
}

/// Number of bytes that are collected before they are written.
const BLOCK: usize = 1 << 20;
/// Number of edges between two calls of `watch`.
const ROUND: u64 = 1 << 16;

impl RandomGraph {
    /// Returns what is wrong with the parameters, if anything.
    #[must_use]
    pub fn check(&self) -> Option<&'static str> {
        if self.entities < 2 {
            return Some(
                "--entities must be at least 2, since no edge joins an entity with itself",
            );
        }
        if self.relations < 1 {
            return Some("--relations must be at least 1");
        }
        if !(self.skew.is_finite() && self.skew >= 0.0) {
            return Some("--skew must be a finite number of at least 0");
        }
        if self.groups > self.entities / 2 {
            return Some(
                "--groups must be at most half of --entities, since a group needs at least 2 entities",
            );
        }
        if !(0.0..=1.0).contains(&self.noise) {
            return Some("--noise must be between 0 and 1");
        }
        None
    }

    /// Writes the edges, one per line: `e17<TAB>r2<TAB>e4`. Calls `watch` from time to time with the number of edges so
    /// far.
    ///
    /// # Errors
    /// When `out` cannot be written, or the parameters are invalid ([`RandomGraph::check`]).
    pub fn write(&self, out: &mut impl Write, mut watch: impl FnMut(u64)) -> io::Result<()> {
        if let Some(complaint) = self.check() {
            return Err(io::Error::other(complaint));
        }
        let broken = |e| io::Error::other(format!("invalid power law: {e}"));
        let entities = Zipf::new(self.entities as f64, self.skew).map_err(broken)?;
        let relations = Zipf::new(self.relations as f64, self.skew).map_err(broken)?;
        let mut rng = seed::stream(self.seed, StreamPurpose::Generate, &[]);
        let mut text = Vec::with_capacity(BLOCK + 128);
        for edge in 0..self.edges {
            if edge % ROUND == 0 {
                watch(edge);
            }
            let lhs = draw(&entities, &mut rng);
            let mut rhs = draw(&entities, &mut rng);
            while rhs == lhs {
                rhs = draw(&entities, &mut rng);
            }
            let relation = draw(&relations, &mut rng);
            if self.groups > 0 && !rng.random_bool(self.noise) {
                let group = self.target_group(relation, lhs % self.groups);
                rhs = self.in_group(rhs, group);
                while rhs == lhs {
                    rhs = self.in_group(draw(&entities, &mut rng), group);
                }
            }
            writeln!(text, "e{lhs}\tr{relation}\te{rhs}")?;
            if text.len() >= BLOCK {
                out.write_all(&text)?;
                text.clear();
            }
        }
        out.write_all(&text)?;
        watch(self.edges);
        out.flush()
    }
}

impl RandomGraph {
    /// Returns the group to which `relation` maps `group`.
    fn target_group(&self, relation: u64, group: u64) -> u64 {
        seed::derive(self.seed, StreamPurpose::Generate, &[relation, group]) % self.groups
    }

    /// Returns the entity of `group` nearest to `entity` in the order of degrees; one before it if the order ends too
    /// early.
    fn in_group(&self, entity: u64, group: u64) -> u64 {
        let near = entity - entity % self.groups + group;
        match near < self.entities {
            true => near,
            false => near - self.groups,
        }
    }
}

/// Draws a number, counted from 0.
fn draw(law: &Zipf<f64>, rng: &mut impl Rng) -> u64 {
    // The distribution yields integers from 1 on.
    law.sample(rng) as u64 - 1
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;

    fn edges(graph: RandomGraph) -> Vec<[String; 3]> {
        let mut text = Vec::new();
        graph.write(&mut text, |_| ()).unwrap();
        let text = String::from_utf8(text).unwrap();
        text.lines()
            .map(|line| {
                let columns: Vec<_> = line.split('\t').map(str::to_owned).collect();
                columns.try_into().unwrap()
            })
            .collect()
    }

    const GRAPH: RandomGraph = RandomGraph {
        entities: 1000,
        edges: 50_000,
        relations: 10,
        skew: 0.8,
        groups: 0,
        noise: 0.0,
        seed: 3,
    };

    #[test]
    fn degrees_follow_the_power_law() {
        let edges = edges(GRAPH);
        assert_eq!(edges.len(), 50_000);
        let mut degrees: HashMap<&str, f64> = HashMap::new();
        for [lhs, relation, rhs] in &edges {
            assert_ne!(lhs, rhs);
            assert!(relation.starts_with('r'));
            for entity in [lhs, rhs] {
                *degrees.entry(entity).or_default() += 1.0;
            }
        }
        // The entity at twice the rank has 2^-0.8 of the degree.
        for (rank, twice) in [(10, 20), (20, 40), (40, 80)] {
            let of = |rank: u64| degrees[format!("e{}", rank - 1).as_str()];
            let ratio = of(twice) / of(rank);
            assert!((ratio - 0.574).abs() < 0.12, "{rank}: {ratio}");
        }
    }

    /// Returns the numbers of an edge.
    fn numbers([lhs, relation, rhs]: &[String; 3]) -> [u64; 3] {
        [lhs, relation, rhs].map(|name| name[1..].parse().unwrap())
    }

    #[test]
    fn relations_lead_from_group_to_group() {
        let graph = RandomGraph {
            groups: 30,
            noise: 0.2,
            ..GRAPH
        };
        let edges = edges(graph);
        let mut to: HashMap<(u64, u64), HashMap<u64, u64>> = HashMap::new();
        for [lhs, relation, rhs] in edges.iter().map(numbers) {
            assert_ne!(lhs, rhs);
            assert!(rhs < graph.entities);
            let groups = to.entry((relation, lhs % 30)).or_default();
            *groups.entry(rhs % 30).or_default() += 1;
        }
        let most = to.values().map(|groups| groups.values().max().unwrap());
        let kept = most.sum::<u64>() as f64 / edges.len() as f64;
        // An arbitrary group is the expected one with a probability of 1 in 30.
        assert!((kept - (0.8 + 0.2 / 30.0)).abs() < 0.02, "{kept}");
    }

    #[test]
    fn the_seed_decides() {
        assert_eq!(edges(GRAPH), edges(GRAPH));
        assert_ne!(edges(GRAPH), edges(RandomGraph { seed: 4, ..GRAPH }));
    }

    #[test]
    fn what_is_no_graph_is_refused() {
        for graph in [
            RandomGraph {
                entities: 1,
                ..GRAPH
            },
            RandomGraph {
                relations: 0,
                ..GRAPH
            },
            RandomGraph {
                skew: f64::NAN,
                ..GRAPH
            },
            RandomGraph {
                skew: -1.0,
                ..GRAPH
            },
            RandomGraph {
                groups: 501,
                ..GRAPH
            },
            RandomGraph {
                noise: 1.1,
                ..GRAPH
            },
        ] {
            assert!(graph.write(&mut Vec::new(), |_| ()).is_err(), "{graph:?}");
        }
        assert!(edges(RandomGraph { edges: 0, ..GRAPH }).is_empty());
        assert_eq!(
            edges(RandomGraph {
                entities: 2,
                edges: 9,
                skew: 0.0,
                ..GRAPH
            })
            .len(),
            9
        );
    }
}
