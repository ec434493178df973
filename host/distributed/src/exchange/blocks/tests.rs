use std::sync::Arc;

use pbg_rows::table::Table;

use super::super::tests::params;
use super::*;

#[test]
fn one_that_comes_takes_its_share_and_nobody_elses_changes() {
    let tokens: Vec<Token> = (1..=8).map(Token).collect();
    let before: Vec<_> = (0..800).map(|i| owner(tokens[..7].iter(), i)).collect();
    let after: Vec<_> = (0..800).map(|i| owner(tokens.iter(), i)).collect();
    let moved = before.iter().zip(&after).filter(|(a, b)| a != b);
    assert!(moved.clone().all(|(_, now)| *now == Some(tokens[7])));
    let moved = moved.count();
    assert!((50..150).contains(&moved), "{moved} of 800");
    assert_eq!(owner([].iter(), 0), None);
}

#[test]
fn every_number_is_in_one_block_and_no_block_is_too_large() {
    let wide = vec![0.0; 3 * 300_000];
    let tables = vec![
        Arc::new(Table::new(vec![0.0; 5000 * 100], 100)),
        Arc::new(Table::new(wide, 300_000)),
    ];
    let arrays = SharedArrays::new(params(), tables);
    let blocks = cut_into_blocks(&arrays);
    let numbers: usize = blocks.iter().map(|b| b.shape.rows * b.shape.width).sum();
    let expected = arrays.exchange_groups().into_iter().flatten();
    let expected = expected.map(|array| arrays.shape(&array));
    let expected: usize = expected.map(|shape| shape.rows * shape.width).sum();
    assert_eq!(numbers, expected);
    for block in &blocks {
        let BlockShape { rows, width } = block.shape;
        assert!(rows * (4 * width + 4) <= BLOCK_BYTES, "{block:?}");
    }
    // A change that is written through a block is read through no other block.
    for block in &blocks {
        block.change(&arrays, 0, |row| {
            row.iter_mut().for_each(|value| *value += 1.0)
        });
    }
    for block in &blocks {
        let values = block.read(&arrays);
        let changed = block.changed(&arrays, &values, true);
        assert!(changed.is_empty());
    }
}

#[test]
fn rows_of_a_table_are_found_by_their_adagrad_sums_and_all_by_a_thorough_look() {
    let table = Arc::new(Table::new(vec![1.0; 1000 * 4], 4));
    let arrays = SharedArrays::new(params(), vec![Arc::clone(&table)]);
    let blocks = cut_into_blocks(&arrays);
    let block = blocks.last().unwrap();
    let mut seen = block.read(&arrays);
    table.embeddings.add_to_row(7, 1.0, &[0.5; 4]);
    table.state.add_to_row(7, 1.0, &[2.0]);
    table.embeddings.add_to_row(9, 1.0, &[0.25; 4]);
    let quick = block.changed(&arrays, &seen, false);
    let rows = |changed: &[ChangedRow]| changed.iter().map(|c| c.row).collect::<Vec<_>>();
    assert_eq!(rows(&quick), [7]);
    assert_eq!(quick[0].added, [0.5, 0.5, 0.5, 0.5, 2.0]);
    assert_eq!(rows(&block.changed(&arrays, &seen, true)), [7, 9]);
    seen.set_row(block, 7, &quick[0].now);
    assert_eq!(seen.row(block, 7), quick[0].now);
    assert_eq!(rows(&block.changed(&arrays, &seen, true)), [9]);
    assert_eq!(seen.rows(block)[7 * 5..8 * 5], quick[0].now);
}

#[test]
fn adagrad_sums_do_not_become_negative() {
    let table = Arc::new(Table::new(vec![1.0; 10 * 4], 4));
    let arrays = SharedArrays::new(params(), vec![table]);
    let blocks = cut_into_blocks(&arrays);
    let block = blocks.last().unwrap();
    block.change(&arrays, 3, |row| row.fill(-2.0));
    assert_eq!(
        block.read(&arrays).row(block, 3),
        [-2.0, -2.0, -2.0, -2.0, 0.0]
    );
}
