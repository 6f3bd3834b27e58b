//! Tables of schemes for whole tiles that are interpolated point by point: where elements and codes are, and from which
//! neighbors points are predicted.

use syncline_core::geometry::{MAX_TILE_ELEMENTS, TileSize};
use syncline_core::predict::interpolate::{PassShape, Plan, Point, Scheme};
use syncline_core::quantize::Real;
use syncline_core::strips::STRIP_LEN;

/// Codes from strip to strip in shared memory: strips of 8 and of 32 are in banks of their own.
pub const STRIP_ROOM: usize = 136;
/// Passes that a table has room for: along one axis at ten distances, or along two at five.
const MOST_PASSES: usize = 10;
/// Anchors and lines of passes that a table has room for.
const MOST_LINES: usize = 256;
/// Words of a pass (`PointPass` of kernels).
const PASS_WORDS: usize = 8;
/// Classes of points of a pass: the first one, those between, and the last two.
const CLASSES: usize = 4;
/// The first words are the numbers of passes and of anchors; then come the passes.
pub const PASSES_AT: usize = 4;
/// The word of the first class.
pub const CLASSES_AT: usize = PASSES_AT + MOST_PASSES * PASS_WORDS;

/// Where the parts of the table of a scheme begin, in words.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Layout {
    /// The places of the anchors, then where the lines of each pass have position 0.
    pub lines_at: usize,
    /// The places of the codes of the anchors and of all points, in their order.
    pub codes_at: usize,
    /// Words of a table.
    pub words: usize,
}

impl Layout {
    /// Returns the layout for tiles of elements of `element_bytes` bytes.
    pub fn new(element_bytes: usize) -> Self {
        let lines_at = CLASSES_AT + MOST_PASSES * CLASSES * class_words(element_bytes);
        // The places of anchors, of lines, and of codes take half a word each.
        let codes_at = lines_at + MOST_LINES / 2;
        Self { lines_at, codes_at, words: codes_at + MAX_TILE_ELEMENTS / 2 }
    }
}

/// Returns the words of a class: four weights and four neighbors.
fn class_words(element_bytes: usize) -> usize {
    element_bytes + 4
}

/// Returns the tables of all schemes of small tiles that extend along `axes` axes, by their codes from 1 on; those of
/// codes that no scheme has are empty. `None` if a plan has a form that the tables have not.
pub fn tables<T: Real>(axes: usize) -> Option<Vec<u32>> {
    let layout = Layout::new(size_of::<T>());
    let extent = TileSize::Small.extent(axes, [u64::MAX; 3]);
    let mut all = Vec::new();
    for code in 1..=8 {
        let start = all.len();
        if let Some(scheme) = Scheme::from_code(code, axes) {
            all.extend(table(&Plan::<T>::new(scheme, extent, axes), layout)?);
        }
        all.resize(start + layout.words, 0);
    }
    Some(all)
}

fn table<T: Real>(plan: &Plan<T>, layout: Layout) -> Option<Vec<u32>> {
    let mut lines: Vec<u16> = plan.anchors().to_vec();
    let mut codes: Vec<u16> = plan.anchor_codes().iter().copied().map(code_place).collect();
    let mut table = vec![0; layout.lines_at];
    table[..2].copy_from_slice(&[plan.passes().len() as u32, lines.len() as u32]);
    let mut points = plan.points();
    for (number, shape) in plan.passes().iter().enumerate() {
        let (own, rest) = points.split_at(shape.lines * shape.points);
        points = rest;
        let pass = pass_words(shape, own, [lines.len(), codes.len(), number * CLASSES])?;
        let at = PASSES_AT + number * PASS_WORDS;
        table.get_mut(at..at + PASS_WORDS).filter(|_| number < MOST_PASSES)?.copy_from_slice(&pass);
        for class in 0..CLASSES {
            let at = CLASSES_AT + (number * CLASSES + class) * class_words(size_of::<T>());
            let words = class_of(&own[..shape.points], class);
            table[at..at + words.len()].copy_from_slice(&words);
        }
        let first = |line: &[Point<T>]| line[0].place - (pass[6] as u16);
        lines.extend(own.chunks(shape.points).map(first));
        codes.extend(own.iter().map(|point| code_place(point.code)));
    }
    lines.resize((layout.codes_at - layout.lines_at) * 2, 0);
    if lines.len() != (layout.codes_at - layout.lines_at) * 2 || codes.len() * 2 != (layout.words - layout.codes_at) * 4
    {
        return None;
    }
    let halves = lines.chunks(2).chain(codes.chunks(2));
    table.extend(halves.map(|pair| u32::from(pair[0]) | u32::from(pair[1]) << 16));
    Some(table)
}

/// Returns where a code of a tile is in shared memory.
fn code_place(code: u16) -> u16 {
    let code = usize::from(code);
    (code / STRIP_LEN * STRIP_ROOM + code % STRIP_LEN) as u16
}

/// Returns the words of a pass. `firsts` are the numbers of its first line, of its first code, and of its first class.
fn pass_words<T: Real>(shape: &PassShape, points: &[Point<T>], firsts: [usize; 3]) -> Option<[u32; PASS_WORDS]> {
    let place = |number: usize| points.get(number).map(|point| u32::from(point.place));
    let first = place(0)?;
    // The distance of a point to its neighbors; points are twice as far from each other.
    let distance = first - u32::from(points[0].neighbors[1]);
    let spacing = 2 * distance;
    let is_regular = points.chunks(shape.points).all(|line| {
        let start = u32::from(line[0].place);
        (0..).zip(line).all(|(number, point)| u32::from(point.place) == start + number * spacing)
    });
    // Divides numbers of points by those of a line: the upper 33 bits of the product.
    let by_points = (1u32 << 31).div_ceil(shape.points as u32);
    let has_classes = points.chunks(shape.points).all(|line| {
        let classes = [0, 1, 2, 3].map(|class| class_of(&points[..shape.points], class));
        (0..line.len()).all(|number| classes[class_number(number, line.len())] == words_of(&line[number]))
    });
    let [first_line, first_code, first_class] = firsts.map(|first| first as u32);
    let (lines, in_line) = (shape.lines as u32, shape.points as u32);
    let pass = [lines, in_line, by_points, first_line, first_code, spacing, distance, first_class];
    (is_regular && has_classes).then_some(pass)
}

/// Returns the words of a class of the points of a line: 0 is the first point, 1 those between, 2 and 3 the last two.
fn class_of<T: Real>(line: &[Point<T>], class: usize) -> Vec<u32> {
    let number = match class {
        0 => 0,
        1 => 1,
        _ => (line.len() + class).wrapping_sub(CLASSES),
    };
    line.get(number).map_or_else(Vec::new, words_of)
}

/// Returns the class of a point of a line of this length, as the kernel does.
fn class_number(number: usize, length: usize) -> usize {
    match length - number {
        1 => 3,
        2 => 2,
        _ => number.min(1),
    }
}

/// Returns the weights of a point, and the places of its neighbors relative to it.
fn words_of<T: Real>(point: &Point<T>) -> Vec<u32> {
    let relative = |&neighbor: &u16| (i32::from(neighbor) - i32::from(point.place)) as u32;
    let bits = point.weights.iter().flat_map(|weight| {
        let bits = weight.bits();
        [bits as u32, (bits >> 32) as u32].into_iter().take(size_of::<T>() / 4)
    });
    bits.chain(point.neighbors.iter().map(relative)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_scheme_has_a_table() {
        for (axes, schemes) in [(1, 4), (2, 8)] {
            let layout = Layout::new(4);
            let tables = tables::<f32>(axes).unwrap();
            assert_eq!(tables.chunks(layout.words).filter(|table| table[0] > 0).count(), schemes);
            assert!(super::tables::<f64>(axes).is_some());
        }
    }
}
