//! Fields of every kind.

use syncline_core::array::ElementType;
use syncline_core::bound::{Bound, Fill};
use syncline_core::geometry::TileSize;

use crate::common::streams::{Field, Options};
use crate::common::{Share, device, pick, unless_tiny};
use crate::{Seen, check};

const TYPES: [ElementType; 2] = [ElementType::F32, ElementType::F64];

#[test]
fn tiles_of_every_shape_are_the_cpus() {
    let Some(device) = device() else { return };
    let mut share = Share::all().if_tiny(3, 0);
    let mut seen = Seen::default();
    for element in TYPES {
        let (cube, line) = pick((&[100, 100, 100], &[1_500_000]), (&[30, 30, 30], unless_tiny(&[100_000], &[20_000])));
        for extents in [&[][..], &[1], &[5000], &[33, 70], &[9, 17, 30], &[3, 9, 8, 17], cube, line] {
            let field = Field::smooth(element, extents, 0.01);
            for tile_size in TileSize::ALL {
                if share.takes() {
                    let options = Options::new(Bound::Abs(1e-3)).with_tiles(tile_size);
                    seen.add(&check(device, &field, &options, 35, 2));
                }
            }
        }
    }
    assert!(seen.interpolated > 0 && seen.lorenzo > 0, "{seen:?}");
}
