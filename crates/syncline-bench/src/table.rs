//! Tables that are printed as text, CSV or JSON.

use std::fmt::{self, Write as _};

use serde::{Serialize, Serializer};

/// A table to print.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Table {
    /// Title of the table.
    pub title: String,
    /// Description of the figures.
    pub note: String,
    /// Names of the columns; the first column names the lines.
    pub columns: Vec<String>,
    /// Lines with one cell per column.
    pub lines: Vec<Vec<Cell>>,
}

/// A cell of a table.
#[derive(Clone, Debug, PartialEq)]
pub enum Cell {
    /// A text.
    Text(String),
    /// A number, and the number of decimals to print.
    Number(f64, usize),
    /// An empty cell: the value is unknown or does not apply.
    Nothing,
}

impl Cell {
    /// Returns a cell with a number, or an empty one if it is `None`.
    pub fn number(number: Option<f64>, decimals: usize) -> Self {
        number.map_or(Self::Nothing, |number| Self::Number(number, decimals))
    }
}

impl From<&str> for Cell {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl From<String> for Cell {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

impl fmt::Display for Cell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Text(text) => f.pad(text),
            Self::Number(number, decimals) => f.pad(&format!("{number:.decimals$}")),
            Self::Nothing => f.pad("-"),
        }
    }
}

impl Serialize for Cell {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Text(text) => serializer.serialize_str(text),
            Self::Number(number, _) => serializer.serialize_f64(*number),
            Self::Nothing => serializer.serialize_none(),
        }
    }
}

impl Table {
    /// Returns a table without lines.
    pub fn new(title: &str, note: &str, columns: &[&str]) -> Self {
        let columns = columns.iter().map(|&column| column.to_owned()).collect();
        Self { title: title.to_owned(), note: note.to_owned(), columns, lines: Vec::new() }
    }

    /// Adds a line with one cell per column.
    pub fn line(&mut self, cells: impl IntoIterator<Item = Cell>) {
        let cells: Vec<_> = cells.into_iter().collect();
        debug_assert_eq!(cells.len(), self.columns.len(), "{}", self.title);
        self.lines.push(cells);
    }

    /// Returns the table as CSV with a header line.
    pub fn to_csv(&self) -> String {
        let quoted = |text: String| match text.contains([',', '"', '\n']) {
            true => format!("\"{}\"", text.replace('"', "\"\"")),
            false => text,
        };
        let plain = |cell: &Cell| match cell {
            Cell::Number(number, _) => number.to_string(),
            Cell::Text(text) => text.clone(),
            Cell::Nothing => String::new(),
        };
        let names = self.columns.iter().cloned().map(quoted).collect::<Vec<_>>().join(",");
        let lines =
            self.lines.iter().map(|line| line.iter().map(|cell| quoted(plain(cell))).collect::<Vec<_>>().join(","));
        std::iter::once(names).chain(lines).map(|line| line + "\n").collect()
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text: Vec<Vec<String>> = self.lines.iter().map(|line| line.iter().map(Cell::to_string).collect()).collect();
        let width = |column: usize| {
            let cells = text.iter().map(|line| line[column].chars().count());
            cells.max().unwrap_or(0).max(self.columns[column].chars().count())
        };
        let widths: Vec<usize> = (0..self.columns.len()).map(width).collect();
        let print = |line: &[String]| {
            let mut out = String::from(" ");
            for (i, (cell, width)) in line.iter().zip(&widths).enumerate() {
                // The first column is left-aligned, numbers are right-aligned.
                let _ = if i == 0 { write!(out, " {cell:<width$}") } else { write!(out, "  {cell:>width$}") };
            }
            out.trim_end().to_owned()
        };
        writeln!(f, "{}", self.title)?;
        writeln!(f, "  ({})", self.note)?;
        writeln!(f, "{}", print(&self.columns))?;
        text.iter().try_for_each(|line| writeln!(f, "{}", print(line)))
    }
}
