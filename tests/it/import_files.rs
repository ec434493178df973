//! Files of edges as others publish them: the format is detected from the contents, whatever the name of the file, and
//! is printed.

use std::process::Command;

use serde_json::Value;

use crate::support::{Finished, Workplace, finish};

/// Configuration with one relation, which edges need not name.
const ONE: &str = "dataset = 'data'\ncheckpoint_path = 'model'\ndimension = 4\n\
                   entities.e.num_partitions = 1\nrelations = [{ name = 'r', lhs = 'e', rhs = 'e' }]\n";

/// Configuration with any relations.
const ANY: &str = "dataset = 'data'\ncheckpoint_path = 'model'\ndimension = 4\n\
                   entities.e.num_partitions = 1\nrelations = [{ name = '*', lhs = 'e', rhs = 'e' }]\n";

/// Five edges as collections of graphs publish them: `0,4`, `4,2`, `2,3`, `3,0`, `1,4`.
pub(crate) const HEADERLESS: &[u8] = b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\x03\x33\xd0\x31\xe1\x32\xd1\x31\xe2\x32\xd2\x31\xe6\x32\xd6\
    \x31\xe0\x32\x04\xf2\x01\x7b\xb6\xe9\xec\x14\x00\x00\x00";

const HETIONET: &str = "source\tmetaedge\ttarget\nGene::9021\tGpBP\tBiological Process::GO:0071357\n\
    Gene::51676\tGpBP\tBiological Process::GO:0098780\nAnatomy::UBERON:0002081\tAeG\tGene::8519\n";

const CHEBI: &str = "id\tsubject\tpredicate\tobject\trelation\tknowledge_source\n\
    uuid:1\tCHEBI:15377\tbiolink:subclass_of\tCHEBI:33579\trdfs:subClassOf\tinfores:chebi\n\
    uuid:2\tCHEBI:33579\tbiolink:subclass_of\tCHEBI:33259\trdfs:subClassOf\tinfores:chebi\n";

const BACDIVE: &str = "subject\tpredicate\tobject\trelation\tprimary_knowledge_source\n\
    NCBITaxon:562\tbiolink:has_phenotype\tMETPO:1\tRO:0002200\tbacdive:1\n\
    NCBITaxon:1280\tbiolink:has_phenotype\tMETPO:1\tRO:0002200\tbacdive:2\n";

const GEPHI: &str =
    "Source\tTarget\tType\tId\tWeight\n1\t2\tUndirected\t0\t1.0\n2\t3\tUndirected\t1\t2.5\n";

fn place(config: &str, files: &[(&str, &[u8])]) -> Workplace {
    let place = Workplace::empty();
    place.write("pbg.toml", config);
    for (name, content) in files {
        place.write(name, content);
    }
    place
}

/// Imports `train=FILE` anew.
fn import(place: &Workplace, file: &str, options: &[&str]) -> Finished {
    let edges = format!("train={file}");
    let import = ["import", "--json", "--fresh", "--edges", &edges];
    place.run(import.iter().chain(options))
}

/// Imports a file; compares edges, entities and the message about its format.
#[track_caller]
fn reads(place: &Workplace, file: &str, options: &[&str], expected: (u64, u64, &str)) -> Value {
    let run = import(place, file, options).succeeds();
    let report: Value = serde_json::from_str(&run.stdout).unwrap();
    let (edges, entities, read_as) = expected;
    assert_eq!(report["edge_sets"][0]["edges"], edges, "{report:#}");
    assert_eq!(
        report["entity_types"][0]["entities"], entities,
        "{report:#}"
    );
    assert!(
        run.stderr.contains(read_as),
        "`{read_as}` is not in: {}",
        run.stderr
    );
    assert!(
        report["read_as"][0].as_str().unwrap().contains(read_as),
        "{report:#}"
    );
    report
}

#[test]
fn a_csv_without_header_keeps_its_first_edge() {
    let place = place(ONE, &[("edge.csv.gz", HEADERLESS)]);
    let said = "edge.csv.gz: gzip, separated by commas, no header; read as: head=0, relation=r (constant), tail=4";
    for options in [&["--columns", "lhs,rhs"][..], &[]] {
        reads(&place, "edge.csv.gz", options, (5, 5, said));
    }
    // Many parts, each with its own compression.
    for part in 0..20 {
        place.write(&format!("parts/part-{part:02}.csv.gz"), HEADERLESS);
    }
    let said =
        "part-00.csv.gz and 19 files more: gzip, separated by commas, no header; read as: head=0, ";
    for files in ["parts", "parts/part-*.csv.gz"] {
        reads(&place, files, &["--columns", "lhs,rhs"], (100, 5, said));
    }
}

#[test]
fn a_header_of_a_tsv_is_no_edge() {
    let files: [(&str, &[u8]); 4] = [
        ("hetionet.sif", HETIONET.as_bytes()),
        ("chebi_edges.tsv", CHEBI.as_bytes()),
        ("bacdive_edges.tsv", BACDIVE.as_bytes()),
        ("gephi.tsv", GEPHI.as_bytes()),
    ];
    let any = place(ANY, &files);
    let said = "hetionet.sif: separated by tabs, with a header; read as: head=Gene::9021, relation=GpBP, \
                tail=Biological Process::GO:0071357";
    reads(&any, "hetionet.sif", &[], (3, 6, said));
    // Both files in one import; columns are chosen by name, whatever their order, and the column `relation` of KGX
    // describes the predicate.
    let columns = ["--columns", "lhs=subject,rel=predicate,rhs=object"];
    let said = "with a header of KGX; read as: head=CHEBI:15377, relation=biolink:subclass_of, tail=CHEBI:33579";
    let options = ["--edges", "train=bacdive_edges.tsv"];
    for options in [&options[..], &[&columns[..], &options[..]].concat()] {
        reads(&any, "chebi_edges.tsv", options, (4, 6, said));
    }
    // `Undirected` is not a relation.
    import(&any, "gephi.tsv", &[]).fails(4, &["no column of relations"]);
    let one = place(ONE, &files);
    let said = "read as: head=1, relation=r (constant), tail=2, weight=1.0";
    reads(&one, "gephi.tsv", &[], (2, 3, said));
}

#[test]
fn comments_and_counts_are_no_edges() {
    let snap = "# Directed graph\n# Nodes: 3 Edges: 2\n# FromNodeId\tToNodeId\n0\t1\n1\t2\n";
    let openke = "2\n0 1 5\n1 2 6\n";
    let place = place(
        ONE,
        &[
            ("snap.txt", snap.as_bytes()),
            ("short.txt", b"# FromNodeId\tToNodeId\n0\t1\n1\t2\n"),
            ("train2id.txt", openke.as_bytes()),
            ("tags.tsv", b"#a\tb\nc\td\n"),
            ("later.tsv", b"# graph\na\tb\n#c\td\n"),
        ],
    );
    let said =
        "separated by tabs, 3 lines of comments, with a comment as header; read as: head=0, ";
    reads(&place, "snap.txt", &[], (2, 3, said));
    let said = "1 line of comments, with a comment as header; read as: head=0, relation=r (constant), tail=1";
    reads(&place, "short.txt", &[], (2, 3, said));
    let named = ["--columns", "lhs=ToNodeId,rhs=FromNodeId"];
    reads(&place, "short.txt", &named, (2, 3, "read as: head=1, "));
    let columns = ["--columns", "lhs,rhs,-"];
    let said = "separated by blanks, the count 2, no header; read as: head=0, relation=r (constant), tail=1";
    reads(&place, "train2id.txt", &columns, (2, 3, said));
    // If a file could be read in two ways, the error asks which one is meant.
    let both = [
        "`#a",
        "a comment or an edge?",
        "--comment '#'",
        "--comment none",
    ];
    import(&place, "tags.tsv", &[]).fails(4, &both);
    reads(
        &place,
        "tags.tsv",
        &["--comment", "none"],
        (2, 4, "head=#a"),
    );
    reads(&place, "tags.tsv", &["--comment", "#"], (1, 2, "head=c"));
    import(&place, "later.tsv", &[]).fails(
        4,
        &["later.tsv, line 3:", "--comment '#'", "--comment none"],
    );
    reads(&place, "later.tsv", &["--comment", "#"], (1, 2, "head=a"));
}

#[test]
fn where_a_header_is_not_sure_both_readings_are_named() {
    let place = place(
        ANY,
        &[
            ("words.csv", b"a,r,b\nc,s,d\n"),
            ("words.tsv", b"a\tr\tb\nc\ts\td\n"),
            (
                "graph.tsv",
                b"source\thypernym\ttarget\ntarget\thypernym\tthing\n",
            ),
        ],
    );
    let both = [
        "is its first line `a,r,b` a header or an edge?",
        "--header yes",
        "--header no",
        "head=a, relation=r, tail=b",
    ];
    import(&place, "words.csv", &[]).fails(4, &both);
    reads(
        &place,
        "words.csv",
        &["--header", "no"],
        (2, 4, "no header; read as: head=a, "),
    );
    let named = ["--header", "yes", "--columns", "lhs,rel,rhs"];
    reads(
        &place,
        "words.csv",
        &named,
        (1, 2, "with a header; read as: head=c, "),
    );
    let by_name = ["--columns", "lhs=b,rel=r,rhs=a"];
    reads(&place, "words.csv", &by_name, (1, 2, "read as: head=d, "));
    // Triples with tabs, as PyKEEN and PyTorch-BigGraph write them, are read without a question.
    reads(
        &place,
        "words.tsv",
        &[],
        (
            2,
            4,
            "separated by tabs, no header; read as: head=a, relation=r, tail=b",
        ),
    );
    import(&place, "graph.tsv", &[]).fails(4, &["a header or an edge?"]);
    reads(
        &place,
        "graph.tsv",
        &["--header", "no"],
        (2, 3, "head=source, "),
    );
    place
        .run(["import", "--edges", "train=words.tsv", "--header", "maybe"])
        .fails(2, &["maybe", "yes"]);
    place
        .run(["import", "--edges", "train=words.tsv", "--separator", "::"])
        .fails(2, &["`::`", "tab"]);
}

#[test]
fn the_name_of_a_file_does_not_matter() {
    let place = place(ANY, &[]);
    let texts = [
        ("lhs\trel\trhs\na\tr\tb\nb\tr\tc\n", "separated by tabs"),
        ("lhs,rel,rhs\na,r,b\nb,r,c\n", "separated by commas"),
        ("lhs;rel;rhs\na;\"r\";b\nb;r;c\n", "separated by semicolons"),
        ("lhs|rel|rhs\na|r|b\nb|r|c\n", "separated by `|`"),
        ("lhs  rel rhs\n a r\t b\nb   r c \n", "separated by blanks"),
        (
            "note\nlhs:rel:rhs\na:r:b\nb:r:c\n",
            "separated by `:`, 1 line skipped",
        ),
    ];
    let mut manifests = Vec::new();
    for (text, said) in texts {
        for name in ["edges.csv", "edges.tsv", "edges.sif", "edges"] {
            place.write(name, text);
            let options: &[&str] = match text.starts_with("note") {
                true => &["--skip-lines", "1", "--separator", ":"],
                false => &[],
            };
            let said =
                format!("{name}: {said}, with a header; read as: head=a, relation=r, tail=b");
            reads(&place, name, options, (2, 3, &said));
            manifests.push(place.read("data/manifest.json"));
        }
    }
    manifests.dedup();
    assert_eq!(manifests.len(), 1, "the same dataset each time");
    // Two separators are possible.
    place.write("edges.csv", "a;b;1,5\nb;c;2,5\n");
    let both = [
        "what separates its columns?",
        "--separator comma",
        "--separator semicolon",
        "`a;b;1`",
    ];
    import(&place, "edges.csv", &[]).fails(4, &both);
    place.write("edges.csv", "a\nb\n");
    import(&place, "edges.csv", &[]).fails(4, &["--separator"]);
    place.write("edges.tsv", "a\tr\tb\t1\nb\tr\tc\t2\n");
    import(&place, "edges.tsv", &[]).fails(4, &["4 columns", "--columns lhs,rel,rhs,weight"]);
}

#[test]
fn other_compressions_are_refused_by_name() {
    let place = place(ANY, &[("edges.tsv.gz", b"a\tr\tb\n")]);
    for (magic, said) in [
        (&b"BZh91AY&SY"[..], "bzcat"),
        (b"\xfd7zXZ\0\0\x04", "xzcat"),
        (b"PK\x03\x04\x14\0\0\0", "unzip -p"),
        (b"\xff\xfea\0\t\0", "iconv"),
    ] {
        for name in ["edges.tsv", "edges.csv", "edges"] {
            place.write(name, magic);
            import(&place, name, &[]).fails(4, &[name, "which is not supported", said]);
        }
    }
    import(&place, "edges.tsv.gz", &[]).fails(4, &["not a gz file, although its name says so"]);
    // Names that begin like the contents of such files are still names.
    place.write("edges", "BZhang\tknows\tPAR1\nPAR1\tknows\tPK\n");
    reads(
        &place,
        "edges",
        &[],
        (2, 3, "head=BZhang, relation=knows, tail=PAR1"),
    );
}

/// Returns a Zstandard frame whose content is not compressed.
fn zstandard(content: &[u8]) -> Vec<u8> {
    let size = content.len() as u8;
    let block = (u32::from(size) << 3 | 1).to_le_bytes();
    let header = [0x28, 0xb5, 0x2f, 0xfd, 0x20, size];
    [&header[..], &block[..3], content].concat()
}

#[test]
fn frames_to_skip_are_skipped() {
    let skipped = b"\x50\x2a\x4d\x18\x03\0\0\0abc";
    let frames = [
        &skipped[..],
        &zstandard(b"a\tr\tb\n"),
        skipped,
        &zstandard(b"b\tr\tc\n"),
    ]
    .concat();
    let place = place(ANY, &[("edges.tsv.zst", &frames)]);
    reads(
        &place,
        "edges.tsv.zst",
        &[],
        (
            2,
            3,
            "Zstandard, separated by tabs, no header; read as: head=a",
        ),
    );
}

#[test]
fn folders_and_patterns_stand_for_their_files() {
    let place = place(
        ANY,
        &[
            ("parts/b.csv", b"lhs,rel,rhs\na,r,b\n"),
            ("parts/a.tsv", b"b\tr\tc\n"),
            ("parts/empty.csv", b""),
            ("parts/_SUCCESS", b""),
            ("parts/.a.crc", b"crc"),
            ("none/_SUCCESS", b""),
        ],
    );
    reads(&place, "parts", &[], (2, 3, "a.tsv: separated by tabs"));
    reads(
        &place,
        "*/?.[ct]sv",
        &[],
        (2, 3, "a.tsv: separated by tabs"),
    );
    import(&place, "none", &[]).fails(4, &["none", "a folder without edges"]);
    import(&place, "parts/*.parquet", &[]).fails(4, &["parts/*.parquet", "as a pattern"]);
    import(&place, "parts", &["--edges", "train=parts/a.tsv"]).fails(2, &["a.tsv", "named twice"]);
    place.write("parts/more/c.tsv", "x\tr\ty\n");
    import(&place, "parts", &[]).fails(4, &["the folder `more`", "pattern"]);
}

/// Runs a command line in bash, in which `HOST` stands for the program.
fn in_bash(place: &Workplace, line: &str) -> Finished {
    let program = env!("CARGO_BIN_EXE_pbg-host");
    let mut command = Command::new("bash");
    command
        .args(["-c", &line.replace("HOST", program)])
        .current_dir(place.path(""));
    finish(&mut command)
}

#[test]
fn pipes_are_read_once_and_leave_nothing() {
    let place = place(ANY, &[("edges.csv.gz", HEADERLESS)]);
    let lines: String = (0..50_000)
        .map(|n| format!("{n}\tr\t{}\n", n + 1))
        .collect();
    place.write("many.tsv", lines);
    let run = in_bash(
        &place,
        "HOST import --json --edges train=<(cat many.tsv) --edges test=<(head -c 20 many.tsv | head -2)",
    );
    let report: Value = serde_json::from_str(&run.succeeds().stdout).unwrap();
    assert_eq!(report["edge_sets"][0]["edges"], 50_000);
    assert_eq!(report["edge_sets"][1]["edges"], 2);
    // The input of a pipe may be compressed, and features may come through a pipe, too.
    let one = ONE
        .replace("num_partitions = 1", "featurized = true")
        .replace("entities.e.", "entities.e.num_partitions = 1\nentities.e.");
    place.write("pbg.toml", &one);
    let run = in_bash(
        &place,
        "HOST import --json --fresh --edges train=/dev/stdin --features e=<(for n in 0 1 2 3 4; do printf \"$n\\tx\\n\"; done) \
         < <(cat edges.csv.gz)",
    );
    let run = run.succeeds();
    assert!(
        run.stderr
            .contains("gzip, separated by commas, no header; read as: head=0"),
        "{}",
        run.stderr
    );
    let run = in_bash(&place, "HOST import --fresh --edges train=<(exit 1)");
    run.fails(4, &["/dev/fd/", "this pipe is empty"]);
    let left = std::fs::read_dir(place.path("")).unwrap();
    let hidden = left.filter(|entry| {
        entry
            .as_ref()
            .unwrap()
            .file_name()
            .to_string_lossy()
            .starts_with('.')
    });
    assert_eq!(hidden.count(), 0);
}

#[test]
fn bad_lines_end_an_import_or_are_counted() {
    let text = b"a\tr\tb\nb\tr\n\xff\tr\tc\nb\t\tc\nb\tr\tc\n";
    let place = place(
        ANY,
        &[
            ("edges.tsv", text),
            ("edges.csv", b"lhs,rel,rhs\na,r,b\nb,r\nb,r,c\n"),
        ],
    );
    import(&place, "edges.tsv", &[]).fails(4, &["edges.tsv, line 3: it is not UTF-8"]);
    let report = reads(
        &place,
        "edges.tsv",
        &["--on-bad-line", "skip"],
        (2, 3, "head=a"),
    );
    let skipped = &report["edge_sets"][0]["skipped"];
    assert_eq!(skipped["lines"], 3);
    assert!(
        skipped["first"]
            .as_str()
            .unwrap()
            .starts_with("edges.tsv, line 2: 3 columns are expected"),
        "{skipped}"
    );
    import(&place, "edges.csv", &[]).fails(4, &["edges.csv, line 3:", "2 found"]);
    let edges = [
        "import",
        "--fresh",
        "--edges",
        "train=edges.csv",
        "--on-bad-line",
        "skip",
    ];
    let run = place.run(edges).succeeds();
    assert!(
        run.stdout
            .contains("1 bad line skipped, the first: edges.csv, line 3: "),
        "{}",
        run.stdout
    );
    // A file with only bad lines is not an edge set.
    place.write("edges.tsv", "a\tr\tb\n\t\t\n".replace("a\tr\tb", "a\t\tb"));
    import(&place, "edges.tsv", &["--on-bad-line", "skip"]).fails(4, &["it has no edges"]);
    // A relation that the configuration lacks is not a bad line.
    place.write("pbg.toml", ONE);
    place.write("edges.tsv", "a\tr\tb\nb\tother\tc\n");
    import(&place, "edges.tsv", &["--on-bad-line", "skip"])
        .fails(4, &["edges.tsv, line 2:", "`other`"]);
}

#[test]
fn features_may_begin_with_a_byte_order_mark() {
    let config = ONE.replace(
        "num_partitions = 1",
        "num_partitions = 1\nentities.e.featurized = true",
    );
    let place = place(
        &config,
        &[
            ("edges.tsv", b"a\tr\tb\n"),
            ("words.tsv", b"\xef\xbb\xbfa\tx y\nb\tz\n"),
        ],
    );
    let report = reads(
        &place,
        "edges.tsv",
        &["--features", "e=words.tsv"],
        (1, 2, "head=a"),
    );
    assert_eq!(report["unused_features"], 0, "{report:#}");
}
