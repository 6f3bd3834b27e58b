//! Mean structural similarity of 2-D slices.

use std::collections::VecDeque;

use rayon::prelude::*;
use syncline_core::array::Shape;

use super::sample::{Sample, samples};

/// Side of a window in elements.
const WINDOW: usize = 7;
/// Longest row that is compared, because seven rows are kept as f64.
const LONGEST_ROW: u64 = 1 << 20;
/// Elements that are collected before windows are evaluated: 20 MiB.
const BAND: usize = 1 << 20;
/// Elements that justify waking a thread.
const TASK: usize = 1 << 13;

/// Takes rows in order and averages the similarity of their windows.
#[derive(Debug)]
pub(super) struct Ssim {
    width: usize,
    height: u64,
    scale: Scale,
    /// Rows of the current slice that windows still need. The last one may be incomplete.
    rows: VecDeque<Row>,
    /// Number in its slice of the row after the complete ones.
    next_row: u64,
    sum: f64,
    windows: u64,
}

/// Maps the range to [-1/2, 1/2], so that variances neither vanish beside large means nor overflow.
#[derive(Clone, Copy, Debug)]
struct Scale {
    center: f64,
    extent: f64,
}

/// One row of both arrays, scaled.
#[derive(Debug)]
struct Row {
    x: Vec<f64>,
    y: Vec<f64>,
    excluded: Vec<u32>,
}

impl Ssim {
    /// Returns `None` if the metric is not defined: fewer than two axes of a window's side, or a range of 0.
    pub(super) fn new(shape: Shape, range: Option<(f64, f64)>) -> Option<Self> {
        let axes: Vec<u64> = shape.extents().iter().copied().filter(|&extent| extent != 1).collect();
        let &[.., height, width] = axes.as_slice() else { return None };
        let (low, high) = range?;
        let extent = high - low;
        if shape.is_empty()
            || width.min(height) < WINDOW as u64
            || width > LONGEST_ROW
            || extent <= 0.0
            || extent.is_infinite()
        {
            return None;
        }
        Some(Self {
            width: width as usize,
            height,
            scale: Scale { center: low + extent / 2.0, extent },
            rows: VecDeque::new(),
            next_row: 0,
            sum: 0.0,
            windows: 0,
        })
    }

    /// Adds the next elements.
    pub(super) fn push<T: Sample>(&mut self, mut original: &[u8], mut reconstructed: &[u8], fills: &[u64]) {
        while !original.is_empty() {
            let bytes = match self.rows.back_mut().filter(|row| row.x.len() < self.width) {
                Some(row) => {
                    let bytes = original.len().min((self.width - row.x.len()) * T::SIZE);
                    row.extend::<T>(&original[..bytes], &reconstructed[..bytes], fills, self.scale);
                    self.next_row += u64::from(row.x.len() == self.width);
                    bytes
                }
                None => {
                    let bytes = original.len().min(self.rows_to_gather() * self.width * T::SIZE);
                    self.gather::<T>(&original[..bytes], &reconstructed[..bytes], fills);
                    bytes
                }
            };
            (original, reconstructed) = (&original[bytes..], &reconstructed[bytes..]);
            if self.rows.back().is_some_and(|row| row.x.len() < self.width) {
                continue;
            }
            let slice_ends = self.next_row == self.height;
            if slice_ends || self.rows_to_gather() == 0 {
                self.evaluate();
            }
            if slice_ends {
                self.rows.clear();
                self.next_row = 0;
            }
        }
    }

    /// Returns the number of rows that are collected before windows are evaluated: to the end of the slice, or enough
    /// work for many threads.
    fn rows_to_gather(&self) -> usize {
        let enough = (BAND / self.width).max(2 * WINDOW).saturating_sub(self.rows.len());
        usize::try_from(self.height - self.next_row).map_or(enough, |left| left.min(enough))
    }

    /// Adds rows. All are complete, except perhaps the last one.
    fn gather<T: Sample>(&mut self, original: &[u8], reconstructed: &[u8], fills: &[u64]) {
        let (width, scale) = (self.width, self.scale);
        let rows: Vec<Row> = original
            .par_chunks(width * T::SIZE)
            .zip(reconstructed.par_chunks(width * T::SIZE))
            .with_min_len(TASK.div_ceil(width))
            .map(|(x, y)| {
                let mut row = Row::with_capacity(width);
                row.extend::<T>(x, y, fills, scale);
                row
            })
            .collect();
        self.next_row += (original.len() / (width * T::SIZE)) as u64;
        self.rows.extend(rows);
    }

    /// Evaluates every window of the collected rows, which are all complete, and keeps the rows that later windows
    /// need.
    fn evaluate(&mut self) {
        let Some(tops) = (self.rows.len() + 1).checked_sub(WINDOW) else { return };
        let rows = self.rows.make_contiguous();
        // Luminance needs the true means.
        let offset = self.scale.center / self.scale.extent;
        let parts: Vec<(f64, u64)> = (0..tops)
            .into_par_iter()
            .with_min_len(TASK.div_ceil(self.width))
            .map_init(Scratch::default, |scratch, top| scratch.window_row(&rows[top..top + WINDOW], offset))
            .collect();
        for (sum, windows) in parts {
            self.sum += sum;
            self.windows += windows;
        }
        self.rows.drain(..tops);
    }

    /// Returns the mean over all windows; `None` if every window has excluded elements.
    pub(super) fn mean(self) -> Option<f64> {
        (self.windows > 0).then(|| self.sum / self.windows as f64)
    }
}

impl Row {
    fn with_capacity(width: usize) -> Self {
        Self { x: Vec::with_capacity(width), y: Vec::with_capacity(width), excluded: Vec::with_capacity(width) }
    }

    fn extend<T: Sample>(&mut self, x: &[u8], y: &[u8], fills: &[u64], scale: Scale) {
        for (x, y) in samples::<T>(x).zip(samples::<T>(y)) {
            let excluded = x.is_special(fills) || !y.value().is_finite();
            self.x.push(if excluded { 0.0 } else { (x.value() - scale.center) / scale.extent });
            self.y.push(if excluded { 0.0 } else { (y.value() - scale.center) / scale.extent });
            self.excluded.push(excluded.into());
        }
    }
}

/// Sums over the rows of a window for every column, then over whole windows.
#[derive(Default)]
struct Scratch {
    columns: [Vec<f64>; 5],
    excluded: Vec<u32>,
    windows: [Vec<f64>; 5],
}

impl Scratch {
    /// Returns the sum of the similarities of the windows with these rows, and their number.
    fn window_row(&mut self, rows: &[Row], offset: f64) -> (f64, u64) {
        self.add_up(rows);
        for (windows, columns) in self.windows.iter_mut().zip(&self.columns) {
            windows.clear();
            windows.extend(columns.windows(WINDOW).map(|c| ((c[0] + c[1]) + (c[2] + c[3])) + ((c[4] + c[5]) + c[6])));
        }
        let [x, y, xx, yy, xy] = &self.windows;
        let mut sum = 0.0;
        let mut count = 0;
        for (start, excluded) in self.excluded.windows(WINDOW).enumerate() {
            if excluded.iter().sum::<u32>() == 0 {
                sum += similarity([x[start], y[start], xx[start], yy[start], xy[start]], offset);
                count += 1;
            }
        }
        (sum, count)
    }

    fn add_up(&mut self, rows: &[Row]) {
        let width = rows[0].x.len();
        for sums in &mut self.columns {
            sums.clear();
            sums.resize(width, 0.0);
        }
        self.excluded.clear();
        self.excluded.resize(width, 0);
        let [sum_x, sum_y, sum_xx, sum_yy, sum_xy] = &mut self.columns;
        for row in rows {
            add_products(sum_x, &row.x, &row.y, |x, _| x);
            add_products(sum_y, &row.x, &row.y, |_, y| y);
            add_products(sum_xx, &row.x, &row.y, |x, _| x * x);
            add_products(sum_yy, &row.x, &row.y, |_, y| y * y);
            add_products(sum_xy, &row.x, &row.y, |x, y| x * y);
            for (sum, &excluded) in self.excluded.iter_mut().zip(&row.excluded) {
                *sum += excluded;
            }
        }
    }
}

/// Adds a product of each pair to the sum of its column: one array at a time, so that the compiler vectorizes the loop.
fn add_products(sums: &mut [f64], x: &[f64], y: &[f64], product: impl Fn(f64, f64) -> f64) {
    for ((sum, &x), &y) in sums.iter_mut().zip(x).zip(y) {
        *sum += product(x, y);
    }
}

/// Returns the similarity of one window from its sums of x, y, x^2, y^2, and x*y, scaled to a range of 1. `offset` is
/// what the scaling subtracted from the values.
fn similarity([x, y, xx, yy, xy]: [f64; 5], offset: f64) -> f64 {
    const C1: f64 = 0.01 * 0.01;
    const C2: f64 = 0.03 * 0.03;
    const COUNT: f64 = (WINDOW * WINDOW) as f64;
    let (mean_x, mean_y) = (x / COUNT, y / COUNT);
    let sample = |sum: f64, product: f64| (sum - COUNT * product) / (COUNT - 1.0);
    let (var_x, var_y) = (sample(xx, mean_x * mean_x), sample(yy, mean_y * mean_y));
    let covariance = sample(xy, mean_x * mean_y);
    let (mean_x, mean_y) = (mean_x + offset, mean_y + offset);
    (2.0 * mean_x * mean_y + C1) * (2.0 * covariance + C2)
        / ((mean_x * mean_x + mean_y * mean_y + C1) * (var_x + var_y + C2))
}
