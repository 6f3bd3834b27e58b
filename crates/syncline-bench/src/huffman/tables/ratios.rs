//! Table IV of the 2022 paper: compression ratios of the codes.

use super::super::Row;
use super::super::cuda::names;
use super::{Cell, Table, find, papers, sets};

/// Returns the table of ratios with each index, with and without zero-bit groups, and the paper's ratios.
pub fn table(rows: &[Row]) -> Table {
    let mut table = Table::new(
        "Ratios: Table IV of the 2022 paper",
        "bytes of symbols over bytes of streams, codebooks and headers included; their fields are the originals, ours \
         generated",
        &[
            "set",
            "no index",
            "gap",
            "symbol",
            "no index, free groups",
            "gap, free groups",
            "symbol, free groups",
            "paper: baseline",
            "self-sync",
            "gap 2020",
            "gap 2022",
        ],
    );
    for set in sets(rows) {
        let ratio =
            |index, free| Cell::number(find(rows, set, "encode", names::MERGED, index, free).map(|row| row.ratio), 2);
        let paper = |i: usize| Cell::number(papers::field(set).map(|field| field.ratios[i]), 2);
        if find(rows, set, "encode", names::MERGED, "none", true).is_none() {
            continue;
        }
        let mut cells = vec![set.into()];
        cells.extend([false, true].iter().flat_map(|&free| ["none", "gap", "symbol"].map(|index| ratio(index, free))));
        cells.extend((0..4).map(paper));
        table.line(cells);
    }
    table
}
