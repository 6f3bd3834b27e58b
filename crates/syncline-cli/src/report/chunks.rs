//! The ratio of each chunk, as a map.

use colorous::VIRIDIS;
use maud::{Markup, html};

use super::image::{color, color_bar};
use crate::format::number;

/// The most cells of the map; more chunks share cells.
const CELLS: usize = 2048;
/// The side of a cell.
const SIDE: usize = 14;

/// The ratio of consecutive chunks.
#[derive(Debug, PartialEq)]
pub struct Cell {
    first: usize,
    last: usize,
    ratio: f64,
}

/// Returns the cells of chunks with these numbers of elements and bytes.
pub fn cells(chunks: &[(u64, u64)], element_bytes: u64) -> Vec<Cell> {
    let each = chunks.len().div_ceil(CELLS).max(1);
    let cell = |(number, group): (usize, &[(u64, u64)])| {
        let (elements, bytes) = group.iter().fold((0, 0), |sum, chunk| (sum.0 + chunk.0, sum.1 + chunk.1));
        let ratio = (elements * element_bytes) as f64 / bytes.max(1) as f64;
        Cell { first: number * each, last: number * each + group.len() - 1, ratio }
    };
    chunks.chunks(each).enumerate().map(cell).collect()
}

/// Returns the map with its color bar; nothing without chunks.
pub fn map(cells: &[Cell]) -> Result<Markup, png::EncodingError> {
    let ratios = || cells.iter().map(|cell| cell.ratio);
    let (low, high) = (ratios().fold(f64::INFINITY, f64::min), ratios().fold(0.0, f64::max));
    let columns = ((cells.len() as f64 * 2.0).sqrt().ceil() as usize).max(1);
    let (width, height) = (columns * SIDE, cells.len().div_ceil(columns) * SIDE);
    let bar = color_bar(VIRIDIS)?;
    Ok(html! {
        @if !cells.is_empty() {
            svg class="map" viewBox=(format!("0 0 {width} {height}")) width=(width) height=(height)
                role="img" aria-label="Ratio of each chunk" {
                @for (i, cell) in cells.iter().enumerate() {
                    rect x=(i % columns * SIDE) y=(i / columns * SIDE) width=(SIDE - 1) height=(SIDE - 1)
                        fill=(color(cell.ratio, VIRIDIS, low, high)) {
                        title { (named(cell)) }
                    }
                }
            }
            figure class="bar" {
                img src=(bar) alt="Colors from the lowest to the highest ratio";
                figcaption { span { (number(low)) } span { "ratio" } span { (number(high)) } }
            }
        }
    })
}

fn named(cell: &Cell) -> String {
    let ratio = number(cell.ratio);
    match cell.first == cell.last {
        true => format!("chunk {}: ratio {ratio}", cell.first),
        false => format!("chunks {} to {}: ratio {ratio}", cell.first, cell.last),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_chunks_share_cells() {
        assert_eq!(cells(&[(10, 5), (10, 20)], 4)[1], Cell { first: 1, last: 1, ratio: 2.0 });
        let many = cells(&vec![(10, 10); 3 * CELLS + 1], 2);
        assert!(many.len() <= CELLS && many.iter().all(|cell| cell.ratio == 2.0));
        assert_eq!(many.last().unwrap().last, 3 * CELLS);
        assert!(map(&many).unwrap().into_string().contains("chunks 0 to 3: ratio 2"));
        assert_eq!(map(&[]).unwrap().into_string(), "");
    }
}
