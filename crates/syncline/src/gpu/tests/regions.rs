//! Regions in device memory against the CPU.

use std::ops::Range;
use std::ptr::null_mut;

use syncline_core::array::{ElementType, Shape};
use syncline_core::bound::Bound;

use super::{compressor, field, on_cpu, part};
use crate::{Advanced, Backend, Coder, CompressOptions, DecompressOptions, Effort, Error, decompress_region};

/// An array, how it is compressed, and regions of it.
type Case<'a> = (ElementType, &'a [u64], CompressOptions, &'a [&'a [Range<u64>]]);

/// Regions of streams of all kinds, in boxes and in one stretch: equal to those of the CPU.
#[test]
fn regions_are_those_of_the_cpu() {
    let Some((mut compressor, _shared)) = compressor() else { return };
    let lossless = |coder| CompressOptions::new(Bound::Lossless).with_advanced(Advanced::default().with_coder(coder));
    let abs = |effort| CompressOptions::new(Bound::Abs(0.5)).with_effort(effort);
    let cases: [Case<'_>; 6] = [
        (
            ElementType::F32,
            &[30, 40, 50],
            lossless(Coder::Auto),
            &[&[3..29, 9..11, 7..50], &[4..9, 0..40, 0..50], &[29..30, 3..4, 1..2], &[7..7, 0..1, 0..1]],
        ),
        (ElementType::U16, &[200, 105], lossless(Coder::Auto), &[&[31..170, 33..64], &[0..200, 104..105]]),
        (ElementType::F64, &[2, 3, 12, 20, 21], lossless(Coder::LzssHuffman), &[&[0..2, 1..3, 5..9, 0..20, 4..5]]),
        (ElementType::I8, &[1, 5000], lossless(Coder::Auto), &[&[0..1, 1023..3001]]),
        (ElementType::F32, &[70, 40, 50], abs(Effort::Balanced), &[&[60..70, 0..40, 49..50], &[1..70, 3..9, 5..6]]),
        (ElementType::F32, &[9, 20, 17], abs(Effort::Fast), &[&[1..9, 3..9, 5..6], &[2..3, 0..20, 0..17]]),
    ];
    let whole_batch = compressor.region_batch;
    for (element_type, extents, options, regions) in cases {
        let shape = Shape::new(extents).unwrap();
        let (stream, _) = on_cpu(&field(element_type, shape.len()), element_type, shape, &options);
        let (input, array_len) = (compressor.upload(&stream).unwrap(), shape.len() as usize * element_type.size());
        // SAFETY: a live buffer of this device, which nothing else uses.
        let outline = unsafe { compressor.outline(input.bytes(), null_mut()) }.unwrap();
        for (&region, batch) in regions.iter().flat_map(|region| [(region, whole_batch), (region, 10_000)]) {
            compressor.region_batch = batch;
            let expected = decompress_region(&stream, region, &DecompressOptions::new().with_backend(Backend::Cpu));
            let expected = expected.unwrap().bytes().to_vec();
            // Elements begin anywhere that is aligned for one, with others around them.
            let (before, len) = (element_type.size(), expected.len());
            let output = compressor.upload(&vec![0xA5; len + 2 * before]).unwrap();
            let (to, short) = (part(&output, before, len), part(&output, before, len + before));
            // SAFETY: as above.
            let result = unsafe { compressor.decompress_region(&outline, input.bytes(), region, to, null_mut()) };
            result.unwrap();
            let made = output.to_vec().unwrap();
            assert!(made[before..before + len] == expected, "{element_type} {shape} {region:?}");
            assert!(made[..before].iter().chain(&made[before + len..]).all(|&byte| byte == 0xA5), "{region:?}");
            // SAFETY: as above.
            let error = unsafe { compressor.decompress_region(&outline, input.bytes(), region, short, null_mut()) };
            assert!(matches!(error.unwrap_err(), Error::InvalidArgument { .. }));
        }
        let outside: Vec<_> = extents.iter().map(|&extent| 0..extent + 1).collect();
        // SAFETY: as above.
        let error =
            unsafe { compressor.decompress_region(&outline, input.bytes(), &outside, part(&input, 0, 0), null_mut()) };
        assert!(matches!(error.unwrap_err(), Error::InvalidArgument { .. }));
        let mut damaged = stream.clone();
        damaged[stream.len() / 2] ^= 1;
        let (input, output) = (compressor.upload(&damaged).unwrap(), compressor.allocate(array_len).unwrap());
        let whole: Vec<_> = extents.iter().map(|&extent| 0..extent).collect();
        // SAFETY: as above.
        let error =
            unsafe { compressor.decompress_region(&outline, input.bytes(), &whole, output.bytes(), null_mut()) };
        assert!(matches!(error.unwrap_err(), Error::Corrupt { .. }), "{element_type} {shape}");
    }
}
