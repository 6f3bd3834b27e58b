//! The comment in front of a table, which says what is in it.

use anyhow::{Context, Result, bail, ensure};

use super::figure::Figure;
use super::{Record, value};

/// What is in a table.
pub struct Spec {
    /// Files with records.
    pub files: Vec<String>,
    /// Conditions of all records.
    pub conditions: Vec<Condition>,
    /// Columns of the records that distinguish rows, and their headers.
    pub keys: Vec<(String, String)>,
    /// The other columns of the table.
    pub columns: Vec<Column>,
}

/// A column of a table.
pub struct Column {
    /// The header.
    pub header: String,
    /// What its cells have.
    pub figure: Figure,
    conditions: Vec<Condition>,
}

/// A condition on the value of a column.
pub struct Condition {
    column: String,
    values: Vec<String>,
}

impl Spec {
    /// Reads the comment.
    pub fn parse(comment: &str) -> Result<Self> {
        let mut lines = comment.lines();
        let files = lines.next().unwrap_or_default().split_whitespace().map(str::to_owned).collect::<Vec<_>>();
        ensure!(!files.is_empty(), "no file of records is named");
        let mut spec = Self { files, conditions: Vec::new(), keys: Vec::new(), columns: Vec::new() };
        for line in lines.map(str::trim).filter(|line| !line.is_empty()) {
            if let Some(conditions) = line.strip_prefix("where: ") {
                spec.conditions.extend(Condition::parse_all(conditions)?);
            } else if let Some(keys) = line.strip_prefix("rows: ") {
                spec.keys.extend(keys.split(';').map(|key| {
                    let (name, header) = key.split_once(" as ").unwrap_or((key, key));
                    (name.trim().to_owned(), header.trim().to_owned())
                }));
            } else if let Some(column) = line.strip_prefix("- ") {
                spec.columns.push(Column::parse(column)?);
            } else {
                bail!("cannot read '{line}'");
            }
        }
        ensure!(!spec.keys.is_empty() && !spec.columns.is_empty(), "rows or columns are missing");
        Ok(spec)
    }

    /// Returns the columns of records that the table takes.
    pub fn columns_used(&self) -> impl Iterator<Item = &String> {
        let own = self.columns.iter().flat_map(|column| &column.conditions);
        let conditions = self.conditions.iter().chain(own).map(|condition| &condition.column);
        self.keys.iter().map(|(key, _)| key).chain(conditions)
    }
}

impl Column {
    fn parse(text: &str) -> Result<Self> {
        let (header, rest) = text.split_once(" = ").with_context(|| format!("'{text}' has no figure"))?;
        let (figure, conditions) = rest.split_once(" where ").unwrap_or((rest, ""));
        let conditions = if conditions.is_empty() { Vec::new() } else { Condition::parse_all(conditions)? };
        Ok(Self { header: header.trim().to_owned(), figure: Figure::parse(figure.trim())?, conditions })
    }

    /// Returns whether a record meets the conditions of this column.
    pub fn matches(&self, record: &Record) -> bool {
        self.conditions.iter().all(|condition| condition.holds(record))
    }
}

impl Condition {
    fn parse_all(text: &str) -> Result<Vec<Self>> {
        let one = |part: &str| {
            let (column, values) = part.split_once('=').with_context(|| format!("'{part}' is no condition"))?;
            let values = values.split('|').map(|value| value.trim().to_owned()).collect();
            Ok(Self { column: column.trim().to_owned(), values })
        };
        text.split(';').map(one).collect()
    }

    /// Returns whether a record meets it.
    pub fn holds(&self, record: &Record) -> bool {
        let found = value(record, &self.column);
        self.values.iter().any(|wanted| match wanted.strip_suffix('*') {
            Some(prefix) => found.starts_with(prefix),
            None => found == wanted,
        })
    }
}
