//! Bitmaps of blocks: rANS with probabilities that adapt to the bits before.

use super::rans::{Decoder, Encoder};

/// Bits of a context: ten bits before.
const CONTEXT_BITS: u32 = 10;
/// Probabilities are in units of 2^-16 and coded in units of 2^-12.
const MODEL_LOG2: u32 = 16;
const CODED_LOG2: u32 = 12;

/// How often a context was met, and how probable a set bit is in it.
#[derive(Clone, Copy)]
struct Model {
    probability: u32,
    met: u32,
}

impl Model {
    /// Returns the frequency of a set bit.
    fn frequency(self) -> u32 {
        (self.probability >> (MODEL_LOG2 - CODED_LOG2)).clamp(1, (1 << CODED_LOG2) - 1)
    }

    /// Learns a bit: fast at first, then slowly.
    fn learn(&mut self, bit: bool) {
        const RATES: [u32; 12] = [1, 2, 2, 3, 3, 3, 3, 4, 4, 4, 4, 4];
        let rate = RATES.get(self.met as usize).copied().unwrap_or(5);
        self.met += 1;
        if bit {
            self.probability += ((1 << MODEL_LOG2) - self.probability) >> rate;
        } else {
            self.probability -= self.probability >> rate;
        }
    }
}

/// Returns the interval of a bit.
fn interval(bit: bool, frequency: u32) -> (u32, u32) {
    if bit { (0, frequency) } else { (frequency, (1 << CODED_LOG2) - frequency) }
}

/// Elements of a row that are coded as one if they have the same bit.
const SEGMENT: usize = 16;

/// What the bits of a segment are. The discriminant is a digit of the context of other segments.
#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Clear = 0,
    Set = 1,
    Mixed = 2,
}

/// The models of a bitmap, and what is known of it.
struct Walk {
    extent: [usize; 3],
    /// Segments of a row.
    segments: usize,
    states: Vec<State>,
    of_bits: [Model; 1 << CONTEXT_BITS],
    /// Whether a segment is mixed, and whether one that is not is set, by the states of three segments before.
    of_mixed: [Model; 27],
    of_set: [Model; 27],
}

impl Walk {
    fn new(extent: [usize; 3]) -> Self {
        let fresh = Model { probability: 1 << (MODEL_LOG2 - 1), met: 0 };
        Self {
            extent,
            segments: extent[2].div_ceil(SEGMENT),
            states: Vec::new(),
            of_bits: [fresh; 1 << CONTEXT_BITS],
            of_mixed: [fresh; 27],
            of_set: [fresh; 27],
        }
    }

    /// Goes through the segments in raster order, and through the bits of those that are mixed. `one` returns the next
    /// bit of the code, which has a model, says what is asked, and is about elements whose bits are given to it.
    fn run(&mut self, bits: &mut [u8], mut one: impl FnMut(&mut Model, Ask, &[u8]) -> bool) {
        let [_, ny, nx] = self.extent;
        let plane = self.segments * ny;
        for (row, start) in (0..bits.len()).step_by(nx).enumerate() {
            let (z, y) = (row / ny, row % ny);
            for segment in 0..self.segments {
                let number = row * self.segments + segment;
                let state = |exists: bool, distance: usize| {
                    if exists { self.states[number - distance] as usize } else { 0 }
                };
                let context = state(segment > 0, 1) + 3 * state(y > 0, self.segments) + 9 * state(z > 0, plane);
                let from = start + segment * SEGMENT;
                let to = (from + SEGMENT).min(start + nx);
                let is_mixed = one(&mut self.of_mixed[context], Ask::Mixed, &bits[from..to]);
                if is_mixed {
                    for at in from..to {
                        let model = &mut self.of_bits[context_of(bits, at, [z, y, at - start], self.extent)];
                        bits[at] = u8::from(one(model, Ask::Bit, &bits[at..to]));
                    }
                    self.states.push(State::Mixed);
                } else {
                    let is_set = one(&mut self.of_set[context], Ask::Set, &bits[from..to]);
                    bits[from..to].fill(u8::from(is_set));
                    self.states.push(if is_set { State::Set } else { State::Clear });
                }
            }
        }
    }
}

/// What a bit of the code says.
#[derive(Clone, Copy)]
enum Ask {
    /// Whether a segment is mixed.
    Mixed,
    /// Whether a segment is set.
    Set,
    /// The bit of an element.
    Bit,
}

/// Returns the context of an element: ten bits before it.
#[inline(always)]
fn context_of(bits: &[u8], at: usize, [z, y, x]: [usize; 3], [_, ny, nx]: [usize; 3]) -> usize {
    let before = |exists: bool, distance: usize| if exists { usize::from(bits[at - distance]) } else { 0 };
    let plane = ny * nx;
    before(x > 0, 1)
        | before(x > 1, 2) << 1
        | before(y > 0, nx) << 2
        | before(y > 0 && x > 0, nx + 1) << 3
        | before(y > 0 && x + 1 < nx, nx.wrapping_sub(1)) << 4
        | before(y > 1, 2 * nx) << 5
        | before(z > 0, plane) << 6
        | before(z > 0 && x + 1 < nx, plane.wrapping_sub(1)) << 7
        | before(z > 0 && y + 1 < ny, plane.wrapping_sub(nx)) << 8
        | before(z > 0 && x > 0, plane + 1) << 9
}

/// Appends a bitmap, one byte of 0 or 1 for each element of a block. Returns the number of words of 16 bits.
pub fn encode(bits: &[u8], extent: [usize; 3], out: &mut Vec<u8>) -> usize {
    let mut events = Vec::with_capacity(bits.len() / 4);
    let mut known = bits.to_vec();
    Walk::new(extent).run(&mut known, |model, ask, bits| {
        let bit = match ask {
            Ask::Mixed => bits.iter().any(|&bit| bit != bits[0]),
            Ask::Set | Ask::Bit => bits[0] != 0,
        };
        events.push(interval(bit, model.frequency()));
        model.learn(bit);
        bit
    });
    let mut encoder = Encoder::default();
    events.iter().rev().for_each(|&(start, frequency)| encoder.put(start, frequency, CODED_LOG2));
    encoder.finish(out)
}

/// Reads a bitmap. `None` if it is damaged.
pub fn decode(words: &[u8], extent: [usize; 3], bits: &mut [u8]) -> Option<()> {
    let mut decoder = Decoder::new(words)?;
    Walk::new(extent).run(bits, |model, _, _| {
        let frequency = model.frequency();
        let bit = decoder.slot(CODED_LOG2) < frequency;
        let (start, count) = interval(bit, frequency);
        decoder.advance(start, count, CODED_LOG2);
        model.learn(bit);
        bit
    });
    decoder.is_finished().then_some(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bitmaps_are_read_as_written() {
        for extent in [[1, 1, 1], [1, 1, 70], [1, 9, 13], [5, 4, 3], [2, 1, 9], [3, 30, 1]] {
            for density in [0, 1, 3, 8] {
                let mut random = 7u32;
                let len = extent.iter().product();
                let bits: Vec<u8> = (0..len)
                    .map(|_| {
                        random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                        u8::from(random >> 29 < density)
                    })
                    .collect();
                let mut out = Vec::new();
                assert_eq!(encode(&bits, extent, &mut out) * 2, out.len());
                let mut back = vec![0; len];
                decode(&out, extent, &mut back).unwrap();
                assert_eq!(back, bits, "{extent:?} {density}");
                assert!(decode(&out[..2], extent, &mut back).is_none());
            }
        }
    }
}
