//! The device's results of parsing records equal those of the host.

use std::ops::Range;

use cudarc::driver::{CudaStream, CudaView, DeviceRepr};

use super::*;

/// Copies a part of an array on the device, because not all of the array is written.
fn part<T: DeviceRepr>(stream: &Arc<CudaStream>, view: &CudaView<'_, T>, range: Range<usize>) -> Vec<T> {
    stream.clone_dtoh(&view.slice(range)).unwrap()
}

#[test]
fn parsing_finds_what_the_host_finds() {
    let Some((device, stream)) = device() else { return };
    for (extents, bound) in
        [(&[40_u64, 60, 50][..], Bound::Abs(0.01)), (&[200, 333], Bound::PwRel(1e-2)), (&[90_000], Bound::Abs(1e-3))]
    {
        let values = field(extents, 12, true);
        let making = Making { chunk_tiles: Some(37), ..Making::default() };
        let bytes = compress(&bytes_of::<f32>(&values), ElementType::F32, extents, bound, &making);
        let (header, geometry) = opened(&bytes);
        let host = HostParsed::new(&bytes, 0..geometry.chunks(), false);
        let info = StreamInfo::from_bytes(&bytes).unwrap();
        let lengths: Vec<u32> = (0..geometry.chunks()).map(|chunk| info.record(chunk).1 as u32).collect();
        let input = stream.clone_htod(&bytes).unwrap();
        let parser = RecordParser::new(device, 4).unwrap();
        let batch = ChunkBatch::new(&geometry, header.group_log2, 0..geometry.chunks()).unwrap();
        let mut arena = Arena::new(stream.clone());
        let mut frame = arena.frame().unwrap();
        let records = Records { input: &input.as_view(), first: HEADER_LEN as u64, lengths: &lengths };
        let format = Format::new(&header, &geometry);
        let device_geometry = DeviceGeometry::new(&geometry, header.group_log2);
        let parsed = parser.parse(&mut frame, records, &format, &device_geometry, &batch, true, None, None).unwrap();
        let view = parsed.tiles.parsed(None);
        let chunks = stream.clone_dtoh(&view.chunks).unwrap();
        let mut kinds = [0; 3];
        for (number, (mine, theirs)) in chunks.iter().zip(&host.chunks).enumerate() {
            let what = format!("{extents:?} chunk {number}");
            let tiles = batch.tiles_of(number as u32);
            let tiles = tiles.start as usize..tiles.end as usize;
            assert_eq!((mine.status, mine.kind), (0, theirs.kind), "{what}");
            kinds[mine.kind as usize] += 1;
            if mine.kind == 0 {
                assert_eq!(mine.raw, theirs.raw, "{what}");
                continue;
            }
            assert_eq!((mine.radius, mine.groups, mine.live), (theirs.radius, theirs.groups, theirs.live), "{what}");
            assert_eq!((mine.outliers, mine.verbatim), (theirs.outliers, theirs.verbatim), "{what}");
            assert_eq!(part(&stream, &view.metas, tiles.clone()), host.metas[tiles.clone()], "{what}");
            assert_eq!(part(&stream, &view.bases, tiles.clone()), host.bases[tiles.clone()], "{what}");
            assert_eq!(part(&stream, &view.first_groups, tiles.clone()), host.first_groups[tiles.clone()], "{what}");
            let starts = tiles.start + number..tiles.end + number + 1;
            if mine.outliers > 0 {
                assert_eq!(
                    part(&stream, &view.outlier_starts, starts.clone()),
                    host.outlier_starts[starts.clone()],
                    "{what}"
                );
                assert_eq!(
                    (mine.outlier_positions, mine.outlier_values),
                    (theirs.outlier_positions, theirs.outlier_values)
                );
            }
            if mine.verbatim > 0 {
                assert_eq!(
                    part(&stream, &view.verbatim_starts, starts.clone()),
                    host.verbatim_starts[starts],
                    "{what}"
                );
                let places = (theirs.verbatim_positions, theirs.verbatim_values);
                assert_eq!((mine.verbatim_positions, mine.verbatim_values), places, "{what}");
            }
            for tile in tiles {
                if host.metas[tile] >> 5 & 3 == 2 {
                    let starts = part(&stream, view.mask_starts.as_ref().unwrap(), tile..tile + 1);
                    assert_eq!(starts[0], host.mask_starts[tile], "{what} tile {tile}");
                }
                if host.metas[tile] >> 9 & 3 == 2 {
                    let starts = part(&stream, view.sign_starts.as_ref().unwrap(), tile..tile + 1);
                    assert_eq!(starts[0], host.sign_starts[tile], "{what} tile {tile}");
                }
            }
            if mine.live < mine.groups {
                let own = number * view.rank_stride as usize
                    ..number * view.rank_stride as usize + mine.groups.div_ceil(32) as usize;
                // Ranks are not written if all groups are live.
                assert_eq!(part(&stream, &view.ranks, own.clone()), host.ranks[own], "{what}");
            }
        }
        assert!(kinds[2] > 0, "{extents:?}: no quantized chunk");
    }
}
