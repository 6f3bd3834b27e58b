//! The anchors of several tiles: integers on a lattice, which are coded as differences along all axes.

/// Replaces the integers of a lattice by their residuals.
pub(super) fn difference<const L: usize>(lattice: &mut [[i32; L]], extent: [usize; 3]) {
    for_rows(lattice, extent, |row, stride| {
        for i in (stride..row.len()).rev() {
            let before = row[i - stride];
            row[i].iter_mut().zip(before).for_each(|(v, before)| *v = v.wrapping_sub(before));
        }
    });
}

/// Reconstructs integers from any residuals, with sums that wrap; the inverse of [`difference`].
#[inline(always)]
pub(super) fn integrate<const L: usize>(lattice: &mut [[i32; L]], extent: [usize; 3]) {
    for_rows(lattice, extent, |row, stride| {
        for i in stride..row.len() {
            let before = row[i - stride];
            row[i].iter_mut().zip(before).for_each(|(v, before)| *v = v.wrapping_add(before));
        }
    });
}

/// Calls `each` for each axis with the parts of a lattice in which neighbors along the axis are `stride` apart and the
/// first `stride` positions have none before them.
#[inline(always)]
fn for_rows<V>(lattice: &mut [V], [nz, ny, nx]: [usize; 3], mut each: impl FnMut(&mut [V], usize)) {
    for (stride, count) in [(1, nx), (nx, ny), (ny * nx, nz)] {
        if count > 1 {
            lattice.chunks_exact_mut(stride * count).for_each(|row| each(row, stride));
        }
    }
}

/// Gives excluded integers of a lane the value that makes their residual 0.
pub(super) fn inpaint<const L: usize>(
    lattice: &mut [[i32; L]],
    lane: usize,
    [_, ny, nx]: [usize; 3],
    excluded: impl Fn(usize) -> bool,
) {
    let strides = [ny * nx, nx, 1];
    for number in (0..lattice.len()).filter(|&number| excluded(number)) {
        let position = [number / nx / ny, number / nx % ny, number % nx];
        let mut predicted = 0i32;
        // All corners of the box below the position but itself: an odd number of steps adds, an even number subtracts.
        for steps in 1..1usize << 3 {
            let axes = || (0..3).filter(move |&axis| steps >> axis & 1 == 1);
            if axes().any(|axis| position[axis] == 0) {
                continue;
            }
            let value = lattice[number - axes().map(|axis| strides[axis]).sum::<usize>()][lane];
            predicted =
                if steps.count_ones() % 2 == 1 { predicted.wrapping_add(value) } else { predicted.wrapping_sub(value) };
        }
        lattice[number][lane] = predicted;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::predict::orders;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn lanes_are_what_the_predictor_of_all_axes_makes(
            (z, y, x) in (1..6usize, 1..6usize, 1..6usize), seed in prop::collection::vec(any::<i32>(), 1..50),
        ) {
            const ALL_AXES: u8 = 7;
            let extent = [z, y, x];
            let integer = |i: usize, lane: usize| seed[(i + 7 * lane) % seed.len()].rotate_left(i as u32);
            let before: Vec<[i32; 4]> = (0..z * y * x).map(|i| std::array::from_fn(|lane| integer(i, lane))).collect();
            let mut lattice = before.clone();
            difference(&mut lattice, extent);
            for lane in 0..4 {
                let mut alone: Vec<i32> = before.iter().map(|lanes| lanes[lane]).collect();
                orders::difference(&mut alone, extent, ALL_AXES);
                prop_assert!(alone.iter().zip(&lattice).all(|(alone, lanes)| *alone == lanes[lane]));
            }
            integrate(&mut lattice, extent);
            prop_assert_eq!(lattice, before);
        }
    }
}
