//! Files of edges in the formats of other programs: RDF, Neo4j and OGB.

use serde_json::Value;

use crate::import_files::HEADERLESS;
use crate::support::Workplace;

/// Configuration with one relation, which edges need not name, and with any relations.
const CONFIG: &str = "dataset = 'data'\ncheckpoint_path = 'model'\ndimension = 4\n\
                      entities.e.num_partitions = 1\nrelations = [{ name = 'NAME', lhs = 'e', rhs = 'e' }]\n";

fn place(relation: &str, files: &[(&str, &[u8])]) -> Workplace {
    let place = Workplace::empty();
    place.write("pbg.toml", CONFIG.replace("NAME", relation));
    for (name, content) in files {
        place.write(name, content);
    }
    place
}

/// Imports `train=FILE` anew. Compares the numbers of edges and entities and the message about the format.
#[track_caller]
fn reads(place: &Workplace, file: &str, options: &[&str], expected: (u64, u64, &str)) -> Value {
    let edges = format!("train={file}");
    let import = ["import", "--json", "--fresh", "--edges", &edges];
    let run = place.run(import.iter().chain(options)).succeeds();
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
    report
}

const TRIPLES: &str = "<http://a/abcd> <http://e#industry> <http://a/xyz> .\n\
    <http://a/ijkl.>\t<http://e#industry>\t<http://a/x2y2z2>\t.\n\
    <http://a/Walter_Scott> <http://e#label> \"Walter\tScott\"@fr . # his name\n";

#[test]
fn rdf_of_all_syntaxes() {
    let turtle = "@prefix a: <http://a/> .\na:abcd <http://e#industry> a:xyz, [ a a:Firm ] ; <http://e#since> 1990 .\n";
    let quads = TRIPLES.replace(" .\n", " <http://graph> .\n");
    let place = place(
        "*",
        &[
            ("sample.nt", TRIPLES.as_bytes()),
            ("quads.nq", quads.as_bytes()),
            ("firm.ttl", turtle.as_bytes()),
        ],
    );
    let edge = "head=<http://a/abcd>, relation=<http://e#industry>, tail=<http://a/xyz>";
    let said = format!("sample.nt: N-Triples, literals are skipped; read as: {edge}");
    let report = reads(&place, "sample.nt", &[], (2, 4, &said));
    assert_eq!(
        report["edge_sets"][0]["skipped"]["literals"], 1,
        "{report:#}"
    );
    let said = "sample.nt: N-Triples, literals are entities, 1 prefix shortens IRIs; read as: head=ex:abcd, \
                relation=<http://e#industry>, tail=ex:xyz";
    let options = ["--literals", "entities", "--prefix", "ex=http://a/"];
    reads(&place, "sample.nt", &options, (3, 6, said));
    let said = format!(
        "quads.nq: N-Quads, literals are skipped, names of graphs are ignored; read as: {edge}"
    );
    reads(&place, "quads.nq", &[], (2, 4, &said));
    let said = "firm.ttl: Turtle, literals are skipped, 1 prefix shortens IRIs; read as: head=a:abcd, \
                relation=<http://e#industry>, tail=a:xyz";
    reads(&place, "firm.ttl", &["--file-prefixes"], (3, 4, said));
    // People read what was left out.
    let run = place.run(["import", "--fresh", "--edges", "train=sample.nt"]);
    let run = run.succeeds();
    assert!(
        run.stdout
            .contains("1 triple with literals skipped (`--literals entities` reads them)"),
        "{}",
        run.stdout
    );
    let wrong = ["import", "--edges", "train=sample.nt", "--prefix", "ex"];
    place.run(wrong).fails(2, &["`ex` lacks `=`"]);
}

#[test]
fn neo4j_with_its_header_apart() {
    let place = place(
        "*",
        &[
            (
                "header.csv",
                b"personId:START_ID(Person),role,weight:float,:END_ID(Film),:TYPE\n",
            ),
            (
                "part-1.csv",
                b"keanu,\"Neo, the One\",1.5,tt0133093,ACTED_IN\ncarrie,Trinity,1,tt0133093,ACTED_IN\n",
            ),
            (
                "part-2.csv",
                b"laurence,Morpheus,1,tt0133093,ACTED_IN\nlana,,2,tt0133093,DIRECTED\n",
            ),
            ("short.csv", b":START_ID,:END_ID,:TYPE\n"),
            (
                "long.csv",
                b":START_ID,role,weight,:END_ID,:TYPE\na,b,1,c,d\n",
            ),
        ],
    );
    let said = "part-1.csv and 1 file more: separated by commas, with the header in header.csv; read as: head=keanu, relation=ACTED_IN, \
                tail=tt0133093, weight=1.5";
    let report = reads(
        &place,
        "part-*",
        &["--header-file", "header.csv"],
        (4, 5, said),
    );
    assert_eq!(report["relations"], 2, "{report:#}");
    let import = ["import", "--edges", "train=part-1.csv", "--header-file"];
    let fails = |file: &str, said: &[&str]| {
        place.run(import.iter().chain([&file])).fails(4, said);
    };
    fails(
        "short.csv",
        &["short.csv: it names 3 columns, but the edges have 5"],
    );
    fails(
        "long.csv",
        &["long.csv", "has more than a header: a b 1 c d"],
    );
    let both = import.iter().chain(&["header.csv", "--header", "yes"]);
    place.run(both).fails(2, &["--header-file"]);
}

#[test]
fn folders_of_ogb() {
    let place = place(
        "r",
        &[
            ("raw/edge.csv.gz", HEADERLESS),
            ("raw/num-node-list.csv.gz", HEADERLESS),
            ("raw/num-edge-list.csv.gz", HEADERLESS),
            ("raw/node-feat.csv.gz", HEADERLESS),
        ],
    );
    let said = "edge.csv.gz: gzip, separated by commas, no header; read as: head=0, relation=r (constant), tail=4";
    reads(&place, "raw", &[], (5, 5, said));
    place.write("raw/edge_reltype.csv.gz", HEADERLESS);
    let import = place.run(["import", "--edges", "train=raw"]);
    import.fails(4, &["edge_reltype.csv.gz", "pbg_host.datasets.load"]);
}
