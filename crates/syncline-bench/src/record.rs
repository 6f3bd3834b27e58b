//! A measurement and its form as CSV: the only output of this program. `cargo xtask tables` makes tables of it.

use std::io::Write;

use anyhow::{Context, Result};
use serde::Serialize;
use syncline_cuda::timing::Times;

/// One measurement. Its fields are the columns of every record; what does not apply is empty.
///
/// The benches in Python print the same columns.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Record {
    /// The subcommand.
    pub bench: String,
    /// The device: the name of a GPU, or the number of threads of the CPU.
    pub device: String,
    /// Name of the field, column, or set of symbols.
    pub field: String,
    /// Type of the elements.
    pub element: String,
    /// Extents, slowest axis first, such as `100x500x500`.
    pub shape: String,
    /// The bound relative to the range of values, such as `1e-3`, or `lossless`.
    pub bound: String,
    /// Name of the codec, kernel, or published system.
    pub codec: String,
    /// Effort or other options of the codec.
    pub options: String,
    /// What was measured: `compress`, `decompress`, or the name of a step.
    pub what: String,
    /// Bytes without compression. Throughputs count these.
    pub bytes: u64,
    /// Bytes of the stream.
    pub stream_bytes: Option<u64>,
    /// Largest error of all values divided by the absolute bound.
    pub error: Option<f64>,
    /// Median of the runs in seconds.
    pub seconds: Option<f64>,
    /// Shortest run in seconds.
    pub shortest: Option<f64>,
    /// Longest run in seconds.
    pub longest: Option<f64>,
    /// Number of runs.
    pub runs: Option<usize>,
    /// Throughput of the median run divided by that of a copy in device memory in the same run of the program.
    pub of_copy: Option<f64>,
    /// Bytes of device memory that the work takes in addition to array and stream.
    pub workspace: Option<u64>,
}

impl Record {
    /// Returns the measurement with these times. `copy` is the throughput of a device copy in bytes per second.
    pub fn timed(mut self, what: &str, times: &Times, copy: Option<f64>) -> Self {
        what.clone_into(&mut self.what);
        self.seconds = Some(times.median());
        self.shortest = Some(times.shortest());
        self.longest = Some(times.longest());
        self.runs = Some(times.count());
        self.of_copy = copy.map(|copy| self.bytes as f64 / times.median() / copy);
        self
    }
}

/// Returns a relative bound in records.
pub fn bound_text(relative: Option<f64>) -> String {
    relative.map_or("lossless".into(), |relative| format!("{relative:e}"))
}

/// Writes measurements as CSV, each at once, because a run may be interrupted.
pub struct Records {
    out: csv::Writer<Box<dyn Write>>,
    failures: usize,
}

impl Records {
    /// Writes to `out`.
    pub fn new(out: impl Write + 'static) -> Self {
        Self { out: csv::Writer::from_writer(Box::new(out)), failures: 0 }
    }

    /// Writes a measurement.
    ///
    /// # Errors
    /// The output cannot be written.
    pub fn add(&mut self, record: &Record) -> Result<()> {
        self.out.serialize(record)?;
        self.out.flush().context("cannot write a measurement")
    }

    /// Writes measurements, or prints an error and counts it, so that the remaining measurements are still made.
    ///
    /// # Errors
    /// The output cannot be written.
    pub fn add_or_complain(&mut self, records: Result<Vec<Record>>) -> Result<()> {
        match records {
            Ok(records) => records.iter().try_for_each(|record| self.add(record)),
            Err(error) => {
                eprintln!("error: {error:#}");
                self.failures += 1;
                Ok(())
            }
        }
    }

    /// Ends the output.
    ///
    /// # Errors
    /// A measurement failed.
    pub fn finish(self) -> Result<()> {
        anyhow::ensure!(self.failures == 0, "{} measurements failed, or were not right", self.failures);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the names of the columns.
    fn columns() -> String {
        let mut writer = csv::Writer::from_writer(Vec::new());
        writer.serialize(Record::default()).unwrap();
        let text = String::from_utf8(writer.into_inner().unwrap()).unwrap();
        text.lines().next().unwrap().to_owned()
    }

    #[test]
    fn python_benches_print_the_same_columns() {
        let python = include_str!("../tests/common.py").replace("\"\n    \"", "");
        assert!(python.contains(&format!("COLUMNS = (\n    \"{}\"\n)", columns())), "{}", columns());
    }

    #[test]
    fn record_has_median_spread_and_share_of_the_copy() {
        let times = Times::new(vec![0.5, 0.25, 1.0]);
        let record = Record { bytes: 1000, ..Record::default() }.timed("compress", &times, Some(4000.0));
        assert_eq!((record.seconds, record.shortest, record.longest), (Some(0.5), Some(0.25), Some(1.0)));
        assert_eq!((record.runs, record.of_copy), (Some(3), Some(0.5)));
    }
}
