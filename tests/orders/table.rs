//! Reproduces the table of swaps that a study of orders prints.

use affinity::Affinity;
use beta::Beta;
use chained_symmetric_pairs::ChainedSymmetricPairs;
use hilbert::Hilbert;
use hilbert_symmetric::HilbertSymmetric;
use inside_out::InsideOut;
use lexicographic::Lexicographic;
use outside_in::OutsideIn;
use pbg_plugin_sdk::Order;
use random::Random;
use random_symmetric::RandomSymmetric;
use snake::Snake;

use crate::{complete, lower_bound, swaps};

/// Swaps after the first fill; those of `inside_out` to `random` are rounded means over seeds. An independent
/// simulation for this project counted them, with Belady's eviction.
struct Row {
    p: u32,
    c: u32,
    lower_bound: u64,
    beta: u64,
    hilbert_symmetric: u64,
    hilbert: u64,
    snake: u64,
    lexicographic: u64,
    inside_out: u64,
    affinity: u64,
    chained: u64,
    random_symmetric: u64,
    random: u64,
}

const fn row(p: u32, c: u32, counts: [u64; 11]) -> Row {
    let [
        lower_bound,
        beta,
        hilbert_symmetric,
        hilbert,
        snake,
        lexicographic,
        inside_out,
        affinity,
        chained,
        random_symmetric,
        random,
    ] = counts;
    Row {
        p,
        c,
        lower_bound,
        beta,
        hilbert_symmetric,
        hilbert,
        snake,
        lexicographic,
        inside_out,
        affinity,
        chained,
        random_symmetric,
        random,
    }
}

const TABLE: [Row; 12] = [
    row(8, 2, [27, 27, 28, 51, 54, 60, 30, 29, 35, 43, 89]),
    row(
        16,
        2,
        [119, 119, 122, 231, 238, 252, 129, 123, 137, 212, 432],
    ),
    row(
        32,
        2,
        [495, 495, 502, 975, 990, 1020, 520, 503, 532, 931, 1889],
    ),
    row(8, 4, [8, 9, 10, 18, 32, 37, 14, 14, 18, 19, 39]),
    row(16, 4, [38, 42, 56, 102, 192, 205, 90, 82, 100, 134, 277]),
    row(
        32,
        4,
        [164, 173, 244, 462, 896, 925, 434, 388, 439, 697, 1424],
    ),
    row(16, 8, [14, 17, 20, 36, 128, 136, 44, 40, 56, 65, 134]),
    row(32, 8, [67, 78, 112, 204, 768, 792, 324, 270, 328, 478, 971]),
    row(
        64,
        8,
        [284, 308, 488, 924, 3584, 3640, 1652, 1357, 1558, 2570, 5157],
    ),
    row(
        64,
        16,
        [127, 150, 224, 408, 3072, 3120, 1224, 959, 1181, 1801, 3584],
    ),
    row(
        128,
        16,
        [
            534, 588, 976, 1848, 14336, 14448, 6440, 5032, 5795, 9753, 19567,
        ],
    ),
    row(
        128,
        32,
        [
            247, 294, 448, 816, 12288, 12384, 4752, 3522, 4350, 6831, 13754,
        ],
    ),
];

#[test]
fn orders_without_chance_make_exactly_these_swaps() {
    for row in &TABLE {
        let pass = complete(row.p, row.c, 11);
        assert_eq!(lower_bound(row.p, row.c), row.lower_bound);
        let counted = [
            swaps::<Beta>(&pass),
            swaps::<HilbertSymmetric>(&pass),
            swaps::<Hilbert>(&pass),
            swaps::<Snake>(&pass),
            swaps::<Lexicographic>(&pass),
        ];
        let expected = [
            row.beta,
            row.hilbert_symmetric,
            row.hilbert,
            row.snake,
            row.lexicographic,
        ];
        assert_eq!(counted, expected, "p={} c={}", row.p, row.c);
    }
}

/// Returns a message if the mean over seeds is not within 5 % of the table's. Seeds are added until the standard error
/// of their mean is below 1 %, so that a larger deviation is not due to chance.
fn deviation<O: Order>(row: &Row, expected: u64) -> Option<String> {
    let (mut seeds, mut sum, mut squares) = (0.0, 0.0, 0.0);
    let enough = |seeds: f64, sum: f64, squares: f64| {
        let variance = (squares - sum * sum / seeds).max(0.0) / (seeds - 1.0);
        (variance / seeds).sqrt() < 0.01 * sum / seeds
    };
    while seeds < 10.0 || !enough(seeds, sum, squares) {
        assert!(seeds < 2000.0, "no mean of {sum} / {seeds}");
        let found = swaps::<O>(&complete(row.p, row.c, seeds as u64)) as f64;
        seeds += 1.0;
        sum += found;
        squares += found * found;
    }
    let (mean, expected) = (sum / seeds, expected as f64);
    ((mean - expected).abs() > 0.05 * expected).then(|| {
        let (name, p, c) = (O::metadata().name, row.p, row.c);
        format!("{name}, p={p} c={c}: {mean} of {seeds} seeds, expected {expected}")
    })
}

/// The page has means over three seeds, which `cargo xtask artifact orders` makes; those of random orders differ from the
/// means of the simulation, whose seeds were others, by a few swaps.
#[test]
fn the_page_has_this_table() {
    let page = include_str!("../../docs/orders.md");
    for row in &TABLE {
        let exact = [
            row.lower_bound,
            row.beta,
            row.hilbert_symmetric,
            row.hilbert,
            row.snake,
            row.lexicographic,
        ];
        let exact = exact.map(|count| count.to_string()).join(" | ");
        let start = format!("| {} | {} | {exact} | ", row.p, row.c);
        let means = page.lines().find_map(|line| line.strip_prefix(&start));
        let means = means.unwrap_or_else(|| panic!("the page lacks {start}"));
        let means = means.trim_end_matches(" |").split(" | ");
        let means: Vec<f64> = means.map(|mean| mean.parse().expect("a number")).collect();
        let expected = [
            row.inside_out,
            row.inside_out,
            row.affinity,
            row.chained,
            row.random_symmetric,
            row.random,
        ];
        assert_eq!(means.len(), expected.len(), "{start}");
        for (mean, expected) in means.into_iter().zip(expected) {
            let tolerance = (0.05 * expected as f64).max(2.0);
            let differs = (mean - expected as f64).abs();
            assert!(differs <= tolerance, "{start}{mean}, simulated {expected}");
        }
    }
}

#[test]
fn random_orders_make_these_swaps_on_average() {
    let deviations = TABLE.iter().flat_map(|row| {
        [
            deviation::<InsideOut>(row, row.inside_out),
            deviation::<OutsideIn>(row, row.inside_out),
            deviation::<Affinity>(row, row.affinity),
            deviation::<ChainedSymmetricPairs>(row, row.chained),
            deviation::<RandomSymmetric>(row, row.random_symmetric),
            deviation::<Random>(row, row.random),
        ]
    });
    let deviations: Vec<String> = deviations.flatten().collect();
    assert!(deviations.is_empty(), "{}", deviations.join("\n"));
}
