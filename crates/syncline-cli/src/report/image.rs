//! Pictures of slices, as data of a page.

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use colorous::Gradient;

/// The number of colors; one more index is transparent.
const COLORS: usize = 255;
/// The largest side of a picture.
const SIDE: usize = 320;

/// How several elements become one point.
#[derive(Clone, Copy, PartialEq)]
pub enum Pooling {
    /// The first of them.
    First,
    /// The one of the largest magnitude, so that no error is lost.
    Largest,
}

/// Returns the picture of a slice as the address of an image. Values from `low` to `high` have the colors of the
/// gradient; NaN is transparent.
pub fn address(
    values: &[f64],
    width: usize,
    gradient: Gradient,
    (low, high): (f64, f64),
    pooling: Pooling,
) -> Result<String, png::EncodingError> {
    let height = values.len() / width.max(1);
    let step = width.max(height).div_ceil(SIDE).max(1);
    let (columns, rows) = (width.div_ceil(step), height.div_ceil(step));
    let mut points = Vec::with_capacity(columns * rows);
    for y in 0..rows {
        for x in 0..columns {
            let block = (y * step..((y + 1) * step).min(height))
                .flat_map(|row| &values[row * width + x * step..row * width + ((x + 1) * step).min(width)]);
            let value = match pooling {
                Pooling::First => block.copied().next(),
                Pooling::Largest => {
                    block.copied().filter(|value| !value.is_nan()).max_by(|a, b| a.abs().total_cmp(&b.abs()))
                }
            };
            points.push(index_of(value.unwrap_or(f64::NAN), low, high));
        }
    }
    encoded(&points, columns, rows, gradient)
}

/// Returns a bar with all colors of a gradient, from the lowest to the highest value.
pub fn color_bar(gradient: Gradient) -> Result<String, png::EncodingError> {
    let points: Vec<u8> = (0..COLORS as u8).collect();
    encoded(&points, COLORS, 1, gradient)
}

/// Returns the color of a value as CSS writes it.
pub fn color(value: f64, gradient: Gradient, low: f64, high: f64) -> String {
    let share = if high > low { (value - low) / (high - low) } else { 0.5 };
    format!("#{:x}", gradient.eval_continuous(share.clamp(0.0, 1.0)))
}

fn index_of(value: f64, low: f64, high: f64) -> u8 {
    if value.is_nan() {
        return COLORS as u8;
    }
    let share = if high > low { (value - low) / (high - low) } else { 0.5 };
    (share * (COLORS - 1) as f64).round().clamp(0.0, (COLORS - 1) as f64) as u8
}

fn encoded(points: &[u8], width: usize, height: usize, gradient: Gradient) -> Result<String, png::EncodingError> {
    let mut bytes = Vec::new();
    let mut encoder = png::Encoder::new(&mut bytes, width as u32, height as u32);
    encoder.set_color(png::ColorType::Indexed);
    let colors = (0..COLORS).flat_map(|i| gradient.eval_rational(i, COLORS).into_array());
    encoder.set_palette(colors.chain([128; 3]).collect::<Vec<u8>>());
    let mut opacity = vec![255; COLORS];
    opacity.push(0);
    encoder.set_trns(opacity);
    let mut writer = encoder.write_header()?;
    writer.write_image_data(points)?;
    writer.finish()?;
    Ok(format!("data:image/png;base64,{}", BASE64_STANDARD.encode(bytes)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pictures_have_the_colors_of_their_values() {
        assert_eq!((index_of(0.0, 0.0, 1.0), index_of(1.0, 0.0, 1.0), index_of(f64::NAN, 0.0, 1.0)), (0, 254, 255));
        assert_eq!((index_of(5.0, 5.0, 5.0), index_of(9.0, 0.0, 1.0)), (127, 254));
        let picture = address(&[0.0; 1000 * 700], 1000, colorous::VIRIDIS, (0.0, 1.0), Pooling::First).unwrap();
        let bytes = BASE64_STANDARD.decode(picture.strip_prefix("data:image/png;base64,").unwrap()).unwrap();
        let info = png::Decoder::new(std::io::Cursor::new(bytes)).read_info().unwrap().info().size();
        assert_eq!(info, (250, 175));
        assert_eq!(color(0.0, colorous::GREYS, 0.0, 1.0), "#ffffff");
    }
}
