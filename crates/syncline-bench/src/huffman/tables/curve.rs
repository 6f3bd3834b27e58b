//! CUHD's curve: throughput over compression ratio on synthetic bytes.

use super::super::Row;
use super::super::cuda::names;
use super::{Cell, Table, find, papers};

/// Ratios of the geometric distributions of the curve's bytes, whose compression ratios are 1.2 to 7.6.
pub const CURVE_SETS: [f64; 12] = [0.978, 0.96, 0.94, 0.91, 0.87, 0.81, 0.74, 0.65, 0.55, 0.42, 0.30, 0.12];

const PREFIX: &str = "curve-";

/// Returns the name of a set of the curve.
pub fn curve_name(i: usize) -> String {
    format!("{PREFIX}{i}")
}

pub(super) fn is_curve(set: &str) -> bool {
    set.starts_with(PREFIX)
}

/// Returns the table with a line for each set.
pub fn table(rows: &[Row]) -> Table {
    let theirs = papers::CUHD.map(|(card, rate)| format!("{rate} on a {card}")).join(", ");
    let mut table = Table::new(
        "Rate over ratio on synthetic bytes, GB/s: the curve of the 2018 paper",
        &format!("geometric bytes, all groups coded; theirs, mean over ratios of 1.2 to 7.6: {theirs}"),
        &["bits", "ratio", "self-sync 2018", "self-sync", "gap 2020", "gap", "indexed", "chunked", "indexed, of C"],
    );
    for i in 0..CURVE_SETS.len() {
        let name = curve_name(i);
        let of = |method: &str, index| find(rows, &name, "decode", method, index, false);
        let rate = |method: &str, index| Cell::number(of(method, index).map(|row| row.median), 0);
        let Some(plain) = of(names::SELF_SYNC, "none") else { continue };
        table.line([
            Cell::Number(plain.bits, 2),
            Cell::Number(plain.ratio, 2),
            rate(names::SELF_SYNC_2018, "none"),
            rate(names::SELF_SYNC, "none"),
            rate(names::GAP_2020, "gap"),
            rate(names::GAP, "gap"),
            rate(names::INDEXED, "symbol"),
            rate(names::CHUNKED, "symbol"),
            Cell::number(of(names::INDEXED, "symbol").and_then(|row| row.share_of_copy), 2),
        ]);
    }
    table
}
