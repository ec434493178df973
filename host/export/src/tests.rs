//! Every format contains the numbers of the checkpoint, in the order of the names.

use std::fs;
use std::ops::ControlFlow;

use arrow_array::cast::AsArray;
use arrow_array::types::Float32Type;
use pbg_config::Config;
use tempfile::TempDir;

use super::*;
use pbg_checkpoint::manifest::RunInfo;
use pbg_checkpoint::{Checkpoint, TensorRef};
use pbg_import::{self as import, ImportOptions};

const DIM: usize = 3;

struct Trained {
    folder: TempDir,
    dataset: Dataset,
    checkpoint: ReadCheckpoint,
}

fn trained(edges: &str) -> Trained {
    trained_with(edges, &[])
}

/// Creates a dataset of 7 entities in 2 partitions; the embedding of entity n is `[n, n + 0.5, -n]`.
fn trained_with(edges: &str, parameters: &[TensorRef<'_>]) -> Trained {
    let folder = tempfile::tempdir().unwrap();
    let text = "dataset = 'd'\ncheckpoint_path = 'c'\ndimension = 3\nentities.e.num_partitions = 2\n\
                relations = [{ name = '*', lhs = 'e', rhs = 'e' }]";
    let config = Config::parse(text, "pbg.toml", &[]).unwrap();
    let path = folder.path().join("edges.csv");
    fs::write(&path, edges).unwrap();
    let options = ImportOptions {
        target: folder.path().join("data"),
        ..ImportOptions::default()
    };
    let sets = [("train".to_owned(), vec![path])];
    import::run(&config.graph_schema(), &sets, &options, &mut |_| {
        ControlFlow::Continue(())
    })
    .unwrap();
    let dataset = Dataset::open(&folder.path().join("data")).unwrap();
    let model = folder.path().join("model");
    let checkpoint = Checkpoint::open_or_create(&model).unwrap();
    let mut global = 0;
    for (partition, &count) in dataset.manifest().entities["e"].counts.iter().enumerate() {
        let rows: Vec<f32> = (global..global + count)
            .flat_map(|n| expected(n as usize))
            .collect();
        let adagrad = vec![0.0; count as usize];
        checkpoint
            .write_partition("e", partition as u32, DIM, &rows, &adagrad)
            .unwrap();
        global += count;
    }
    let operators = [
        TensorRef {
            name: "relations/0/operator/rhs",
            shape: &[2, 1],
            values: &[1.5, -2.0],
        },
        TensorRef {
            name: "relations/0/operator/rhs.adagrad",
            shape: &[2, 1],
            values: &[0.0; 2],
        },
    ];
    let tensors: Vec<_> = operators.iter().chain(parameters).copied().collect();
    checkpoint.write_model(&tensors).unwrap();
    checkpoint
        .commit(RunInfo {
            config: String::new(),
            config_hash: String::new(),
            dataset: String::new(),
            strategies: Vec::new(),
            state: serde_json::Value::Null,
            ..RunInfo::default()
        })
        .unwrap();
    drop(checkpoint);
    Trained {
        dataset,
        checkpoint: ReadCheckpoint::open(&model).unwrap(),
        folder,
    }
}

const EDGES: &str = "lhs,rel,rhs\na,r,b\nc,r,d\ne,r,f\ng,r,a\n";

fn expected(n: usize) -> [f32; DIM] {
    [n as f32, n as f32 + 0.5, -(n as f32)]
}

fn options(format: ExportFormat) -> ExportOptions {
    ExportOptions {
        format,
        overwrite: false,
    }
}

fn export(trained: &Trained, format: ExportFormat) -> (PathBuf, Vec<String>) {
    let out = trained.folder.path().join("out");
    let mut last = (0, 0);
    let written = run(
        &trained.dataset,
        &trained.checkpoint,
        None,
        &out,
        &options(format),
        &mut |done, total| {
            last = (done, total);
        },
    );
    let name = |path: &PathBuf| path.file_name().unwrap().to_str().unwrap().to_owned();
    assert_eq!(last, (7, 7));
    (out, written.unwrap().iter().map(name).collect())
}

fn rows() -> Vec<f32> {
    (0..7).flat_map(expected).collect()
}

#[test]
fn npy() {
    let trained = trained(EDGES);
    let (out, written) = export(&trained, ExportFormat::Npy);
    assert_eq!(
        written,
        [
            "entities_e.npy",
            "entities_e.names.json",
            "relations.0.operator.rhs.npy",
            "relations.names.json"
        ]
    );
    let bytes = fs::read(out.join("entities_e.npy")).unwrap();
    assert_eq!(&bytes[..8], b"\x93NUMPY\x01\x00");
    let start = 10 + usize::from(u16::from_le_bytes([bytes[8], bytes[9]]));
    assert_eq!(start % 64, 0);
    let header = std::str::from_utf8(&bytes[10..start]).unwrap();
    assert!(header.starts_with("{'descr': '<f4', 'fortran_order': False, 'shape': (7,3,), }"));
    let numbers: Vec<f32> = bytes[start..]
        .as_chunks()
        .0
        .iter()
        .map(|&b| f32::from_le_bytes(b))
        .collect();
    assert_eq!(numbers, rows());
    let names: Vec<String> =
        serde_json::from_slice(&fs::read(out.join("entities_e.names.json")).unwrap()).unwrap();
    assert_eq!(names, trained.dataset.entity_names("e").unwrap());
}

#[test]
fn safetensors() {
    let trained = trained(EDGES);
    let (out, _) = export(&trained, ExportFormat::Safetensors);
    let bytes = fs::read(out.join("entities_e.safetensors")).unwrap();
    let tensors = ::safetensors::SafeTensors::deserialize(&bytes).unwrap();
    let tensor = tensors.tensor("embeddings").unwrap();
    assert_eq!(tensor.shape(), [7, DIM]);
    let numbers: Vec<f32> = tensor
        .data()
        .as_chunks()
        .0
        .iter()
        .map(|&b| f32::from_le_bytes(b))
        .collect();
    assert_eq!(numbers, rows());
    let bytes = fs::read(out.join("parameters.safetensors")).unwrap();
    let tensors = ::safetensors::SafeTensors::deserialize(&bytes).unwrap();
    assert_eq!(tensors.names(), ["relations/0/operator/rhs"]);
}

#[test]
fn parquet() {
    let trained = trained(EDGES);
    let (out, written) = export(&trained, ExportFormat::Parquet);
    assert!(written.contains(&"parameters.parquet".to_owned()));
    let file = fs::File::open(out.join("entities_e.parquet")).unwrap();
    let reader =
        ::parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder::try_new(file).unwrap();
    let (mut names, mut numbers) = (Vec::new(), Vec::new());
    for batch in reader.build().unwrap() {
        let batch = batch.unwrap();
        names.extend(
            batch
                .column(0)
                .as_string::<i32>()
                .iter()
                .map(|n| n.unwrap().to_owned()),
        );
        let lists = batch.column(1).as_fixed_size_list();
        numbers.extend_from_slice(lists.values().as_primitive::<Float32Type>().values());
    }
    assert_eq!(names, trained.dataset.entity_names("e").unwrap());
    assert_eq!(numbers, rows());
}

#[test]
fn tsv() {
    let trained = trained(EDGES);
    let (out, _) = export(&trained, ExportFormat::Tsv);
    let text = fs::read_to_string(out.join("entities_e.tsv")).unwrap();
    let names = trained.dataset.entity_names("e").unwrap();
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines[3], format!("{}\t3\t3.5\t-3", names[3]));
    assert_eq!(lines.len(), 7);
    let text = fs::read_to_string(out.join("parameters.tsv")).unwrap();
    assert_eq!(text, "relations/0/operator/rhs\t2x1\t1.5\t-2\n");
}

#[test]
fn rows_have_their_global_embedding() {
    let global = |values| TensorRef {
        name: "entities/e/global_embedding",
        shape: &[DIM],
        values,
    };
    let trained = trained_with(EDGES, &[global(&[100.0, 0.0, 0.25])]);
    let (out, _) = export(&trained, ExportFormat::Tsv);
    let text = fs::read_to_string(out.join("entities_e.tsv")).unwrap();
    let fourth = text.lines().nth(3).unwrap();
    assert!(fourth.ends_with("\t103\t3.5\t-2.75"), "{text}");
    let text = fs::read_to_string(out.join("parameters.tsv")).unwrap();
    let line = "entities/e/global_embedding\t3\t100\t0\t0.25\n";
    assert!(text.contains(line), "{text}");
}

#[test]
fn what_cannot_be_exported() {
    let first = trained(EDGES);
    let (out, _) = export(&first, ExportFormat::Tsv);
    let again = |first: &Trained, options: &ExportOptions| {
        run(
            &first.dataset,
            &first.checkpoint,
            None,
            &out,
            options,
            &mut |_, _| {},
        )
    };
    let error = again(&first, &options(ExportFormat::Tsv)).unwrap_err();
    assert!(matches!(error, ExportError::Exists { .. }), "{error}");
    let overwrite = ExportOptions {
        overwrite: true,
        ..options(ExportFormat::Tsv)
    };
    again(&first, &overwrite).unwrap();

    let odd = trained("lhs,rel,rhs\n\"a\nb\",r,b\nc,r,d\ne,r,f\ng,r,b\n");
    let error = again(&odd, &overwrite).unwrap_err();
    assert!(
        error.to_string().contains(r"`a\nb`") && error.to_string().contains("Parquet"),
        "{error}"
    );
    assert!(!out.join("entities_e.tsv.tmp").exists());

    let mut other = trained("lhs,rel,rhs\na,r,b\n");
    other.checkpoint = first.checkpoint;
    let error = again(&other, &overwrite).unwrap_err();
    assert!(matches!(error, ExportError::Mismatch { .. }), "{error}");
}
