//! Files that other tools open: pyarrow and safetensors, as users install them.

use std::process::Command;

use crate::support::{Workplace, finish, graph::CONFIG};
use crate::tools::without;

/// Variable that names a Python with pyarrow, safetensors and numpy; if it is not set, there is none.
const PYTHON: &str = "PBG_TEST_PYTHON";

const SCRIPT: &str = r#"
import glob, json
import numpy as np, pyarrow as pa, pyarrow.ipc, pyarrow.parquet as pq
from safetensors.numpy import load_file

tables = {}
for path in sorted(glob.glob("data/**/*.arrow", recursive=True)):
    with pa.OSFile(path) as file:
        reader = pa.ipc.open_file(file)
        tables[path] = reader.read_all()
        print("arrow", path, reader.num_record_batches, tables[path].num_rows, tables[path].schema.names)
assert any(t.num_rows == 80 for t in tables.values()), "the dictionary has all places"

rows = 0
for path in sorted(glob.glob("model/**/*.safetensors", recursive=True)):
    tensors = load_file(path)
    for name, tensor in tensors.items():
        print("safetensors", path, name, tensor.dtype, tensor.shape)
        assert np.isfinite(tensor).all()
    if "embeddings" in tensors:
        assert tensors["embeddings"].shape[1] == 16 and tensors["embeddings"].dtype == np.float32
        assert tensors["row_adagrad"].shape == tensors["embeddings"].shape[:1]
        rows += len(tensors["embeddings"])
assert rows == 80, rows

for line in open("model/metrics.jsonl"):
    json.loads(line)

for path in glob.glob("out/**/*.npy", recursive=True):
    print("npy", path, np.load(path).shape)
for path in glob.glob("out/**/*.parquet", recursive=True):
    print("parquet", path, pq.read_table(path).schema.names)
print("all read")
"#;

/// Reads event files as their format is defined: records whose lengths and messages have masked CRC-32C sums, with
/// messages that are `tensorflow.Event` in Protocol Buffers.
const EVENTS: &str = r#"
import glob, json, struct

TABLE = []
for byte in range(256):
    for _ in range(8):
        byte = (byte >> 1) ^ (0x82F63B78 if byte & 1 else 0)
    TABLE.append(byte)

def masked_crc(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc = TABLE[(crc ^ byte) & 255] ^ (crc >> 8)
    crc ^= 0xFFFFFFFF
    return (((crc >> 15) | (crc << 17)) + 0xA282EAD8) & 0xFFFFFFFF

def records(data):
    at = 0
    while at < len(data):
        length, length_crc = struct.unpack_from("<QI", data, at)
        message = data[at + 12 : at + 12 + length]
        (message_crc,) = struct.unpack_from("<I", data, at + 12 + length)
        assert length_crc == masked_crc(data[at : at + 8]) and message_crc == masked_crc(message)
        yield message
        at += 16 + length
    assert at == len(data)

def varint(data, at):
    value, shift = 0, 0
    while True:
        value |= (data[at] & 127) << shift
        at, shift = at + 1, shift + 7
        if data[at - 1] < 128:
            return value, at

def fields(data):
    at = 0
    while at < len(data):
        key, at = varint(data, at)
        if key & 7 == 0:
            value, at = varint(data, at)
        elif key & 7 == 2:
            length, at = varint(data, at)
            value, at = data[at : at + length], at + length
        else:
            form, size = {1: ("<d", 8), 5: ("<f", 4)}[key & 7]
            (value,), at = struct.unpack_from(form, data, at), at + size
        yield key >> 3, value

curves, times = {}, []
(path,) = glob.glob("curves/*tfevents*")
for number, message in enumerate(records(open(path, "rb").read())):
    event = dict(fields(message))
    times.append(event[1])
    if number == 0:
        assert event[3] == b"brain.Event:2"
        continue
    for field, value in fields(event[5]):
        assert field == 1
        scalar = dict(fields(value))
        curves.setdefault(scalar[1].decode(), []).append((event[2], scalar[2]))
assert times == sorted(times) and times[0] > 1.6e9

finished = [e for e in map(json.loads, open("model/metrics.jsonl")) if e["event"].endswith("_finished")]
for kind in ("bucket", "epoch"):
    events = [e for e in finished if e["event"] == kind + "_finished"]
    steps, losses = zip(*curves[kind + "/loss"])
    assert list(steps) == list(range(1, len(events) + 1)), steps
    for event, loss in zip(events, losses):
        expected = event["stats"]["loss"] / event["stats"]["count"]
        assert abs(loss - expected) <= 1e-6 * abs(expected), (loss, expected)
    reads = [value for _, value in curves[kind + "/bytes_read"]]
    assert reads == [struct.unpack("<f", struct.pack("<f", e["io"]["bytes_read"]))[0] for e in events]
    print(kind, len(events))
print("all read")
"#;

#[test]
fn event_files_hold_the_metrics_of_the_run() {
    let Some(python) = python() else { return };
    let place = Workplace::with_dataset(CONFIG);
    place
        .run(["train", "--progress", "none", "--tensorboard", "curves"])
        .succeeds();
    let mut command = Command::new(python);
    command.args(["-c", EVENTS]).current_dir(place.path(""));
    let read = finish(&mut command).succeeds();
    assert_eq!(read.stdout, "bucket 18\nepoch 2\nall read\n");
}

fn python() -> Option<std::ffi::OsString> {
    // Only the variable tells the tests which interpreter has the packages.
    let python = std::env::var_os(PYTHON);
    if python.is_none() {
        let why = format!("{PYTHON} names no Python with numpy, pyarrow and safetensors");
        without("python", &why);
    }
    python
}

#[test]
fn python_opens_every_file() {
    let Some(python) = python() else { return };
    let place = Workplace::with_dataset(CONFIG);
    place.run(["train", "--progress", "none"]).succeeds();
    for format in ["npy", "safetensors", "parquet", "tsv"] {
        place
            .run([
                "export",
                "--format",
                format,
                "--out",
                &format!("out/{format}"),
            ])
            .succeeds();
    }
    let mut command = Command::new(python);
    command.args(["-c", SCRIPT]).current_dir(place.path(""));
    let read = finish(&mut command).succeeds();
    for kind in ["arrow", "safetensors", "npy", "parquet", "all read"] {
        assert!(
            read.stdout.lines().any(|line| line.starts_with(kind)),
            "no {kind}:\n{}",
            read.stdout
        );
    }
}
