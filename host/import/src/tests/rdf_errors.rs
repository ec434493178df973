//! Wrong RDF, other texts that look like it, and properties of all syntaxes.

use proptest::prelude::*;

use super::rdf::{reads, triple};
use super::*;
use crate::{BlankNodes, Literals, OnBadLine, RdfSyntax, Separator};

#[track_caller]
pub(super) fn fails(workshop: &Workshop, name: &str, text: impl AsRef<[u8]>, expected: &[&str]) {
    let error = workshop.import_text(name, text).unwrap_err().to_string();
    for part in expected {
        assert!(error.contains(part), "`{part}` is not in: {error}");
    }
    assert!(workshop.is_tidy() && !workshop.target().exists());
}

#[test]
fn options_without_a_file_for_them_are_refused() {
    let mut any = Workshop::new(1);
    any.options.rdf.literals = Literals::Entities;
    fails(&any, "a.tsv", "a\tp\tb\n", &["`--literals`", "RDF files"]);
    let mut any = Workshop::new(1);
    any.options.text.header_file = Some(any.file("header.csv", "a,b,c\n"));
    fails(
        &any,
        "a.nt",
        "<a> <p> <b> .\n",
        &["header.csv`", "text files"],
    );
    any.options.text.header_file = Some(any.path("nowhere.csv"));
    fails(&any, "a.tsv", "a\tp\tb\n", &["nowhere.csv"]);
    fails(&any, "a.tsv", "\n\n", &["it has no edges"]);
}

#[test]
fn errors_name_file_and_line() {
    let mut any = Workshop::new(1);
    let good = "<a> <p> <b> .\n";
    for wrong in [
        "<a> <p> .",
        "<a> <p> <b>",
        "<a> \"p\" <b> .",
        "<a> <p> <b",
        "<a> <p> <b> . x",
        "<a> <p> \"b .",
        "x",
    ] {
        let text = format!("{good}# note\n{wrong}\n{good}");
        any.options.text.separator = Some(Separator::Rdf(RdfSyntax::NTriples));
        fails(
            &any,
            "a.nt",
            &text,
            &["a.nt, line 3: it is not N-Triples: ", "(column "],
        );
        any.options.on_bad_line = OnBadLine::Skip;
        let file = any.file("a.nt", &text);
        let report = any.import(&[("train", &[&file])]).unwrap();
        assert_eq!(
            (report.sets[0].edges, report.sets[0].skipped.count),
            (2, 1),
            "{wrong}"
        );
        fs::remove_dir_all(any.target()).unwrap();
        any.options = Workshop::new(1).options;
    }
    fails(
        &any,
        "a.nt",
        format!("{}<a> <p> <b> <g> .\n", good.repeat(2000)),
        &["line 2001", "--separator nquads"],
    );
    fails(
        &any,
        "a.nt",
        "<a> <p> \"b\" .\n",
        &[
            "a.nt: it has no edges but 1 triples with literals",
            "--literals",
        ],
    );
    fails(
        &any,
        "a.ttl",
        "@prefix a: <http://a/> .\na:x a:y a:z .\nb:x a:y a:z .\n",
        &["a.ttl, line 3: it is not Turtle", "prefix b"],
    );
    fails(
        &any,
        "a.ttl",
        "@prefix a: <http://a/> .\na:x a:y <b\na:z> .\n",
        &["a.ttl, line ", "an IRI contains a control character"],
    );
    fails(
        &any,
        "a.ttl",
        "@prefix a: <http://a/> .\na:x a:y [ a:y \n",
        &["a.ttl, line "],
    );
    fails(
        &any,
        "a.ttl",
        format!(
            "@prefix a: <http://a/> .\na:x a:y {}",
            "[ a:y ".repeat(2000)
        ),
        &["line 2", "nested"],
    );
    fails(
        &any,
        "a.ttl",
        format!(
            "@prefix a: <http://a/> .\na:x a:y <{}> .",
            "x".repeat(40_000)
        ),
        &["line 2", "longer than 32768"],
    );
    fails(
        &any,
        "a.ttl",
        format!(
            "@prefix a: <http://a/> .\na:x a:y <{}> .",
            "x".repeat(900_000)
        ),
        &["line 2: an IRI is longer"],
    );
    any.options.columns = Some("lhs,rel,rhs,weight".parse().unwrap());
    fails(&any, "a.nt", good, &["a.nt: it is RDF", "no weight"]);
}

#[test]
fn other_texts_are_not_taken_for_rdf() {
    let workshop = Workshop::new(1);
    for (text, expected) in [
        ("@prefix\tx:y\tz\n", edge("@prefix", "x:y", "z")),
        ("@base\t<x\ty\n", edge("@base", "<x", "y")),
        ("prefix\tx:\tz\n", edge("prefix", "x:", "z")),
        ("<a>\t<r>\t<b>\n", edge("<a>", "<r>", "<b>")),
        ("(1)\tr\t(2)\n", edge("(1)", "r", "(2)")),
        ("[]\tr\t_:x\n", edge("[]", "r", "_:x")),
        ("prefix\tof\tword.\n", edge("prefix", "of", "word.")),
    ] {
        let report = reads(&workshop, "a.ttl", text.as_bytes(), vec![expected]);
        assert!(
            report.read_as[0].contains("separated by tabs"),
            "{report:?}"
        );
    }
    // What N-Triples does not allow may be Turtle.
    let text = "<http://a/x> a <http://a/y> .\n<http://a/x> <http://a/z> 5 .\n";
    let rdf_type = "<http://www.w3.org/1999/02/22-rdf-syntax-ns#type>";
    let expected = vec![triple("<http://a/x>", rdf_type, "<http://a/y>")];
    let report = reads(&workshop, "a.nt", text.as_bytes(), expected);
    assert!(report.read_as[0].contains("Turtle"), "{report:?}");
}

/// Lines of triples without literals.
fn lines() -> impl Strategy<Value = String> {
    let line = "(<http://e/[a-c]{1,2}>|_:[a-c]{1,2})( |\t|  )<http://e/[a-c]>( |\t)(<http://e/[a-c]{1,2}>|_:[a-c]{1,2})( |\t)\\.\n";
    prop::collection::vec(line, 1..20).prop_map(|lines| lines.concat())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// N-Triples are also N-Quads and Turtle, and escapes, which the fast path leaves to the library, change nothing.
    #[test]
    fn all_syntaxes_agree(text in lines(), shared in any::<bool>()) {
        let mut workshop = Workshop::new(1);
        if shared {
            workshop.options.rdf.blank_nodes = BlankNodes::Shared;
            workshop.options.rdf.prefixes = vec!["e=http://e/a".parse().unwrap()];
        }
        let plain = workshop.import_text("a.rdf", &text).unwrap();
        let expected = named_edges(&plain, "train");
        let spellings = [
            (RdfSyntax::NQuads, text.replace(" .\n", " <http://graph> .\n")),
            (RdfSyntax::NTriples, text.replace("http://e", "http\\u003A//e")),
            (RdfSyntax::Turtle, text.replace("\n", "\n\n  ")),
        ];
        for (syntax, text) in spellings {
            workshop.options.fresh = true;
            workshop.options.text.separator = Some(Separator::Rdf(syntax));
            let read = workshop.import_text("a.rdf", &text).unwrap();
            prop_assert_eq!(named_edges(&read, "train"), expected.clone(), "{} {}", syntax, text);
        }
    }

    /// Arbitrary bytes, and pieces of RDF in any order, are read or refused.
    #[test]
    fn no_bytes_are_fatal(
        bytes in prop::collection::vec(any::<u8>(), 0..200),
        pieces in prop::collection::vec(prop::sample::select(&PIECES[..]), 0..40),
        syntax in prop::sample::select(&["ntriples", "nquads", "turtle"][..]),
        said in any::<bool>(),
        skip in any::<bool>(),
    ) {
        let mut workshop = Workshop::new(1);
        if skip {
            workshop.options.on_bad_line = OnBadLine::Skip;
        }
        if said {
            workshop.options.text.separator = Some(syntax.parse().unwrap());
        }
        workshop.options.rdf.literals = Literals::Entities;
        workshop.options.rdf.file_prefixes = true;
        workshop.options.fresh = true;
        for text in [bytes, pieces.concat().into_bytes()] {
            match workshop.import_text("a", text) {
                Ok(dataset) => drop(named_edges(&dataset, "train")),
                Err(error) => prop_assert!(!error.to_string().is_empty()),
            }
            prop_assert!(workshop.is_tidy());
        }
    }
}

const PIECES: [&str; 40] = [
    "<http://a/b>",
    "<a",
    "<",
    ">",
    "@prefix ",
    "@base ",
    "a:",
    "a:b",
    ":",
    "PREFIX ",
    "BASE ",
    " ",
    "\n",
    "\r\n",
    ".",
    ". ",
    ";",
    ",",
    "[",
    "]",
    "(",
    ")",
    "\"",
    "\"\"\"",
    "'",
    "\\",
    "\\u00",
    "\\U0010FFFF",
    "_:",
    "_:x",
    "@en",
    "^^",
    "5",
    "5.",
    "1e",
    "true",
    "a",
    "#",
    "<x:>",
    "\u{fffd}",
];
