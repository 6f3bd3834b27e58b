//! The times of the 2021 paper for building codebooks.

use super::super::cuda::CodebookTime;
use super::{Cell, Table, papers};

/// Returns the table of the phases on the GPU and of one core of the CPU.
pub fn table(codebooks: &[CodebookTime]) -> Table {
    let (symbols, serial) = papers::SERIAL_CODEBOOK;
    let mut table = Table::new(
        "Codebooks from counts, microseconds: the phases of the 2021 paper",
        &format!(
            "every symbol occurs; GenerateCL with sorting, GenerateCW with First, Entry and tables; the paper's serial \
             thread of a V100 takes {:.0} for {symbols} symbols",
            serial * 1e3
        ),
        &[
            "counts",
            "symbols",
            "GPU",
            "slowest",
            "GenerateCL",
            "limit",
            "GenerateCW",
            "rounds",
            "one CPU core",
            "CPU / GPU",
        ],
    );
    for time in codebooks {
        table.line([
            time.counts.clone().into(),
            Cell::Number(f64::from(time.symbols), 0),
            Cell::Number(time.gpu, 1),
            Cell::Number(time.gpu_slowest, 1),
            Cell::Number(time.lengths, 1),
            Cell::Number(time.limit, 1),
            Cell::Number(time.codewords, 1),
            Cell::Number(f64::from(time.rounds), 0),
            Cell::Number(time.cpu, 1),
            Cell::Number(time.cpu / time.gpu, 1),
        ]);
    }
    table
}
