use rayon::prelude::*;

use super::{Field, Generator, volume};
use crate::random::Stream;

/// Number of frames and of atoms of the original.
const FRAMES: usize = 2338;
const ATOMS: usize = 106_711;
/// Unit cells per side: the smallest cube of face-centered cubic cells (4 atoms each) that contains the atoms.
const CELLS: usize = 30;
/// Lattice constant of copper, in angstroms.
const LATTICE: f32 = 3.615;
/// Root mean square displacement of an atom along one axis, in angstroms (copper at about 700 K).
const THERMAL: f32 = 0.133;
/// Processors along an axis. Each writes its atoms in random order, like a parallel simulation after atoms have
/// migrated.
const DOMAINS: usize = 4;
/// Number of distinct vibration frequencies, and the number of them that move one atom.
const MODES: usize = 32;
const MODES_AN_ATOM: usize = 3;

/// Returns the x coordinate of each atom over time. Only the number of frames scales, so that the statistics of a frame
/// are those of the full box.
pub(super) fn positions(scale: f64) -> Field {
    let frames = volume(FRAMES, scale);
    let sites = sites();
    let vibrations: Vec<Vibration> = (0..ATOMS).into_par_iter().map(vibration).collect();
    let box_side = CELLS as f32 * LATTICE;
    let mut values = vec![0f32; frames * ATOMS];
    values.par_chunks_mut(ATOMS).enumerate().for_each(|(frame, out)| {
        let phases: [(f32, f32); MODES] = std::array::from_fn(|mode| {
            // Periods are 8 to 40 frames, so that an atom's position is sampled several times per vibration.
            let period = 8.0 + 32.0 * mode as f32 / MODES as f32;
            (std::f32::consts::TAU * frame as f32 / period).sin_cos()
        });
        for ((v, site), vibration) in out.iter_mut().zip(&sites).zip(&vibrations) {
            let moved: f32 = vibration
                .iter()
                .map(|&(mode, sine, cosine)| {
                    let (sin, cos) = phases[mode as usize];
                    sine * sin + cosine * cos
                })
                .sum();
            *v = (site + moved).rem_euclid(box_side);
        }
    });
    Field::new(Generator::Exaalt, values, &[frames, ATOMS], 1)
}

/// Returns the x coordinate of every lattice site in file order: domain by domain, shuffled in each.
fn sites() -> Vec<f32> {
    const BASIS: [[f32; 3]; 4] = [[0.0, 0.0, 0.0], [0.5, 0.5, 0.0], [0.5, 0.0, 0.5], [0.0, 0.5, 0.5]];
    let mut domains = vec![Vec::new(); DOMAINS.pow(3)];
    for cell in 0..CELLS.pow(3) {
        let cell = [cell / (CELLS * CELLS), cell / CELLS % CELLS, cell % CELLS];
        for basis in BASIS {
            let at: [f32; 3] = std::array::from_fn(|axis| cell[axis] as f32 + basis[axis] + 0.25);
            let domain = at.map(|a| (a as usize * DOMAINS / CELLS).min(DOMAINS - 1));
            domains[(domain[0] * DOMAINS + domain[1]) * DOMAINS + domain[2]].push(at[2] * LATTICE);
        }
    }
    for (number, domain) in domains.iter_mut().enumerate() {
        Stream::new(81).split(number as u64).shuffle(domain);
    }
    let mut sites = domains.concat();
    sites.truncate(ATOMS);
    sites
}

/// For each mode that moves an atom: its number, and its sine and cosine amplitudes.
type Vibration = [(u8, f32, f32); MODES_AN_ATOM];

fn vibration(atom: usize) -> Vibration {
    let stream = Stream::new(82).split(atom as u64);
    let amplitude = THERMAL / (MODES_AN_ATOM as f32).sqrt();
    std::array::from_fn(|i| {
        let (sine, cosine) = stream.normal_pair(2 * i as u64);
        let mode = stream.below(2 * i as u64 + 1, MODES as u64) as u8;
        (mode, sine * amplitude, cosine * amplitude)
    })
}
