//! Bucket order read from a file: CSV with one bucket per line, or JSON, `[[0, 0], [1, 0]]`, as printed by
//! `pbg-host orders show --json` and `pbg-host cluster history --order`.
//!
//! ```text
//! lhs,rhs
//! 0,0
//! 1,0
//! ```
//!
//! The heading may be omitted. The file must be in a folder that the configuration grants:
//!
//! ```toml
//! bucket_order = "from_file"
//! plugins.params.from_file.path = "order.csv"
//! [[plugins.grants]]
//! plugin = "from_file"
//! read = ["orders"]
//! ```
//!
//! Every pass has the order of the file, which must name every bucket of the grid once. This plugin is
//! also the example of a plugin that reads files.

use pbg_plugin_sdk::{
    Bucket, Metadata, Order, Parameter, Parameters, Pass, Result, export_order, files,
};

/// The order.
#[derive(Clone, Debug, Default, serde::Deserialize)]
pub struct FromFile {
    path: String,
}

impl Order for FromFile {
    fn metadata() -> Metadata {
        Metadata::new(
            "from_file",
            env!("CARGO_PKG_VERSION"),
            "Buckets in the order of a CSV file in a granted folder.",
        )
        .parameter(Parameter::text(
            "path",
            "order.csv",
            "Path of the file, with one `lhs,rhs` per line or JSON `[[lhs, rhs], ...]`, in a folder of [[plugins.grants]].",
        ))
    }

    fn configure(&mut self, parameters: &Parameters) -> Result<()> {
        *self = parameters.parse()?;
        Ok(())
    }

    fn plan(&mut self, pass: &Pass) -> Result<Vec<Bucket>> {
        let text = files::read_text(&self.path)?;
        let mut plan = Vec::new();
        let mut named = vec![false; pass.grid().len()];
        for (place, entry) in entries(&text) {
            let at = |what: String| format!("{}, {place}: {what}", self.path);
            let bucket = parse(entry)
                .ok_or_else(|| at("must be two partition numbers, as in 0,3".into()))?;
            let Bucket { lhs, rhs } = bucket;
            if !pass.contains(bucket) {
                let (rows, columns) = (pass.lhs_partitions, pass.rhs_partitions);
                return Err(at(format!(
                    "{lhs},{rhs} is outside the {rows} x {columns} grid"
                )));
            }
            if std::mem::replace(&mut named[pass.index(bucket)], true) {
                return Err(at(format!("{lhs},{rhs} is listed twice")));
            }
            plan.push(bucket);
        }
        match pass.grid().iter().find(|&&b| !named[pass.index(b)]) {
            Some(Bucket { lhs, rhs }) => Err(format!(
                "{}: does not name bucket {lhs},{rhs}; it must name all {} of the grid",
                self.path,
                named.len()
            )),
            None => Ok(plan),
        }
    }
}

/// Splits the text into entries, which should be buckets, each with its position in the file for messages.
fn entries(text: &str) -> Vec<(String, &str)> {
    let json = text
        .trim()
        .strip_prefix('[')
        .and_then(|text| text.strip_suffix(']'));
    let Some(json) = json else {
        let lines = (1..).zip(text.lines().map(str::trim));
        let heading = |number: i32, line: &str| number == 1 && line.replace(' ', "") == "lhs,rhs";
        let lines = lines.filter(|(number, line)| !line.is_empty() && !heading(*number, line));
        return lines
            .map(|(number, line)| (format!("line {number}"), line))
            .collect();
    };
    // Remove the last `]`, so that splitting at `]` gives no empty entry at the end.
    let json = json.trim_end();
    let json = json.strip_suffix(']').unwrap_or(json);
    if json.is_empty() {
        return Vec::new();
    }
    let numbered = (1..).zip(json.split(']'));
    // An invalid entry becomes empty, which is then reported as not being two partition numbers.
    let entry = |(number, text)| {
        (
            format!("bucket {number}"),
            inside(number, text).unwrap_or(""),
        )
    };
    numbered.map(entry).collect()
}

/// Returns the content of a list entry whose `]` has been removed, without its comma and `[`.
fn inside(number: i32, entry: &str) -> Option<&str> {
    let entry = entry.trim_start();
    let entry = if number > 1 {
        entry.strip_prefix(',')?
    } else {
        entry
    };
    entry.trim_start().strip_prefix('[')
}

fn parse(line: &str) -> Option<Bucket> {
    let (lhs, rhs) = line.split_once(',')?;
    Some(Bucket::new(
        lhs.trim().parse().ok()?,
        rhs.trim().parse().ok()?,
    ))
}

export_order!(FromFile);

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(text: &str) -> Result<Vec<Bucket>> {
        files::provide("order.csv", text);
        let mut order = pbg_plugin_sdk::testing::with_defaults::<FromFile>();
        order.plan(&Pass::uniform(2, 2, 0))
    }

    #[test]
    fn the_order_is_that_of_the_file() {
        let expected = [(1, 1), (0, 0), (0, 1), (1, 0)].map(|(l, r)| Bucket::new(l, r));
        assert_eq!(
            plan("lhs, rhs\n1,1\n0, 0\n0,1\n\n1,0\n"),
            Ok(expected.to_vec())
        );
        assert_eq!(plan("1,1\r\n0,0\r\n0,1\r\n1,0"), Ok(expected.to_vec()));
        let json = [
            "[[1,1],[0,0],[0,1],[1,0]]\n",
            "[\n [1, 1], [0,0] , [0,1],\n[ 1,0 ]\n]",
        ];
        for text in json {
            assert_eq!(plan(text), Ok(expected.to_vec()), "{text}");
        }
    }

    #[test]
    fn mistakes_are_named_with_their_line() {
        for (text, reason) in [
            (
                "0,0\n0,1,2\n",
                "order.csv, line 2: must be two partition numbers",
            ),
            ("lhs,rhs\n0,2\n", "line 2: 0,2 is outside the 2 x 2 grid"),
            ("0,0\n0,0\n", "line 2: 0,0 is listed twice"),
            (
                "0,0\n1,0\n1,1\n",
                "does not name bucket 0,1; it must name all 4",
            ),
            ("", "does not name bucket 0,0"),
            ("[]", "does not name bucket 0,0"),
            ("[[0,0],[0,1,2]]", "order.csv, bucket 2: must be two"),
            ("[[0,0] [0,1]]", "bucket 2: must be two"),
            ("[0,0]", "bucket 1: must be two"),
            ("[[0,0],[0,2]]", "bucket 2: 0,2 is outside"),
        ] {
            let error = plan(text).expect_err(text);
            assert!(error.contains(reason), "{error}");
        }
    }

    #[test]
    fn a_missing_file_is_named() {
        let mut order = FromFile {
            path: "nowhere.csv".to_owned(),
        };
        let error = order.plan(&Pass::uniform(1, 1, 0)).unwrap_err();
        assert!(error.contains("nowhere.csv"), "{error}");
    }
}
