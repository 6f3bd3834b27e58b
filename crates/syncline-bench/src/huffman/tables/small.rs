//! The table of small sets: single calls, queued calls, consecutive calls, and the throughput of large sets.

use super::super::Row;
use super::{Cell, Table, field_of};

/// Suffix of the names of small sets.
const SMALL: &str = "-10MB";
/// Target throughput of a small set relative to that of the large one.
const GOAL: f64 = 0.25;

/// Returns the table of each small set and method, with a quarter of the throughput of the largest set of the same
/// field.
pub fn table(rows: &[Row]) -> Table {
    let mut table = Table::new(
        "10 MB, GB/s of symbols: each call alone, and calls one after another",
        "idle: one call from event to event on an idle device, launch included; queued: one call from event to event \
         that the host has launched while the device was busy; one after another: 36 calls \
         between two events, a call's share; the latter two with 12 copies of input and output in turn, so that they \
          are in no cache",
        &[
            "set",
            "direction",
            "method",
            "index",
            "free groups",
            "alone, device idle",
            "alone, queued",
            "one after another",
            "a quarter of the large set's",
        ],
    );
    for row in rows.iter().filter(|row| row.one_after_another.is_some()) {
        let goal = large_set_of(row, rows).map(|large| GOAL * large.median);
        table.line([
            row.set.as_str().into(),
            row.direction.into(),
            row.method.as_str().into(),
            row.index.as_str().into(),
            if row.free_groups { "yes" } else { "no" }.into(),
            Cell::Number(row.median, 0),
            Cell::number(row.queued, 0),
            Cell::number(row.one_after_another, 0),
            Cell::number(goal, 0),
        ]);
    }
    table
}

/// Returns the row of the same method for the largest set that starts with the small one.
fn large_set_of<'r>(small: &Row, rows: &'r [Row]) -> Option<&'r Row> {
    let field = small.set.strip_suffix(SMALL)?;
    let same = |row: &&Row| {
        field_of(&row.set) == field
            && (row.direction, &row.method, &row.index, row.free_groups)
                == (small.direction, &small.method, &small.index, small.free_groups)
    };
    rows.iter().filter(same).max_by_key(|row| row.bytes)
}
