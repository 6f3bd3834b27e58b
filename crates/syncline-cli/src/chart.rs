//! Charts and pictures as text.

use crate::format::grouped;

/// Eighths of a character cell, from the left.
const EIGHTHS: [char; 8] = [' ', '▏', '▎', '▍', '▌', '▋', '▊', '▉'];
/// Shades from blank to full.
const SHADES: [char; 5] = [' ', '░', '▒', '▓', '█'];

/// Returns a bar of `share` of `width` cells. Every share above 0 is visible.
pub fn bar(share: f64, width: usize) -> String {
    let eighths = (share.clamp(0.0, 1.0) * (8 * width) as f64).round() as usize;
    let eighths = eighths.max(usize::from(share > 0.0));
    let mut text = "█".repeat(eighths / 8);
    if !eighths.is_multiple_of(8) {
        text.push(EIGHTHS[eighths % 8]);
    }
    text
}

/// Returns a line for each labeled count, with a bar relative to the largest count.
pub fn histogram(rows: &[(String, u64)], width: usize) -> Vec<String> {
    let labels = rows.iter().map(|(label, _)| label.chars().count()).max().unwrap_or(0);
    let counts = rows.iter().map(|(_, count)| grouped(*count).len()).max().unwrap_or(0);
    let most = rows.iter().map(|(_, count)| *count).max().unwrap_or(0).max(1);
    rows.iter()
        .map(|(label, count)| {
            let bar = bar(*count as f64 / most as f64, width);
            format!("{label:>labels$} {:>counts$} {bar}", grouped(*count)).trim_end().to_string()
        })
        .collect()
}

/// How a picture shows the values of a cell.
#[derive(Clone, Copy)]
pub enum Cell {
    /// The mean of the values.
    Mean,
    /// One of the values, so that noise remains visible.
    One,
}

/// Returns a 2-D field as shades, `columns` wide. Cells are twice as tall as wide. `low` is blank, `high` is full.
pub fn picture(
    values: &[f64],
    (height, width): (usize, usize),
    columns: usize,
    (low, high): (f64, f64),
    cell: Cell,
) -> Vec<String> {
    let rows = (height * columns / width.max(1)).div_ceil(2).max(1);
    let part = |index: usize, cells: usize, extent: usize| {
        let start = index * extent / cells;
        start..((index + 1) * extent / cells).max(start + 1)
    };
    let shade_at = |r: usize, c: usize| {
        let columns = part(c, columns, width);
        let inside: Vec<f64> =
            part(r, rows, height).flat_map(|y| &values[y * width..][columns.clone()]).copied().collect();
        let value = match cell {
            Cell::Mean => inside.iter().sum::<f64>() / inside.len() as f64,
            Cell::One => inside[inside.len() / 2],
        };
        shade((value - low) / (high - low))
    };
    (0..rows).map(|r| (0..columns).map(|c| shade_at(r, c)).collect()).collect()
}

fn shade(share: f64) -> char {
    SHADES[((share * SHADES.len() as f64) as usize).min(SHADES.len() - 1)]
}

/// Returns blocks of lines side by side, each with a title, two spaces apart.
pub fn side_by_side(blocks: &[(&str, Vec<String>)], columns: usize) -> Vec<String> {
    let height = blocks.iter().map(|(_, lines)| lines.len()).max().unwrap_or(0);
    let line = |cells: Vec<String>| {
        let padded: Vec<String> = cells.iter().map(|cell| format!("{cell:<columns$}")).collect();
        padded.join("  ").trim_end().to_string()
    };
    let mut lines = vec![line(blocks.iter().map(|(title, _)| (*title).to_string()).collect())];
    let cell = |lines: &[String], row: usize| lines.get(row).cloned().unwrap_or_default();
    lines.extend((0..height).map(|row| line(blocks.iter().map(|(_, lines)| cell(lines, row)).collect())));
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars() {
        assert_eq!(bar(0.0, 10), "");
        assert_eq!(bar(1.0, 3), "███");
        assert_eq!(bar(0.5, 3), "█▌");
        assert_eq!(bar(1e-9, 3), "▏");
        assert_eq!(bar(f64::NAN, 3), "");
        let lines = histogram(&[("1".into(), 1000), ("12".into(), 500)], 4);
        assert_eq!(lines, [" 1 1,000 ████", "12   500 ██"]);
    }

    #[test]
    fn pictures() {
        let ramp: Vec<f64> = (0..40).map(|i| f64::from(i % 10)).collect();
        assert_eq!(picture(&ramp, (4, 10), 5, (0.0, 9.0), Cell::Mean), [" ░▒▓█"]);
        assert_eq!(picture(&[1.0], (1, 1), 2, (0.0, 1.0), Cell::One), ["██"]);
        assert_eq!(
            side_by_side(&[("a", vec!["1".into()]), ("b", vec!["2".into(), "3".into()])], 3),
            ["a    b", "1    2", "     3"]
        );
    }
}
