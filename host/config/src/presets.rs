//! Preset configurations: well-known models with values that work well on real graphs.

/// Configuration of a well-known model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Preset {
    /// ComplEx with reciprocal relations and N3.
    Complex,
    /// DistMult.
    Distmult,
    /// TransE.
    Transe,
    /// RotatE.
    Rotate,
    /// ComplEx for small graphs.
    Small,
    /// PyTorch-BigGraph's own configuration of FB15k.
    Pbg,
}

impl Preset {
    /// All presets.
    pub const ALL: [Self; 6] = [
        Self::Complex,
        Self::Distmult,
        Self::Transe,
        Self::Rotate,
        Self::Small,
        Self::Pbg,
    ];

    /// Returns the preset with this name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|preset| preset.name() == name)
    }

    /// Returns the name of the preset, as in `pbg-host config new --preset`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Complex => "complex",
            Self::Distmult => "distmult",
            Self::Transe => "transe",
            Self::Rotate => "rotate",
            Self::Small => "small",
            Self::Pbg => "pbg",
        }
    }

    /// Returns the configuration as TOML with comments.
    #[must_use]
    pub const fn text(self) -> &'static str {
        match self {
            Self::Complex => include_str!("presets/complex.toml"),
            Self::Distmult => include_str!("presets/distmult.toml"),
            Self::Transe => include_str!("presets/transe.toml"),
            Self::Rotate => include_str!("presets/rotate.toml"),
            Self::Small => include_str!("presets/small.toml"),
            Self::Pbg => include_str!("presets/pbg.toml"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Config, StrategyNames};

    #[test]
    fn presets_are_configurations_that_nothing_is_odd_about() {
        let installed = StrategyNames {
            losses: vec!["softmax".to_owned()],
            orders: vec!["inside_out".to_owned()],
            samplers: vec!["proportional".to_owned()],
            negatives: vec!["uniform_negatives".to_owned()],
            operators: vec!["rotate".to_owned()],
            comparators: Vec::new(),
            schedules: Vec::new(),
            files: Vec::new(),
        };
        for preset in Preset::ALL {
            let name = format!("{preset:?}");
            let config = Config::parse_with(preset.text(), &name, &[], &installed).unwrap();
            assert_eq!(config.warnings(), Vec::<String>::new(), "{name}");
        }
    }
}
