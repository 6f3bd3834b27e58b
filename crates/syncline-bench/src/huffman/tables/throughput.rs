//! Table V of the 2022 paper for decoders, and a table of the encoders in the same form.

use super::super::Row;
use super::super::cuda::names;
use super::{Cell, Table, find, papers, sets};

/// Returns a cell with the throughput and its share of the device copy.
fn cell(row: Option<&Row>) -> Cell {
    match row {
        Some(row) => match row.share_of_copy {
            Some(share) => format!("{:.0} ({share:.2})", row.median).into(),
            None => Cell::Number(row.median, 2),
        },
        None => Cell::Nothing,
    }
}

/// Returns the table of each decoder on each set, followed by the paper's figures of one V100.
pub fn decoding(rows: &[Row]) -> Table {
    let mut table = Table::new(
        "Decoding: Table V of the 2022 paper, GB/s of symbols (share of the device copy C)",
        "all groups coded, as in the papers; 'free' with groups of the commonest symbol free; V100: the paper's",
        &[
            "set",
            "MiB",
            "bits",
            "indexed free",
            "indexed",
            "gap free",
            "gap",
            "gap 2022",
            "gap 2020",
            "self-sync free",
            "self-sync",
            "s-s 2022",
            "s-s 2018",
            "chunked",
            "V100: chunked",
            "s-s 2018",
            "s-s 2022",
            "gap 2020",
            "gap 2022",
        ],
    );
    for set in sets(rows) {
        let of = |method, index, free| find(rows, set, "decode", method, index, free);
        let Some(any) = rows.iter().find(|row| row.set == set && row.direction == "decode") else { continue };
        let dense = of(names::INDEXED, "symbol", false).unwrap_or(any);
        let paper = |i: usize| Cell::number(papers::field(set).map(|field| field.decoding[i]), 1);
        let mut cells = vec![
            set.into(),
            Cell::Number(dense.bytes as f64 / f64::from(1 << 20), 0),
            Cell::Number(dense.bits, 2),
            cell(of(names::INDEXED, "symbol", true)),
            cell(of(names::INDEXED, "symbol", false)),
            cell(of(names::GAP, "gap", true)),
            cell(of(names::GAP, "gap", false)),
            cell(of(names::GAP_2022, "gap", false)),
            cell(of(names::GAP_2020, "gap", false)),
            cell(of(names::SELF_SYNC, "none", true)),
            cell(of(names::SELF_SYNC, "none", false)),
            cell(of(names::SELF_SYNC_2022, "none", false)),
            cell(of(names::SELF_SYNC_2018, "none", false)),
            cell(of(names::CHUNKED, "symbol", false)),
        ];
        cells.extend((0..5).map(paper));
        table.line(cells);
    }
    table
}

/// Returns the table of each encoder on each set.
pub fn encoding(rows: &[Row]) -> Table {
    let mut table = Table::new(
        "Encoding, GB/s of symbols (share of the device copy C)",
        "symbol index and groups of the commonest symbol free unless said; 'whole' is histogram, codebooks and \
         encoding",
        &[
            "set",
            "MiB",
            "bits",
            "merged",
            "whole",
            "all coded",
            "gap index",
            "no index",
            "coarse",
            "prefix-sum",
            "r-s-m M=10 r=3",
        ],
    );
    for set in sets(rows) {
        let of = |method: &str, index, free| find(rows, set, "encode", method, index, free);
        let Some(merged) = of(names::MERGED, "symbol", true) else { continue };
        table.line([
            set.into(),
            Cell::Number(merged.bytes as f64 / f64::from(1 << 20), 0),
            Cell::Number(merged.bits, 2),
            cell(Some(merged)),
            cell(of(names::WHOLE_PATH, "symbol", true)),
            cell(of(names::MERGED, "symbol", false)),
            cell(of(names::MERGED, "gap", true)),
            cell(of(names::MERGED, "none", true)),
            cell(of(names::COARSE, "symbol", true)),
            cell(of(names::PREFIX_SUM, "symbol", true)),
            cell(of(&names::merging(10, 3), "symbol", true)),
        ]);
    }
    table
}
