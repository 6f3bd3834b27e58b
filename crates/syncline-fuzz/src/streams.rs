//! Targets for whole streams.

use syncline::{ArrayView, Bound, DecompressOptions, ElementType, compress, decompress, decompress_region, inspect};
use syncline_core::array::halves::{of_bf16, of_f16};

use crate::arrays::Case;
use crate::checksums::repair_checksums;
use crate::input::{Input, Rng, generate_bytes};

/// Bytes that decompression may allocate: a damaged header can declare a larger array than the stream holds.
const MEMORY_LIMIT: u64 = 64 << 20;

/// Decompresses arbitrary bytes: an array or an error, and no panic.
pub fn decompress_bytes(bytes: &[u8]) {
    let _ = inspect(bytes);
    let _ = decompress(bytes, &decode_options());
}

/// Compresses an array, damages the stream, recomputes its checksums, and decompresses it. If that succeeds, a region
/// must have the same elements.
pub fn damaged_stream(bytes: &[u8]) {
    let mut input = Input::new(bytes);
    let damages: Vec<_> = (0..1 + input.below(4)).map(|_| (input.number(), input.byte(), input.byte())).collect();
    let at_region = [input.number(), input.number()];
    let mut stream = compress_case(&Case::take(&mut input));
    for (at, kind, value) in damages {
        damage(&mut stream, at as usize, kind, value);
    }
    repair_checksums(&mut stream);

    let _ = inspect(&stream);
    let Ok(whole) = decompress(&stream, &decode_options()) else { return };
    // A range of the slowest axis: its elements are contiguous.
    let shape = whole.shape();
    let extents = shape.extents();
    let Some((&slowest, faster)) = extents.split_first() else { return };
    let [start, length] = at_region.map(u64::from);
    let start = start % (slowest + 1);
    let end = start + length % (slowest - start + 1);
    let region: Vec<_> = std::iter::once(start..end).chain(faster.iter().map(|&extent| 0..extent)).collect();
    let part = decompress_region(&stream, &region, &decode_options()).expect("a region of a stream that decompresses");
    let plane = faster.iter().product::<u64>() as usize * whole.element_type().size();
    let expected = &whole.bytes()[start as usize * plane..end as usize * plane];
    assert!(part.bytes() == expected, "the region {start}..{end} has other elements");
}

/// Compresses an array and decompresses it: every element holds the bound.
pub fn round_trip(bytes: &[u8]) {
    let case = Case::take(&mut Input::new(bytes));
    let stream = compress_case(&case);
    assert!(stream.len() as u64 <= syncline::compress_bound(case.element_type, case.shape));
    let array = decompress(&stream, &decode_options()).expect("an undamaged stream decompresses");
    assert_eq!((array.element_type(), array.shape()), (case.element_type, case.shape));
    if case.bound == Bound::Lossless {
        assert!(array.bytes() == case.bytes, "a lossless stream returns other elements");
        return;
    }
    let resolved = inspect(&stream).expect("an undamaged stream can be inspected").abs_bound;
    let size = case.element_type.size();
    let pairs = case.bytes.chunks_exact(size).zip(array.bytes().chunks_exact(size));
    for (number, (before, after)) in pairs.enumerate() {
        let holds = match [before, after].map(|element| Value::of(element, case.element_type)) {
            // NaN and infinities keep their bits.
            [Value::Float(x), _] if !x.is_finite() || (x == 0.0 && x.is_sign_negative()) => before == after,
            [Value::Float(x), Value::Float(y)] => {
                let error = (x - y).abs();
                match case.bound {
                    Bound::PwRel(relative) => error <= relative * x.abs() && (x < 0.0) == (y < 0.0),
                    Bound::Abs(absolute) => error <= absolute,
                    _ => error <= resolved,
                }
            }
            [Value::Integer(x), Value::Integer(y)] => {
                let allowed = if let Bound::Abs(absolute) = case.bound { absolute } else { resolved };
                (x - y).unsigned_abs() as f64 <= allowed
            }
            _ => unreachable!("both are of one type"),
        };
        assert!(holds, "element {number}: {before:?} became {after:?}, bound {:?} ({resolved:e})", case.bound);
    }
}

/// Generates a valid stream with damage that checksums detect, or one that is cut off.
pub fn generate_damaged(rng: &mut Rng) -> Vec<u8> {
    let bytes = generate_bytes(rng);
    let mut stream = compress_case(&Case::take(&mut Input::new(&bytes)));
    for _ in 0..rng.below(3) {
        damage(&mut stream, rng.next() as usize, rng.next() as u8, rng.next() as u8);
    }
    if rng.below(4) == 0 {
        stream.truncate(rng.below(stream.len() + 1));
    }
    stream
}

/// Compresses an array that is known to be valid.
pub(crate) fn compress_case(case: &Case) -> Vec<u8> {
    let view = ArrayView::from_bytes(&case.bytes, case.element_type, case.shape).expect("the elements fit the shape");
    compress(&view, &case.options).expect("every array can be compressed")
}

pub(crate) fn decode_options() -> DecompressOptions {
    DecompressOptions::default().with_threads(1).with_memory_limit(MEMORY_LIMIT)
}

/// Changes one byte: in half of the cases among the first 512, which hold most counts and lengths.
pub(crate) fn damage(stream: &mut [u8], at: usize, kind: u8, value: u8) {
    let length = if kind & 1 == 0 { stream.len() } else { stream.len().min(512) };
    if let Some(byte) = stream.get_mut(at % length.max(1)) {
        *byte = match kind >> 1 & 3 {
            0 => value,
            1 => *byte ^ 1 << (value & 7),
            2 => byte.wrapping_add(value % 5).wrapping_sub(2),
            _ => 0xFF,
        };
    }
}

/// An element as a number without rounding.
enum Value {
    Float(f64),
    Integer(i128),
}

impl Value {
    /// Returns the value of a little-endian element.
    fn of(element: &[u8], element_type: ElementType) -> Self {
        let mut bytes = [0; 8];
        bytes[..element.len()].copy_from_slice(element);
        let (bits, unused) = (u64::from_le_bytes(bytes), 64 - 8 * element.len());
        match element_type {
            ElementType::F64 => Self::Float(f64::from_bits(bits)),
            ElementType::F32 => Self::Float(f32::from_bits(bits as u32).into()),
            ElementType::F16 => Self::Float(of_f16(bits as u16).into()),
            ElementType::Bf16 => Self::Float(of_bf16(bits as u16).into()),
            _ if element_type.is_signed_integer() => Self::Integer(((bits << unused) as i64 >> unused).into()),
            _ => Self::Integer(bits.into()),
        }
    }
}
