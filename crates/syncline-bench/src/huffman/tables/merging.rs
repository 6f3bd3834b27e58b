//! The 2021 paper's table of chunk magnitudes and reduction factors.

use super::super::Row;
use super::super::cuda::names;
use super::{Cell, Table, find, papers, sets};

/// Returns the table of reduce-shuffle-merge with all M and r on each set, and of our encoder.
pub fn table(rows: &[Row]) -> Table {
    let mut table = Table::new(
        "Encoding by reduce-shuffle-merge over M and r, GB/s: the table of the 2021 paper",
        "given codebooks, symbol index, free groups; ours ('merged') beside; last lines: theirs on nyx's codes, 1.027 \
         bits",
        &["set", "r", "M = 12", "M = 11", "M = 10", "merged", "merged / best"],
    );
    for set in sets(rows) {
        let rate = |method: &str| find(rows, set, "encode", method, "symbol", true).map(|row| row.median);
        let Some(merged) = rate(names::MERGED) else { continue };
        let all: Vec<Vec<Option<f64>>> = names::REDUCTIONS
            .iter()
            .map(|&r| names::MAGNITUDES.iter().map(|&m| rate(&names::merging(m, r))).collect())
            .collect();
        let best = all.iter().flatten().flatten().copied().reduce(f64::max);
        for (reduction, rates) in names::REDUCTIONS.iter().zip(&all) {
            if rates.iter().all(Option::is_none) {
                continue;
            }
            let mut cells = vec![set.into(), Cell::Number(f64::from(*reduction), 0)];
            cells.extend(rates.iter().map(|&rate| Cell::number(rate, 0)));
            cells.extend([Cell::Number(merged, 0), Cell::number(best.map(|best| merged / best), 2)]);
            table.line(cells);
        }
    }
    if table.lines.is_empty() {
        return table;
    }
    for device in ["V100", "RTX 5000"] {
        for (reduction, (v100, rtx)) in names::REDUCTIONS.iter().zip(papers::MERGING) {
            let rates = if device == "V100" { v100 } else { rtx };
            let mut cells = vec![format!("paper, {device}").into(), Cell::Number(f64::from(*reduction), 0)];
            cells.extend(rates.map(|rate| Cell::Number(rate, 2)));
            cells.extend([Cell::Nothing, Cell::Nothing]);
            table.line(cells);
        }
    }
    table
}
