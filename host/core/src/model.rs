//! Vocabulary of a model and its training, shared by configuration, batch graph and kernels.

use std::fmt;

use pbg_formula::comparator::{ComparatorHandle, distances};
use pbg_formula::operator::FormulaHandle;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Transformation of an embedding of dimension D by a relation.
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
    /// Element-wise complex product: the first D/2 numbers are real parts, the last D/2 imaginary parts.
    ComplexDiagonal,
    /// A formula written by a plugin.
    Traced(FormulaHandle),
}

impl Operator {
    /// All operators that need no plugin.
    pub const BUILT_IN: [Self; 6] = [
        Self::None,
        Self::Diagonal,
        Self::Translation,
        Self::Linear,
        Self::Affine,
        Self::ComplexDiagonal,
    ];

    /// Returns its name in a configuration; for a formula, the name of its plugin.
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

    /// Returns the built-in operator with the name `name`.
    #[must_use]
    pub fn built_in(name: &str) -> Option<Self> {
        let mut built_in = Self::BUILT_IN.into_iter();
        built_in.find(|operator| operator.name() == name)
    }

    /// Returns the operator of an edge's left entity: [`Operator::None`] unless it is a formula for both sides. Its
    /// parameters are those of the right side.
    #[must_use]
    pub fn on_lhs(self) -> Self {
        match self {
            Self::Traced(formula) => formula.lhs().map_or(Self::None, Self::Traced),
            _ => Self::None,
        }
    }

    /// Whether it multiplies by a matrix.
    #[must_use]
    pub fn is_matrix(self) -> bool {
        matches!(self, Self::Linear | Self::Affine)
    }

    /// Whether an embedding consists of complex numbers: real parts in one half, imaginary parts in the other.
    #[must_use]
    pub fn is_complex(self) -> bool {
        match self {
            Self::ComplexDiagonal => true,
            Self::Traced(formula) => formula.is_complex(),
            _ => false,
        }
    }

    /// Returns the number of components of equal length into which it cuts an embedding.
    #[must_use]
    pub fn components(self) -> usize {
        match self {
            Self::ComplexDiagonal => 2,
            Self::Traced(formula) => formula.components(),
            _ => 1,
        }
    }
}

/// Comparator of two embeddings, which computes their score (higher is better).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
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
    /// Minus the sum of absolute differences.
    L1,
    /// Minus the sum of the moduli of complex differences: the first D/2 numbers are real parts, the last D/2 imaginary
    /// parts.
    ComplexL1,
    /// A formula of both embeddings.
    Traced(ComparatorHandle),
}

impl Comparator {
    /// All comparators that are built in.
    pub const BUILT_IN: [Self; 6] = [
        Self::Dot,
        Self::Cos,
        Self::L2,
        Self::SquaredL2,
        Self::L1,
        Self::ComplexL1,
    ];

    /// Returns its name in a configuration; for a formula that is not built in, the name in its definition.
    #[must_use]
    pub fn name(&self) -> &str {
        match self {
            Self::Dot => "dot",
            Self::Cos => "cos",
            Self::L2 => "l2",
            Self::SquaredL2 => "squared_l2",
            Self::L1 => "l1",
            Self::ComplexL1 => "complex_l1",
            Self::Traced(formula) => formula.name(),
        }
    }

    /// Returns the built-in comparator with the name `name`.
    #[must_use]
    pub fn built_in(name: &str) -> Option<Self> {
        let mut built_in = Self::BUILT_IN.into_iter();
        built_in.find(|comparator| comparator.name() == name)
    }

    /// Returns its formula, which is evaluated pair by pair; `None` if scores follow from inner products.
    #[must_use]
    pub fn formula(self) -> Option<ComparatorHandle> {
        match self {
            Self::Dot | Self::Cos | Self::L2 | Self::SquaredL2 => None,
            Self::L1 => Some(distances::l1()),
            Self::ComplexL1 => Some(distances::complex_l1()),
            Self::Traced(formula) => Some(formula),
        }
    }

    /// Returns the number of components of equal length into which it cuts an embedding.
    #[must_use]
    pub fn components(self) -> usize {
        self.formula().map_or(1, |formula| formula.components())
    }
}

/// Penalty on embeddings and parameters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Regularizer {
    /// Sum of cubed absolute values (Lacroix, Usunier, Obozinski 2018), or of cubed moduli for operators of two
    /// components: of parameters, and of embeddings as they are compared, transformed by the operator, as in PBG.
    #[default]
    N3,
    /// The same penalty on parameters, and on embeddings as they are looked up, neither side transformed, as in the
    /// paper.
    #[serde(rename = "N3_embeddings")]
    N3Embeddings,
    /// Sum of squares of embeddings as they are compared: of the side that the operator transforms, transformed, and of
    /// the other as it is looked up. Parameters are not penalised on their own (Zhang, Cai, Wang 2020).
    #[serde(rename = "DURA")]
    Dura,
}

impl Regularizer {
    /// All regularizers.
    pub const ALL: [Self; 3] = [Self::N3, Self::N3Embeddings, Self::Dura];

    /// Returns its name in configurations.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::N3 => "N3",
            Self::N3Embeddings => "N3_embeddings",
            Self::Dura => "DURA",
        }
    }
}

/// Entities from which uniform negatives are drawn.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum NegativesFrom {
    /// The partition of the side that is replaced, as in PBG.
    #[default]
    Partition,
    /// Both partitions of the bucket, if a relation has the same entity type on both sides. This makes scores
    /// comparable between partitions, which they otherwise hardly are.
    Bucket,
}

impl NegativesFrom {
    /// All variants.
    pub const ALL: [Self; 2] = [Self::Partition, Self::Bucket];
}

/// Device that trains batches.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Device {
    /// The CPU, with Hogwild workers.
    #[default]
    Cpu,
    /// On a GPU, counted from 0.
    Cuda(u32),
}

impl Device {
    /// Parses the name of a device in a configuration.
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
    /// bfloat16: several times faster on processors that multiply it in hardware, and refused on others.
    Bf16,
}

impl Precision {
    /// All variants.
    pub const ALL: [Self; 2] = [Self::Fp32, Self::Bf16];
}

/// Number format of embeddings on disk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum EmbeddingFormat {
    /// 32 bits, as in memory.
    #[default]
    F32,
    /// bfloat16, with stochastic rounding: half of the bytes.
    Bf16,
}

impl EmbeddingFormat {
    /// All variants.
    pub const ALL: [Self; 2] = [Self::F32, Self::Bf16];

    /// Returns the bytes of one number.
    #[must_use]
    pub const fn bytes(self) -> u64 {
        match self {
            Self::F32 => 4,
            Self::Bf16 => 2,
        }
    }

    /// Whether it is the default.
    #[must_use]
    pub fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

/// Optimizer of embeddings, and so the statistics of gradients that are kept for each row.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Optimizer {
    /// Adagrad with one number per row, as in PBG: the sum of the mean squared gradients of its coordinates.
    #[default]
    RowAdagrad,
    /// Adagrad (Duchi, Hazan, Singer 2011) with one number per coordinate, which takes as much memory and disk space as
    /// the embeddings.
    Adagrad,
    /// Adam (Kingma, Ba 2015) with its usual coefficients (0.9, 0.999, 1e-8), for the rows of a batch only: moving
    /// averages of the gradient and its square for each coordinate, which take twice the memory and disk space of the
    /// embeddings, and the number of updates of each row.
    Adam,
}

impl Optimizer {
    /// Adam's weights of the previous averages of gradients and of their squares.
    pub const ADAM_BETAS: [f32; 2] = [0.9, 0.999];

    /// All variants.
    pub const ALL: [Self; 3] = [Self::RowAdagrad, Self::Adagrad, Self::Adam];

    /// Returns how many numbers are kept for a row of `dimension` numbers.
    #[must_use]
    pub const fn state_width(self, dimension: usize) -> usize {
        match self {
            Self::RowAdagrad => 1,
            Self::Adagrad => dimension,
            Self::Adam => dimension.saturating_mul(2).saturating_add(1),
        }
    }

    /// Whether it is the default.
    #[must_use]
    pub fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

/// Time at which the gradients of a batch are applied to embeddings.
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
    /// All variants.
    pub const ALL: [Self; 2] = [Self::Batch, Self::Slice];
}
