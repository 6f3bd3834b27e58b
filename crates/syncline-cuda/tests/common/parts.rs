//! Decompression of whole streams, and of ranges of tiles from the records that contain them, against the CPU.

use std::sync::Arc;

use cudarc::driver::CudaStream;
use syncline_cuda::cudarc;
use syncline_cuda::device::Device;
use syncline_cuda::pipeline::{Decompressor, StreamInfo};

use super::common::{Random, pick, unless_tiny};
use super::real::{POISON, on_gpu};
use super::stream::try_decompress;

/// Checks that a GPU decompresses a stream to the CPU's array.
pub fn comes_back(device: &Device, stream: &Arc<CudaStream>, bytes: &[u8], what: &str) {
    let info = StreamInfo::from_bytes(bytes).unwrap();
    let expected = try_decompress(bytes).unwrap();
    let mut decompressor = Decompressor::new(device, stream.clone(), &info).unwrap();
    for _ in 0..unless_tiny(2, 1) {
        let out = on_gpu(&mut decompressor, stream, bytes).unwrap_or_else(|error| panic!("{what}: {error}"));
        let wrong = out.iter().zip(&expected).position(|(a, b)| a != b);
        assert!(
            out == expected,
            "{what}: differs at element {:?}",
            wrong.map(|at| at / info.header().element_type.size())
        );
    }
}

/// Checks that ranges of tiles of a stream equal those of the CPU's array, and that nothing else is written.
pub fn check_parts(device: &Device, stream: &Arc<CudaStream>, made: &[u8], random: &mut Random) {
    let info = StreamInfo::from_bytes(made).unwrap();
    let expected = try_decompress(made).unwrap();
    let (geometry, size) = (info.geometry().clone(), info.header().element_type.size());
    let mut decompressor = Decompressor::new(device, stream.clone(), &info).unwrap();
    for _ in 0..pick(8, 2) {
        let first = random.below(geometry.tiles());
        let tiles = first..first + 1 + random.below((geometry.tiles() - first).min(40));
        let part = info.bytes_of(info.chunks_of(tiles.clone()));
        let input = stream.clone_htod(&made[part.start as usize..part.end as usize]).unwrap();
        let mut wanted = vec![POISON; expected.len()];
        let mut output = stream.clone_htod(&wanted).unwrap();
        let room = &mut output.as_view_mut();
        decompressor.decompress_tiles(&input.as_view(), part.start, tiles.clone(), room, 0).unwrap();
        decompressor.check().unwrap();
        for tile in geometry.range(tiles.clone()) {
            let [b, z, y, x] = tile.origin;
            let [nz, ny, nx] = tile.extent.map(|extent| extent as u64);
            for (dz, dy) in (0..nz).flat_map(|dz| (0..ny).map(move |dy| (dz, dy))) {
                let first = geometry.element([b, z + dz, y + dy, x]) as usize * size;
                let row = first..first + nx as usize * size;
                wanted[row.clone()].copy_from_slice(&expected[row]);
            }
        }
        let out = stream.clone_dtoh(&output).unwrap();
        assert!(out == wanted, "{} tiles {tiles:?}", info.header().shape);
    }
}
