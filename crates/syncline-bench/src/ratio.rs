//! Ratios of whole fields at bounds relative to their range, beside other compressors with the same absolute bound.

use anyhow::{Context, Result, ensure};
use serde::Serialize;
use syncline::{
    Advanced, ArrayView, Backend, Bound, Coder, CompressOptions, DecompressOptions, Effort, Element, IndexKind,
    TileSize,
};

use crate::lossy::{Set, Values};
use crate::rivals::{Algorithm, ArrayCodec, ArrayType, Sz3, Zfp};
use crate::table::{Cell, Table};

/// A stream's size.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    /// Name of the field.
    pub field: String,
    /// Extents as text.
    pub shape: String,
    /// Bound relative to the range of the values.
    pub relative: f64,
    /// The same bound as an absolute error.
    pub bound: f64,
    /// Name of the codec.
    pub codec: String,
    /// Bytes of the stream.
    pub bytes: usize,
    /// Bytes of the array divided by those of the stream.
    pub ratio: f64,
    /// Largest error divided by the bound.
    pub error_over_bound: f64,
}

/// Options of Syncline that are compared.
pub struct Variant {
    /// The name in tables.
    pub name: &'static str,
    effort: Effort,
    coder: Coder,
    tile_size: Option<TileSize>,
    index: IndexKind,
}

const fn variant(name: &'static str, effort: Effort, coder: Coder, tile_size: Option<TileSize>) -> Variant {
    Variant { name, effort, coder, tile_size, index: IndexKind::Symbol }
}

/// All that are compared.
pub const VARIANTS: [Variant; 7] = [
    variant("fast", Effort::Fast, Coder::Huffman, Some(TileSize::Small)),
    variant("fast, coder auto", Effort::Fast, Coder::Auto, Some(TileSize::Small)),
    variant("balanced", Effort::Balanced, Coder::Huffman, Some(TileSize::Small)),
    variant("balanced, large tiles", Effort::Balanced, Coder::Huffman, Some(TileSize::Large)),
    variant("best", Effort::Best, Coder::LzssHuffman, Some(TileSize::Small)),
    variant("best, tiles by sample", Effort::Best, Coder::LzssHuffman, None),
    Variant {
        index: IndexKind::None,
        ..variant("best, tiles by sample, no index", Effort::Best, Coder::LzssHuffman, None)
    },
];

/// Another compressor and its name in tables.
pub struct Other {
    name: &'static str,
    is_sz3: bool,
    codec: Box<dyn ArrayCodec>,
}

impl Other {
    /// Returns the modes of SZ3, and zfp, as far as this Python interpreter has them, and a message for each that it
    /// lacks.
    pub fn available(python: &str) -> (Vec<Self>, Vec<String>) {
        let mut found = Vec::new();
        let mut missing = Vec::new();
        for algorithm in Algorithm::ALL {
            match Sz3::start(python, algorithm) {
                Ok(codec) => found.push(Self { name: algorithm.name(), is_sz3: true, codec: Box::new(codec) }),
                Err(error) => missing.push(format!("{}: {error:#}", algorithm.name())),
            }
        }
        match Zfp::start(python) {
            Ok(codec) => found.push(Self { name: "zfp", is_sz3: false, codec: Box::new(codec) }),
            Err(error) => missing.push(format!("zfp: {error:#}")),
        }
        (found, missing)
    }

    /// Returns the length of a stream and the largest error.
    fn measure<T: Float>(&mut self, array: ArrayType, values: &[T], bound: f64) -> Result<(usize, f64)> {
        let stream = self.codec.compress_array(array, bytemuck::cast_slice(values), bound)?.value;
        let back = self.codec.decompress_array(array, &stream)?.value;
        let back: Vec<T> = back.chunks_exact(size_of::<T>()).map(bytemuck::pod_read_unaligned).collect();
        Ok((stream.len(), crate::statistics::max_error(values, &back)))
    }
}

/// Compresses a field with every codec at one relative bound, and checks every value of every stream of Syncline.
///
/// Cells of other codecs that fail are left out, with a message.
///
/// # Errors
/// Syncline fails or exceeds the bound.
pub fn measure(set: &Set, relative: f64, others: &mut [Other]) -> Result<Vec<Row>> {
    match &set.values {
        Values::F32(values) => measure_values(set, values, relative, others),
        Values::F64(values) => measure_values(set, values, relative, others),
    }
}

/// What a stream of Syncline says about the array: the bound, and the bit patterns of fill values.
pub(crate) struct Meaning {
    bound: f64,
    patterns: Vec<u64>,
}

fn measure_values<T: Float>(set: &Set, values: &[T], relative: f64, others: &mut [Other]) -> Result<Vec<Row>> {
    let mut rows = Vec::new();
    let row = |codec: &str, bound: f64, bytes: usize, worst: f64| Row {
        field: set.name.clone(),
        shape: set.shape_text(),
        relative,
        bound,
        codec: codec.to_owned(),
        bytes,
        ratio: size_of_val(values) as f64 / bytes as f64,
        error_over_bound: worst / bound,
    };
    let view = ArrayView::new(values, &set.extents)?;
    let mut meaning = None;
    for Variant { name, effort, coder, tile_size, index } in VARIANTS {
        let options = CompressOptions::new(Bound::Rel(relative)).with_effort(effort).with_backend(Backend::Cpu);
        let options =
            options.with_advanced(Advanced::default().with_coder(coder).with_tile(tile_size).with_index(index));
        let stream = syncline::compress(&view, &options)?;
        let found = Meaning::of(&stream)?;
        let back = syncline::decompress(&stream, &DecompressOptions::default())?.to_vec::<T>()?;
        let worst = found.worst_error(values, &back).with_context(|| format!("{name} of {}", set.name))?;
        rows.push(row(name, found.bound, stream.len(), worst));
        meaning = Some(found);
    }
    let Some(meaning) = meaning else { return Ok(rows) };
    let filled = meaning.without_fill(values);
    let extents: Vec<usize> = set.extents.iter().map(|&extent| extent as usize).collect();
    let array = ArrayType { element: T::NUMPY, extents: &extents };
    for other in others {
        match other.measure(array, &filled, meaning.bound) {
            Ok((length, worst)) => rows.push(row(other.name, meaning.bound, length, worst)),
            // Some refuse some arrays.
            Err(error) => eprintln!("left out: {} of {} at {relative:e}: {error:#}", other.name, set.name),
        }
    }
    Ok(rows)
}

/// An element type of a field.
pub(crate) trait Float: Element + bytemuck::Pod + Into<f64> + Sync {
    /// NumPy's name.
    const NUMPY: &str;
    fn pattern(self) -> u64;
}

impl Float for f32 {
    const NUMPY: &str = "<f4";
    fn pattern(self) -> u64 {
        self.to_bits().into()
    }
}

impl Float for f64 {
    const NUMPY: &str = "<f8";
    fn pattern(self) -> u64 {
        self.to_bits()
    }
}

impl Meaning {
    pub(crate) fn of(stream: &[u8]) -> Result<Self> {
        let header = crate::lossy::header_of(stream)?;
        Ok(Self { bound: header.abs_bound, patterns: header.patterns })
    }

    fn is_exact<T: Float>(&self, value: T) -> bool {
        !value.into().is_finite() || self.patterns.contains(&value.pattern())
    }

    /// Returns the largest error of the values that are not fill.
    ///
    /// # Errors
    /// It exceeds the bound, or another value has changed.
    pub(crate) fn worst_error<T: Float>(&self, values: &[T], back: &[T]) -> Result<f64> {
        ensure!(values.len() == back.len(), "{} values became {}", values.len(), back.len());
        let mut worst = 0.0;
        for (number, (&value, &back)) in values.iter().zip(back).enumerate() {
            if self.is_exact(value) {
                ensure!(value.pattern() == back.pattern(), "element {number} is not exact");
            } else {
                let error = (value.into() - back.into()).abs();
                ensure!(error <= self.bound, "element {number}: an error of {error}, the bound is {}", self.bound);
                worst = error.max(worst);
            }
        }
        Ok(worst)
    }

    /// Replaces values that are kept exactly by the value before, for codecs that have no masks.
    fn without_fill<T: Float>(&self, values: &[T]) -> Vec<T> {
        let Some(&first) = values.iter().find(|&&value| !self.is_exact(value)) else { return values.to_vec() };
        let replace = |last: &mut T, &value: &T| {
            if !self.is_exact(value) {
                *last = value;
            }
            Some(*last)
        };
        values.iter().scan(first, replace).collect()
    }
}

/// Returns all rows as a table.
pub fn rows_table(rows: &[Row]) -> Table {
    let columns = ["field", "shape", "relative", "bound", "codec", "bytes", "ratio", "error_over_bound"];
    let mut table = Table::new("Ratios", "bytes of the array over bytes of the stream", &columns);
    for row in rows {
        table.line([
            row.field.as_str().into(),
            row.shape.as_str().into(),
            format!("{:e}", row.relative).into(),
            Cell::Number(row.bound, 9),
            row.codec.as_str().into(),
            Cell::Number(row.bytes as f64, 0),
            Cell::Number(row.ratio, 3),
            Cell::Number(row.error_over_bound, 4),
        ]);
    }
    table
}

/// Returns a table of ratios for each bound, and one that compares each codec with the best mode of SZ3.
pub fn tables(rows: &[Row], others: &[Other]) -> Vec<Table> {
    let codecs: Vec<&str> =
        VARIANTS.iter().map(|variant| variant.name).chain(others.iter().map(|other| other.name)).collect();
    let modes: Vec<&str> = others.iter().filter(|other| other.is_sz3).map(|other| other.name).collect();
    let cells: Vec<Cells> = rows.chunk_by(|a, b| a.field == b.field && a.relative == b.relative).map(Cells).collect();
    let mut bounds: Vec<f64> = cells.iter().map(|cells| cells.0[0].relative).collect();
    bounds.sort_by(|a, b| b.total_cmp(a));
    bounds.dedup();
    let note = "bytes of the array over bytes of the stream; other codecs have fill values replaced, without a mask";
    let mut tables: Vec<Table> = (bounds.iter())
        .map(|&bound| {
            let columns: Vec<&str> = std::iter::once("field").chain(codecs.iter().copied()).collect();
            let mut table = Table::new(&format!("Relative bound {bound:e}"), note, &columns);
            for cells in cells.iter().filter(|cells| cells.0[0].relative == bound) {
                let ratios = codecs.iter().map(|codec| Cell::number(cells.ratio(codec), 2));
                table.line(std::iter::once(cells.0[0].field.as_str().into()).chain(ratios));
            }
            table
        })
        .collect();
    if !modes.is_empty() {
        let note = "geometric mean over the fields; in how many cells the ratio is at least that of SZ3's best mode";
        let columns = ["relative bound", "codec", "x best SZ3", "at least", "of"];
        let mut table = Table::new("Ratio over that of the best mode of SZ3", note, &columns);
        for bound in bounds.iter().copied().map(Some).chain([None]) {
            for codec in &codecs {
                let of_bound = cells.iter().filter(|cells| bound.is_none_or(|bound| cells.0[0].relative == bound));
                let shares: Vec<f64> = of_bound.filter_map(|cells| cells.share(codec, &modes)).collect();
                let mean = (shares.iter().map(|share| share.ln()).sum::<f64>() / shares.len() as f64).exp();
                let wins = shares.iter().filter(|&&share| share >= 1.0).count();
                table.line([
                    bound.map_or("all".into(), |bound| format!("{bound:e}").into()),
                    (*codec).into(),
                    Cell::Number(mean, 3),
                    Cell::Number(wins as f64, 0),
                    Cell::Number(shares.len() as f64, 0),
                ]);
            }
        }
        tables.push(table);
    }
    tables
}

/// The rows of a field at one bound.
struct Cells<'r>(&'r [Row]);

impl Cells<'_> {
    fn ratio(&self, codec: &str) -> Option<f64> {
        self.0.iter().find(|row| row.codec == codec).map(|row| row.ratio)
    }

    /// Returns the ratio of a codec over the greatest of these modes.
    fn share(&self, codec: &str, modes: &[&str]) -> Option<f64> {
        let best = modes.iter().filter_map(|mode| self.ratio(mode)).reduce(f64::max)?;
        Some(self.ratio(codec)? / best)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Copies the bytes.
    struct Verbatim;

    impl ArrayCodec for Verbatim {
        fn compress_array(&mut self, _: ArrayType, bytes: &[u8], _: f64) -> Result<crate::rivals::Timed<Vec<u8>>> {
            crate::rivals::Timed::run(|| Ok(bytes.to_vec()))
        }

        fn decompress_array(&mut self, _: ArrayType, stream: &[u8]) -> Result<crate::rivals::Timed<Vec<u8>>> {
            crate::rivals::Timed::run(|| Ok(stream.to_vec()))
        }
    }

    #[test]
    fn cells_are_compared_with_the_best_mode() {
        let mut set = Set::generate("turbulence", Some(1)).unwrap();
        let Values::F32(values) = &mut set.values else { panic!("f32") };
        values[..3000].fill(-9999.0);
        let mut others = vec![Other { name: "verbatim", is_sz3: true, codec: Box::new(Verbatim) }];
        let mut rows = measure(&set, 1e-2, &mut others).unwrap();
        rows.extend(measure(&set, 1e-3, &mut others).unwrap());
        let codecs = VARIANTS.len() + 1;
        assert_eq!(rows.len(), 2 * codecs);
        assert!(rows.iter().all(|row| row.error_over_bound <= 1.0 && row.bound < 1.0), "the fill value is found");
        assert_eq!(rows[VARIANTS.len()].ratio, 1.0);
        let tables = tables(&rows, &others);
        assert_eq!(tables.len(), 3);
        let summary = &tables[2];
        assert_eq!(summary.lines.len(), 3 * codecs);
        let Cell::Number(mean, _) = summary.lines[2 * codecs + 2][2] else { panic!("{summary}") };
        let product = rows[2].ratio * rows[codecs + 2].ratio;
        assert!((mean - product.sqrt()).abs() < 1e-9, "balanced at both bounds");
        assert_eq!(rows_table(&rows).lines.len(), rows.len());
    }

    #[test]
    fn a_changed_value_is_found() {
        let meaning = Meaning { bound: 0.5, patterns: vec![u64::from((-1f32).to_bits())] };
        let values = [1f32, -1.0, f32::NAN, 4.0];
        assert_eq!(meaning.worst_error(&values, &[1.25, -1.0, f32::NAN, 3.5]).unwrap(), 0.5);
        assert!(meaning.worst_error(&values, &[1.0, -1.25, f32::NAN, 4.0]).is_err());
        assert!(meaning.worst_error(&values, &[1.0, -1.0, 0.0, 4.0]).is_err());
        assert!(meaning.worst_error(&values, &[1.0, -1.0, f32::NAN, 4.75]).is_err());
        assert!(meaning.worst_error(&values, &[1.0]).is_err());
        assert_eq!(meaning.without_fill(&values), [1.0, 1.0, 1.0, 4.0]);
    }
}
