//! Table I of the 2022 paper: shared memory tuned by class, compared with brute-force search.

use super::super::cuda::{SPAN_ROOMS, Staging};
use super::{Cell, Table, papers};

/// Returns the table with a line for each set and the paper's figures.
pub fn table(staging: &[Staging]) -> Table {
    let spans = SPAN_ROOMS.map(|room| room.map_or("spans".into(), |symbols| format!("spans, {symbols}")));
    let mut table = Table::new(
        "Shared memory of the gap decoder, GB/s of decoding and writing: Table I of the 2022 paper",
        "blocks write sequences of 8 KiB; a class of them has room for its ratio, as published where one block at \
         least fits a multiprocessor; two, three: classes only for ratios that leave room for so many; fixed: the same \
         for all, every size tried; in percent how much faster than tuned; spans: decoded by warps, with all the room \
         there is, and with room for so many symbols",
        &[
            "set",
            "tuned",
            "two blocks",
            "three",
            "best fixed",
            "KiB",
            "%",
            "worst fixed",
            "KiB",
            "%",
            "tuning alone",
            "tuned and tuning",
            "best, % faster",
            "worst, % faster",
            &spans[0],
            &spans[1],
            &spans[2],
        ],
    );
    let faster = |rate: f64, tuned: f64| Cell::Number(100.0 * (rate / tuned - 1.0), 1);
    for one in staging {
        let by_rate = |a: &&(u32, f64), b: &&(u32, f64)| a.1.total_cmp(&b.1);
        let (Some(&best), Some(&worst)) = (one.sizes.iter().max_by(by_rate), one.sizes.iter().min_by(by_rate)) else {
            continue;
        };
        let [tuned, two, three] = one.by_class;
        let both = 1.0 / (1.0 / tuned.writing + 1.0 / tuned.tuning);
        table.line([
            one.set.clone().into(),
            Cell::Number(tuned.writing, 0),
            Cell::Number(two.writing, 0),
            Cell::Number(three.writing, 0),
            Cell::Number(best.1, 0),
            Cell::Number(best.0.into(), 0),
            faster(best.1, tuned.writing),
            Cell::Number(worst.1, 0),
            Cell::Number(worst.0.into(), 0),
            faster(worst.1, tuned.writing),
            Cell::Number(tuned.tuning, 0),
            Cell::Number(both, 0),
            faster(best.1, both),
            faster(worst.1, both),
            of_spans(one, SPAN_ROOMS[0]),
            of_spans(one, SPAN_ROOMS[1]),
            of_spans(one, SPAN_ROOMS[2]),
        ]);
        if let Some(field) = papers::field(&one.set) {
            let [tuned, best, worst, tuning, both] = field.staging;
            table.line([
                format!("  the paper's {}, V100", field.name).into(),
                Cell::Number(tuned, 0),
                Cell::Nothing,
                Cell::Nothing,
                Cell::Number(best, 0),
                Cell::Nothing,
                faster(best, tuned),
                Cell::Number(worst, 0),
                Cell::Nothing,
                faster(worst, tuned),
                Cell::Number(tuning, 0),
                Cell::Number(both, 0),
                faster(best, both),
                faster(worst, both),
                Cell::Nothing,
                Cell::Nothing,
                Cell::Nothing,
            ]);
        }
    }
    table
}

fn of_spans(staging: &Staging, room: Option<u32>) -> Cell {
    Cell::number(staging.spans.iter().find(|spans| spans.0 == room).map(|spans| spans.1), 0)
}
