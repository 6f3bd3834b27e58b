//! Arrays and options from the choices of a fuzzer.

use syncline::{Advanced, Bound, Coder, CompressOptions, Effort, ElementType, Fill, IndexKind, Shape, SymbolWidth};

use syncline_core::array::halves::{to_bf16, to_f16};

use crate::input::Input;

/// An array of up to [`MAX_ELEMENTS`] elements, with options that compress it.
pub struct Case {
    /// Type of the elements.
    pub element_type: ElementType,
    /// Shape of the array.
    pub shape: Shape,
    /// The elements, little-endian.
    pub bytes: Vec<u8>,
    /// The error bound in `options`.
    pub bound: Bound,
    /// How to compress the array.
    pub options: CompressOptions,
}

/// Elements of an array at most: several tiles, and short enough for thousands of arrays a second.
const MAX_ELEMENTS: usize = 1 << 12;

const TYPES: [ElementType; 16] = [
    ElementType::F32,
    ElementType::F64,
    ElementType::F32,
    ElementType::F64,
    ElementType::F32,
    ElementType::F64,
    ElementType::F16,
    ElementType::Bf16,
    ElementType::U8,
    ElementType::U16,
    ElementType::U32,
    ElementType::U64,
    ElementType::I8,
    ElementType::I16,
    ElementType::I32,
    ElementType::I64,
];

/// Bounds; integers have no point-wise relative ones.
const BOUNDS: [Bound; 10] = [
    Bound::Abs(1e-3),
    Bound::Abs(1.0),
    Bound::Abs(300.0),
    Bound::Abs(1e9),
    Bound::Rel(1e-3),
    Bound::Rel(0.1),
    Bound::Psnr(60.0),
    Bound::PwRel(1e-3),
    Bound::PwRel(0.5),
    Bound::Lossless,
];

/// Values that encoders treat specially.
const SPECIAL: [f64; 8] = [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, -0.0, 0.0, 1e-310, 3e38, -9999.0];

impl Case {
    /// Takes the type, the shape, the options and the elements from an input.
    pub fn take(input: &mut Input) -> Self {
        let element_type = input.choose(&TYPES);
        let shape = take_shape(input);
        let bound = match input.choose(&BOUNDS) {
            Bound::PwRel(_) if !element_type.is_float() => Bound::Rel(1e-6),
            bound => bound,
        };
        let index = input.choose(&[IndexKind::Symbol, IndexKind::Symbol, IndexKind::None]);
        let effort = input.choose(&Effort::ALL);
        let coder = input.choose(&Coder::ALL);
        let fill = input.choose(&[Fill::Auto, Fill::None]);
        let advanced = Advanced::default()
            .with_coder(coder)
            .with_index(index)
            .with_level(1 + input.byte() % 9)
            .with_symbol(input.choose(&[None, Some(SymbolWidth::One), Some(SymbolWidth::Four)]));
        let options = CompressOptions::new(bound)
            .with_threads(1)
            .with_fill(fill)
            .with_effort(effort)
            .with_advanced(advanced)
            .with_rewritable(input.byte().is_multiple_of(4));
        let bytes = take_elements(input, element_type, shape.len() as usize);
        Self { element_type, shape, bytes, bound, options }
    }
}

/// Takes up to seven extents whose product is at most [`MAX_ELEMENTS`].
fn take_shape(input: &mut Input) -> Shape {
    let rank = input.below(8);
    let mut left = MAX_ELEMENTS;
    let extents: Vec<u64> = (0..rank)
        .map(|_| {
            let limit = input.choose(&[4, 20, 70, 1100]).min(left);
            // An empty array is rare: it has nothing to damage.
            let extent = if input.byte() == 255 { 0 } else { 1 + input.below(limit) };
            left /= extent.max(1);
            extent as u64
        })
        .collect();
    Shape::new(&extents).expect("seven small extents are a shape")
}

/// Takes `count` elements: a smooth curve with noise and special values, or the input's own bytes repeated.
fn take_elements(input: &mut Input, element_type: ElementType, count: usize) -> Vec<u8> {
    let size = element_type.size();
    let (is_smooth, period, noise) = (!input.byte().is_multiple_of(3), 1 + input.below(500), input.byte());
    let is_special = input.byte() < 64;
    let source = if input.rest().is_empty() { &[0] } else { input.rest() };
    if !is_smooth {
        return source.iter().copied().cycle().take(count * size).collect();
    }
    let mut bytes = Vec::with_capacity(count * size);
    for (i, &byte) in (0..count).zip(source.iter().cycle()) {
        let wave = (i as f64 / period as f64).sin() * 50.0 + f64::from(byte) * f64::from(noise) * 1e-5;
        let value = if is_special && byte < 16 { SPECIAL[usize::from(byte) % SPECIAL.len()] } else { wave };
        match element_type {
            ElementType::F32 => bytes.extend((value as f32).to_le_bytes()),
            ElementType::F64 => bytes.extend(value.to_le_bytes()),
            ElementType::F16 => bytes.extend(to_f16(value as f32).to_le_bytes()),
            ElementType::Bf16 => bytes.extend(to_bf16(value as f32).to_le_bytes()),
            _ => bytes.extend(&((value * 100.0) as i64).to_le_bytes()[..size]),
        }
    }
    bytes
}
