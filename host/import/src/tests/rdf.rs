//! N-Triples, N-Quads and Turtle: terms, their names, and errors.

use std::io::Write as _;

use super::*;
use crate::{BlankNodes, Literals};

/// Lines as DBpedia publishes them.
const DBPEDIA: &str = "\
# started 2017-07-06T12:05:32Z
<http://dbpedia.org/resource/Walter_Scott> <http://dbpedia.org/ontology/birthPlace> <http://dbpedia.org/resource/Edinburgh> .
<http://dbpedia.org/resource/Walter_Scott> <http://www.w3.org/2000/01/rdf-schema#label> \"Walter \\\"Scott\\\"\"@en .
<http://dbpedia.org/resource/Walter_Scott> <http://dbpedia.org/ontology/birthYear> \"1771\"^^<http://www.w3.org/2001/XMLSchema#gYear> .
<http://dbpedia.org/resource/Edinburgh> <http://dbpedia.org/ontology/country> <http://dbpedia.org/resource/Scotland> .
# completed 2017-07-06T12:05:33Z
";

/// The first example of the definition of Turtle, with a collection and blank nodes.
const TURTLE: &str = "\
@base <http://example.org/> .
@prefix rdf: <http://www.w3.org/1999/02/22-rdf-syntax-ns#> .
PREFIX foaf: <http://xmlns.com/foaf/0.1/>
@prefix rel: <http://www.perceive.net/schemas/relationship/> .

<#green-goblin>
    rel:enemyOf <#spiderman> ;
    a foaf:Person ;    # in the context of the Marvel universe
    foaf:name \"Green Goblin\", '''Человек'''@ru ;
    foaf:age 42 .
_:sp foaf:knows [ foaf:knows <#green-goblin>, [] ] .
<#team> rel:members ( <#spiderman> _:sp ) .
";

pub(super) fn triple(lhs: &str, rel: &str, rhs: &str) -> NamedEdge {
    let name = |term: &str| match term.starts_with(['_', '"', '<']) || term.contains(':') {
        true => term.to_owned(),
        false => format!("<http://dbpedia.org/{term}>"),
    };
    edge(&name(lhs), &name(rel), &name(rhs))
}

#[track_caller]
pub(super) fn reads(
    workshop: &Workshop,
    name: &str,
    text: &[u8],
    mut expected: Vec<NamedEdge>,
) -> ImportReport {
    let file = workshop.file(name, text);
    let report = workshop.import(&[("train", &[&file])]).unwrap();
    expected.sort();
    assert_eq!(
        named_edges(&workshop.dataset(), "train"),
        expected,
        "{name}"
    );
    fs::remove_dir_all(workshop.target()).unwrap();
    report
}

fn gzip(text: &str) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(text.as_bytes()).unwrap();
    encoder.finish().unwrap()
}

#[test]
fn n_triples_without_their_literals() {
    let expected = || {
        vec![
            triple(
                "resource/Walter_Scott",
                "ontology/birthPlace",
                "resource/Edinburgh",
            ),
            triple(
                "resource/Edinburgh",
                "ontology/country",
                "resource/Scotland",
            ),
        ]
    };
    let workshop = Workshop::new(2);
    let texts = [
        ("people.nt", DBPEDIA.as_bytes().to_vec()),
        ("people.nt.gz", gzip(DBPEDIA)),
        (
            "people.zst",
            zstd::encode_all(DBPEDIA.as_bytes(), 1).unwrap(),
        ),
        ("people", DBPEDIA.replace('\n', "\r\n").into_bytes()),
        ("people.tsv", DBPEDIA.replace("> <", ">\t<").into_bytes()),
        (
            "people.nt",
            DBPEDIA.replace("Edin", "\\u0045din").into_bytes(),
        ),
    ];
    for (name, text) in texts {
        let report = reads(&workshop, name, &text, expected());
        assert_eq!(report.sets[0].skipped.literals, 2, "{name}");
        let said = "N-Triples, literals are skipped; read as: head=<http://dbpedia.org/resource/Walter_Scott>";
        assert!(report.read_as[0].contains(said), "{report:?}");
    }
}

#[test]
fn literals_as_entities_have_one_spelling() {
    let mut workshop = Workshop::new(1);
    workshop.options.rdf.literals = Literals::Entities;
    let text = "<a> <p> \"x\\u0079\"@EN .\n<b> <p> \"xy\"@en .\n\
                <c> <p> \"5\"^^<http://www.w3.org/2001/XMLSchema#string> .\n<d> <p> \"a\\tb\\\"\" .\n";
    let expected = vec![
        triple("<a>", "<p>", "\"xy\"@en"),
        triple("<b>", "<p>", "\"xy\"@en"),
        triple("<c>", "<p>", "\"5\""),
        triple("<d>", "<p>", "\"a\\tb\\\"\""),
    ];
    let report = reads(&workshop, "a.nt", text.as_bytes(), expected);
    assert_eq!(report.sets[0].skipped.literals, 0);
    assert!(
        report.read_as[0].contains("literals are entities"),
        "{report:?}"
    );
}

#[test]
fn names_of_graphs_are_ignored() {
    let workshop = Workshop::new(1);
    let text = "<a> <p> <b> <http://graphs/1> .\n<a> <p> \"text\"@en _:g .\n<b> <p> <c> .\n_:x <p> <c> <g> . # note\n";
    let expected = vec![
        triple("<a>", "<p>", "<b>"),
        triple("<b>", "<p>", "<c>"),
        triple("_:x@quads.nq", "<p>", "<c>"),
    ];
    let report = reads(&workshop, "quads.nq", text.as_bytes(), expected);
    let said =
        "quads.nq: N-Quads, literals are skipped, names of graphs are ignored; read as: head=<a>";
    assert!(
        report.read_as[0].ends_with(&format!("{said}, relation=<p>, tail=<b>")),
        "{report:?}"
    );
}

fn goblin(prefixed: bool, scope: &str) -> Vec<NamedEdge> {
    let iri = |prefix: &str, rest: &str| match (prefixed, prefix) {
        (_, "") => format!("<http://example.org/{rest}>"),
        (true, _) => format!("{prefix}:{rest}"),
        (_, "rdf") => format!("<http://www.w3.org/1999/02/22-rdf-syntax-ns#{rest}>"),
        (_, "foaf") => format!("<http://xmlns.com/foaf/0.1/{rest}>"),
        _ => format!("<http://www.perceive.net/schemas/relationship/{rest}>"),
    };
    let (goblin, spider) = (iri("", "#green-goblin"), iri("", "#spiderman"));
    let knows = iri("foaf", "knows");
    let node = |name: &str| format!("_:{name}{scope}");
    let (first, rest) = (iri("rdf", "first"), iri("rdf", "rest"));
    let edges = [
        (goblin.clone(), iri("rel", "enemyOf"), spider.clone()),
        (goblin.clone(), iri("rdf", "type"), iri("foaf", "Person")),
        (node("[1]"), knows.clone(), goblin),
        (node("[1]"), knows.clone(), node("[2]")),
        (node("sp"), knows, node("[1]")),
        (node("[3]"), first.clone(), spider),
        (node("[3]"), rest.clone(), node("[4]")),
        (node("[4]"), first, node("sp")),
        (node("[4]"), rest, iri("rdf", "nil")),
        (iri("", "#team"), iri("rel", "members"), node("[3]")),
    ];
    edges.map(|(lhs, rel, rhs)| edge(&lhs, &rel, &rhs)).into()
}

#[test]
fn turtle_with_abbreviations() {
    let mut workshop = Workshop::new(2);
    for (name, text) in [
        ("goblin.ttl", TURTLE.as_bytes().to_vec()),
        ("goblin.ttl", gzip(TURTLE)),
        ("goblin.ttl", TURTLE.replace('\n', "\r\n").into_bytes()),
        ("goblin.ttl", TURTLE.trim_end().as_bytes().to_vec()),
    ] {
        let report = reads(&workshop, name, &text, goblin(false, "@goblin.ttl"));
        assert_eq!(report.sets[0].skipped.literals, 3);
        assert!(
            report.read_as[0].contains("Turtle, literals are skipped; read as: head="),
            "{report:?}"
        );
    }
    // A text without line ends.
    let line = TURTLE
        .replace("    # in the context of the Marvel universe", "")
        .replace('\n', " ");
    reads(
        &workshop,
        "goblin.ttl",
        line.as_bytes(),
        goblin(false, "@goblin.ttl"),
    );
    workshop.options.rdf.file_prefixes = true;
    workshop.options.rdf.blank_nodes = BlankNodes::Shared;
    let mut expected = goblin(true, "@goblin.ttl");
    for (lhs, _, rhs, _) in &mut expected {
        for name in [lhs, rhs] {
            *name = name.replace("_:sp@goblin.ttl", "_:sp");
        }
    }
    let report = reads(&workshop, "goblin.ttl", TURTLE.as_bytes(), expected);
    let said = "Turtle, literals are skipped, blank nodes are shared with other files, 3 prefixes shorten IRIs; \
                read as: head=<http://example.org/#green-goblin>, relation=rel:enemyOf";
    assert!(report.read_as[0].contains(said), "{report:?}");
}

#[test]
fn blank_nodes_belong_to_their_file() {
    let mut workshop = Workshop::new(1);
    let one = workshop.file("one.nt", "_:b0 <p> <a> .\n_:b.1 <p> _:b0 .\n");
    let two = workshop.file(
        "two.ttl",
        "@prefix : <http://e/> .\n_:b0 <p> <a> . [] <p> _:b0 .\n",
    );
    let sets: [(&str, &[&Path]); 1] = [("train", &[&one, &two])];
    workshop.import(&sets).unwrap();
    let mut expected = vec![
        triple("_:b0@one.nt", "<p>", "<a>"),
        triple("_:b.1@one.nt", "<p>", "_:b0@one.nt"),
        triple("_:b0@two.ttl", "<p>", "<a>"),
        triple("_:[1]@two.ttl", "<p>", "_:b0@two.ttl"),
    ];
    expected.sort();
    assert_eq!(named_edges(&workshop.dataset(), "train"), expected);
    workshop.options.fresh = true;
    workshop.options.rdf.blank_nodes = BlankNodes::Shared;
    workshop.import(&sets).unwrap();
    let mut expected = vec![
        triple("_:b0", "<p>", "<a>"),
        triple("_:b0", "<p>", "<a>"),
        triple("_:b.1", "<p>", "_:b0"),
        triple("_:[1]@two.ttl", "<p>", "_:b0"),
    ];
    expected.sort();
    assert_eq!(named_edges(&workshop.dataset(), "train"), expected);
}

#[test]
fn labels_that_the_library_could_give_are_labels() {
    let workshop = Workshop::new(1);
    let label = "_:ab".to_owned() + &"0".repeat(30);
    let text = format!(
        "@prefix : <http://e/> .\n{label} :p :a .\n:b :p [ :p {label} ] .\n[] :p {label}.\n"
    );
    let node = format!("{label}@x.ttl");
    let expected = vec![
        triple(&node, "<http://e/p>", "<http://e/a>"),
        triple("_:[1]@x.ttl", "<http://e/p>", &node),
        triple("<http://e/b>", "<http://e/p>", "_:[1]@x.ttl"),
        triple("_:[2]@x.ttl", "<http://e/p>", &node),
    ];
    reads(&workshop, "x.ttl", text.as_bytes(), expected);
}

#[test]
fn prefixes_shorten_all_files_alike() {
    let mut workshop = Workshop::new(1);
    workshop.options.rdf.prefixes = vec!["dbr=http://dbpedia.org/resource/".parse().unwrap()];
    workshop.options.rdf.file_prefixes = true;
    let turtle = "@prefix dbo: <http://dbpedia.org/ontology/> .\n@prefix dbr: <http://elsewhere/> .\n\
                  <http://dbpedia.org/resource/A> dbo:near <http://dbpedia.org/resource/B> .\n";
    let (one, two) = (
        workshop.file("1.nt", DBPEDIA),
        workshop.file("2.ttl", turtle),
    );
    let report = workshop
        .import(&[("train", &[&one]), ("test", &[&two])])
        .unwrap();
    let expected = [
        triple("dbr:Edinburgh", "dbo:country", "dbr:Scotland"),
        triple("dbr:Walter_Scott", "dbo:birthPlace", "dbr:Edinburgh"),
    ];
    assert_eq!(named_edges(&workshop.dataset(), "train"), expected);
    let expected = [triple("dbr:A", "dbo:near", "dbr:B")];
    assert_eq!(named_edges(&workshop.dataset(), "test"), expected);
    let said = "2 prefixes shorten IRIs; read as: head=dbr:Walter_Scott, relation=dbo:birthPlace, tail=dbr:Edinburgh";
    assert!(report.read_as[0].ends_with(said), "{report:?}");
}
