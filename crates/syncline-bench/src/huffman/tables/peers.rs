//! Comparison with other projects' code, measured on the same kind of card (NVIDIA H200) on 2026-11-21 with the same
//! fields and the same method of timing.

use super::super::Row;
use super::super::cuda::names;
use super::{Cell, Table, find, sets};

/// Decoding throughput of the code by the authors of the 2022 paper on each field's codes, in GB/s: gap array,
/// self-synchronization optimized and original. The copy of that run reached 2,060 GB/s.
const AUTHORS: [(&str, [f64; 3]); 6] = [
    ("nyx", [364.0, 292.0, 101.0]),
    ("rtm", [212.0, 167.0, 94.0]),
    ("hurricane", [144.0, 108.0, 89.0]),
    ("cesm", [270.0, 210.0, 110.0]),
    ("hacc", [394.0, 276.0, 132.0]),
    ("qmcpack", [338.0, 223.0, 126.0]),
];
const AUTHORS_COPY: f64 = 2060.0;

/// Compression ratios of nvCOMP's ANS on the same codes; its best throughputs over all sets are given separately for
/// compression and decompression.
const ANS_RATIOS: [(&str, f64); 4] = [("nyx", 6.8), ("rtm", 4.9), ("cesm", 4.1), ("hacc", 2.1)];
const ANS_RATES: [f64; 2] = [680.0, 1117.0];

/// Returns our throughput relative to theirs. Their streams have no zero-bit groups; ours is shown without them and, as
/// in practice, with them.
pub fn table(rows: &[Row]) -> Table {
    let mut table = Table::new(
        "Ours over the 2022 authors' own code on such a card",
        "rates as shares of the copy of each run; the same sets at their own size; ANS: nvCOMP 6.0, its best rate on \
         any set",
        &[
            "set",
            "gap GB/s",
            "theirs",
            "ours / theirs",
            "self-sync GB/s",
            "theirs",
            "ours / theirs",
            "2018 GB/s",
            "theirs",
            "ours / theirs",
            "best of ours / their gap",
            "indexed / ANS",
            "ratio / ANS'",
        ],
    );
    for set in sets(rows) {
        let Some((_, theirs)) = AUTHORS.iter().find(|(name, _)| *name == set) else { continue };
        let of = |method: &str, index, free| find(rows, set, "decode", method, index, free);
        // Both throughputs are relative to the copy of their run, because machines differ by a few percent.
        let over =
            |row: Option<&Row>, theirs: f64| row.and_then(|row| Some(row.share_of_copy? * AUTHORS_COPY / theirs));
        let ours = [(names::GAP, "gap"), (names::SELF_SYNC, "none"), (names::SELF_SYNC_2018, "none")];
        let mut cells: Vec<Cell> = vec![set.into()];
        for ((method, index), &theirs) in ours.into_iter().zip(theirs) {
            let row = of(method, index, false);
            cells.push(Cell::number(row.map(|row| row.median), 0));
            cells.extend([Cell::Number(theirs, 0), Cell::number(over(row, theirs), 2)]);
        }
        let indexed = of(names::INDEXED, "symbol", true);
        cells.push(Cell::number(over(indexed, theirs[0]), 2));
        cells.push(Cell::number(over(indexed, ANS_RATES[1]), 2));
        let ans_ratio = ANS_RATIOS.iter().find(|(name, _)| *name == set).map(|ans| ans.1);
        cells.push(Cell::number(indexed.zip(ans_ratio).map(|(row, ratio)| row.ratio / ratio), 2));
        table.line(cells);
    }
    table
}

/// Returns the table of our complete encoder and decoder and nvCOMP's codecs, all measured in this run.
pub fn codecs(rows: &[Row]) -> Table {
    let mut table = Table::new(
        "nvCOMP in this run, GB/s of symbols (share of the device copy C)",
        "ours: symbol index and free groups, histogram and codebooks included; nvCOMP's default options, the symbols' \
         type, chunks of 64 KiB unless said",
        &["set", "codec", "ratio", "compress", "decompress", "ours / its: ratio", "compress", "decompress"],
    );
    for set in sets(rows) {
        let ours = find(rows, set, "encode", names::WHOLE_PATH, "symbol", true).zip(find(
            rows,
            set,
            "decode",
            names::INDEXED,
            "symbol",
            true,
        ));
        let theirs = |row: &&Row| row.set == set && row.index == names::NVCOMP;
        let Some((our_encode, our_decode)) = ours else { continue };
        let mut line = |codec: &str, encode: &Row, decode: &Row| {
            let rate = |row: &Row| format!("{:.0} ({:.2})", row.median, row.share_of_copy.unwrap_or(0.0)).into();
            table.line([
                set.into(),
                codec.into(),
                Cell::Number(encode.ratio, 2),
                rate(encode),
                rate(decode),
                Cell::Number(our_encode.ratio / encode.ratio, 2),
                Cell::Number(our_encode.median / encode.median, 2),
                Cell::Number(our_decode.median / decode.median, 2),
            ]);
        };
        let mut first = true;
        for encode in rows.iter().filter(theirs).filter(|row| row.direction == "encode") {
            let decode =
                rows.iter().filter(theirs).find(|row| row.direction == "decode" && row.method == encode.method);
            if std::mem::take(&mut first) {
                line("ours", our_encode, our_decode);
            }
            if let Some(decode) = decode {
                line(&encode.method, encode, decode);
            }
        }
    }
    table
}
