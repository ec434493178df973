//! Exit codes: one per kind of failure, so that scripts can distinguish them.
//!
//! `docs/exit-codes.md` and the last lines of `pbg-host --help` are checked against [`FailureKind`].

/// Kind of a failure that ended the program, with its exit code. Codes are never reused for another meaning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FailureKind {
    /// A bug in this program.
    Internal = 1,
    /// The command line is wrong.
    Usage = 2,
    /// The configuration is wrong.
    Config = 3,
    /// The input data or the dataset is missing, damaged or does not match.
    Data = 4,
    /// The checkpoint is missing, damaged or belongs to another run.
    Checkpoint = 5,
    /// A plugin failed or violated its contract.
    Plugin = 6,
    /// A loss or an embedding is not finite.
    NotFinite = 7,
    /// The system reported an error: disk full, permissions, memory.
    Io = 8,
    /// Another run uses the checkpoint or the dataset.
    Locked = 9,
    /// The other trainers of the run cannot be reached, or do not admit this one.
    Cluster = 10,
    /// The run was stopped before its end; the same command resumes it.
    Interrupted = 130,
}

impl FailureKind {
    /// Every kind, in the order of the codes.
    pub const ALL: [Self; 11] = [
        Self::Internal,
        Self::Usage,
        Self::Config,
        Self::Data,
        Self::Checkpoint,
        Self::Plugin,
        Self::NotFinite,
        Self::Io,
        Self::Locked,
        Self::Cluster,
        Self::Interrupted,
    ];

    /// Returns the exit code.
    pub const fn code(self) -> u8 {
        self as u8
    }

    /// Returns the meaning of the code in a few words.
    pub const fn meaning(self) -> &'static str {
        match self {
            Self::Internal => "internal error (a bug in pbg-host); please report it",
            Self::Usage => "the command line is wrong",
            Self::Config => "the configuration is wrong",
            Self::Data => "input data or dataset: missing, damaged, or does not fit",
            Self::Checkpoint => "checkpoint: missing, damaged, or of another configuration",
            Self::Plugin => "a plugin failed, exceeded its limits or violated its contract",
            Self::NotFinite => "training produced a value that is not finite",
            Self::Io => "system error: disk full, permissions, memory",
            Self::Locked => {
                "another process is using the checkpoint, the dataset, the folder of an export or the index"
            }
            Self::Cluster => {
                "distributed run: the other trainers cannot be reached or refuse this one; the same command resumes"
            }
            Self::Interrupted => "interrupted; the same command resumes",
        }
    }
}

/// Returns the list of codes for `--help`.
pub fn help_text() -> String {
    let mut text = "Exit codes:\n    0  success".to_owned();
    for kind in FailureKind::ALL {
        text.push_str(&format!("\n  {:>3}  {}", kind.code(), kind.meaning()));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_differ() {
        let mut codes: Vec<u8> = FailureKind::ALL.iter().map(|k| k.code()).collect();
        codes.dedup();
        assert_eq!(codes.len(), FailureKind::ALL.len());
        assert!(codes.is_sorted() && !codes.contains(&0));
    }

    #[test]
    fn the_documentation_lists_every_code() {
        let page = include_str!("../../../docs/exit-codes.md");
        for kind in FailureKind::ALL {
            let row = format!("| {} | {} |", kind.code(), kind.meaning());
            assert!(
                page.contains(&row),
                "docs/exit-codes.md lacks the row\n{row}"
            );
        }
        let rows = page
            .lines()
            .filter(|l| l.starts_with("| ") && !l.starts_with("| code"))
            .count();
        assert_eq!(
            rows,
            FailureKind::ALL.len() + 1,
            "one row per code, and one for 0"
        );
    }
}
