//! Made-up graphs of any size, for tests of scale: edges as text, one at a time.

use std::io::{self, Write};

use pbg_core::seed::{self, Purpose};
use rand::{Rng, RngExt};
use rand_distr::{Distribution, Zipf};

/// A graph to make up.
///
/// Entity `k` of `entities` is drawn with a probability proportional to `(k + 1)^-skew` on either side, so
/// that degrees follow a power law; relations likewise. No edge joins an entity with itself; an edge may
/// occur twice.
///
/// With groups there is something to learn: entity `k` is in group `k mod groups`, and each relation leads from a group
/// to one other, drawn by the seed. The right entity of an edge is of the group that its relation leads to from the left
/// one's, but for a share of the edges, whose right entity is any.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Generated {
    /// Entities, at least 2.
    pub entities: u64,
    /// Edges.
    pub edges: u64,
    /// Relations, at least 1.
    pub relations: u64,
    /// Exponent of the power law; 0 is uniform.
    pub skew: f64,
    /// Groups of entities that relations lead between; 0: the right entity does not depend on the left one.
    pub groups: u64,
    /// Share of the edges that do not keep to the groups.
    pub noise: f64,
    /// The same seed gives the same edges.
    pub seed: u64,
}

/// Bytes that are collected before they are written.
const BLOCK: usize = 1 << 20;
/// Edges between two calls of `watch`.
const ROUND: u64 = 1 << 16;

impl Generated {
    /// What is wrong with it, if something is.
    #[must_use]
    pub fn complaint(&self) -> Option<&'static str> {
        if self.entities < 2 {
            return Some("a graph without loops needs at least 2 entities");
        }
        if self.relations < 1 {
            return Some("a graph needs at least 1 relation");
        }
        if !(self.skew.is_finite() && self.skew >= 0.0) {
            return Some("the exponent of the power law must be a number that is not negative");
        }
        if self.groups > self.entities / 2 {
            return Some("a group needs at least 2 entities");
        }
        if !(0.0..=1.0).contains(&self.noise) {
            return Some("the share of edges that keep to no group must be between 0 and 1");
        }
        None
    }

    /// Writes the edges, one per line: `e17<TAB>r2<TAB>e4`. `watch` is told now and then how many there are.
    ///
    /// # Errors
    /// When `out` cannot be written, or the graph is none ([`Generated::complaint`]).
    pub fn write(&self, out: &mut impl Write, mut watch: impl FnMut(u64)) -> io::Result<()> {
        if let Some(complaint) = self.complaint() {
            return Err(io::Error::other(complaint));
        }
        let broken = |e| io::Error::other(format!("no such power law: {e}"));
        let entities = Zipf::new(self.entities as f64, self.skew).map_err(broken)?;
        let relations = Zipf::new(self.relations as f64, self.skew).map_err(broken)?;
        let mut rng = seed::stream(self.seed, Purpose::Generate, &[]);
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
                let group = self.led_to(relation, lhs % self.groups);
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

impl Generated {
    /// The group that `relation` leads to from `group`.
    fn led_to(&self, relation: u64, group: u64) -> u64 {
        seed::derive(self.seed, Purpose::Generate, &[relation, group]) % self.groups
    }

    /// The entity of `group` that is nearest to `entity` in the order of degrees, of those before it where the last
    /// ones do not suffice.
    fn in_group(&self, entity: u64, group: u64) -> u64 {
        let near = entity - entity % self.groups + group;
        match near < self.entities {
            true => near,
            false => near - self.groups,
        }
    }
}

/// A number from 0 on.
fn draw(law: &Zipf<f64>, rng: &mut impl Rng) -> u64 {
    // The law's numbers are whole and start at 1.
    law.sample(rng) as u64 - 1
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;

    fn edges(graph: Generated) -> Vec<[String; 3]> {
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

    const GRAPH: Generated = Generated {
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
        // Twice the rank has 2^-0.8 of the degree.
        for (rank, twice) in [(10, 20), (20, 40), (40, 80)] {
            let of = |rank: u64| degrees[format!("e{}", rank - 1).as_str()];
            let ratio = of(twice) / of(rank);
            assert!((ratio - 0.574).abs() < 0.12, "{rank}: {ratio}");
        }
    }

    /// The numbers of an edge.
    fn numbers([lhs, relation, rhs]: &[String; 3]) -> [u64; 3] {
        [lhs, relation, rhs].map(|name| name[1..].parse().unwrap())
    }

    #[test]
    fn relations_lead_from_group_to_group() {
        let graph = Generated {
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
        // Any group is the right one by chance in 1 of 30.
        assert!((kept - (0.8 + 0.2 / 30.0)).abs() < 0.02, "{kept}");
    }

    #[test]
    fn the_seed_decides() {
        assert_eq!(edges(GRAPH), edges(GRAPH));
        assert_ne!(edges(GRAPH), edges(Generated { seed: 4, ..GRAPH }));
    }

    #[test]
    fn what_is_no_graph_is_refused() {
        for graph in [
            Generated {
                entities: 1,
                ..GRAPH
            },
            Generated {
                relations: 0,
                ..GRAPH
            },
            Generated {
                skew: f64::NAN,
                ..GRAPH
            },
            Generated {
                skew: -1.0,
                ..GRAPH
            },
            Generated {
                groups: 501,
                ..GRAPH
            },
            Generated {
                noise: 1.1,
                ..GRAPH
            },
        ] {
            assert!(graph.write(&mut Vec::new(), |_| ()).is_err(), "{graph:?}");
        }
        assert!(edges(Generated { edges: 0, ..GRAPH }).is_empty());
        assert_eq!(
            edges(Generated {
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
