//! Vectors in all formats, as other programs write them, and files that are not.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow_array::builder::{Float32Builder, ListBuilder};
use arrow_array::types::Float32Type;
use arrow_array::{
    ArrayRef, FixedSizeListArray, Float32Array, Float64Array, Int64Array, RecordBatch, StringArray,
};
use parquet::arrow::ArrowWriter;
use pbg_vectors::{VectorError, VectorFile};
use proptest::prelude::*;
use tempfile::TempDir;

struct Folder(TempDir);

impl Folder {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn file(&self, name: &str, content: impl AsRef<[u8]>) -> PathBuf {
        let path = self.0.path().join(name);
        fs::write(&path, content).unwrap();
        path
    }

    fn parquet(&self, columns: Vec<(&str, ArrayRef)>) -> PathBuf {
        let path = self.0.path().join("vectors.parquet");
        let batch = RecordBatch::try_from_iter(columns).unwrap();
        let file = File::create(&path).unwrap();
        let mut writer = ArrowWriter::try_new(file, batch.schema(), None).unwrap();
        writer.write(&batch).unwrap();
        writer.close().unwrap();
        path
    }
}

fn npy(kind: &str, shape: &str, numbers: &[u8]) -> Vec<u8> {
    let mut header = format!("{{'descr': '{kind}', 'fortran_order': False, 'shape': {shape}, }}");
    header.push_str(&" ".repeat(117 - header.len()));
    header.push('\n');
    let mut bytes = b"\x93NUMPY\x01\x00".to_vec();
    bytes.extend_from_slice(&(header.len() as u16).to_le_bytes());
    bytes.extend_from_slice(header.as_bytes());
    bytes.extend_from_slice(numbers);
    bytes
}

fn safetensors(header: &str, numbers: &[u8]) -> Vec<u8> {
    let mut bytes = (header.len() as u64).to_le_bytes().to_vec();
    bytes.extend_from_slice(header.as_bytes());
    bytes.extend_from_slice(numbers);
    bytes
}

fn single(numbers: &[f32]) -> Vec<u8> {
    numbers
        .iter()
        .flat_map(|number| number.to_le_bytes())
        .collect()
}

fn names(file: &VectorFile) -> Result<Vec<String>, VectorError> {
    let mut names = Vec::new();
    file.visit_names(&mut |row, name| {
        assert_eq!(row, names.len() as u64);
        names.push(name.to_owned());
        Ok(())
    })?;
    Ok(names)
}

fn rows(file: &VectorFile, wanted: &[u64]) -> Result<Vec<(u64, Vec<f32>)>, VectorError> {
    let mut rows = Vec::new();
    file.visit_rows(&mut wanted.iter().copied(), &mut |row, vector| {
        rows.push((row, vector.to_vec()))
    })?;
    Ok(rows)
}

#[track_caller]
fn refused<T>(result: Result<T, VectorError>, expected: &[&str]) {
    let error = result.err().unwrap().to_string();
    for part in expected {
        assert!(error.contains(part), "`{part}` is not in: {error}");
    }
}

const NUMBERS: [f32; 6] = [1.0, -2.0, 3.5, 4.0, 0.25, 6.0];

#[test]
fn every_format_has_the_same_vectors() {
    let folder = Folder::new();
    let bf16: Vec<u8> = single(&NUMBERS)
        .chunks(4)
        .flat_map(|number| number[2..].to_vec())
        .collect();
    let double: Vec<u8> = NUMBERS
        .iter()
        .flat_map(|&number| f64::from(number).to_le_bytes())
        .collect();
    let texts = Arc::new(StringArray::from(vec!["a", "b", "c"]));
    let fixed = FixedSizeListArray::from_iter_primitive::<Float32Type, _, _>(
        NUMBERS
            .chunks(2)
            .map(|row| Some(row.iter().copied().map(Some).collect::<Vec<_>>())),
        2,
    );
    let mut lists = ListBuilder::new(Float32Builder::new());
    for row in NUMBERS.chunks(2) {
        lists.values().append_slice(row);
        lists.append(true);
    }
    let column = |at: usize| NUMBERS.iter().skip(at).step_by(2).copied();
    let one = Arc::new(Float32Array::from_iter_values(column(0)));
    let two = Arc::new(Float64Array::from_iter_values(column(1).map(f64::from)));
    let ids = Arc::new(Int64Array::from(vec![1, 2, 3]));
    let list = folder.file("names.json", "[\"a\",\n\"b\", \"c\"]\n");
    let lines = folder.file("names.txt", "a\r\nb\nc");
    let header = "{\"embeddings\":{\"dtype\":\"BF16\",\"shape\":[3,2],\"data_offsets\":[0,12]},\
                  \"other\":{\"dtype\":\"F32\",\"shape\":[1,1],\"data_offsets\":[12,16]}}";
    let files = [
        (
            folder.file("a.npy", npy("<f4", "(3, 2)", &single(&NUMBERS))),
            Some(&lines),
        ),
        (
            folder.file("b.npy", npy("<f8", "(3, 2)", &double)),
            Some(&list),
        ),
        (
            folder.file(
                "c.safetensors",
                safetensors(header, &[bf16, single(&[9.0])].concat()),
            ),
            Some(&lines),
        ),
        (
            folder.parquet(vec![("text", texts.clone()), ("x", Arc::new(fixed))]),
            None,
        ),
    ];
    let check = |path: &Path, with: Option<&PathBuf>, expected: &[&str]| {
        let file = VectorFile::open(path, with.map(PathBuf::as_path)).unwrap();
        assert_eq!(
            (file.rows(), file.dimension(), file.has_names()),
            (3, 2, true)
        );
        assert_eq!(names(&file).unwrap(), expected, "{}", path.display());
        let expected: Vec<_> = (0..).zip(NUMBERS.chunks(2).map(<[f32]>::to_vec)).collect();
        assert_eq!(rows(&file, &[0, 1, 2]).unwrap(), expected);
        assert_eq!(rows(&file, &[2]).unwrap(), expected[2..]);
        assert_eq!(rows(&file, &[]).unwrap(), []);
    };
    for (path, with) in &files {
        check(path, *with, &["a", "b", "c"]);
    }
    let path = folder.parquet(vec![("id", ids), ("embedding", Arc::new(lists.finish()))]);
    check(&path, None, &["1", "2", "3"]);
    check(&path, Some(&lines), &["a", "b", "c"]);
    let path = folder.parquet(vec![("x0", one), ("name", texts), ("x1", two)]);
    check(&path, None, &["a", "b", "c"]);
}

#[test]
fn wrong_files_are_named_with_their_numbers() {
    let folder = Folder::new();
    let open = |content: Vec<u8>| VectorFile::open(&folder.file("v", content), None);
    let good = npy("<f4", "(3, 2)", &single(&NUMBERS));
    refused(
        open(good[..good.len() - 1].to_vec()),
        &["v: it ends too early: 3 vectors of 2"],
    );
    refused(open(good[..50].to_vec()), &["header is damaged"]);
    refused(open(npy("<i4", "(3, 2)", &[0; 24])), &["its type is `<i4`"]);
    refused(open(npy("<f4", "(6,)", &[0; 24])), &["its shape is `(6,)`"]);
    refused(
        open(npy("<f4", "(6, 0)", &[])),
        &["its vectors have 0 numbers"],
    );
    let huge = "(18446744073709551615, 60000)";
    refused(
        open(npy("<f4", huge, &[])),
        &["it ends too early: 18446744073709551615 vectors"],
    );
    refused(
        open(b"name\t0.5\n".to_vec()),
        &["not an npy, safetensors or Parquet file"],
    );
    refused(
        open(b"PAR1 and more".to_vec()),
        &["not a complete Parquet file"],
    );
    let two = "{\"a\":{\"dtype\":\"F32\",\"shape\":[1,1],\"data_offsets\":[0,4]},\
               \"b\":{\"dtype\":\"F32\",\"shape\":[1,1],\"data_offsets\":[4,8]}}";
    refused(
        open(safetensors(two, &[0; 8])),
        &["2 tensors with 2 dimensions"],
    );
    let wrong = "{\"a\":{\"dtype\":\"F32\",\"shape\":[2,1],\"data_offsets\":[0,4]}}";
    refused(open(safetensors(wrong, &[0; 8])), &["header is damaged"]);
    refused(
        VectorFile::open(Path::new("nowhere.npy"), None),
        &["nowhere.npy"],
    );

    let path = folder.file("v.npy", &good);
    let with = |names: &str| {
        let names = folder.file("names.txt", names);
        VectorFile::open(&path, Some(&names)).and_then(|file| self::names(&file))
    };
    refused(
        with("a\nb\n"),
        &["names.txt: it has 2 names", "v.npy has 3 vectors"],
    );
    refused(with("a\n\nc\n"), &["line 2: the name is empty"]);
    refused(
        with(&format!("a\n{}\n", "b".repeat(40_000))),
        &["line 2: the name is longer"],
    );
    let list = folder.file("names.json", "[\"a\", 5]");
    let file = VectorFile::open(&path, Some(&list)).unwrap();
    refused(names(&file), &["names.json: it is not a list of names"]);
    // A name that would take all memory is refused after as much of it as a name may have.
    folder.file("names.json", format!("[\"{}", "a".repeat(1 << 20)));
    refused(
        names(&file),
        &["names.json: ", "a name is longer than 32768 bytes"],
    );
    let escaped = "\\u0061".repeat(32 << 10);
    folder.file(
        "names.json",
        format!("[{}\"{escaped}\", \"b\", \"c\"]", " ".repeat(100)),
    );
    assert_eq!(names(&file).unwrap().len(), 3);
    let bad = npy(
        "<f4",
        "(3, 2)",
        &single(&[1.0, 2.0, 3.0, f32::NAN, 5.0, 6.0]),
    );
    let file = VectorFile::open(&folder.file("bad.npy", bad), None).unwrap();
    refused(
        rows(&file, &[0, 1]),
        &["bad.npy: row 2: number 2 of its vector is NaN"],
    );
    assert_eq!(rows(&file, &[2]).unwrap(), [(2, vec![5.0, 6.0])]);
    let mut lists = ListBuilder::new(Float32Builder::new());
    lists.values().append_slice(&[1.0, 2.0]);
    lists.append(true);
    lists.values().append_slice(&[1.0]);
    lists.append(true);
    let path = folder.parquet(vec![
        ("name", Arc::new(StringArray::from(vec![Some("a"), None]))),
        ("embedding", Arc::new(lists.finish())),
    ]);
    let file = VectorFile::open(&path, None).unwrap();
    refused(
        rows(&file, &[0, 1]),
        &["row 2: its vector has 1 numbers, but that of the first row has 2"],
    );
    refused(names(&file), &["row 2: the name is missing"]);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Any rows are read in their order, whatever the gaps between them, across the buffer's limits too.
    #[test]
    fn chosen_rows_are_read(
        width in prop::sample::select(vec![1_usize, 3, 40_000]),
        chosen in prop::collection::btree_set(0_u64..60, 0..60),
    ) {
        let folder = Folder::new();
        let numbers: Vec<f32> = (0..60 * width).map(|at| at as f32).collect();
        let path = folder.file("v.npy", npy("<f4", &format!("(60, {width})"), &single(&numbers)));
        let chosen: Vec<u64> = chosen.into_iter().collect();
        let file = VectorFile::open(&path, None).unwrap();
        let expected: Vec<_> = chosen
            .iter()
            .map(|&row| (row, numbers[row as usize * width..][..width].to_vec()))
            .collect();
        prop_assert_eq!(rows(&file, &chosen).unwrap(), expected);
    }

    /// Arbitrary changes of good files are read or refused.
    #[test]
    fn no_bytes_are_fatal(
        format in 0_usize..3,
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
        cut in any::<prop::sample::Index>(),
    ) {
        let folder = Folder::new();
        let header = "{\"a\":{\"dtype\":\"F32\",\"shape\":[3,2],\"data_offsets\":[0,24]}}";
        let mut bytes = match format {
            0 => npy("<f4", "(3, 2)", &single(&NUMBERS)),
            1 => safetensors(header, &single(&NUMBERS)),
            _ => {
                let column = |at| Arc::new(Float32Array::from_iter_values([at, at])) as ArrayRef;
                let texts = Arc::new(StringArray::from(vec!["a", "b"]));
                let path = folder.parquet(vec![("name", texts), ("x", column(1.0)), ("y", column(2.0))]);
                fs::read(path).unwrap()
            }
        };
        for (at, byte) in changes {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        bytes.truncate(bytes.len() - cut.index(bytes.len()) / 8);
        if let Ok(file) = VectorFile::open(&folder.file("v", bytes), None) {
            let wanted: Vec<u64> = (0..file.rows().min(5)).collect();
            let _ = rows(&file, &wanted);
            let _ = names(&file);
        }
    }
}
