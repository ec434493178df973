//! The speed to which a study limits the disk, by the option or by keys of the configuration.

use pbg_config::{Config, ExecutionConfig};
use pbg_lab::stall::DeviceRates;

/// Speeds of a limited disk in megabytes per second.
#[derive(Clone, Copy, Debug)]
pub(crate) struct IoLimit {
    read: f64,
    write: f64,
}

/// Parses the value of `--io-limit`.
pub(super) fn parse(text: &str) -> Result<IoLimit, String> {
    let speed = |text: &str| {
        let speed = text.trim().parse().ok();
        speed.filter(|speed| (0.001..=1e9).contains(speed))
    };
    let speeds = text.split_once(',').unwrap_or((text, text));
    let speeds = speed(speeds.0).zip(speed(speeds.1));
    let (read, write) = speeds.ok_or("not one or two speeds of at least 0.001, such as 200,100")?;
    Ok(IoLimit { read, write })
}

/// Seconds between checkpoints of a limited disk, which would otherwise write more often than is predicted.
const RARELY: f64 = 1e9;

/// Sets the speeds of the disk, and makes commits rare if the disk is limited, whether by `limit` or by the configuration.
pub(super) fn apply(config: &mut Config, limit: Option<IoLimit>) {
    if let Some(limit) = limit {
        config.execution.read_mbps = Some(limit.read);
        config.execution.write_mbps = Some(limit.write);
    }
    if rates(&config.execution).is_some() {
        config.checkpoint_interval = config.checkpoint_interval.or(Some(RARELY));
    }
}

/// Returns the speeds of the disk in bytes per second if it is limited. A direction without a limit takes no time.
pub(super) fn rates(execution: &ExecutionConfig) -> Option<DeviceRates> {
    let (read, write) = (execution.read_mbps, execution.write_mbps);
    let speed = |limit: Option<f64>| limit.map_or(f64::INFINITY, |limit| limit * 1e6);
    (read.is_some() || write.is_some()).then(|| DeviceRates {
        read: speed(read),
        write: speed(write),
        ..DeviceRates::default()
    })
}

/// Describes the limits of the disk, if there are any.
pub(super) fn description(execution: &ExecutionConfig) -> Option<String> {
    let limit = |what: &str, limit: Option<f64>| Some(format!("{what} {} MB/s", limit?));
    let limits = [
        limit("reads", execution.read_mbps),
        limit("writes", execution.write_mbps),
    ];
    let limits: Vec<String> = limits.into_iter().flatten().collect();
    (!limits.is_empty()).then(|| limits.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_limit_a_disk_as_the_option_does() {
        let text = "dataset = 'data'\ncheckpoint_path = 'model'\ndimension = 8\n\
                    [entities.a]\nnum_partitions = 1\n\
                    [[relations]]\nname = 'r'\nlhs = 'a'\nrhs = 'a'\noperator = 'none'\n";
        let mut config = Config::parse(text, "pbg.toml", &[]).unwrap();
        apply(&mut config, None);
        assert!(rates(&config.execution).is_none() && config.checkpoint_interval.is_none());
        config.execution.write_mbps = Some(2.0);
        apply(&mut config, None);
        let rates = rates(&config.execution).unwrap();
        assert_eq!((rates.read, rates.write), (f64::INFINITY, 2e6));
        assert_eq!(config.checkpoint_interval, Some(RARELY));
        let text = description(&config.execution);
        assert_eq!(text.as_deref(), Some("writes 2 MB/s"));
    }
}
