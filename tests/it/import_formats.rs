//! Files of edges in the syntaxes of RDF.

use serde_json::Value;

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
