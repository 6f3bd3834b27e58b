//! Where the lines of interpolated tiles of 8x8x8 are in shared memory, and their codes.

use syncline_core::predict::interpolate::{Plan, Point, Scheme};
use syncline_core::strips::STRIP_LEN;

/// Elements along each axis.
const SIDE: usize = 8;
/// Schemes that a stream can name.
const SCHEMES: usize = 8;

/// Where plane or row `i` of a tile is stored in shared memory, as digit `i` from the lowest.
pub const STORED: u64 = 0x2471_6350;
/// Elements of shared memory from row to row, and from plane to plane.
pub const ROW: usize = 9;
/// See [`ROW`].
pub const PLANE: usize = 72;
/// Codes from strip to strip in shared memory.
pub const STRIP_ROOM: usize = 144;

/// The first word of a line. Before them are the number of passes, with that of anchors in the upper half, and for each
/// pass its kind, its first line times 2^8, and its number of lines times 2^20.
pub const LINES_AT: usize = 16;
/// Words of the table of a scheme.
pub const TABLE_WORDS: usize = LINES_AT + 256;

/// Returns the constants for kernels that include `predict/cube_lines.cuh`.
pub fn constants() -> Vec<(&'static str, u64)> {
    let sizes = [("ROW", ROW), ("PLANE", PLANE), ("STRIP_ROOM", STRIP_ROOM), ("TABLE_WORDS", TABLE_WORDS)];
    let sizes = sizes.into_iter().chain([("LINES_AT", LINES_AT)]).map(|(name, value)| (name, value as u64));
    sizes.chain([("STORED", STORED)]).collect()
}

/// Returns the tables of all schemes, by their codes from 1 on. `None` if codes of a line do not follow each other,
/// which the kernel relies on.
pub fn tables() -> Option<Vec<u32>> {
    let mut all = Vec::new();
    for code in 1..=SCHEMES as u8 {
        let table = table(Scheme::from_code(code, 3)?)?;
        all.extend(table);
    }
    Some(all)
}

/// Returns where an element of a tile is in shared memory.
fn stored(place: usize) -> usize {
    let digit = |number: usize| (STORED >> (4 * number) & 15) as usize;
    let [z, y, x] = [place / (SIDE * SIDE), place / SIDE % SIDE, place % SIDE];
    digit(z) * PLANE + digit(y) * ROW + x
}

/// Returns where a code of a tile is in shared memory.
fn code_place(code: u16) -> usize {
    let code = usize::from(code);
    code / STRIP_LEN * STRIP_ROOM + code % STRIP_LEN
}

/// Returns the word of a line that starts at element `place` of the tile and whose first code is `code`.
fn word(place: usize, code: u16) -> u32 {
    (stored(place) | code_place(code) << 16) as u32
}

fn table(scheme: Scheme) -> Option<Vec<u32>> {
    let plan = Plan::<f32>::new(scheme, [SIDE; 3], 3);
    let mut lines: Vec<u32> =
        plan.anchors().iter().zip(plan.anchor_codes()).map(|(&place, &code)| word(place.into(), code)).collect();
    let anchors = lines.len();
    let mut passes: Vec<(u32, usize)> = Vec::new();
    let mut points = plan.points();
    for &length in plan.lines() {
        let (line, rest) = points.split_at(length.into());
        points = rest;
        let first = line.first()?;
        let follow = line.iter().zip(code_place(first.code)..).all(|(point, place)| code_place(point.code) == place);
        if !follow {
            return None;
        }
        let (kind, start) = start_of(first);
        if passes.last().is_none_or(|&(last, _)| last != kind) {
            passes.push((kind, lines.len()));
        }
        lines.push(word(start, first.code));
    }
    let mut table = vec![0; LINES_AT];
    table[0] = (passes.len() | anchors << 16) as u32;
    let ends = passes.iter().skip(1).map(|&(_, first)| first).chain([lines.len()]);
    for ((entry, &(kind, first)), end) in table[1..].iter_mut().zip(&passes).zip(ends) {
        // Lanes take lines in the order in which they are stored, which suits the banks.
        lines[first..end].sort_unstable_by_key(|line| line & 0xffff);
        *entry = kind | (first as u32) << 8 | ((end - first) as u32) << 20;
    }
    table.extend(lines);
    table.resize(TABLE_WORDS, 0);
    Some(table)
}

/// Returns the kind of a line with this first point, and the element with which it starts. The kind is three times the
/// axis, 0 for z, plus the level: 0 for a distance of 4 to the neighbors, 2 for 1.
fn start_of(point: &Point<f32>) -> (u32, usize) {
    let place = usize::from(point.place);
    // The distance in elements is a power of two, as are the strides.
    let distance = (place - usize::from(point.neighbors[1])).ilog2();
    let (axis, level) = (2 - distance / 3, 2 - distance % 3);
    let stride = 1 << (3 * (2 - axis));
    (3 * axis + level, place - place / stride % SIDE * stride)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_element_of_every_scheme_is_in_one_line() {
        for code in 1..=SCHEMES as u8 {
            let table = table(Scheme::from_code(code, 3).unwrap()).unwrap();
            let (passes, anchors) = (table[0] as usize & 0xffff, table[0] as usize >> 16);
            let points: u32 =
                table[1..=passes].iter().map(|pass| (pass >> 20) * [1, 2, 3][(pass & 255) as usize % 3]).sum();
            assert_eq!(anchors + points as usize, SIDE * SIDE * SIDE, "{code}");
        }
        assert_eq!(tables().unwrap().len(), SCHEMES * TABLE_WORDS);
    }
}
