//! Tables of the results, with published figures of other projects.

use super::{Rate, Results, Row};
use crate::table::{Cell, Table};

/// Returns a cell with the throughput, and its share of the device copy where there is one.
fn cell(rate: Option<&Rate>) -> Cell {
    match rate.map(|rate| (rate, rate.share_of_copy)) {
        Some((rate, Some(share))) => format!("{:.0} ({share:.2})", rate.median).into(),
        Some((rate, None)) => Cell::Number(rate.median, 2),
        None => Cell::Nothing,
    }
}

/// Returns all tables that are not empty.
pub fn all(results: &Results) -> Vec<Table> {
    let tables = [speed(&results.rows), copies(&results.rows), steps(results), peers(&results.rows)];
    tables.into_iter().filter(|table| !table.lines.is_empty()).collect()
}

fn bound(row: &Row) -> Cell {
    format!("{:e}", row.relative).into()
}

/// Returns the table of compression ratio, quality and throughput.
pub fn speed(rows: &[Row]) -> Table {
    let mut table = Table::new(
        "Error-bounded compression: GB/s of elements (share of the device copy C)",
        "medians; decompression from memory to memory, compression with and without the scan for the range; worst \
         error of all values over the bound; \
         workspace as a share of the array",
        &[
            "set",
            "type",
            "MB",
            "device",
            "relative",
            "ratio",
            "bits",
            "PSNR",
            "error / bound",
            "compress",
            "slowest-fastest",
            "bound known",
            "decompress",
            "slowest-fastest",
            "workspace",
            "to decompress",
        ],
    );
    let spread = |rate: &Rate| match rate.share_of_copy {
        Some(_) => format!("{:.0}-{:.0}", rate.slowest, rate.best),
        None => format!("{:.2}-{:.2}", rate.slowest, rate.best),
    };
    for row in rows {
        let share = |bytes: Option<u64>| Cell::number(bytes.map(|bytes| bytes as f64 / row.bytes as f64), 2);
        table.line([
            row.set.as_str().into(),
            row.element.as_str().into(),
            Cell::Number(row.bytes as f64 / 1e6, 0),
            row.device.as_str().into(),
            bound(row),
            Cell::Number(row.ratio, 2),
            Cell::Number(row.bits, 3),
            Cell::Number(row.psnr, 1),
            Cell::Number(row.error_over_bound, 5),
            cell(Some(&row.compress)),
            spread(&row.compress).into(),
            cell(row.compress_known.as_ref()),
            cell(Some(&row.decompress)),
            spread(&row.decompress).into(),
            share(row.compress_workspace),
            share(row.decompress_workspace),
        ]);
    }
    table
}

/// Returns a table in the form of Figures 4 and 5 of the 2022 paper: with and without copies between host and device.
fn copies(rows: &[Row]) -> Table {
    let mut table = Table::new(
        "With and without copies between host and device (the 2022 paper's Figures 4 and 5), GB/s of elements (share \
         of the device copy C)",
        "from page-locked memory to page-locked memory, one after another: elements or stream there, work, stream or \
         elements back",
        &["set", "relative", "compress", "with copies", "decompress", "with copies"],
    );
    for row in rows.iter().filter(|row| row.compress_copies.is_some()) {
        table.line([
            row.set.as_str().into(),
            bound(row),
            cell(Some(&row.compress)),
            cell(row.compress_copies.as_ref()),
            cell(Some(&row.decompress)),
            cell(row.decompress_copies.as_ref()),
        ]);
    }
    table
}

/// Returns the table of the steps' durations.
fn steps(results: &Results) -> Table {
    let mut table = Table::new(
        "By step",
        "microseconds from the end of one step to the end of the next, medians: waits for the host are part of it; \
         steps of several batches are added up",
        &["set", "relative", "direction", "step", "microseconds", "share", "GB/s"],
    );
    for Row { set, relative, .. } in &results.rows {
        for found in results.steps.iter().filter(|steps| steps.set == *set && steps.relative == *relative) {
            let all: f64 = found.steps.iter().map(|(_, microseconds)| microseconds).sum();
            for (name, microseconds) in &found.steps {
                table.line([
                    set.as_str().into(),
                    format!("{relative:e}").into(),
                    found.direction.into(),
                    name.as_str().into(),
                    Cell::Number(*microseconds, 1),
                    Cell::Number(microseconds / all, 3),
                    Cell::Number(found.bytes as f64 / microseconds / 1e3, 0),
                ]);
            }
        }
    }
    table
}

/// Another project's compression ratio (`None` if the bound was violated), and throughput of compression and
/// decompression in GB/s.
type Theirs = (&'static str, Option<f64>, f64, f64);

/// Measurements of other projects' code at a relative bound of 1e-3 on the same kind of card (NVIDIA H200) on
/// 2026-11-21, with the same fields and the same method of timing, in device memory. cuSZp does not write zero blocks
/// of its output, which makes its decompression of `nyx` faster than that of the others.
const PEERS: [(&str, [Theirs; 6]); 4] = [
    (
        "cuSZ (Jan 2026)",
        [
            ("nyx", Some(21.6), 285.0, 198.0),
            ("rtm", Some(21.1), 224.0, 133.0),
            ("hurricane", Some(15.5), 173.0, 128.0),
            ("cesm", Some(13.9), 262.0, 108.0),
            // The largest error is 2,381 times the bound.
            ("hacc", None, 271.0, 133.0),
            ("qmcpack", Some(5.2), 242.0, 85.0),
        ],
    ),
    (
        "cuSZp 3, outlier mode",
        [
            ("nyx", Some(104.0), 797.0, 1821.0),
            ("rtm", Some(19.3), 442.0, 582.0),
            ("hurricane", Some(21.6), 324.0, 587.0),
            ("cesm", Some(15.4), 572.0, 695.0),
            ("hacc", Some(5.3), 570.0, 583.0),
            ("qmcpack", Some(3.6), 501.0, 606.0),
        ],
    ),
    (
        "cuSZp 3, plain mode",
        [
            ("nyx", Some(104.0), 840.0, 1932.0),
            ("rtm", Some(18.7), 554.0, 1055.0),
            ("hurricane", Some(21.5), 362.0, 702.0),
            ("cesm", Some(13.8), 798.0, 1415.0),
            ("hacc", Some(4.7), 730.0, 881.0),
            ("qmcpack", Some(3.6), 624.0, 1039.0),
        ],
    ),
    (
        "PFPL",
        [
            ("nyx", Some(137.0), 291.0, 278.0),
            ("rtm", Some(18.7), 282.0, 293.0),
            ("hurricane", Some(22.9), 252.0, 261.0),
            ("cesm", Some(14.2), 286.0, 272.0),
            ("hacc", Some(5.2), 288.0, 265.0),
            ("qmcpack", Some(3.7), 281.0, 261.0),
        ],
    ),
];
/// Throughput of the device copy in that run, in GB/s.
const PEERS_COPY: f64 = 2060.0;
const PEERS_BOUND: f64 = 1e-3;

/// Returns the table of our figures relative to those of other projects.
fn peers(rows: &[Row]) -> Table {
    let mut table = Table::new(
        "Beside others on such a card, relative bound of 1e-3, GB/s of elements",
        "theirs: of a run of 2026-11-21 on the same fields; rates are compared as shares of the copy of each run; - \
         where the bound was broken",
        &["set", "codec", "ratio", "compress", "decompress", "ours / its: ratio", "compress", "decompress"],
    );
    let ours = rows.iter().filter(|row| row.relative == PEERS_BOUND);
    for (row, compress, decompress) in
        ours.filter_map(|row| Some((row, row.compress.share_of_copy?, row.decompress.share_of_copy?)))
    {
        let theirs = |(codec, sets): &(&'static str, [Theirs; 6])| {
            sets.iter().find(|(set, ..)| *set == row.set).map(|theirs| (*codec, *theirs))
        };
        for (i, (codec, (_, ratio, its_compress, its_decompress))) in PEERS.iter().filter_map(theirs).enumerate() {
            if i == 0 {
                table.line([
                    row.set.as_str().into(),
                    "ours".into(),
                    Cell::Number(row.ratio, 1),
                    Cell::Number(row.compress.median, 0),
                    Cell::Number(row.decompress.median, 0),
                    Cell::Nothing,
                    Cell::Nothing,
                    Cell::Nothing,
                ]);
            }
            table.line([
                row.set.as_str().into(),
                codec.into(),
                Cell::number(ratio, 1),
                Cell::Number(its_compress, 0),
                Cell::Number(its_decompress, 0),
                Cell::number(ratio.map(|ratio| row.ratio / ratio), 2),
                Cell::Number(compress * PEERS_COPY / its_compress, 2),
                Cell::Number(decompress * PEERS_COPY / its_decompress, 2),
            ]);
        }
    }
    table
}

/// Returns the table of all rows with all of their fields.
pub fn rows(rows: &[Row]) -> Table {
    const RATES: [&str; 5] = ["compress", "compress_known", "compress_copies", "decompress", "decompress_copies"];
    const FIGURES: [&str; 5] = ["", "_slowest", "_best", "_microseconds", "_share_of_copy"];
    let mut columns: Vec<String> = [
        "set",
        "element",
        "shape",
        "bytes",
        "device",
        "relative",
        "bound",
        "stream_bytes",
        "ratio",
        "bits",
        "psnr",
        "error_over_bound",
        "compress_workspace",
        "decompress_workspace",
        "compared_with_cpu",
    ]
    .map(str::to_owned)
    .to_vec();
    columns.extend(RATES.iter().flat_map(|rate| FIGURES.iter().map(move |figure| format!("{rate}{figure}"))));
    let names: Vec<&str> = columns.iter().map(String::as_str).collect();
    let mut table = Table::new("Rows", "rates in GB/s", &names);
    for row in rows {
        let number = |value: f64| Cell::Number(value, 6);
        let bytes = |bytes: Option<u64>| Cell::number(bytes.map(|bytes| bytes as f64), 0);
        let mut cells: Vec<Cell> = vec![
            row.set.as_str().into(),
            row.element.as_str().into(),
            row.shape.as_str().into(),
            Cell::Number(row.bytes as f64, 0),
            row.device.as_str().into(),
            number(row.relative),
            number(row.bound),
            Cell::Number(row.stream_bytes as f64, 0),
            number(row.ratio),
            number(row.bits),
            number(row.psnr),
            number(row.error_over_bound),
            bytes(row.compress_workspace),
            bytes(row.decompress_workspace),
            row.compared_with_cpu.to_string().into(),
        ];
        let rates = [
            Some(&row.compress),
            row.compress_known.as_ref(),
            row.compress_copies.as_ref(),
            Some(&row.decompress),
            row.decompress_copies.as_ref(),
        ];
        for rate in rates {
            let figure = |of: fn(&Rate) -> f64| Cell::number(rate.map(of), 6);
            cells.extend([figure(|r| r.median), figure(|r| r.slowest), figure(|r| r.best), figure(|r| r.microseconds)]);
            cells.push(Cell::number(rate.and_then(|rate| rate.share_of_copy), 6));
        }
        table.line(cells);
    }
    table
}

#[cfg(test)]
mod tests {
    use super::super::Steps;
    use super::*;

    fn rate(median: f64, copy: Option<f64>) -> Rate {
        let microseconds = 1e6 / median;
        Rate {
            median,
            slowest: median * 0.9,
            best: median * 1.1,
            microseconds,
            share_of_copy: copy.map(|copy| median / copy),
        }
    }

    fn row(set: &str, relative: f64, copy: Option<f64>) -> Row {
        Row {
            set: set.into(),
            element: "f32".into(),
            shape: "512x512x512".into(),
            bytes: 512 << 20,
            device: if copy.is_some() { "a GPU" } else { "cpu, 1 thread" }.into(),
            relative,
            bound: 0.5,
            stream_bytes: 4 << 20,
            ratio: 128.0,
            bits: 0.25,
            psnr: 64.8,
            error_over_bound: 0.999,
            compress: rate(1030.0, copy),
            compress_known: copy.map(|_| rate(1300.0, copy)),
            compress_copies: copy.map(|_| rate(40.0, copy)),
            decompress: rate(2060.0, copy),
            decompress_copies: copy.map(|_| rate(50.0, copy)),
            compress_workspace: copy.map(|_| 256 << 20),
            decompress_workspace: copy.map(|_| 64 << 20),
            compared_with_cpu: copy.is_some(),
        }
    }

    #[test]
    fn tables_hold_what_was_measured() {
        let rows_found =
            vec![row("nyx", 1e-3, Some(2060.0)), row("nyx", 1e-4, Some(2060.0)), row("hacc", 1e-3, Some(2060.0))];
        let steps = vec![Steps {
            set: "nyx".into(),
            bytes: 512 << 20,
            relative: 1e-3,
            direction: "compress",
            steps: vec![("scan".into(), 100.0), ("quantize".into(), 300.0)],
        }];
        let results = Results { rows: rows_found, steps };
        let tables = all(&results);
        assert_eq!(tables.iter().map(|table| table.lines.len()).collect::<Vec<_>>(), [3, 3, 2, 10]);
        for table in tables.iter().chain([&rows(&results.rows)]) {
            assert!(table.lines.iter().all(|line| line.len() == table.columns.len()), "{}", table.title);
            assert_eq!(table.to_csv().lines().count(), table.lines.len() + 1);
        }
        let [speed, copies, by_step, peers] = tables.as_slice() else { panic!("four tables") };
        assert!(speed.to_string().contains("1030 (0.50)") && speed.to_string().contains("927-1133"), "{speed}");
        assert!(copies.to_string().contains("40 (0.02)"), "{copies}");
        assert_eq!(by_step.lines[1][5], Cell::Number(0.75, 3));
        // The expected shares are 1,030 of 2,060 GB/s over 840, and 128 over 104.
        let plain = &peers.lines[3];
        assert_eq!((plain[1].to_string(), plain[6].to_string()), ("cuSZp 3, plain mode".into(), "1.23".into()));
        assert_eq!((plain[5].to_string(), plain[7].to_string()), ("1.23".into(), "1.07".into()));
        assert_eq!(peers.lines[6][5], Cell::Nothing, "a broken bound has no ratio");
    }

    #[test]
    fn the_cpu_has_no_copy() {
        let results = Results { rows: vec![row("nyx", 1e-3, None)], steps: Vec::new() };
        let tables = all(&results);
        assert_eq!(tables.len(), 1);
        assert!(tables[0].to_string().contains("1030.00"), "{}", tables[0]);
        let csv = rows(&results.rows).to_csv();
        assert!(csv.lines().nth(1).unwrap().contains("\"cpu, 1 thread\""), "{csv}");
    }
}
