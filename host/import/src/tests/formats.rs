//! Tab-separated text, CSV and Parquet, plain and compressed, give the same dataset.

use std::io::Write;
use std::sync::Arc;

use arrow_array::types::Int32Type;
use arrow_array::{
    Array, ArrayRef, BinaryArray, BinaryViewArray, DictionaryArray, Float64Array, Int64Array,
    LargeBinaryArray, LargeStringArray, RecordBatch, StringArray, StringViewArray, UInt8Array,
};

use super::*;

const TEXT: &str = "a\tr\tb\nb\ts\tc\nc\tr\ta\n";

fn expected() -> Vec<NamedEdge> {
    vec![
        edge("a", "r", "b"),
        edge("b", "s", "c"),
        edge("c", "r", "a"),
    ]
}

fn gzip(content: &str) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(content.as_bytes()).unwrap();
    encoder.finish().unwrap()
}

#[test]
fn text_of_all_kinds() {
    let crlf = TEXT.replace('\n', "\r\n");
    let texts = [
        ("a.tsv", TEXT.as_bytes().to_vec()),
        ("a.txt", TEXT.trim_end().as_bytes().to_vec()),
        ("a", format!("\u{feff}{crlf}\r\n\n").into_bytes()),
        ("a.tsv.gz", gzip(TEXT)),
        ("b.tsv.zst", zstd::encode_all(TEXT.as_bytes(), 1).unwrap()),
        // Two gzip members, and a name without an extension for compressed files.
        ("c.tsv", [gzip(&TEXT[..6]), gzip(&TEXT[6..])].concat()),
        ("a.csv", b"rel,rhs,lhs\nr,b,a\ns,c,b\n\nr,a,c".to_vec()),
        ("a.csv", TEXT.replace('\t', ";").into_bytes()),
        ("b.csv", TEXT.as_bytes().to_vec()),
        ("a.tsv", TEXT.replace('\t', ",").into_bytes()),
        ("b.tsv", TEXT.replace('\t', "|").into_bytes()),
        ("b.txt", TEXT.replace('\t', "  ").into_bytes()),
        ("c.txt", format!("# edges\n3\n{TEXT}").into_bytes()),
        (
            "b.csv.gz",
            gzip("Head,x,Relation,Tail\n\"a\",,r,b\r\nb,1,s,\"c\"\r\nc,2,r,a\r\n"),
        ),
    ];
    for (name, content) in texts {
        let workshop = Workshop::new(2);
        let dataset = workshop.import_text(name, content).unwrap();
        assert_eq!(named_edges(&dataset, "train"), expected(), "{name}");
    }
}

#[test]
fn parquet_with_integers_and_weights() {
    let workshop = Workshop::new(2);
    let column = |values: [&str; 3]| Arc::new(StringArray::from(values.to_vec())) as ArrayRef;
    let batch = RecordBatch::try_from_iter([
        (
            "weight",
            Arc::new(Float64Array::from(vec![0.5, 1.0, 0.0])) as ArrayRef,
        ),
        (
            "target",
            Arc::new(Int64Array::from(vec![7, -8, 9])) as ArrayRef,
        ),
        ("note", column(["x", "y", "z"])),
        ("label", column(["r", "s", "r"])),
        ("source", column(["a", "b", "c"])),
    ])
    .unwrap();
    let path = workshop.path("edges.parquet");
    let file = fs::File::create(&path).unwrap();
    let mut writer = parquet::arrow::ArrowWriter::try_new(file, batch.schema(), None).unwrap();
    writer.write(&batch).unwrap();
    writer.close().unwrap();
    let report = workshop.import(&[("train", &[&path])]).unwrap();
    let read_as = "edges.parquet: Parquet; read as: head=a, relation=r, tail=7, weight=0.5";
    assert!(report.read_as[0].ends_with(read_as), "{report:?}");
    let dataset = workshop.dataset();
    let weighted = |(lhs, rel, rhs, _): NamedEdge, w: f32| (lhs, rel, rhs, Some(w.to_bits()));
    assert_eq!(
        named_edges(&dataset, "train"),
        [
            weighted(edge("a", "r", "7"), 0.5),
            weighted(edge("b", "s", "-8"), 1.0),
            weighted(edge("c", "r", "9"), 0.0)
        ]
    );
    assert!(dataset.edge_set("train").unwrap().has_weight());
}

#[test]
fn parquet_in_all_compressions() {
    use parquet::basic::{BrotliLevel, Compression, GzipLevel, ZstdLevel};
    use parquet::file::properties::WriterProperties;
    let column = |at: usize| -> ArrayRef {
        let cells = TEXT.lines().map(|line| line.split('\t').nth(at));
        Arc::new(StringArray::from_iter(cells))
    };
    let batch =
        RecordBatch::try_from_iter([("lhs", column(0)), ("rel", column(1)), ("rhs", column(2))]);
    let batch = batch.unwrap();
    for compression in [
        Compression::UNCOMPRESSED,
        Compression::SNAPPY,
        Compression::GZIP(GzipLevel::default()),
        Compression::BROTLI(BrotliLevel::default()),
        Compression::LZ4,
        Compression::LZ4_RAW,
        Compression::ZSTD(ZstdLevel::default()),
    ] {
        let workshop = Workshop::new(2);
        // The file name does not matter.
        let path = workshop.path("edges.tsv");
        let file = fs::File::create(&path).unwrap();
        let properties = WriterProperties::builder().set_compression(compression);
        let mut writer =
            parquet::arrow::ArrowWriter::try_new(file, batch.schema(), Some(properties.build()))
                .unwrap();
        writer.write(&batch).unwrap();
        writer.close().unwrap();
        workshop.import(&[("train", &[&path])]).unwrap();
        let edges = named_edges(&workshop.dataset(), "train");
        assert_eq!(edges, expected(), "{compression}");
    }
}

/// Imports a Parquet file with one edge per row, whose heads are named `heads`.
fn import_heads(workshop: &Workshop, heads: ArrayRef) -> Result<Vec<String>, String> {
    let tails = StringArray::from(vec!["t"; heads.len()]);
    let columns = [("lhs", heads), ("rhs", Arc::new(tails) as ArrayRef)];
    let batch = RecordBatch::try_from_iter(columns).unwrap();
    let path = workshop.path("edges.parquet");
    let file = fs::File::create(&path).unwrap();
    let mut writer = parquet::arrow::ArrowWriter::try_new(file, batch.schema(), None).unwrap();
    writer.write(&batch).unwrap();
    writer.close().unwrap();
    let imported = workshop.import(&[("train", &[&path])]);
    imported.map_err(|error| error.to_string())?;
    let edges = named_edges(&workshop.dataset(), "train");
    Ok(edges.into_iter().map(|(lhs, ..)| lhs).collect())
}

#[test]
fn names_in_parquet_are_text_or_whole_numbers() {
    let single = || {
        Workshop::with_config(
            "entities.e.num_partitions = 1\nrelations = [{ name = 'only', lhs = 'e', rhs = 'e' }]",
        )
    };
    let text = ["a", "a", "b"];
    let bytes = || text.iter().map(|name| name.as_bytes());
    let columns: [ArrayRef; 6] = [
        Arc::new(LargeStringArray::from_iter_values(text)),
        Arc::new(StringViewArray::from_iter_values(text)),
        Arc::new(BinaryArray::from_iter_values(bytes())),
        Arc::new(LargeBinaryArray::from_iter_values(bytes())),
        Arc::new(BinaryViewArray::from_iter_values(bytes())),
        Arc::new(text.into_iter().collect::<DictionaryArray<Int32Type>>()),
    ];
    for column in columns {
        let shown = column.data_type().to_string();
        assert_eq!(import_heads(&single(), column).unwrap(), text, "{shown}");
    }
    let numbers = Arc::new(UInt8Array::from(vec![0, 255]));
    assert_eq!(import_heads(&single(), numbers).unwrap(), ["0", "255"]);
    let broken = Arc::new(BinaryArray::from_iter_values([b"\xff"]));
    let real = Arc::new(Float64Array::from(vec![0.5]));
    for (column, words) in [
        (
            broken as ArrayRef,
            "column `lhs`: its bytes are not UTF-8 text",
        ),
        (
            real,
            "column `lhs`: names must be text or integers, but this column has the type Float64",
        ),
    ] {
        let error = import_heads(&single(), column).unwrap_err();
        assert!(error.contains(words), "{error}");
    }
}

#[test]
fn several_files_and_sets() {
    let workshop = Workshop::new(2);
    let (first, second) = (
        workshop.file("1.tsv", TEXT),
        workshop.file("2.csv", "lhs,rel,rhs\nd,t,a\n"),
    );
    let report = workshop
        .import(&[("train", &[&first, &second]), ("test", &[&second])])
        .unwrap();
    assert_eq!(report.sets[0].edges, 4);
    assert_eq!(report.types[0].entities, 4);
    let dataset = workshop.dataset();
    assert_eq!(named_edges(&dataset, "test"), [edge("d", "t", "a")]);
    assert_eq!(dataset.relation_names(), ["r", "s", "t"]);
    let error = dataset.edge_set("valid").unwrap_err().to_string();
    assert!(error.contains("`test`, `train`"), "{error}");
}

#[test]
fn columns_by_position() {
    let mut workshop = Workshop::with_config(
        "entities.e.num_partitions = 2\nrelations = [{ name = 'only', lhs = 'e', rhs = 'e' }]",
    );
    workshop.options.columns = Some("rhs,-,lhs".parse().unwrap());
    let dataset = workshop.import_text("a.tsv", "b\tx\ta\nc\t\tb\n").unwrap();
    assert_eq!(
        named_edges(&dataset, "train"),
        [edge("a", "only", "b"), edge("b", "only", "c")]
    );
}

#[test]
fn min_counts_drop_edges() {
    let mut workshop = Workshop::new(1);
    workshop.options.entity_min_count = 2;
    workshop.options.relation_min_count = 2;
    // `rare` occurs once, and so does relation `s`.
    let file = workshop.file("a.tsv", "a\tr\tb\nb\tr\ta\na\ts\tb\na\tr\trare\n");
    let report = workshop.import(&[("train", &[&file])]).unwrap();
    assert_eq!((report.sets[0].edges, report.sets[0].dropped), (2, 2));
    assert_eq!((report.types[0].entities, report.types[0].dropped), (2, 1));
    assert_eq!((report.relations, report.dropped_relations), (1, 1));
    let dataset = workshop.dataset();
    assert_eq!(
        named_edges(&dataset, "train"),
        [edge("a", "r", "b"), edge("b", "r", "a")]
    );
}

#[test]
fn features_of_entities() {
    let mut workshop = Workshop::with_config(
        "entities.doc = { num_partitions = 1, featurized = true }\nentities.tag.num_partitions = 2\n\
         relations = [{ name = 'has', lhs = 'doc', rhs = 'tag' }]",
    );
    let words = workshop.file("words.tsv", "d1\tred green\nother\tx\nd2\tblue\tred\r\n");
    workshop.options.features = vec![("doc".to_owned(), words)];
    let file = workshop.file("a.tsv", "d1\thas\tt1\nd2\thas\tt2\n");
    let report = workshop.import(&[("train", &[&file])]).unwrap();
    assert_eq!(report.unused_features, 1);
    let dataset = workshop.dataset();
    let features = dataset.features("doc").unwrap();
    let named = |name: &str| -> Vec<&str> {
        let id = dataset.find("doc", name).unwrap().unwrap();
        features
            .of(id.offset)
            .iter()
            .map(|&f| features.names()[f as usize].as_str())
            .collect()
    };
    assert_eq!(named("d1"), ["red", "green"]);
    assert_eq!(named("d2"), ["blue", "red"]);
    assert_eq!(dataset.manifest().entities["doc"].table_rows(0), 3);
    assert!(dataset.features("tag").is_err());
}
