//! Store of compiled functions, reused when another component contains the same functions.
//!
//! A component that contains an interpreter has ten thousand functions. The next build of its plugin, or another plugin
//! in the same language, has the same functions over other data. So the child that compiles (`compiler.rs`) receives
//! the compiled functions of earlier components, each under a SHA-256 of its source and of the compiler's settings, and
//! answers with those that are worth keeping. `cache.rs` keeps and signs them as it does components.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use wasmtime::CacheStore;

/// Smallest size (bytes) of a component for which functions are kept: components with an interpreter, and others as
/// large. Smaller ones compile in less time than it takes to read the kept functions.
pub(crate) const LARGE: usize = 1 << 20;
/// Largest total size (bytes) of the functions that are kept. CPython's take 33 MiB.
pub(crate) const CAPACITY: usize = 64 << 20;
/// Size (bytes) of a function's key: a SHA-256.
const KEY: usize = 32;
/// Size (bytes) of the length that precedes a function.
const LENGTH: usize = 4;

type Key = [u8; KEY];

/// Functions of earlier compilations, and those that the current compilation adds.
#[derive(Debug)]
pub(crate) struct FunctionCache {
    /// Content of the file: for each function its key, its length (little-endian) and its bytes.
    bytes: Vec<u8>,
    earlier: BTreeMap<Key, Earlier>,
    /// Functions that the current compilation compiled.
    new: Mutex<BTreeMap<Key, Vec<u8>>>,
}

#[derive(Debug)]
struct Earlier {
    /// Range of the function's bytes in the file.
    place: Range<usize>,
    /// Whether the current component contains it, too.
    used: AtomicBool,
}

impl FunctionCache {
    /// Reads a file that [`Functions::kept`] wrote. A broken entry and everything behind it are dropped.
    pub(crate) fn read(bytes: Vec<u8>) -> Self {
        let mut earlier = BTreeMap::new();
        let mut at = 0;
        while let Some((key, place)) = entry(&bytes, at) {
            at = place.end;
            let used = AtomicBool::new(false);
            earlier.insert(key, Earlier { place, used });
        }
        Self {
            bytes,
            earlier,
            new: Mutex::default(),
        }
    }

    /// Returns the content of the next file: this component's functions, then as many of the earlier ones as fit. Empty
    /// if the last file already has all of this component's functions.
    pub(crate) fn to_file(&self) -> Vec<u8> {
        let new = self.new.lock().unwrap_or_else(PoisonError::into_inner);
        let mut kept = Vec::new();
        if new.is_empty() {
            return kept;
        }
        let new = new.iter().map(|(key, value)| (key, value.as_slice()));
        let among = |wanted: bool| {
            let earlier = self.earlier.iter();
            let found = earlier.filter(move |(_, f)| f.used.load(Ordering::Relaxed) == wanted);
            found.map(|(key, f)| (key, &self.bytes[f.place.clone()]))
        };
        for (key, value) in among(true).chain(new).chain(among(false)) {
            let Ok(length) = u32::try_from(value.len()) else {
                continue;
            };
            if kept.len() + KEY + LENGTH + value.len() > CAPACITY {
                break;
            }
            kept.extend_from_slice(key);
            kept.extend_from_slice(&length.to_le_bytes());
            kept.extend_from_slice(value);
        }
        kept
    }
}

impl CacheStore for FunctionCache {
    fn get(&self, key: &[u8]) -> Option<Cow<'_, [u8]>> {
        let found = self.earlier.get(key)?;
        found.used.store(true, Ordering::Relaxed);
        Some(self.bytes[found.place.clone()].into())
    }

    fn insert(&self, key: &[u8], value: Vec<u8>) -> bool {
        let Ok(key) = key.try_into() else {
            return false;
        };
        let mut new = self.new.lock().unwrap_or_else(PoisonError::into_inner);
        new.insert(key, value);
        true
    }
}

/// Returns the key of the entry at `at`, and the range of its bytes.
fn entry(bytes: &[u8], at: usize) -> Option<(Key, Range<usize>)> {
    let (key, rest) = bytes.get(at..)?.split_first_chunk::<KEY>()?;
    let (length, rest) = rest.split_first_chunk::<LENGTH>()?;
    let length = u32::from_le_bytes(*length) as usize;
    let start = at + KEY + LENGTH;
    (length <= rest.len()).then(|| (*key, start..start + length))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use wasmtime::{Config, Engine};

    use super::*;

    /// Compiles `text`. Returns how many functions were reused and how many are new, and the functions for the next
    /// compilation.
    fn compiled(functions: FunctionCache, text: &str) -> ([usize; 2], FunctionCache) {
        let functions = Arc::new(functions);
        let mut config = Config::new();
        let store = Arc::clone(&functions);
        // Compiled in parallel, a few functions that wasmtime itself adds do not always come out the same.
        let config = config.parallel_compilation(false);
        let config = config.enable_incremental_compilation(store).unwrap();
        let component = wat::parse_str(text).unwrap();
        let engine = Engine::new(config).unwrap();
        engine.precompile_component(&component).unwrap();
        drop(engine);
        let used = functions.earlier.values();
        let used = used.filter(|f| f.used.load(Ordering::Relaxed)).count();
        let new = functions.new.lock().unwrap().len();
        ([used, new], FunctionCache::read(functions.to_file()))
    }

    #[test]
    fn only_functions_that_changed_are_compiled_again() {
        let plugin = |data: &str, factor: u32| {
            format!(
                r#"(component (core module (memory 1) (data (i32.const 0) "{data}")
                (func (export "triple") (param i32) (result i32) (i32.mul (local.get 0) (i32.const {factor})))
                (func (export "shift") (param i32) (result i32) (i32.shl (local.get 0) (i32.const 2)))))"#
            )
        };
        let (first, functions) = compiled(FunctionCache::read(Vec::new()), &plugin("one", 3));
        assert_eq!((first[0], first[1] >= 2), (0, true), "{first:?}");
        let all = first[1];
        let (second, functions) = compiled(functions, &plugin("two", 4));
        assert_eq!((second[0], second[1]), (all - 1, 1));
        let (third, _) = compiled(functions, &plugin("three", 3));
        assert_eq!((third[0], third[1]), (all, 0));
    }

    fn key(of: u8) -> Key {
        [of; KEY]
    }

    #[test]
    fn what_was_kept_is_found_again() {
        let first = FunctionCache::read(Vec::new());
        assert!(first.insert(&key(1), vec![7; 100]) && first.insert(&key(2), Vec::new()));
        assert!(!first.insert(b"short", vec![1]));
        let second = FunctionCache::read(first.to_file());
        assert_eq!(second.get(&key(1)).as_deref(), Some([7; 100].as_slice()));
        assert_eq!(second.get(&key(2)).map(|f| f.len()), Some(0));
        assert_eq!(second.get(&key(3)), None);
        assert!(second.to_file().is_empty(), "nothing is new");
    }

    #[test]
    fn functions_of_the_last_component_stay_where_there_is_no_room_for_all() {
        let third = CAPACITY / 3;
        let first = FunctionCache::read(Vec::new());
        first.insert(&key(1), vec![1; third]);
        first.insert(&key(2), vec![2; third]);
        let second = FunctionCache::read(first.to_file());
        second.get(&key(2));
        second.insert(&key(0), vec![0; third]);
        let third = FunctionCache::read(second.to_file());
        assert!(third.get(&key(0)).is_some() && third.get(&key(2)).is_some());
        assert!(third.get(&key(1)).is_none());
    }

    #[test]
    fn a_broken_file_has_what_is_whole() {
        let functions = FunctionCache::read(Vec::new());
        functions.insert(&key(1), vec![1; 10]);
        functions.insert(&key(2), vec![2; 10]);
        let mut bytes = functions.to_file();
        bytes.truncate(bytes.len() - 1);
        let cut = FunctionCache::read(bytes);
        assert!(cut.get(&key(1)).is_some() && cut.get(&key(2)).is_none());
    }
}
