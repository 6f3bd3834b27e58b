//! The published match search gives the same sections as core.

#[path = "../../syncline-cuda/tests/common/mod.rs"]
mod common;
#[path = "../../syncline-cuda/tests/lzss/encoders.rs"]
mod encoders;
#[path = "../../syncline-cuda/tests/lzss/inputs.rs"]
mod inputs;

use common::{pick, unless_tiny};
use encoders::{Case, check_encoder, edge_chunks};
use inputs::{KINDS, bytes};
use syncline_core::lzss::SymbolWidth;
use syncline_papers::gpulz_2023;

#[test]
fn gpulz_writes_the_cpus_sections() {
    let Some(device) = common::device_with(&syncline_papers::HEADERS) else { return };
    for (width, level) in
        [(SymbolWidth::One, 4), (SymbolWidth::Two, 3), (SymbolWidth::Four, 1), (SymbolWidth::Eight, 2)]
    {
        let kinds = KINDS.iter().skip(pick(0, usize::from(level) % 3)).step_by(pick(1, unless_tiny(3, KINDS.len())));
        let kinds = kinds.map(|&kind| bytes(kind, unless_tiny(20_000, 1_500), 77));
        if unless_tiny(true, level % 3 != 0) {
            check_encoder(device, &Case::new(width, level, kinds.collect()), gpulz_2023::encoder, "published");
        }
        if unless_tiny(true, level % 3 == 0) {
            // This method compares with the whole window at every position, so the input is small.
            let mut edges = edge_chunks(1 << 14, 5);
            edges.retain(|chunk| unless_tiny(true, chunk.len() < 1 << 13));
            check_encoder(device, &Case::new(width, level, edges), gpulz_2023::encoder, "published");
        }
    }
}
