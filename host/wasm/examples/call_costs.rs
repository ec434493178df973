//! What the sandbox costs: loading each standard plugin, compiled and from the cache, and the calls
//! of relation samplers.
//!
//! `cargo run --release -p pbg-wasm --example call_costs`

#![expect(clippy::print_stdout, reason = "it prints a table")]

use std::time::{Duration, Instant};

use pbg_core::strategy::SamplerFactory as _;
use pbg_wasm::{Cache, Kind, Limits, PluginSource, Sandbox, standard};
use serde_json::Value;

/// Shares that are drawn, edges of a share and of a batch.
const SHARES: u64 = 50;
const RELATIONS: usize = 1000;
const EDGES: u64 = 200;
const BATCH: u32 = 20;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let folder = tempfile::tempdir()?;
    println!("{:<26} {:>10} {:>10}", "plugin", "compiled", "cached");
    for plugin in standard() {
        let open = || -> Result<Duration, Box<dyn std::error::Error>> {
            let cache = Cache::open(&folder.path().join("cache"))?;
            let sandbox = Sandbox::new(Limits::default())?.with_cache(cache);
            let start = Instant::now();
            sandbox.open(PluginSource::Standard(plugin))?;
            Ok(start.elapsed())
        };
        let compiled = open()?;
        let cached = (0..10)
            .map(|_| open())
            .collect::<Result<Vec<_>, _>>()?
            .into_iter()
            .min()
            .unwrap_or_default();
        println!(
            "{:<26} {:>7.2} ms {:>7.2} ms",
            plugin.name,
            ms(compiled),
            ms(cached)
        );
    }
    println!(
        "\n{:<26} {:>12} {:>18}",
        "sampler", "begin", "next and observe"
    );
    for plugin in standard()
        .iter()
        .filter(|p| p.kind == Kind::RelationSampler)
    {
        let (begin, batch) = draw(PluginSource::Standard(plugin))?;
        println!("{:<26} {:>9.1} us {:>15.3} us", plugin.name, begin, batch);
    }
    Ok(())
}

fn ms(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

/// The least time of beginning a share and of a batch, in microseconds.
fn draw(source: PluginSource) -> Result<(f64, f64), Box<dyn std::error::Error>> {
    let plugin = Sandbox::new(Limits::default())?.open(source)?;
    let factory = plugin.into_sampler(&Value::Null)?;
    let counts = vec![EDGES; RELATIONS];
    let (mut begin, mut batch) = (f64::MAX, f64::MAX);
    for seed in 0..SHARES {
        let start = Instant::now();
        let mut walk = factory.create(&counts, BATCH, seed)?;
        begin = begin.min(start.elapsed().as_secs_f64() * 1e6);
        let start = Instant::now();
        let mut batches = 0;
        while let Some(draw) = walk.next()? {
            walk.observe(draw.relation, 0.5)?;
            batches += 1;
        }
        batch = batch.min(start.elapsed().as_secs_f64() * 1e6 / f64::from(batches));
    }
    Ok((begin, batch))
}
