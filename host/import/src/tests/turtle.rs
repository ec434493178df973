//! Turtle: ends of statements, wrong ones, and limits.

use super::rdf::{reads, triple};
use super::rdf_errors::fails;
use super::*;
use crate::{Literals, OnBadLine};

#[test]
fn bad_statements_of_turtle_are_skipped_up_to_their_end() {
    let mut workshop = Workshop::new(1);
    workshop.options.on_bad_line = OnBadLine::Skip;
    let text = "@prefix a: <http://a/> .\na:x a:y <1> .\nb:x a:y <2> ; a:z <3> .\na:x a:y <4> .\n";
    let expected = ["<1>", "<4>"].map(|rhs| triple("<http://a/x>", "<http://a/y>", rhs));
    let report = reads(&workshop, "a.ttl", text.as_bytes(), expected.into());
    let skipped = &report.sets[0].skipped;
    assert_eq!(skipped.count, 1);
    assert!(
        skipped.first.as_ref().unwrap().contains("a.ttl, line 3: "),
        "{skipped:?}"
    );
}

/// Without its closing quote, a string would last until the end of the text.
#[test]
fn a_missing_quote_does_not_take_the_rest_of_the_text() {
    let mut workshop = Workshop::new(1);
    workshop.options.on_bad_line = OnBadLine::Skip;
    for wrong in ["a:o'brien a:y a:z .", "a:x a:y \"one .", "a:x a:y <one ."] {
        let triples = (0..1000).map(|n| format!("a:x a:y a:z{n} .\n"));
        let text = format!(
            "@prefix a: <http://a/> .\n{wrong}\n{}",
            triples.collect::<String>()
        );
        let file = workshop.file("a.ttl", text.as_bytes());
        let report = workshop.import(&[("train", &[&file])]).unwrap();
        let set = &report.sets[0];
        // Four kilobytes of triples, of 15 bytes and more each, belong to the string.
        assert!((700..1000).contains(&set.edges), "{wrong}: {}", set.edges);
        fs::remove_dir_all(workshop.target()).unwrap();
        assert_eq!(set.skipped.count, 1, "{wrong}");
    }
}

#[test]
fn a_wrong_statement_does_not_hide_the_next() {
    let mut workshop = Workshop::new(1);
    workshop.options.on_bad_line = OnBadLine::Skip;
    let begin = "@base <http://b/> .\n@prefix a: <http://a/> . @prefix q: <http://q/\\u003E\\u005Cx y/> .\n";
    for wrong in [
        "a:x a:y \"one.\n two. \" , a:z .",
        "a:x a:y 'one. \n\n two. ' .",
        "a:x a:y \"\"\"one \\z . two\"\"\" .",
        "a:x a:y [ a:y .\n a:x a:y a:z .",
        "a:x a:y ) .",
        "a:x a:y b:x ; a:z [ a:z <no> ] .",
        "a:x <a\nb> a:y .",
        "\\\" .",
    ] {
        let text =
            format!("{begin}<x> a:y <1> , [ a:y [] ] . {wrong}\n<x> q:y <4>, [ a:y [] ] .\n");
        let blank = |number: u64| format!("_:[{number}]@a.ttl");
        let (x, y, q) = ("<http://b/x>", "<http://a/y>", "<http://q/>\\x y/y>");
        let expected = vec![
            edge(x, y, "<http://b/1>"),
            edge(x, y, &blank(1)),
            edge(&blank(1), y, &blank(2)),
            edge(x, q, "<http://b/4>"),
            edge(x, q, &blank(3)),
            edge(&blank(3), y, &blank(4)),
        ];
        let report = reads(&workshop, "a.ttl", text.as_bytes(), expected);
        let skipped = &report.sets[0].skipped;
        let first = skipped.first.as_ref().unwrap();
        assert_eq!(skipped.count, 1, "{wrong}: {first}");
        assert!(
            first.contains("a.ttl, line 3: ")
                && first.ends_with("the rest of the statement is skipped"),
            "{first}"
        );
    }
    let text = format!("{begin}<x> a:y <1> . a:x a:y b:z .\na:x <no> c:z .\n");
    let report = reads(
        &workshop,
        "a.ttl",
        text.as_bytes(),
        vec![edge("<http://b/x>", "<http://a/y>", "<http://b/1>")],
    );
    let skipped = &report.sets[0].skipped;
    let first = skipped.first.as_ref().unwrap();
    assert!(
        skipped.count == 2 && first.contains("(column 23)"),
        "{first}"
    );
    workshop.options.on_bad_line = OnBadLine::Error;
    fails(
        &workshop,
        "a.ttl",
        format!("{begin}a:x a:y \"\"\"1\n2. \"\"\", \"b\n c\" ."),
        &["a.ttl, line 4: a string has a line end: its closing quote is missing"],
    );
}

#[test]
fn strings_of_many_lines_belong_to_their_statements() {
    let mut workshop = Workshop::new(1);
    workshop.options.rdf.literals = Literals::Entities;
    let lines = "One line. \nA \"second\" one. [ \n".repeat(2000);
    let text = format!(
        "@prefix a: <http://a/> .\n[ a:y \"\"\"{lines}\"\"\" , 'it\\'s. ' ; a:z [ a:y '''. \n\"''' ] ] a:z [] .\n"
    );
    let [y, z] = ["<http://a/y>", "<http://a/z>"];
    let blank = |number: u64| format!("_:[{number}]@a.ttl");
    let expected = vec![
        edge(&blank(1), y, "\"it's. \""),
        edge(&blank(2), y, "\". \\n\\\"\""),
        edge(&blank(1), z, &blank(2)),
        edge(&blank(1), z, &blank(3)),
    ];
    // The text is longer than a name may be.
    workshop.options.on_bad_line = OnBadLine::Skip;
    let report = reads(&workshop, "a.ttl", text.as_bytes(), expected.clone());
    assert_eq!(report.sets[0].skipped.count, 1);
    let short = text.replace(&lines, "One. \n\"Two\". ");
    let mut expected = expected;
    expected.push(edge(&blank(1), y, "\"One. \\n\\\"Two\\\". \""));
    workshop.options.on_bad_line = OnBadLine::Error;
    reads(&workshop, "a.ttl", short.as_bytes(), expected);
}

#[test]
fn prefixes_and_bases_are_bounded() {
    let workshop = Workshop::new(1);
    let triple = "a:x a:y a:z .\n";
    let long = |length: usize| "x".repeat(length);
    let declare = |iri: &str| format!("@prefix a: <{iri}> .\n{triple}");
    workshop.import_text("a.ttl", declare(&long(4096))).unwrap();
    fs::remove_dir_all(workshop.target()).unwrap();
    fails(
        &workshop,
        "a.ttl",
        declare(&long(4097)),
        &[
            "line 1: the IRI of the prefix `a` has 4097 bytes",
            "in full",
        ],
    );
    // Many terms that are short in the file.
    let pairs = "a:,".repeat(100_000);
    fails(
        &workshop,
        "a.ttl",
        format!("@prefix a: <{}> .\na: a: {pairs} a: .\n", long(30_000)),
        &["the prefix `a` has 30000 bytes"],
    );
    fails(
        &workshop,
        "a.ttl",
        format!("@prefix a: <a> .\n{triple}@base<{}> .\n", long(5000)),
        &["line 3: the base IRI has 5000 bytes, but at most 4096"],
    );
    // Each base is relative to the one before.
    let growing = format!(
        "BASE <http://a/{0}/>\nBASE <{0}/>\n<x> <y> <z> .\n",
        long(3000)
    );
    fails(&workshop, "a.ttl", growing, &["line 2: the base IRI has"]);
    let many: String = (0..4097)
        .map(|at| format!("@prefix p{at}: <x> .\n"))
        .collect();
    fails(
        &workshop,
        "a.ttl",
        many,
        &["line 4097: more than 4096 prefixes"],
    );
    let name = long(60_000);
    let many: String = (0..300)
        .map(|at| format!("@prefix p{at}{name}: <x> .\n"))
        .collect();
    fails(
        &workshop,
        "a.ttl",
        many,
        &["the prefixes take more than 16777216 bytes"],
    );
}

#[test]
fn turtle_needs_no_line_ends() {
    let workshop = Workshop::new(1);
    let begin = "@prefix a: <http://a/> .";
    let statements: String = (0..40_000)
        .map(|at| format!(" a:x a:y a:z{at} ."))
        .collect();
    let text = format!("{begin}{statements}");
    assert!(text.len() > 700_000);
    let dataset = workshop.import_text("a.ttl", &text).unwrap();
    assert_eq!(dataset.edge_set("train").unwrap().len(), 40_000);
    fs::remove_dir_all(workshop.target()).unwrap();
    let long = format!("<a> <b> \"{}\" .\n", "x".repeat(600_000));
    fails(
        &workshop,
        "a.nt",
        long,
        &["a.nt, line 1: the line is longer"],
    );
}
