//! Event files of TensorBoard: the figures of a run as scalars over time.
//!
//! A record consists of a length, its checksum, a Protocol Buffers message `tensorflow.Event`, and its
//! checksum (TensorFlow, `core/lib/io/record_writer.h`, `core/util/event.proto`,
//! `core/framework/summary.proto`). Only the fields that scalars need are written.

use pbg_core::event::{Event, PartitionIo, RankStats, TrainStats};

/// Returns the first record of an event file, at `wall_time` seconds since 1970.
#[must_use]
pub fn header(wall_time: f64) -> Vec<u8> {
    let mut message = double(1, wall_time);
    message.extend(bytes(3, b"brain.Event:2"));
    record(&message)
}

/// Returns the record of an event; empty if the event has no scalars.
///
/// Buckets are steps of `bucket/...`, epochs are steps of `epoch/...` and `validation/...`, all counted
/// from 1.
#[must_use]
pub fn records(event: &Event, wall_time: f64) -> Vec<u8> {
    match event {
        Event::BucketFinished {
            index,
            stats,
            eval_before,
            seconds,
            io,
            lr,
            ..
        } => {
            let mut values = scalars(stats, eval_before.as_ref(), *seconds, io);
            values.extend(lr.map(|lr| ("lr", f64::from(lr))));
            summary("bucket", index + 1, &values, wall_time)
        }
        Event::EpochFinished {
            epoch,
            stats,
            eval_before,
            seconds,
            io,
            ..
        } => {
            // The seconds of an epoch include waiting.
            let training = seconds - io.waited();
            let values = scalars(stats, eval_before.as_ref(), training, io);
            summary("epoch", u64::from(*epoch) + 1, &values, wall_time)
        }
        Event::Validated {
            epochs,
            ranks,
            lr_factor,
            ..
        } => {
            let values = [
                ("mrr", ranks.mrr),
                ("hits_at_10", ranks.hits_at_10),
                ("mean_rank", ranks.mean_rank),
                ("lr_factor", f64::from(*lr_factor)),
            ];
            summary("validation", u64::from(*epochs), &values, wall_time)
        }
        _ => Vec::new(),
    }
}

/// Returns the names and values of the figures of a bucket or an epoch.
fn scalars(
    stats: &TrainStats,
    eval: Option<&RankStats>,
    seconds: f64,
    io: &PartitionIo,
) -> Vec<(&'static str, f64)> {
    let mut values = vec![
        ("seconds", seconds),
        ("stall_seconds", io.waited()),
        ("partition_loads", io.loads as f64),
        ("bytes_read", io.bytes_read as f64),
        ("bytes_written", io.bytes_written as f64),
    ];
    if stats.count > 0 {
        values.push(("loss", stats.mean_loss()));
        values.push(("regularization", stats.reg / stats.count as f64));
        if seconds > 0.0 {
            values.push(("edges_per_second", stats.count as f64 / seconds));
        }
    }
    if let Some(eval) = eval {
        values.push(("held_out_mrr", eval.mrr));
        values.push(("held_out_hits_at_10", eval.hits_at_10));
    }
    values
}

/// Returns a record of scalars.
fn summary(of: &str, step: u64, values: &[(&str, f64)], wall_time: f64) -> Vec<u8> {
    let mut summary = Vec::new();
    for (name, value) in values {
        let mut entry = bytes(1, format!("{of}/{name}").as_bytes());
        entry.extend(float(2, *value as f32));
        summary.extend(bytes(1, &entry));
    }
    let mut message = double(1, wall_time);
    message.extend(number(2, step));
    message.extend(bytes(5, &summary));
    record(&message)
}

/// Returns a message with its length and the checksums of both.
fn record(message: &[u8]) -> Vec<u8> {
    let length = (message.len() as u64).to_le_bytes();
    let mut record = length.to_vec();
    record.extend(masked(&length).to_le_bytes());
    record.extend(message);
    record.extend(masked(message).to_le_bytes());
    record
}

/// Returns the masked CRC-32C of `data`: rotated and offset, so that checksums of data that contains checksums work.
fn masked(data: &[u8]) -> u32 {
    crc32c::crc32c(data)
        .rotate_right(15)
        .wrapping_add(0xa282_ead8)
}

// Encoding of Protocol Buffers: a field is its number and wire type, followed by its value.

fn key(field: u64, wire_type: u64) -> Vec<u8> {
    varint(field << 3 | wire_type)
}

fn varint(mut value: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    while value >= 0x80 {
        bytes.push(value as u8 | 0x80);
        value >>= 7;
    }
    bytes.push(value as u8);
    bytes
}

fn number(field: u64, value: u64) -> Vec<u8> {
    [key(field, 0), varint(value)].concat()
}

fn double(field: u64, value: f64) -> Vec<u8> {
    [key(field, 1), value.to_le_bytes().to_vec()].concat()
}

fn bytes(field: u64, value: &[u8]) -> Vec<u8> {
    [key(field, 2), varint(value.len() as u64), value.to_vec()].concat()
}

fn float(field: u64, value: f32) -> Vec<u8> {
    [key(field, 5), value.to_le_bytes().to_vec()].concat()
}

#[cfg(test)]
mod tests {
    use pbg_core::event::CallSeconds;

    use super::*;

    #[test]
    fn the_header_is_the_one_that_tensorflow_writes() {
        // tf.summary's first record at time 0, from the format's definition: 24 bytes of message.
        let header = header(0.0);
        assert_eq!(header[..8], 24_u64.to_le_bytes());
        assert_eq!(header[12..21], [9, 0, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(&header[21..36], b"\x1a\rbrain.Event:2");
        assert_eq!(header.len(), 8 + 4 + 24 + 4);
    }

    #[test]
    fn checksums_are_castagnolis() {
        // RFC 3720, B.4: CRC-32C of 32 zero bytes.
        assert_eq!(crc32c::crc32c(&[0; 32]), 0x8a91_36aa);
    }

    #[test]
    fn only_what_is_over_is_recorded() {
        let progress = Event::Progress {
            edges: 1,
            loss: 1.0,
        };
        assert!(records(&progress, 0.0).is_empty());
        let epoch = Event::EpochFinished {
            epoch: 0,
            stats: TrainStats {
                count: 10,
                loss: 5.0,
                ..TrainStats::default()
            },
            eval_before: None,
            seconds: 2.0,
            calls: CallSeconds::default(),
            io: PartitionIo::default(),
            disk: None,
            peak_bytes: None,
            groups: Vec::new(),
        };
        let record = records(&epoch, 1.0);
        let text = String::from_utf8_lossy(&record).into_owned();
        assert!(
            text.contains("epoch/loss") && text.contains("epoch/edges_per_second"),
            "{text}"
        );
        assert!(!text.contains("held_out"));
    }
}
