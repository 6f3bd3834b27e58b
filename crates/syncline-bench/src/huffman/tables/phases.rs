//! Table II of the 2022 paper: decoders phase by phase.

use super::super::cuda::{Phases, names};
use super::{Cell, Table, papers};

/// The paper's phases, and the additional phases of our decoders.
const STEPS: [&str; 8] = [
    "tables",
    "in sequences",
    "between sequences",
    "composing",
    "output index",
    "tuning",
    "decoding and writing",
    "checksums",
];

/// Returns the table with a line for each decoder on each set, and the paper's figures.
pub fn table(phases: &[Phases]) -> Table {
    let mut columns = vec!["set", "decoder"];
    columns.extend(STEPS);
    columns.push("overall");
    let mut table = Table::new(
        "Phases: Table II of the 2022 paper, GB/s",
        "bytes of all symbols over each phase's time; the 2020 and 2018 decoders' output index is part of their \
         decoding and writing, ours includes counting; tables and checksums are outside of the paper's",
        &columns,
    );
    for phase in phases {
        let rate = |step: &str| Cell::number(phase.steps.iter().find(|(name, _)| name == step).map(|step| step.1), 0);
        let mut cells = vec![phase.set.clone().into(), phase.method.clone().into()];
        cells.extend(STEPS.iter().map(|step| rate(step)));
        cells.push(Cell::Number(phase.overall, 0));
        table.line(cells);
        if let Some(field) = papers::field(&phase.set) {
            table.lines.extend(published(field, &phase.method, &phase.set));
        }
    }
    table
}

fn published(field: &papers::Field, method: &str, set: &str) -> Option<Vec<Cell>> {
    let (rates, overall): ([Option<f64>; 8], f64) = match method {
        names::SELF_SYNC_2018 => {
            let [inside, between, index, writing] = field.original.map(Some);
            ([None, inside, between, None, index, None, writing, None], field.decoding[1])
        }
        names::SELF_SYNC_2022 => {
            let [inside, between, index, tuning, writing] = field.self_sync.map(Some);
            ([None, inside, between, None, index, tuning, writing, None], field.decoding[2])
        }
        names::GAP_2022 => {
            let [index, tuning, writing] = field.gap.map(Some);
            ([None, None, None, None, index, tuning, writing, None], field.decoding[4])
        }
        _ => return None,
    };
    let mut cells = vec![set.into(), "  the paper's, V100".into()];
    cells.extend(rates.map(|rate| Cell::number(rate, 0)));
    cells.push(Cell::Number(overall, 1));
    Some(cells)
}
