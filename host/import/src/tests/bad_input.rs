//! Every error has its message, and leaves no files behind.

use super::*;

fn fails(workshop: &Workshop, name: &str, content: impl AsRef<[u8]>, expected: &[&str]) {
    let error = workshop.import_text(name, content).unwrap_err().to_string();
    for part in expected {
        assert!(error.contains(part), "`{part}` is not in: {error}");
    }
    assert!(workshop.is_tidy());
    assert!(!workshop.target().exists());
}

fn named_relations() -> Workshop {
    Workshop::with_config(
        "entities.e.num_partitions = 1\nrelations = [{ name = 'parent_of', lhs = 'e', rhs = 'e' }]",
    )
}

#[test]
fn lines() {
    let any = Workshop::new(1);
    fails(
        &any,
        "a.tsv",
        "a\tr\tb\na\tr\n",
        &["a.tsv, line 2:", "3 columns are expected", "2 found"],
    );
    fails(
        &any,
        "a.tsv",
        "a\tr\tb\n\na\tr\tb\tc\n",
        &["a.tsv, line 3:", "4 found"],
    );
    fails(
        &any,
        "a.tsv",
        "a\tr\tb\na\tr\tc\na r b\n",
        &["a.tsv, line 3:", "separated by tabs", "1 found"],
    );
    fails(
        &any,
        "a.tsv",
        "a\tr\tb\na\t\tb\n",
        &["a.tsv, line 2:", "column 2 is empty"],
    );
    fails(
        &any,
        "a.tsv",
        b"a\tr\tb\na\tr\t\xff\n",
        &["a.tsv, line 2:", "UTF-8"],
    );
    let long = format!("a\tr\tb\na\tr\t{}\n", "x".repeat(40_000));
    fails(
        &any,
        "a.tsv",
        long,
        &["a.tsv, line 2:", "longer than 32768"],
    );
    let endless = format!("a\tr\tb\n{}", "x".repeat(2_000_000));
    fails(
        &any,
        "a.tsv",
        endless,
        &["a.tsv, line 2:", "the line is longer"],
    );
    fails(
        &any,
        "a.csv",
        "lhs,rel,rhs\na,r,b\n\"a\n1\",r,b\na,r\n",
        &["a.csv, line 5:", "2 found"],
    );
}

#[test]
fn the_first_wrong_line_of_many_is_named() {
    let mut text = "first\tr\tsecond\n".repeat(200_000);
    text.push_str("oops\n");
    text.push_str(&"first\tr\tsecond\n".repeat(200_000));
    text.push_str("oops\toops\n");
    let mut workshop = Workshop::new(1);
    workshop.options.threads = Some(4);
    fails(
        &workshop,
        "a.tsv",
        text,
        &["a.tsv, line 200001:", "1 found"],
    );
}

#[test]
fn relations() {
    let named = named_relations();
    let expected = ["a.tsv, line 2:", "`parent_off`", "did you mean `parent_of`"];
    fails(
        &named,
        "a.tsv",
        "a\tparent_of\tb\na\tparent_off\tb\n",
        &expected,
    );
    fails(
        &named,
        "a.csv",
        "lhs,rel,rhs\na,other,b\n",
        &["a.csv, line 2:", "`other`", "`*`"],
    );
    let any = Workshop::new(1);
    fails(
        &any,
        "a.csv",
        "lhs,rhs\na,b\n",
        &["a.csv", "no column of relations"],
    );
}

#[test]
fn weights() {
    let mut workshop = Workshop::new(1);
    workshop.options.columns = Some("lhs,rel,rhs,weight".parse().unwrap());
    for weight in ["x", "", "nan", "inf", "-1", "1e99"] {
        let text = format!("a\tr\tb\t1\na\tr\tb\t{weight}\n");
        fails(&workshop, "a.tsv", text, &["a.tsv, line 2:", "weight"]);
    }
}

#[test]
fn files() {
    let any = Workshop::new(1);
    fails(&any, "a.tsv", "", &["a.tsv", "empty"]);
    fails(&any, "a.tsv", "\n\n", &["a.tsv", "no edges"]);
    fails(&any, "a.csv", "lhs,rel,rhs\n", &["a.csv", "no edges"]);
    fails(
        &any,
        "a.csv",
        "x,y,z\n1,2,3\n",
        &["a.csv", "x, y, z", "--columns"],
    );
    fails(
        &any,
        "a.parquet",
        "PAR1 and so on",
        &["a.parquet", "not a complete Parquet file"],
    );
    fails(
        &any,
        "a.tsv.gz",
        "a\tr\tb\n",
        &["a.tsv.gz", "not a gz file"],
    );
    let good = {
        use std::io::Write;
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        encoder
            .write_all("a\tr\tb\n".repeat(100).as_bytes())
            .unwrap();
        encoder.finish().unwrap()
    };
    fails(
        &any,
        "a.tsv.gz",
        &good[..good.len() - 12],
        &["cannot read", "a.tsv.gz"],
    );
    let missing = any.path("missing.tsv");
    let error = any
        .import(&[("train", &[&missing])])
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("cannot open") && error.contains("missing.tsv"),
        "{error}"
    );
    let folder = any.path("folder");
    fs::create_dir(&folder).unwrap();
    let error = any.import(&[("train", &[&folder])]).unwrap_err();
    assert!(error.to_string().contains("folder"), "{error}");
}

#[test]
fn requests() {
    let any = Workshop::new(1);
    let file = any.file("a.tsv", "a\tr\tb\n");
    let fails = |sets: &[(&str, &[&Path])], part: &str| {
        let error = any.import(sets).unwrap_err().to_string();
        assert!(error.contains(part), "`{part}` is not in: {error}");
    };
    fails(&[], "no edges to import");
    fails(&[("train", &[])], "no file");
    fails(&[("train", &[&file]), ("train", &[&file])], "named twice");
    fails(&[("train", &[&file, &file])], "named twice");
    fails(&[("../x", &[&file])], "cannot be the name");
    fails(&[("", &[&file])], "cannot be the name");
    let mut featurized = Workshop::new(1);
    featurized.options.features = vec![("e".to_owned(), file.clone())];
    let error = featurized
        .import(&[("train", &[&file])])
        .unwrap_err()
        .to_string();
    assert!(error.contains("not a featurized entity type"), "{error}");
}

#[test]
fn features() {
    let mut workshop = Workshop::with_config(
        "entities.e = { num_partitions = 1, featurized = true }\n\
         relations = [{ name = 'r', lhs = 'e', rhs = 'e' }]",
    );
    fails(
        &workshop,
        "a.tsv",
        "a\tr\tb\n",
        &["featurized", "--features e=FILE"],
    );
    for (words, expected) in [
        ("a\tx\n", "no features of `b`"),
        ("a\tx\nb\n", "words.tsv, line 2:"),
        ("a\tx\na\ty\nb\tz\n", "given twice"),
        ("a\tx\nb\t \n", "`b` has no features"),
    ] {
        let words = workshop.file("words.tsv", words);
        workshop.options.features = vec![("e".to_owned(), words)];
        fails(&workshop, "a.tsv", "a\tr\tb\n", &["words.tsv", expected]);
    }
}

#[test]
fn a_folder_of_something_else_is_not_replaced() {
    let workshop = Workshop::new(1);
    fs::create_dir(workshop.target()).unwrap();
    let thesis = workshop.target().join("thesis.tex");
    fs::write(&thesis, "years of work").unwrap();
    let error = workshop.import_text("a.tsv", "a\tr\tb\n").unwrap_err();
    assert!(matches!(error, ImportError::Occupied { .. }), "{error}");
    assert!(thesis.exists());
    fs::remove_file(&thesis).unwrap();
    workshop.import_text("a.tsv", "a\tr\tb\n").unwrap();
}

#[test]
fn stopping_leaves_the_old_dataset() {
    let workshop = Workshop::new(1);
    workshop.import_text("a.tsv", "a\tr\tb\n").unwrap();
    let before = workshop.dataset().identity().to_owned();
    let sets = [(
        "train".to_owned(),
        vec![workshop.file("a.tsv", "a\tr\tc\n")],
    )];
    let options = ImportOptions {
        target: workshop.target(),
        ..workshop.options.clone()
    };
    let result = run(
        &workshop.config.graph_schema(),
        &sets,
        &options,
        &mut |_| ControlFlow::Break(()),
    );
    assert!(matches!(result, Err(ImportError::Cancelled)));
    assert_eq!(workshop.dataset().identity(), before);
    assert!(workshop.is_tidy());
}

#[test]
fn a_full_disk_at_any_operation_leaves_the_old_dataset() {
    let workshop = Workshop::new(2);
    workshop.import_text("a.tsv", "a\tr\tb\n").unwrap();
    let before = workshop.dataset().identity().to_owned();
    let mut failures = 0;
    for operations in 0.. {
        pbg_files::faults::fail_after(operations);
        let result = workshop.import_text("a.tsv", "a\tr\tb\nc\tr\td\n");
        let crashed = pbg_files::faults::recover();
        if !crashed {
            result.unwrap();
            break;
        }
        failures += 1;
        let now = workshop.dataset();
        assert!(now.identity() == before || now.dictionary("e").unwrap().len() == 4);
        named_edges(&now, "train");
        assert!(workshop.is_tidy());
        if let Err(error) = result {
            assert!(error.to_string().contains("free some space"), "{error}");
        }
        if now.identity() != before {
            break;
        }
    }
    assert!(failures > 5, "only {failures} operations were tried");
}

#[test]
fn names_that_memory_does_not_hold() {
    let mut any = Workshop::with_config(
        "entities.e = { num_partitions = 1, featurized = true }\n\
         relations = [{ name = '*', lhs = 'e', rhs = 'e' }]",
    );
    any.options.memory = Some(super::super::LEAST_MEMORY);
    any.options.features = vec![("e".to_owned(), any.file("features.tsv", ""))];
    let name = |n: u32| format!("{n}{}", "x".repeat(1000));
    let line = |n: u32| format!("{}\tr\t{}\n", name(2 * n), name(2 * n + 1));
    let text: String = (0..20_000).map(line).collect();
    let words = ["entities take", "24 MiB of memory for them", "--memory"];
    fails(&any, "a.tsv", &text, &words);

    // Each chunk counts the edges of each bucket.
    let mut many = Workshop::new(1 << 10);
    many.options.memory = Some(super::super::LEAST_MEMORY);
    many.options.threads = Some(64);
    let text: String = (0..20_000)
        .map(|n| format!("{}\tr\t{}\n", n % 1500, n % 1501))
        .collect();
    fails(&many, "a.tsv", text, &["1048576 buckets", "--memory"]);
    many.options.memory = Some(0);
    fails(&many, "a.tsv", "a\tr\tb\n", &["at least 32 MiB"]);
}
