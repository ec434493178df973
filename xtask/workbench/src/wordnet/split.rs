//! Splits triples into train, valid and test so that nothing leaks and every name of valid and test occurs in train.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use anyhow::{Result, ensure};

use super::Triple;
use super::edge_sets::EdgeSets;

/// One of this many triples goes to valid, and one to test.
const HOLD_OUT: usize = 20;

/// Unordered pair of synsets. All triples of a pair are in the same set: otherwise one direction of a symmetric relation
/// in train would reveal the other direction in test.
type Pair = (Arc<str>, Arc<str>);

/// Splits the triples. Every synset and every relation occurs in train. The held-out pairs are chosen by a hash of their
/// names, so that changing some triples does not change the rest of the split.
pub(crate) fn split(triples: Vec<Triple>) -> Result<EdgeSets> {
    let goal = triples.len() / HOLD_OUT;
    let mut pairs: BTreeMap<Pair, Vec<Triple>> = BTreeMap::new();
    for triple in triples {
        pairs.entry(pair_of(&triple)).or_default().push(triple);
    }
    // A synset must keep one neighbour in train, so pairs are counted, not triples.
    let mut neighbours: HashMap<Arc<str>, usize> = HashMap::new();
    for name in pairs.keys().flat_map(|(a, b)| [a, b]) {
        *neighbours.entry(Arc::clone(name)).or_default() += 1;
    }

    let mut order: Vec<(Pair, Vec<Triple>)> = pairs.into_iter().collect();
    order.sort_by_cached_key(|((a, b), _)| Reverse(hash(a, b)));
    let mut sets = EdgeSets {
        train: Vec::new(),
        valid: Vec::new(),
        test: Vec::new(),
    };
    for ((a, b), triples) in order {
        let expendable = neighbours[&a] > 1 && neighbours[&b] > 1;
        let mut held_out = [&mut sets.test, &mut sets.valid].into_iter();
        match held_out.find(|set| expendable && set.len() + triples.len() <= goal) {
            None => sets.train.extend(triples),
            Some(set) => {
                set.extend(triples);
                for name in [a, b] {
                    neighbours.entry(name).and_modify(|n| *n -= 1);
                }
            }
        }
    }
    for set in [&mut sets.train, &mut sets.valid, &mut sets.test] {
        set.sort_unstable();
    }
    let trained: BTreeSet<&str> = sets.train.iter().map(|triple| triple.rel).collect();
    for triple in sets.valid.iter().chain(&sets.test) {
        ensure!(
            trained.contains(triple.rel),
            "no triple of the relation {} is in train",
            triple.rel
        );
    }
    Ok(sets)
}

pub(crate) fn pair_of(triple: &Triple) -> Pair {
    let (a, b) = (Arc::clone(&triple.lhs), Arc::clone(&triple.rhs));
    if a <= b { (a, b) } else { (b, a) }
}

/// Hashes both names with FNV-1a and then the finalizer of splitmix64, since FNV alone gives similar hashes for similar
/// names.
fn hash(a: &str, b: &str) -> u64 {
    let bytes = a.bytes().chain([b'\t']).chain(b.bytes());
    let fnv = bytes.fold(0xcbf2_9ce4_8422_2325, |hash: u64, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    let mixed = (fnv ^ (fnv >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}
