//! The paper's tables with our results, and comparisons of codecs.

use std::fmt::Write as _;

use syncline_core::lzss::{Params, SymbolWidth};

use super::papers::{self, AUTHORS, PaperSet};
use super::{CHUNKS, LEVELS, PUBLISHED, Results, Row, STAGE, WIDTHS, lossy};
use crate::lossy::Rate;
use crate::table::{Cell, Table};

/// Returns all tables that are not empty.
pub fn all(results: &Results) -> Vec<Table> {
    let rows = &results.rows;
    let tables = [
        grid(rows, Figure::Ratio),
        grid(rows, Figure::Compress),
        grid(rows, Figure::Decompress),
        published(rows),
        codecs(rows),
        widths(rows),
        levels(rows),
        table_3(&results.lossy),
        streams(&results.lossy),
    ];
    tables.into_iter().filter(|table| !table.lines.is_empty()).collect()
}

/// Returns a table of all rows.
pub fn rows(rows: &[Row]) -> Table {
    let columns = [
        "set",
        "element",
        "bytes",
        "device",
        "codec",
        "chunk",
        "level",
        "window",
        "symbol",
        "ratio",
        "compress",
        "compress_slowest",
        "compress_best",
        "compress_of_copy",
        "decompress",
        "decompress_slowest",
        "decompress_best",
        "decompress_of_copy",
    ];
    let mut table = Table::new("Rows", "rates in GB/s, medians unless said", &columns);
    for row in rows {
        let whole = |number: Option<usize>| Cell::number(number.map(|number| number as f64), 0);
        let rates = |rate: Option<&Rate>| {
            let number = |pick: fn(&Rate) -> f64| Cell::number(rate.map(pick), 3);
            let share = Cell::number(rate.and_then(|rate| rate.share_of_copy), 4);
            [number(|rate| rate.median), number(|rate| rate.slowest), number(|rate| rate.best), share]
        };
        let mut cells = vec![
            row.set.clone().into(),
            row.element.clone().into(),
            Cell::Number(row.bytes as f64, 0),
            row.device.clone().into(),
            row.codec.clone().into(),
            whole(row.chunk),
            whole(row.level.map(usize::from)),
            whole(row.window()),
            whole(row.symbol),
            Cell::Number(row.ratio, 4),
        ];
        cells.extend(rates(Some(&row.compress)));
        cells.extend(rates(row.decompress.as_ref()));
        table.line(cells);
    }
    table
}

/// Returns the names of the sets of the rows, in order.
fn sets(rows: &[Row]) -> Vec<&str> {
    let mut sets: Vec<&str> = Vec::new();
    for row in rows {
        if !sets.contains(&row.set.as_str()) {
            sets.push(&row.set);
        }
    }
    sets
}

/// The figure that a grid shows.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Figure {
    Ratio,
    Compress,
    Decompress,
}

impl Figure {
    fn of(self, row: &Row) -> Option<f64> {
        match self {
            Self::Ratio => Some(row.ratio),
            Self::Compress => Some(row.compress.median),
            Self::Decompress => row.decompress.map(|rate| rate.median),
        }
    }

    /// Returns the paper's figure for a window, chunk and width of its grid.
    fn of_paper(self, set: &PaperSet, window: usize, chunk: usize, width: usize) -> Option<f64> {
        let known = |number: f64| (number > 0.0).then_some(number);
        match self {
            Self::Ratio => known(set.ratios[window][chunk][width]),
            Self::Compress if chunk == 0 => known(set.compress[window][width]),
            Self::Compress | Self::Decompress => None,
        }
    }
}

/// Returns Tables 1 and 2 of the paper.
fn grid(rows: &[Row], figure: Figure) -> Table {
    let (title, note) = match figure {
        Figure::Ratio => (
            "Ratio over C, W and S: the paper's Table 1",
            "C: bytes of a chunk, W: symbols of the window, S: bytes of a symbol",
        ),
        Figure::Compress => (
            "Compression over C, W and S, GB/s: the paper's Table 2",
            "the format's blocks have 16,384 bytes: smaller chunks take as many threads for less; A100: the paper's, C \
             = 2,048",
        ),
        Figure::Decompress => {
            ("Decompression over C, W and S, GB/s", "the paper has an average alone: 29.1 GB/s on an A100")
        }
    };
    let mut columns = vec!["set".to_owned(), "W".to_owned()];
    for chunk in CHUNKS {
        columns.extend(WIDTHS.map(|width| format!("C {chunk} S {}", width.bytes())));
    }
    let names: Vec<&str> = columns.iter().map(String::as_str).collect();
    let mut table = Table::new(title, note, &names);
    let decimals = |number: f64| if figure == Figure::Ratio || number < 10.0 { 2 } else { 0 };
    for set in sets(rows) {
        for (w, level) in LEVELS.into_iter().enumerate() {
            let window = Cell::Number(Params::new(SymbolWidth::One, level).window() as f64, 0);
            let at = |chunk: usize, width: SymbolWidth| {
                let is_it = |row: &&Row| {
                    row.codec == STAGE
                        && row.set == set
                        && (row.chunk, row.level, row.symbol) == (Some(chunk), Some(level), Some(width.bytes()))
                };
                rows.iter().find(is_it).and_then(|row| figure.of(row))
            };
            let places = || {
                CHUNKS
                    .into_iter()
                    .enumerate()
                    .flat_map(|(c, chunk)| WIDTHS.into_iter().enumerate().map(move |(s, width)| (c, chunk, s, width)))
            };
            let cell = |number: Option<f64>| Cell::number(number, number.map_or(0, decimals));
            let ours: Vec<Cell> = places().map(|(_, chunk, _, width)| cell(at(chunk, width))).collect();
            if ours.iter().all(|cell| *cell == Cell::Nothing) {
                continue;
            }
            table.line([Cell::from(set), window.clone()].into_iter().chain(ours));
            let Some(paper) = papers::set(set) else { continue };
            let theirs: Vec<Cell> = places().map(|(c, _, s, _)| cell(figure.of_paper(paper, w, c, s))).collect();
            if theirs.iter().any(|cell| *cell != Cell::Nothing) {
                table.line(["  the paper's, A100".into(), window].into_iter().chain(theirs));
            }
        }
    }
    table
}

fn rate(rate: Option<&Rate>) -> Cell {
    match rate {
        Some(Rate { median, share_of_copy: Some(share), .. }) => format!("{median:.0} ({share:.2})").into(),
        Some(Rate { median, .. }) => Cell::Number(*median, 3),
        None => Cell::Nothing,
    }
}

/// Returns the table of our kernels and our implementation of the paper's design.
fn published(rows: &[Row]) -> Table {
    let mut note =
        "C: share of the device copy; the same bytes from both; the authors' own code on such a card, codes \
     at 1e-3, GB/s:"
            .to_owned();
    for (width, level, [low, high], [slow, fast]) in AUTHORS {
        let window = Params::new(SymbolWidth::One, level).window();
        let _ = write!(note, " S {width} W {window} in {low}-{high}, out {slow}-{fast};");
    }
    let mut table = Table::new(
        "Our kernels and kernels of the published design, GB/s (share of the device copy C)",
        note.trim_end_matches(';'),
        &["set", "S", "W", "ratio", "compress", "as published", "ours / published", "decompress"],
    );
    for theirs in rows.iter().filter(|row| row.codec == PUBLISHED) {
        let key = |row: &Row| (row.set.clone(), row.chunk, row.level, row.symbol);
        let Some(ours) = rows.iter().find(|row| row.codec == STAGE && key(row) == key(theirs)) else { continue };
        table.line([
            theirs.set.as_str().into(),
            Cell::number(theirs.symbol.map(|bytes| bytes as f64), 0),
            Cell::number(theirs.window().map(|window| window as f64), 0),
            Cell::Number(ours.ratio, 2),
            rate(Some(&ours.compress)),
            rate(Some(&theirs.compress)),
            Cell::Number(ours.compress.median / theirs.compress.median, 1),
            rate(ours.decompress.as_ref()),
        ]);
    }
    table
}

/// Returns the name of a codec with level and width.
fn label(row: &Row) -> String {
    let mut label = row.codec.clone();
    if let Some(level) = row.level {
        let _ = write!(label, ", level {level}");
    }
    match (row.symbol, row.level) {
        (Some(symbol), _) => label + &format!(", S {symbol}"),
        (None, Some(_)) => label + ", S auto",
        (None, None) => label,
    }
}

/// Returns the table of the stage with the format's data blocks, our coders with automatic widths, and other codecs,
/// sorted by speed.
fn codecs(rows: &[Row]) -> Table {
    let mut table = Table::new(
        "Beside other codecs, GB/s (on a GPU: share of the device copy C)",
        "stage: widths 2 and 4 of the paper's defaults, in blocks of the format; nvCOMP: chunks of 64 KiB, default \
         options, the elements' type",
        &["set", "codec", "ratio", "compress", "decompress"],
    );
    for set in sets(rows) {
        let mut shown: Vec<&Row> = rows.iter().filter(|row| row.set == set && is_shown(row)).collect();
        shown.sort_by(|a, b| b.compress.median.total_cmp(&a.compress.median));
        if shown.iter().all(|row| row.codec == STAGE) {
            continue;
        }
        for row in shown {
            table.line([
                set.into(),
                label(row).into(),
                Cell::Number(row.ratio, 2),
                rate(Some(&row.compress)),
                rate(row.decompress.as_ref()),
            ]);
        }
    }
    table
}

fn is_shown(row: &Row) -> bool {
    match row.codec.as_str() {
        PUBLISHED => false,
        STAGE => {
            row.chunk == CHUNKS.last().copied()
                && matches!((row.symbol, row.level), (Some(2), Some(3)) | (Some(4), Some(1 | 3)))
        }
        _ => row.symbol.is_none() && row.level.is_none_or(|level| matches!(level, 1 | 3)),
    }
}

/// Returns the table of the automatic symbol width and every fixed one.
fn widths(rows: &[Row]) -> Table {
    let mut table = Table::new(
        "Symbol width: chosen from a sample (auto) and fixed; ratio / compress MB/s",
        "gain: the ratio of auto over that of the elements' own width; over the best: over that of the best fixed \
         width",
        &["set", "pipeline", "level", "auto", "S 1", "S 2", "S 4", "S 8", "gain", "over the best"],
    );
    for auto in rows.iter().filter(|row| row.symbol.is_none() && row.level.is_some()) {
        let alike = |row: &&Row| {
            row.set == auto.set && row.codec == auto.codec && row.level == auto.level && row.symbol.is_some()
        };
        let fixed: Vec<&Row> = rows.iter().filter(alike).collect();
        if fixed.is_empty() {
            continue;
        }
        let both = |row: &Row| Cell::Text(format!("{:.3} / {:.0}", row.ratio, row.compress.median * 1e3));
        let width = |bytes: usize| fixed.iter().find(|row| row.symbol == Some(bytes));
        let mut cells = vec![
            auto.set.as_str().into(),
            auto.codec.as_str().into(),
            Cell::number(auto.level.map(f64::from), 0),
            both(auto),
        ];
        cells.extend([1, 2, 4, 8].map(|bytes| width(bytes).map_or(Cell::Nothing, |row| both(row))));
        let own = auto
            .element
            .trim_start_matches(|c: char| !c.is_ascii_digit())
            .parse::<usize>()
            .ok()
            .and_then(|bits| width(bits / 8));
        let best = fixed.iter().map(|row| row.ratio).fold(0.0, f64::max);
        cells.push(Cell::number(own.map(|own| auto.ratio / own.ratio), 3));
        cells.push(Cell::Number(auto.ratio / best, 3));
        table.line(cells);
    }
    table
}

/// Returns the table of every level with automatic widths.
fn levels(rows: &[Row]) -> Table {
    let mut table = Table::new(
        "Levels, the symbol width chosen from a sample: ratio / compress / decompress MB/s",
        "levels 1 to 4 have the published windows",
        &["set", "pipeline", "1", "2", "3", "4", "5", "6", "7", "8", "9"],
    );
    for set in sets(rows) {
        let of_set = || rows.iter().filter(move |row| row.set == set && row.symbol.is_none() && row.level.is_some());
        let mut pipelines: Vec<&str> = Vec::new();
        for row in of_set() {
            if !pipelines.contains(&row.codec.as_str()) {
                pipelines.push(&row.codec);
            }
        }
        for pipeline in pipelines {
            let at = |level: u8| of_set().find(|row| row.codec == pipeline && row.level == Some(level));
            if (1..=9).filter(|&level| at(level).is_some()).count() < 2 {
                continue;
            }
            let cell = |row: &Row| {
                let back = row.decompress.map_or(0.0, |rate| rate.median * 1e3);
                Cell::Text(format!("{:.2} / {:.0} / {back:.0}", row.ratio, row.compress.median * 1e3))
            };
            let cells = (1..=9).map(|level| at(level).map_or(Cell::Nothing, cell));
            table.line([Cell::from(set), pipeline.into()].into_iter().chain(cells));
        }
    }
    table
}

/// Returns the table of lossy streams with and without codes as LZSS tokens, for fields that have no other rows.
fn streams(rows: &[lossy::Row]) -> Table {
    let mut table = Table::new(
        "Lossy streams with codes as LZSS tokens, relative bound 1e-2, GB/s (share of the device copy C)",
        "auto: in chunks where an estimate says that it pays; lzss+huffman: wherever that is shorter; x: over the \
         ratio without",
        &["field", "shape", "codec", "ratio", "x", "compress", "decompress"],
    );
    let others = |field: &str| rows.iter().any(|row| row.field == field && row.codec == lossy::HUFFMAN);
    for row in rows.iter().filter(|row| !others(&row.field)) {
        let plain = rows.iter().find(|plain| plain.field == row.field && plain.codec == lossy::SYNCLINE);
        table.line([
            row.field.as_str().into(),
            row.shape.as_str().into(),
            row.codec.as_str().into(),
            Cell::Number(row.ratio, 2),
            Cell::number(plain.map(|plain| row.ratio / plain.ratio), 2),
            rate(Some(&row.compress)),
            rate(Some(&row.decompress)),
        ]);
    }
    table
}

/// Returns Table 3 of the paper.
fn table_3(rows: &[lossy::Row]) -> Table {
    let mut table = Table::new(
        "Quantization codes with and without LZSS before Huffman coding, relative bound 1e-2: the paper's Table 3",
        "ratio of the values (GB/s of values, coding of the codes alone, both ways); x: over Huffman coding of all \
         groups, as the paper compares; syncline: its own codes, values to stream",
        &[
            "field",
            "huffman",
            "free groups",
            "lzss W 255",
            "x",
            "lzss, best level",
            "x",
            "syncline",
            "x",
            "syncline, lzss",
            "x",
            "paper: huffman",
            "with lzss",
            "x",
        ],
    );
    let mut fields: Vec<&str> = Vec::new();
    for row in rows {
        if !fields.contains(&row.field.as_str()) {
            fields.push(&row.field);
        }
    }
    for field in fields {
        let of = |codec: &str| rows.iter().filter(|row| row.field == field && row.codec == codec).collect::<Vec<_>>();
        let Some(&plain) = of(lossy::HUFFMAN).first() else { continue };
        let text = |row: &lossy::Row| {
            let level = row.level.map_or_else(String::new, |level| format!(", level {level}"));
            Cell::Text(format!("{:.1} ({:.2}, {:.2}{level})", row.ratio, row.compress.median, row.decompress.median))
        };
        let pair = |row: Option<&&lossy::Row>| match row {
            Some(row) => [text(row), Cell::Number(row.ratio / plain.ratio, 2)],
            None => [Cell::Nothing, Cell::Nothing],
        };
        let lzss = of(lossy::LZSS);
        let best = lzss.iter().max_by(|a, b| a.ratio.total_cmp(&b.ratio));
        let mut cells = vec![field.into(), text(plain)];
        cells.push(of(lossy::FREE).first().map_or(Cell::Nothing, |row| text(row)));
        cells.extend(pair(lzss.iter().find(|row| row.level == LEVELS.last().copied())));
        cells.extend(pair(best));
        cells.extend(pair(of(lossy::SYNCLINE).first()));
        cells.extend(pair(of(lossy::SYNCLINE_LZSS).first()));
        let paper = papers::LOSSY.iter().find(|paper| paper.0 == field);
        let theirs = |[ratio, speed]: [f64; 2]| Cell::Text(format!("{ratio:.1} ({speed:.1})"));
        cells.push(paper.map_or(Cell::Nothing, |paper| theirs(paper.1)));
        cells.push(paper.map_or(Cell::Nothing, |paper| theirs(paper.2)));
        cells.push(Cell::number(paper.map(|paper| paper.2[0] / paper.1[0]), 2));
        table.line(cells);
    }
    table
}
