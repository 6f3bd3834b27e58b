//! What each part of token codebooks and interpolation is worth: bytes of whole fields without it, from real streams.

use anyhow::{Context, Result, ensure};
use serde::Serialize;
use syncline::{Advanced, ArrayView, Backend, Bound, Coder, CompressOptions, DecompressOptions, Effort, TileSize};
use syncline_core::container::{Header, table_and_trailer};
use syncline_core::error::Result as CoreResult;
use syncline_core::geometry::{Geometry, Tile, Window};
use syncline_core::pipeline::{Allowed, CoderOptions, ElementSource, EncodeScratch, encode_chunk};
use syncline_core::predict::interpolate::Scheme;
use syncline_core::tokens::{self, Mode};

use crate::lossy::{Set, Values};
use crate::ratio::{Float, Meaning};
use crate::table::{Cell, Table};

/// A stream's size.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    /// Name of the field.
    pub field: String,
    /// Bound relative to the range of the values.
    pub relative: f64,
    /// Name of the variant.
    pub variant: &'static str,
    /// Bytes of the stream.
    pub bytes: usize,
    /// These bytes divided by those of the stream with everything.
    pub share: f64,
}

/// What the encoder may choose from.
struct Variant {
    name: &'static str,
    tile_size: TileSize,
    allowed: Allowed,
}

/// The variant that the others are compared with.
const EVERYTHING: &str = "everything";
/// Mode *wide* is for codes that *plain* has no symbol for.
const PLAIN: [Mode; 2] = [Mode::Plain, Mode::Wide];

/// Returns all variants, that with everything first.
fn variants() -> Vec<Variant> {
    let all = Allowed::ALL;
    let small = |name, allowed| Variant { name, tile_size: TileSize::Small, allowed };
    let of_tokens = |tokens| Allowed { tokens, ..all };
    let mut variants = vec![
        small(EVERYTHING, all),
        Variant { name: "large tiles", tile_size: TileSize::Large, allowed: all },
        small("A alone: no interpolation", Allowed { schemes: schemes(&[]), ..all }),
        small("B alone: mode plain, one codebook", of_tokens(tokens::Allowed { modes: modes(&PLAIN), classes: false })),
        small(
            "neither A nor B",
            Allowed { schemes: schemes(&[]), tokens: tokens::Allowed { modes: modes(&PLAIN), classes: false }, ..all },
        ),
        small("no Lorenzo prediction", Allowed { lorenzo: false, ..all }),
        small("one codebook", of_tokens(tokens::Allowed { classes: false, ..all.tokens })),
    ];
    let names = ["no linear", "no cubic", "no cubic in planes"];
    let only = ["linear only", "cubic only", "cubic in planes only"];
    for (scheme, (name, only)) in Scheme::ALL.into_iter().zip(names.into_iter().zip(only)) {
        let others: Vec<Scheme> = Scheme::ALL.into_iter().filter(|&other| other != scheme).collect();
        variants.push(small(name, Allowed { schemes: schemes(&others), ..all }));
        variants.push(small(only, Allowed { schemes: schemes(&[scheme]), ..all }));
    }
    let names = ["no plain", "no runs", "no wide"];
    for (mode, name) in Mode::ALL.into_iter().zip(names) {
        let others: Vec<Mode> = Mode::ALL.into_iter().filter(|&other| other != mode).collect();
        variants.push(small(name, of_tokens(tokens::Allowed { modes: modes(&others), ..all.tokens })));
    }
    variants
}

fn schemes(allowed: &[Scheme]) -> [bool; 3] {
    Scheme::ALL.map(|scheme| allowed.contains(&scheme))
}

fn modes(allowed: &[Mode]) -> [bool; 3] {
    Mode::ALL.map(|mode| allowed.contains(&mode))
}

/// Compresses a field with every variant at one relative bound, and checks every value of every stream.
///
/// # Errors
/// A bound is exceeded, or the variant with everything does not have the library's bytes.
pub fn measure(set: &Set, relative: f64) -> Result<Vec<Row>> {
    match &set.values {
        Values::F32(values) => measure_values(set, values, relative),
        Values::F64(values) => measure_values(set, values, relative),
    }
}

fn measure_values<T: Float>(set: &Set, values: &[T], relative: f64) -> Result<Vec<Row>> {
    let view = ArrayView::new(values, &set.extents)?;
    let by_library = |tile_size| -> Result<Vec<u8>> {
        let options = CompressOptions::new(Bound::Rel(relative)).with_effort(Effort::Balanced).with_threads(1);
        let options = options
            .with_backend(Backend::Cpu)
            .with_advanced(Advanced::default().with_coder(Coder::Huffman).with_tile(Some(tile_size)));
        Ok(syncline::compress(&view, &options)?)
    };
    let (small, large) = (by_library(TileSize::Small)?, by_library(TileSize::Large)?);
    let mut rows: Vec<Row> = Vec::new();
    for Variant { name, tile_size, allowed } in variants() {
        let made = if tile_size == TileSize::Small { &small } else { &large };
        let stream = compress(&crate::lossy::header_of(made)?, bytemuck::cast_slice(values), allowed)?;
        ensure!(allowed != Allowed::ALL || stream == *made, "{name} of {}: not the library's bytes", set.name);
        let back = syncline::decompress(&stream, &DecompressOptions::default().with_threads(1))?.to_vec::<T>()?;
        Meaning::of(&stream)?.worst_error(values, &back).with_context(|| format!("{name} of {}", set.name))?;
        let everything = rows.first().map_or(stream.len(), |row| row.bytes);
        let share = stream.len() as f64 / everything as f64;
        rows.push(Row { field: set.name.clone(), relative, variant: name, bytes: stream.len(), share });
    }
    Ok(rows)
}

/// An array in memory.
struct Whole<'a>(&'a [u8]);

impl ElementSource for Whole<'_> {
    fn window<'s>(&'s self, geometry: &Geometry, _: &[Tile], _: &'s mut Vec<u8>) -> CoreResult<Window<'s>> {
        Ok(Window::raster(self.0, 0, geometry))
    }
}

/// Returns the stream with this header of an array, whose chunks have only what is allowed.
fn compress(header: &Header, bytes: &[u8], allowed: Allowed) -> Result<Vec<u8>> {
    let options = CoderOptions { effort: Effort::Balanced, allowed, ..CoderOptions::default() };
    let geometry = header.geometry()?;
    let mut scratch = EncodeScratch::default();
    let (mut out, mut lengths) = (header.to_bytes().to_vec(), Vec::new());
    for chunk in 0..geometry.chunks() {
        let start = out.len();
        encode_chunk(header, &geometry, chunk, &Whole(bytes), &options, &mut scratch, &mut out)?;
        lengths.push((out.len() - start) as u32);
    }
    out.extend(table_and_trailer(header, &lengths));
    Ok(out)
}

/// Returns all rows as a table.
pub fn rows_table(rows: &[Row]) -> Table {
    let columns = ["field", "relative", "variant", "bytes", "share"];
    let mut table = Table::new("Ablation", "bytes of the stream, also over those with everything", &columns);
    for row in rows {
        let relative = format!("{:e}", row.relative);
        let bytes = Cell::Number(row.bytes as f64, 0);
        table.line([row.field.as_str().into(), relative.into(), row.variant.into(), bytes, Cell::Number(row.share, 5)]);
    }
    table
}

/// Returns a table of means over the fields for each variant and bound.
pub fn summary(rows: &[Row]) -> Table {
    let mut bounds: Vec<f64> = rows.iter().map(|row| row.relative).collect();
    bounds.sort_by(|a, b| b.total_cmp(a));
    bounds.dedup();
    let texts: Vec<String> = bounds.iter().map(|bound| format!("{bound:e}")).collect();
    let columns: Vec<&str> = (std::iter::once("variant").chain(texts.iter().map(String::as_str)))
        .chain(["all", "most", "field of the most", "its bound"])
        .collect();
    let note = "bytes over those with everything: geometric means over the fields, and the most of any field";
    let mut table = Table::new("What parts are worth", note, &columns);
    for Variant { name, .. } in variants() {
        let of_variant: Vec<&Row> = rows.iter().filter(|row| row.variant == name).collect();
        let means = bounds.iter().copied().map(Some).chain([None]).map(|bound| {
            let of_bound = of_variant.iter().filter(|row| bound.is_none_or(|bound| row.relative == bound));
            Cell::Number(geometric_mean(of_bound.map(|row| row.share)), 4)
        });
        let Some(most) = of_variant.iter().max_by(|a, b| a.share.total_cmp(&b.share)) else { continue };
        let most = [Cell::Number(most.share, 4), most.field.as_str().into(), format!("{:e}", most.relative).into()];
        table.line(std::iter::once(name.into()).chain(means).chain(most));
    }
    table
}

fn geometric_mean(values: impl Iterator<Item = f64>) -> f64 {
    let logarithms: Vec<f64> = values.map(f64::ln).collect();
    (logarithms.iter().sum::<f64>() / logarithms.len() as f64).exp()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_that_are_left_out_are_missed() {
        let set = Set::generate("rtm", Some(1)).unwrap();
        let mut rows = measure(&set, 1e-2).unwrap();
        rows.extend(measure(&set, 1e-3).unwrap());
        let share = |variant| rows.iter().find(|row| row.variant == variant).unwrap().share;
        assert_eq!(share(EVERYTHING), 1.0);
        for part in ["A alone: no interpolation", "B alone: mode plain, one codebook", "no cubic", "no runs"] {
            assert!(share(part) > 1.05, "{part}: {}", share(part));
        }
        assert!(share("no Lorenzo prediction") > 1.0);
        assert!(share("neither A nor B") > share("A alone: no interpolation"));
        // Zeros in interpolated tiles are verbatim where they would change, which Lorenzo prediction avoids.
        assert!(rows.iter().all(|row| row.share < 2.0 || row.variant == "no Lorenzo prediction"));
        let table = summary(&rows);
        assert_eq!(table.lines.len() * 2, rows.len());
        assert_eq!(rows_table(&rows).lines.len(), rows.len());
        let Cell::Number(mean, _) = table.lines[0][3] else { panic!("{table}") };
        assert_eq!(mean, 1.0);
    }
}
