//! Instructions with which lanes of a warp exchange values.

use super::lanes::{lanes, mask_of};
use super::program::{Exchange, LANES, Lanes, Shuffle};
use super::surroundings::Surroundings;
use super::warp::Warp;
use crate::memory::POISON;

/// The value read from a lane that does not participate, which is undefined on a device.
const NONSENSE: u64 = u32::from_ne_bytes([POISON; 4]) as u64;

impl Warp {
    /// Executes an exchange for the lanes of `mask`, which have all arrived.
    pub(super) fn exchange(&mut self, what: &Exchange, mask: u32, here: &Surroundings<'_>) -> Result<(), String> {
        match *what {
            Exchange::Shuffle { way, to, found, value, lane, clamp } => {
                let [value, lane, clamp] = [value, lane, clamp].map(|source| self.read(source, here));
                let (values, inside) = shuffle(way, &value, &lane, &clamp, mask);
                if let Some(to) = to {
                    self.write(to, &values, mask);
                }
                if let Some(found) = found {
                    self.write_predicate(found, inside, mask);
                }
            }
            Exchange::Ballot { to, of } => {
                let holds = self.decide(of) & mask;
                self.write(to, &[u64::from(holds); LANES], mask);
            }
            Exchange::Vote { to, any, uniform, of } => {
                let holds = self.decide(of) & mask;
                let outcome = if any { holds != 0 } else { holds == mask || uniform && holds == 0 };
                self.write_predicate(to, if outcome { mask } else { 0 }, mask);
            }
            Exchange::Reduce { to, value, by } => {
                let value = self.read(value, here);
                let outcome = lanes(mask).map(|lane| value[lane]).reduce(by).ok_or("nobody to reduce for")?;
                self.write(to, &[outcome; LANES], mask);
            }
            Exchange::Match { to, value } => {
                let value = self.read(value, here);
                let same = |own: usize| u64::from(mask_of(lanes(mask).filter(|&lane| value[lane] == value[own])));
                self.write(to, &std::array::from_fn(same), mask);
            }
        }
        Ok(())
    }
}

/// Returns the value that each lane reads from another lane, and the mask of the lanes whose source is inside their
/// segment. Lanes whose source is outside keep their own value. If the source is not in `there`, the value is
/// undefined.
fn shuffle(way: Shuffle, value: &Lanes, lane: &Lanes, clamp: &Lanes, there: u32) -> (Lanes, u32) {
    let mut values = *value;
    let mut all_inside = 0;
    for own in 0..LANES as i64 {
        let at = own as usize;
        let (by, bound, segment) = (lane[at] as i64 & 31, clamp[at] as i64 & 31, clamp[at] as i64 >> 8 & 31);
        let (first, last) = (own & segment, own & segment | bound & !segment & 31);
        let from = match way {
            Shuffle::Up => own - by,
            Shuffle::Down => own + by,
            Shuffle::Butterfly => own ^ by,
            Shuffle::Index => first | by & !segment,
        };
        let inside = if way == Shuffle::Up { from >= last } else { from <= last };
        if inside {
            values[at] = if there >> from & 1 == 1 { value[from as usize] } else { NONSENSE };
            all_inside |= 1 << at;
        }
    }
    (values, all_inside)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shuffles_as_the_manual_says() {
        let value: Lanes = std::array::from_fn(|lane| 100 + lane as u64);
        let of = |way, by: u64, clamp: u64| shuffle(way, &value, &[by; LANES], &[clamp; LANES], !0);
        let (up, inside) = of(Shuffle::Up, 2, 0);
        assert_eq!((up[1], up[2], up[31], inside), (101, 100, 129, !3));
        let (down, inside) = of(Shuffle::Down, 1, 31);
        assert_eq!((down[0], down[30], down[31], inside), (101, 131, 131, !0 >> 1));
        let (index, inside) = of(Shuffle::Index, 5, 31);
        assert_eq!((index[0], index[31], inside), (105, 105, !0));
        // The segments have eight lanes.
        let (up, inside) = of(Shuffle::Up, 1, 0x1800);
        assert_eq!((up[8], up[9], inside), (108, 108, 0xFEFE_FEFE));
        let (butterfly, inside) = of(Shuffle::Butterfly, 1, 31);
        assert_eq!((butterfly[6], butterfly[7], inside), (107, 106, !0));
    }

    #[test]
    fn shuffle_from_an_inactive_lane_is_undefined() {
        let value: Lanes = std::array::from_fn(|lane| 100 + lane as u64);
        let (down, inside) = shuffle(Shuffle::Down, &value, &[8; LANES], &[31; LANES], 0xFFFF);
        assert_eq!((down[7], down[8], inside), (115, NONSENSE, 0x00FF_FFFF));
    }
}
