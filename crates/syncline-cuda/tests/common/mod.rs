//! Shared by the device tests: the GPU, if there is one, and inputs.

// Each test binary uses some of these items.
#![allow(dead_code)]

pub mod damage;
pub mod streams;
pub mod tile_parts;

use std::io::Write;
use std::sync::OnceLock;

use syncline_cuda::device::Headers;
use syncline_cuda::{Device, HEADERS};

/// Returns GPU 0 for the product's kernels.
pub fn device() -> Option<&'static Device> {
    device_with(&HEADERS)
}

/// Returns GPU 0, which is opened once per process with these headers. Without a GPU, returns `None` and prints one
/// line, or fails if `SYNCLINE_REQUIRE_CUDA` is 1.
pub fn device_with(headers: &'static Headers) -> Option<&'static Device> {
    static DEVICE: OnceLock<Option<Device>> = OnceLock::new();
    let open = || match Device::open(0, headers) {
        Ok(device) => Some(device),
        Err(error) if std::env::var_os("SYNCLINE_REQUIRE_CUDA").is_some_and(|value| value == "1") => {
            panic!("SYNCLINE_REQUIRE_CUDA is set: {error}")
        }
        Err(error) => {
            // `eprintln!` is not used, because the test harness hides its output when a test passes.
            let _ = writeln!(std::io::stderr(), "skipped: no CUDA device ({error})");
            None
        }
    };
    DEVICE.get_or_init(open).as_ref()
}

/// The amount of work in tests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Size {
    Whole,
    /// For sanitizers, which slow the device down by a factor of a hundred or more: inputs are shorter and fewer, but
    /// every kernel and every kind of input is still tested.
    Small,
    /// For the slowest sanitizer: inputs as short as with `Small`, and fewer.
    Tiny,
}

/// Returns the size that the environment variable `SYNCLINE_TEST_SIZE` selects.
fn size() -> Size {
    static SIZE: OnceLock<Size> = OnceLock::new();
    *SIZE.get_or_init(|| match std::env::var("SYNCLINE_TEST_SIZE").as_deref() {
        Ok("tiny") => Size::Tiny,
        Ok("small") => Size::Small,
        Ok("whole") | Err(_) => Size::Whole,
        Ok(other) => panic!("SYNCLINE_TEST_SIZE is 'whole', 'small' or 'tiny', not '{other}'"),
    })
}

/// Returns whether inputs must be short.
pub fn small() -> bool {
    size() != Size::Whole
}

/// Returns the first value, or the second one in small and tiny runs.
pub fn pick<T>(whole: T, small: T) -> T {
    if self::small() { small } else { whole }
}

/// Returns the first value, or the second one in tiny runs.
pub fn unless_tiny<T>(usual: T, tiny: T) -> T {
    if size() == Size::Tiny { tiny } else { usual }
}

/// Returns all values, or in tiny runs only the one with index `which` modulo their number.
pub fn unless_tiny_one<T>(all: &[T], which: usize) -> &[T] {
    let one = which % all.len();
    unless_tiny(all, &all[one..=one])
}

/// Selects cases of nested loops: all of them, or one in several in small runs, and a third of those in tiny runs. If
/// that number has no factor in common with the lengths of the inner loops, each of their values keeps a case.
pub struct Share {
    one_in: usize,
    seen: usize,
}

impl Share {
    pub fn one_in(number: usize) -> Self {
        let one_in = match size() {
            Size::Whole => 1,
            Size::Small => number,
            // Odd and no multiple of 3, because loops often have 2, 3, 4 or 6 cases.
            Size::Tiny => (3 * number - 2) | 1,
        };
        Self { one_in, seen: 0 }
    }

    /// Selects all cases, except in tiny runs.
    pub fn all() -> Self {
        Self { one_in: 1, seen: 0 }
    }

    /// Replaces the usual share in tiny runs: one in `number` cases, starting with case `first`, so that tests of the
    /// same cases can select different ones.
    pub fn if_tiny(self, number: usize, first: usize) -> Self {
        unless_tiny(self, Self { one_in: number, seen: number - first % number })
    }

    /// Returns whether the next case is selected.
    pub fn takes(&mut self) -> bool {
        self.seen += 1;
        (self.seen - 1).is_multiple_of(self.one_in)
    }
}

/// A pseudorandom number generator (SplitMix64) with a fixed seed, so that failures can be repeated.
pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// Returns a number below `limit`, which must not be 0.
    pub fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit
    }

    /// Returns a uniformly distributed number in `[0, 1)`.
    pub fn unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1_u64 << 53) as f64
    }
}

/// Distribution of symbols over an alphabet.
#[derive(Debug, Clone, Copy)]
pub enum Spread {
    /// All symbols are equally frequent.
    Flat,
    /// Two-sided geometric around the middle symbol, like quantization codes; the number is the share of the middle
    /// symbol.
    Geometric(f64),
    /// A single symbol.
    One,
}

/// Returns `length` symbols below `bins`.
pub fn symbols(spread: Spread, bins: u32, length: usize, seed: u64) -> Vec<u16> {
    let mut random = Random(seed);
    let middle = i64::from(bins / 2);
    let last = i64::from(bins - 1);
    let mut draw = || match spread {
        Spread::Flat => random.below(u64::from(bins)) as i64,
        Spread::One => middle,
        Spread::Geometric(share) => {
            let mut distance = 0;
            if random.unit() >= share {
                // Steps away from the middle: each further symbol is less frequent by the same factor.
                distance = 1 + (random.unit().max(1e-300).ln() / (1.0 - share).ln()).min(1e6) as i64;
            }
            let side = if random.next() & 1 == 0 { 1 } else { -1 };
            (middle + side * distance).clamp(0, last)
        }
    };
    (0..length).map(|_| draw() as u16).collect()
}
