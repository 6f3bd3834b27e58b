//! The papers' tables with our results.

mod codebooks;
mod curve;
mod gaps;
mod merging;
mod papers;
mod peers;
mod phases;
mod ratios;
mod small;
mod staging;
mod throughput;

use super::Row;
use super::cuda::Results;
use crate::table::{Cell, Table};

pub use curve::{CURVE_SETS, curve_name};

/// Returns all tables that are not empty.
pub fn all(results: &Results) -> Vec<Table> {
    let tables = [
        throughput::decoding(&results.rows),
        throughput::encoding(&results.rows),
        small::table(&results.rows),
        peers::table(&results.rows),
        peers::codecs(&results.rows),
        staging::table(&results.staging),
        phases::table(&results.phases),
        ratios::table(&results.rows),
        merging::table(&results.rows),
        codebooks::table(&results.codebooks),
        gaps::table(&results.rows),
        curve::table(&results.rows),
    ];
    tables.into_iter().filter(|table| !table.lines.is_empty()).collect()
}

/// Returns the row of a set and method.
fn find<'r>(rows: &'r [Row], set: &str, direction: &str, method: &str, index: &str, free: bool) -> Option<&'r Row> {
    rows.iter().find(|row| {
        row.set == set
            && row.direction == direction
            && row.method == method
            && row.index == index
            && row.free_groups == free
    })
}

/// Returns the names of the sets of these rows in order, without those of curves.
fn sets(rows: &[Row]) -> Vec<&str> {
    let mut sets: Vec<&str> = Vec::new();
    for row in rows {
        if !sets.contains(&row.set.as_str()) && !curve::is_curve(&row.set) {
            sets.push(&row.set);
        }
    }
    sets
}

/// Returns the field that a set is generated from, such as `hurricane` for `hurricane-x6`.
fn field_of(set: &str) -> &str {
    match set.rsplit_once("-x") {
        Some((field, copies)) if copies.bytes().all(|digit| digit.is_ascii_digit()) => field,
        _ => set,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(set: &str, direction: &'static str, method: &str, index: &str, free_groups: bool, median: f64) -> Row {
        Row {
            set: set.into(),
            bytes: 1 << 28,
            device: "a GPU".into(),
            direction,
            method: method.into(),
            index: index.into(),
            free_groups,
            bits: 2.0,
            ratio: 8.0,
            median,
            best: median,
            slowest: median,
            microseconds: 1e6,
            share_of_copy: Some(median / 2000.0),
            queued: None,
            one_after_another: None,
        }
    }

    #[test]
    fn tables_hold_what_was_measured() {
        use super::super::cuda::{Phases, Staging};
        let mut rows = Vec::new();
        for free in [true, false] {
            for (method, index, rate) in
                [("indexed", "symbol", 2000.0), ("gap", "gap", 800.0), ("self-sync", "none", 600.0)]
            {
                rows.push(row("nyx", "decode", method, index, free, rate));
                rows.push(row("nyx", "encode", "merged", index, free, 1500.0));
            }
        }
        rows.push(row("nyx", "encode", "reduce-shuffle-merge M=10 r=3", "symbol", true, 300.0));
        rows.push(row(&curve_name(0), "decode", "self-sync", "none", false, 100.0));
        let small = row("nyx-10MB", "decode", "indexed", "symbol", true, 480.0);
        rows.push(Row { bytes: 10_000_000, queued: Some(600.0), one_after_another: Some(720.0), ..small });
        let results = Results {
            rows,
            phases: vec![Phases {
                set: "nyx".into(),
                method: "self-sync".into(),
                steps: vec![("in sequences".into(), 1000.0), ("decoding and writing".into(), 900.0)],
                overall: 450.0,
            }],
            staging: vec![Staging::example("nyx")],
            codebooks: Vec::new(),
        };
        let tables = all(&results);
        for table in &tables {
            assert!(table.lines.iter().all(|line| line.len() == table.columns.len()), "{}", table.title);
            let text = table.to_string();
            assert_eq!(text.lines().count(), table.lines.len() + 3);
            assert_eq!(table.to_csv().lines().count(), table.lines.len() + 1);
        }
        let titled = |part: &str| tables.iter().find(|t| t.title.contains(part)).unwrap_or_else(|| panic!("no {part}"));
        let json: serde_json::Value = serde_json::to_value((&results, &tables)).unwrap();
        assert_eq!(json[0]["rows"][0]["set"], "nyx");
        let encoding = json[1].as_array().unwrap().iter().find(|t| t["title"].as_str().unwrap().starts_with("Ratios"));
        assert!(encoding.unwrap()["lines"][0][1].is_number(), "numbers stay numbers");
        // The table has the paper's 122.4 GB/s and our result.
        let decoding = titled("Table V").to_string();
        assert!(decoding.contains("122.4") && decoding.contains("800"), "{decoding}");
        // The expected ratio is 0.4 of our copy over 364 of 2,060 GB/s.
        assert!(titled("authors' own code").to_string().contains("2.26"), "{}", titled("authors' own code"));
        assert!(titled("reduce").to_string().contains("314.63"));
        // The goal is a quarter of nyx's 2,000 GB/s.
        let small = &titled("one after another").lines;
        assert_eq!(small.len(), 1);
        assert_eq!(small[0][5..], [480.0, 600.0, 720.0, 500.0].map(|rate| Cell::Number(rate, 0)));
    }

    #[test]
    fn names_of_sets() {
        assert_eq!(field_of("hurricane-x6"), "hurricane");
        assert_eq!(field_of("nyx"), "nyx");
        assert_eq!(field_of("geometric-1.4"), "geometric-1.4");
        assert_eq!(field_of("nyx-10MB"), "nyx-10MB");
    }
}
