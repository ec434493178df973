//! The words in which a model and its training are described: what configuration, batch graph and
//! kernels share.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::operator::Traced;

/// How a relation transforms an embedding of dimension D.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Operator {
    /// The identity.
    #[default]
    None,
    /// Element-wise product with D parameters.
    Diagonal,
    /// Sum with D parameters.
    Translation,
    /// Product with a D x D matrix.
    Linear,
    /// Product with a D x D matrix, then sum with D parameters.
    Affine,
    /// Element-wise complex product: the first D/2 numbers are real parts, the last D/2 imaginary.
    ComplexDiagonal,
    /// A formula, which a plugin has written.
    Traced(Traced),
}

impl Operator {
    /// Those that need no plugin.
    pub const BUILT_IN: [Self; 6] = [
        Self::None,
        Self::Diagonal,
        Self::Translation,
        Self::Linear,
        Self::Affine,
        Self::ComplexDiagonal,
    ];

    /// Its name in a configuration; of a formula, the name of its plugin.
    #[must_use]
    pub fn name(&self) -> &str {
        match self {
            Self::None => "none",
            Self::Diagonal => "diagonal",
            Self::Translation => "translation",
            Self::Linear => "linear",
            Self::Affine => "affine",
            Self::ComplexDiagonal => "complex_diagonal",
            Self::Traced(formula) => formula.name(),
        }
    }

    /// The one that needs no plugin and is called `name`.
    #[must_use]
    pub fn built_in(name: &str) -> Option<Self> {
        let mut built_in = Self::BUILT_IN.into_iter();
        built_in.find(|operator| operator.name() == name)
    }

    /// Whether it multiplies by a matrix.
    #[must_use]
    pub fn is_matrix(self) -> bool {
        matches!(self, Self::Linear | Self::Affine)
    }

    /// Whether an embedding is one of complex numbers: a half of real and a half of imaginary parts.
    #[must_use]
    pub fn is_complex(self) -> bool {
        match self {
            Self::ComplexDiagonal => true,
            Self::Traced(formula) => formula.is_complex(),
            _ => false,
        }
    }

    /// Into how many components of equal length it cuts an embedding.
    #[must_use]
    pub fn components(self) -> usize {
        match self {
            Self::ComplexDiagonal => 2,
            Self::Traced(formula) => formula.components(),
            _ => 1,
        }
    }
}

/// How two embeddings become a score (higher is better).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Comparator {
    /// Inner product.
    Dot,
    /// Inner product of the normalised vectors.
    #[default]
    Cos,
    /// Minus the Euclidean distance.
    L2,
    /// Minus the squared Euclidean distance.
    SquaredL2,
}

impl Comparator {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Dot, Self::Cos, Self::L2, Self::SquaredL2];
}

/// Penalty on embeddings and parameters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Regularizer {
    /// Cubed absolute values (Lacroix, Usunier, Obozinski 2018), moduli for `complex_diagonal`: of parameters, and of
    /// embeddings as they are compared, one side transformed, as in PBG.
    #[default]
    N3,
    /// The same of parameters and of embeddings as they are looked up, neither side transformed, as in the paper.
    #[serde(rename = "N3_embeddings")]
    N3Embeddings,
}

impl Regularizer {
    /// All of them.
    pub const ALL: [Self; 2] = [Self::N3, Self::N3Embeddings];
}

/// Where uniform negatives are drawn from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum NegativesFrom {
    /// The partition of the side that they replace, as in PBG.
    #[default]
    Partition,
    /// Both partitions of the bucket, where a relation has one entity type on both sides: scores become
    /// comparable between partitions, which they hardly are otherwise.
    Bucket,
}

impl NegativesFrom {
    /// All of them.
    pub const ALL: [Self; 2] = [Self::Partition, Self::Bucket];
}

/// Where batches are trained.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Device {
    /// On the cores, by Hogwild workers.
    #[default]
    Cpu,
    /// On a GPU, counted from 0.
    Cuda(u32),
}

impl Device {
    /// The device that a configuration calls `text`.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let index = match text {
            "cpu" => return Some(Self::Cpu),
            _ => text.strip_prefix("cuda:")?,
        };
        let plain = index.bytes().all(|digit| digit.is_ascii_digit());
        index.parse().ok().filter(|_| plain).map(Self::Cuda)
    }
}

impl fmt::Display for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Cpu => f.write_str("cpu"),
            Self::Cuda(index) => write!(f, "cuda:{index}"),
        }
    }
}

/// Precision of the factors of matrix products.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Precision {
    /// 32 bits.
    #[default]
    Fp32,
    /// bfloat16: several times faster where the processor multiplies it, and refused elsewhere.
    Bf16,
}

impl Precision {
    /// All of them.
    pub const ALL: [Self; 2] = [Self::Fp32, Self::Bf16];
}

/// What embeddings are made of on disk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Storage {
    /// 32 bits, as in memory.
    #[default]
    F32,
    /// bfloat16, with stochastic rounding: half of the bytes.
    Bf16,
}

impl Storage {
    /// All of them.
    pub const ALL: [Self; 2] = [Self::F32, Self::Bf16];

    /// Bytes of one number.
    #[must_use]
    pub const fn bytes(self) -> u64 {
        match self {
            Self::F32 => 4,
            Self::Bf16 => 2,
        }
    }

    /// Whether it is what it is by default.
    #[must_use]
    pub fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

/// What is remembered of the gradients of embeddings, by which their steps are scaled (Duchi, Hazan, Singer: "Adaptive
/// Subgradient Methods", 2011).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Optimizer {
    /// One number per row: the mean of the squared gradients of its coordinates, summed, as in PBG.
    #[default]
    RowAdagrad,
    /// One number per coordinate, which takes as much memory and disk as embeddings do.
    Adagrad,
}

impl Optimizer {
    /// All of them.
    pub const ALL: [Self; 2] = [Self::RowAdagrad, Self::Adagrad];

    /// Numbers that are remembered of a row of `dimension` numbers.
    #[must_use]
    pub const fn accumulators(self, dimension: usize) -> usize {
        match self {
            Self::RowAdagrad => 1,
            Self::Adagrad => dimension,
        }
    }

    /// Whether it is what it is by default.
    #[must_use]
    pub fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

/// When the gradients of a batch are applied to embeddings.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Update {
    /// Once per batch, summed, as PBG does.
    #[default]
    Batch,
    /// At the end of each slice of a batch, while its rows are in the cache.
    Slice,
}

impl Update {
    /// All of them.
    pub const ALL: [Self; 2] = [Self::Batch, Self::Slice];
}
