//! The measurements of the 2020 paper on its gap array: size, encoding time, and decoding speedup.

use super::super::Row;
use super::super::cuda::names;
use super::{Cell, Table, find, sets};

/// Returns the table of the overheads of the gap array and of the symbol index.
pub fn table(rows: &[Row]) -> Table {
    let mut table = Table::new(
        "Overheads of the gap array, as the 2020 paper counts them, and of the symbol index",
        "against streams without an index, all groups coded; theirs: size below 1.5 % (a gap for 256 bits, here 128), \
         encoding below 20 %, decoding 1.67x (6,450x where nothing synchronizes)",
        &[
            "set",
            "gap: size %",
            "encoding %",
            "whole path %",
            "decoding x",
            "2020 / 2018 x",
            "symbol: size %",
            "encoding %",
            "whole path %",
            "decoding x",
        ],
    );
    for set in sets(rows) {
        let of = |direction, method: &str, index| find(rows, set, direction, method, index, false);
        let Some(plain) = of("encode", names::MERGED, "none") else { continue };
        let size = |index| of("encode", names::MERGED, index).map(|row| 100.0 * (row.bits / plain.bits - 1.0));
        let slower = |method: &str, index| {
            let without = of("encode", method, "none")?;
            Some(100.0 * (of("encode", method, index)?.microseconds / without.microseconds - 1.0))
        };
        let faster = |method: &str, index, than: &str| {
            Some(of("decode", method, index)?.median / of("decode", than, "none")?.median)
        };
        table.line([
            set.into(),
            Cell::number(size("gap"), 2),
            Cell::number(slower(names::MERGED, "gap"), 0),
            Cell::number(slower(names::WHOLE_PATH, "gap"), 0),
            Cell::number(faster(names::GAP, "gap", names::SELF_SYNC), 2),
            Cell::number(faster(names::GAP_2020, "gap", names::SELF_SYNC_2018), 2),
            Cell::number(size("symbol"), 2),
            Cell::number(slower(names::MERGED, "symbol"), 0),
            Cell::number(slower(names::WHOLE_PATH, "symbol"), 0),
            Cell::number(faster(names::INDEXED, "symbol", names::SELF_SYNC), 2),
        ]);
    }
    table
}
