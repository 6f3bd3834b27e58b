//! Charts, as SVG. Their texts and lines have the colors of the page.

use std::error::Error;
use std::ops::Range;

use plotters::prelude::*;

/// Stands for the color of text, which the style of the page replaces.
const INK: RGBColor = RGBColor(1, 1, 1);
/// Stands for the color of the grid.
const GRID: RGBColor = RGBColor(2, 2, 2);
/// Colors of lines, legible on light and on dark.
const COLORS: [RGBColor; 4] =
    [RGBColor(46, 134, 222), RGBColor(230, 126, 34), RGBColor(39, 174, 96), RGBColor(192, 57, 143)];
const SIZE: (u32, u32) = (560, 320);

/// A line of a chart, or points.
pub struct Series {
    /// The name in the legend.
    pub name: String,
    /// The points, in order.
    pub points: Vec<(f64, f64)>,
    /// Whether points are marked instead of connected.
    pub marks: bool,
}

impl Series {
    /// Returns a line.
    pub fn line(name: impl Into<String>, points: Vec<(f64, f64)>) -> Self {
        Self { name: name.into(), points, marks: false }
    }

    /// Returns marked points.
    pub fn marks(name: impl Into<String>, points: Vec<(f64, f64)>) -> Self {
        Self { name: name.into(), points, marks: true }
    }
}

/// Returns a chart of lines. `y` is its vertical range, if that does not follow from the points.
pub fn lines(x_name: &str, y_name: &str, y: Option<Range<f64>>, series: &[Series]) -> Result<String, Box<dyn Error>> {
    let all = || series.iter().flat_map(|series| &series.points);
    let x_range = extent(all().map(|point| point.0));
    let y_range = y.unwrap_or_else(|| extent(all().map(|point| point.1)));
    let mut svg = String::new();
    {
        let area = SVGBackend::with_string(&mut svg, SIZE).into_drawing_area();
        let mut chart = ChartBuilder::on(&area)
            .margin(12)
            .x_label_area_size(44)
            .y_label_area_size(64)
            .build_cartesian_2d(x_range, y_range)?;
        let text = ("sans-serif", 13).into_font().color(&INK);
        chart
            .configure_mesh()
            .axis_style(INK)
            .bold_line_style(GRID)
            .light_line_style(TRANSPARENT)
            .label_style(text.clone())
            .axis_desc_style(text.clone())
            .x_desc(x_name)
            .y_desc(y_name)
            .draw()?;
        for (series, color) in series.iter().zip(COLORS) {
            let points = series.points.iter().copied();
            let drawn = match series.marks {
                true => chart.draw_series(points.map(|point| Circle::new(point, 5, color.filled())))?,
                false => chart.draw_series(LineSeries::new(points, color.stroke_width(2)))?,
            };
            drawn
                .label(&series.name)
                .legend(move |(x, y)| Rectangle::new([(x, y - 4), (x + 14, y + 4)], color.filled()));
        }
        if series.len() > 1 {
            chart.configure_series_labels().label_font(text).border_style(TRANSPARENT).draw()?;
        }
        area.present()?;
    }
    Ok(svg)
}

/// Returns a chart of counts in bins of equal width between two values.
pub fn bars(x_name: &str, counts: &[u64], range: Range<f64>) -> Result<String, Box<dyn Error>> {
    let highest = counts.iter().copied().max().unwrap_or(0).max(1) as f64;
    let width = (range.end - range.start) / counts.len().max(1) as f64;
    let start = range.start;
    let mut svg = String::new();
    {
        let area = SVGBackend::with_string(&mut svg, SIZE).into_drawing_area();
        let mut chart = ChartBuilder::on(&area)
            .margin(12)
            .x_label_area_size(44)
            .y_label_area_size(64)
            .build_cartesian_2d(range, 0.0..highest * 1.05)?;
        let text = ("sans-serif", 13).into_font().color(&INK);
        chart
            .configure_mesh()
            .axis_style(INK)
            .bold_line_style(GRID)
            .light_line_style(TRANSPARENT)
            .label_style(text.clone())
            .axis_desc_style(text)
            .x_desc(x_name)
            .y_desc("elements")
            .x_labels(5)
            .x_label_formatter(&|x| crate::format::number(*x))
            .y_label_formatter(&|y| crate::format::grouped(*y as u64))
            .draw()?;
        let bar = |(i, &count): (usize, &u64)| {
            let x = start + i as f64 * width;
            Rectangle::new([(x, 0.0), (x + width, count as f64)], COLORS[0].filled())
        };
        chart.draw_series(counts.iter().enumerate().filter(|(_, count)| **count > 0).map(bar))?;
        area.present()?;
    }
    Ok(svg)
}

/// Returns a range that contains all finite values, with some room.
fn extent(values: impl Iterator<Item = f64>) -> Range<f64> {
    let (low, high) = values
        .filter(|value| value.is_finite())
        .fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), value| (low.min(value), high.max(value)));
    match high - low {
        span if span > 0.0 => low - 0.03 * span..high + 0.03 * span,
        _ if low.is_finite() => low - 1.0..low + 1.0,
        _ => 0.0..1.0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn charts_are_drawn_without_points_too() {
        let chart = lines("x", "y", None, &[Series::line("none", vec![]), Series::marks("one", vec![(1.0, 2.0)])]);
        assert!(chart.unwrap().contains("one"));
        assert!(bars("error", &[0; 5], -1.0..1.0).unwrap().starts_with("<svg"));
        assert!(bars("error", &[1, 10, 100], -1.0..1.0).unwrap().matches("<rect").count() >= 3);
    }
}
