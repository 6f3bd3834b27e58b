//! The symbols and what they stand for.

/// Zeros of the longest run that has a symbol of its own. A symbol with a value has fewer in front of it.
pub const LONGEST_RUN: u32 = 30;

/// Sizes of values that symbols with runs in front of them have: magnitudes below 2^16.
const SIZES: u32 = 16;

/// Sizes of larger values, which have no runs in front of them.
const LARGE_SIZES: u32 = 16;

/// Runs of 1, 2, 4, 8, and 16 zeros.
const POWERS: u32 = 5;

/// Magnitudes from this one on have no symbols with runs in front of them.
pub(super) const LARGE: u32 = 1 << SIZES;

/// Values up to this magnitude have a symbol without extra bits.
const SMALL: i32 = 16;

const LONG_RUN: u32 = LONGEST_RUN * SIZES;
const FIRST_POWER: u32 = LONG_RUN + 1;
const FIRST_SMALL: u32 = FIRST_POWER + POWERS;
const FIRST_LARGE: u32 = FIRST_SMALL + 2 * SMALL as u32;
const ANY_VALUE: u32 = FIRST_LARGE + LARGE_SIZES;

/// Number of symbols.
pub const SYMBOLS: usize = ANY_VALUE as usize + 1;

/// A symbol of the alphabet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Symbol(u16);

/// What a symbol stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Meaning {
    /// This many zeros.
    Run(u32),
    /// This value, from -16 to 16 but not 0.
    Small(i32),
    /// A run of zeros, then a value with a magnitude from `2^size` to `2^(size + 1) - 1`. Its lower `size` bits and its
    /// sign, 1 if it is negative, follow as extra bits.
    Sized {
        /// Zeros in front of the value.
        run: u32,
        /// Bits of the magnitude after the first.
        size: u32,
    },
    /// A value that follows as 32 extra bits.
    Any,
}

impl Symbol {
    /// Any value, as 32 extra bits.
    pub const ANY: Self = Self(ANY_VALUE as u16);
    /// The longest run.
    pub const LONG_RUN: Self = Self(LONG_RUN as u16);

    /// Returns the symbol of 1, 2, 4, 8, or 16 zeros, by the exponent.
    ///
    /// # Panics
    /// The exponent is above 4.
    pub const fn power(exponent: u32) -> Self {
        assert!(exponent < POWERS);
        Self((FIRST_POWER + exponent) as u16)
    }

    /// Returns the symbol of a value that is not 0 after `run` zeros, fewer than 30; none if no symbol has
    /// both.
    #[inline(always)]
    pub const fn of(run: u32, value: i32) -> Option<Self> {
        let magnitude = value.unsigned_abs();
        let size = magnitude.ilog2();
        if run == 0 && magnitude <= SMALL as u32 {
            let place = if value < 0 { value + SMALL } else { value + SMALL - 1 };
            return Some(Self(FIRST_SMALL as u16 + place as u16));
        }
        match (run, size) {
            (_, 0..SIZES) => Some(Self((run * SIZES + size) as u16)),
            (0, _) => Some(Self((FIRST_LARGE + size - SIZES) as u16)),
            _ => None,
        }
    }

    /// Returns the symbol of a value that is not 0 after `run` zeros, fewer than 30, and its extra bits, without a
    /// branch. The magnitude is below 2^16.
    #[inline(always)]
    pub(super) const fn of_sized(run: u32, value: i32) -> (Self, Extra) {
        let magnitude = value.unsigned_abs();
        let size = (magnitude | 1).ilog2();
        // The values -16 to -1 and 1 to 16 are consecutive.
        let small = (value + SMALL) as u32 - (value > 0) as u32;
        let is_small = (run == 0) & (magnitude <= SMALL as u32);
        let number = if is_small { FIRST_SMALL + small } else { run * SIZES + size };
        let extra = Extra { bits: extra_of(value), count: size + 1 };
        (Self(number as u16), if is_small { Extra::NONE } else { extra })
    }

    /// Returns the symbol of a code behind no zeros, also if it is 0, and its extra bits. The magnitude is below 2^16.
    #[inline(always)]
    pub(super) const fn alone(code: i32) -> (Self, Extra) {
        if code == 0 { (Self::power(0), Extra::NONE) } else { Self::of_sized(0, code) }
    }

    /// Returns the symbol with this number, if there is one.
    pub const fn from_number(number: usize) -> Option<Self> {
        if number < SYMBOLS { Some(Self(number as u16)) } else { None }
    }

    /// Returns the number of the symbol, below [`SYMBOLS`].
    #[inline(always)]
    pub const fn number(self) -> usize {
        self.0 as usize
    }

    /// Returns what the symbol stands for.
    pub const fn meaning(self) -> Meaning {
        let number = self.0 as u32;
        match number {
            0..LONG_RUN => Meaning::Sized { run: number / SIZES, size: number % SIZES },
            LONG_RUN => Meaning::Run(LONGEST_RUN),
            FIRST_POWER..FIRST_SMALL => Meaning::Run(1 << (number - FIRST_POWER)),
            FIRST_SMALL..FIRST_LARGE => {
                let place = (number - FIRST_SMALL) as i32;
                Meaning::Small(if place < SMALL { place - SMALL } else { place - SMALL + 1 })
            }
            FIRST_LARGE..ANY_VALUE => Meaning::Sized { run: 0, size: number - FIRST_LARGE + SIZES },
            _ => Meaning::Any,
        }
    }

    /// Returns the number of extra bits after the codeword.
    pub const fn extra_bits(self) -> u32 {
        match self.meaning() {
            Meaning::Run(_) | Meaning::Small(_) => 0,
            Meaning::Sized { size, .. } => size + 1,
            Meaning::Any => 32,
        }
    }

    /// Returns whether every codebook made from a sample has the symbol, so that any codes can be written with it.
    pub const fn is_required(self) -> bool {
        match self.meaning() {
            Meaning::Sized { run, size } => run == 0 && size < SIZES,
            Meaning::Run(_) | Meaning::Small(_) | Meaning::Any => true,
        }
    }
}

/// Extra bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extra {
    /// The bits.
    pub bits: u32,
    /// How many there are.
    pub count: u32,
}

impl Extra {
    /// No bits.
    pub const NONE: Self = Self { bits: 0, count: 0 };
}

/// Returns the extra bits of a value that is not 0 whose symbol says its size: the lower bits of the magnitude, then
/// the sign.
#[inline(always)]
pub const fn extra_of(value: i32) -> u32 {
    let magnitude = value.unsigned_abs();
    // The shift drops the top bit of the largest magnitude, which is known, like that of any other.
    let low = magnitude ^ (1 << (magnitude | 1).ilog2());
    low << 1 | (value < 0) as u32
}
