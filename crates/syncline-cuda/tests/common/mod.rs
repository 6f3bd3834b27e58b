//! What the device tests share: the GPU if there is one, and inputs.

// Each test binary uses a part of it.
#![allow(dead_code)]

pub mod damage;
pub mod streams;

use std::io::Write;
use std::sync::OnceLock;

use syncline_cuda::Device;

/// GPU 0, opened once a process. Without one: `None` and one line that says so, or a failure if `SYNCLINE_REQUIRE_CUDA`
/// is 1.
pub fn device() -> Option<&'static Device> {
    static DEVICE: OnceLock<Option<Device>> = OnceLock::new();
    let open = || match Device::open(0) {
        Ok(device) => Some(device),
        Err(error) if std::env::var_os("SYNCLINE_REQUIRE_CUDA").is_some_and(|value| value == "1") => {
            panic!("SYNCLINE_REQUIRE_CUDA is set: {error}")
        }
        Err(error) => {
            // Not through `eprintln!`, which the test harness hides when a test passes.
            let _ = writeln!(std::io::stderr(), "skipped: no CUDA device ({error})");
            None
        }
    };
    DEVICE.get_or_init(open).as_ref()
}

/// How much tests do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Size {
    Whole,
    /// Sanitizers slow the device down by a hundred and more: under them inputs are short and there are fewer of them,
    /// but every kernel and every kind of input is still there.
    Small,
    /// For the slowest of them: as short, fewer still.
    Tiny,
}

/// `SYNCLINE_TEST_SIZE`.
fn size() -> Size {
    static SIZE: OnceLock<Size> = OnceLock::new();
    *SIZE.get_or_init(|| match std::env::var("SYNCLINE_TEST_SIZE").as_deref() {
        Ok("tiny") => Size::Tiny,
        Ok("small") => Size::Small,
        Ok("whole") | Err(_) => Size::Whole,
        Ok(other) => panic!("SYNCLINE_TEST_SIZE is 'whole', 'small' or 'tiny', not '{other}'"),
    })
}

/// Whether inputs are to be short.
pub fn small() -> bool {
    size() != Size::Whole
}

/// The first, or the second where tests are to be small.
pub fn pick<T>(whole: T, small: T) -> T {
    if self::small() { small } else { whole }
}

/// The first, or the second where tests are to be tiny.
pub fn unless_tiny<T>(usual: T, tiny: T) -> T {
    if size() == Size::Tiny { tiny } else { usual }
}

/// All of these, or where tests are to be tiny just the one that `which`, counted round and round, falls on.
pub fn unless_tiny_one<T>(all: &[T], which: usize) -> &[T] {
    let one = which % all.len();
    unless_tiny(all, &all[one..=one])
}

/// Takes every case of nested loops, or one in so many where tests are to be small, a third of those where they are to
/// be tiny. With numbers that have no factor in common with the inner loops' lengths each of their values keeps a case.
pub struct Share {
    one_in: usize,
    seen: usize,
}

impl Share {
    pub fn one_in(number: usize) -> Self {
        let one_in = match size() {
            Size::Whole => 1,
            Size::Small => number,
            // Odd, and no multiple of 3: loops often have 2, 3, 4 or 6 cases.
            Size::Tiny => (3 * number - 2) | 1,
        };
        Self { one_in, seen: 0 }
    }

    /// All unless tests are to be tiny.
    pub fn all() -> Self {
        Self { one_in: 1, seen: 0 }
    }

    /// Instead of the usual share, where tests are to be tiny: one in `number`, of which number `first` is the first,
    /// so that tests of the same cases take different ones.
    pub fn if_tiny(self, number: usize, first: usize) -> Self {
        unless_tiny(self, Self { one_in: number, seen: number - first % number })
    }

    /// Whether the next case is taken.
    pub fn takes(&mut self) -> bool {
        self.seen += 1;
        (self.seen - 1).is_multiple_of(self.one_in)
    }
}

/// A small generator of pseudo-random numbers (SplitMix64), so that a failure can be repeated.
pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// Below `limit`, which is not 0.
    pub fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit
    }

    /// Uniform in `[0, 1)`.
    pub fn unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1_u64 << 53) as f64
    }
}

/// How symbols are spread over an alphabet.
#[derive(Debug, Clone, Copy)]
pub enum Spread {
    /// All alike.
    Flat,
    /// Two-sided geometric around the middle, as quantization codes are; the number is the share of the middle symbol.
    Geometric(f64),
    /// One symbol only.
    One,
}

/// `length` symbols below `bins`.
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
                // The tail's steps: each symbol further out is rarer by the same factor.
                distance = 1 + (random.unit().max(1e-300).ln() / (1.0 - share).ln()).min(1e6) as i64;
            }
            let side = if random.next() & 1 == 0 { 1 } else { -1 };
            (middle + side * distance).clamp(0, last)
        }
    };
    (0..length).map(|_| draw() as u16).collect()
}
