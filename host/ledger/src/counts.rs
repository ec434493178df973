//! The counts of a record: numbers that transactions increase.

use super::{CheckpointCut, FileId, LedgerRecord, LedgerSums};

/// Greatest count: of revisions, versions, files, bytes, edges. No run reaches it, and sums of two do not overflow.
pub const MAX_COUNT: u64 = 1 << 60;
/// Greatest number of rankings, and of epochs.
const MAX_EPOCHS: u32 = 1 << 30;

impl LedgerRecord {
    /// Checks that no count is so large that a transaction could make it overflow.
    pub(super) fn check_counts(&self) -> Result<(), String> {
        let too_large = |what: &str| Err(format!("its {what} is too large"));
        let work = &self.work;
        let cuts = self.checkpoints.base.iter().chain(&self.checkpoints.cuts);
        let files = work
            .partitions
            .iter()
            .flat_map(|partition| &partition.files);
        let mut groups = [
            ("revision", vec![self.revision]),
            (
                "generation",
                work.partitions.iter().map(|p| p.generation).collect(),
            ),
            (
                "file version",
                files.flat_map(|file| counts_of_file(file.id)).collect(),
            ),
            ("checkpoint version", cuts.flat_map(counts_of_cut).collect()),
            (
                "transaction number",
                self.trainers
                    .values()
                    .flat_map(|trainer| [trainer.last, trainer.files])
                    .collect(),
            ),
            (
                "event file",
                work.told.values().map(|told| told.bytes).collect(),
            ),
            ("sum", counts_of_sums(&work.progress.sums).to_vec()),
            (
                "number of batches or edges of the loss",
                work.progress
                    .loss
                    .iter()
                    .flat_map(|loss| [loss.step, loss.edges])
                    .collect(),
            ),
        ]
        .into_iter();
        if let Some((what, _)) = groups.find(|(_, counts)| counts.iter().any(|n| *n > MAX_COUNT)) {
            return too_large(what);
        }
        let plateau = &work.progress.plateau;
        let rankings = [plateau.since_best, plateau.since_change];
        if rankings.iter().any(|count| *count > MAX_EPOCHS) {
            return too_large("number of rankings");
        }
        let finished = work.progress.finished.map_or(0, |finished| finished.epoch);
        let epochs = [work.pass.epoch, finished, plateau.seen];
        match epochs.iter().any(|epoch| *epoch > MAX_EPOCHS) {
            true => too_large("number of epochs"),
            false => Ok(()),
        }
    }
}

fn counts_of_file(id: FileId) -> [u64; 2] {
    [id.version, id.writer.map_or(0, |(_, count)| count)]
}

fn counts_of_cut(cut: &CheckpointCut) -> [u64; 3] {
    let begun = cut.begun.as_ref();
    let revision = begun.map_or(0, |begun| begun.revision);
    [cut.version, revision, begun.map_or(0, |begun| begun.number)]
}

fn counts_of_sums(sums: &LedgerSums) -> [u64; 8] {
    let (train, io) = (&sums.train, &sums.io);
    [
        train.count,
        train.violators_lhs,
        train.violators_rhs,
        sums.eval_before.count,
        io.loads,
        io.writes,
        io.bytes_read,
        io.bytes_written,
    ]
}
