//! The schemes of interpolation.

/// How the values between known values are predicted. Each is predicted along one axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Scheme {
    /// Whether a value is predicted from up to four neighbors, and not from two.
    pub is_cubic: bool,
    /// Whether values are interpolated along x first and along z last. A value that lies between known ones along
    /// several axes is predicted along the last of them.
    pub x_first: bool,
    /// Whether the slowest axis of the tile is not interpolated: each plane of a three-dimensional tile, or row of a
    /// two-dimensional one, is on its own.
    pub in_planes: bool,
}

const fn scheme(is_cubic: bool, x_first: bool, in_planes: bool) -> Scheme {
    Scheme { is_cubic, x_first, in_planes }
}

/// The candidates of encoders for tiles of one, two, and three axes.
const OF_LINES: [Scheme; 2] = [scheme(false, false, false), scheme(true, false, false)];
const OF_PLANES: [Scheme; 5] = [
    scheme(false, false, false),
    scheme(true, false, false),
    scheme(false, true, false),
    scheme(true, true, false),
    scheme(true, false, true),
];
const OF_CUBES: [Scheme; 6] = [
    scheme(false, false, false),
    scheme(true, false, false),
    scheme(false, true, false),
    scheme(true, true, false),
    scheme(true, false, true),
    scheme(true, true, true),
];

impl Scheme {
    /// Returns the schemes that encoders choose from for tiles that extend along `axes` axes, 1 to 3, in ascending
    /// order of their codes.
    pub fn candidates(axes: usize) -> &'static [Self] {
        match axes {
            1 => &OF_LINES,
            2 => &OF_PLANES,
            _ => &OF_CUBES,
        }
    }

    /// Returns the code of the scheme in a stream, 1 to 8.
    pub const fn code(self) -> u8 {
        1 + self.is_cubic as u8 + 2 * self.x_first as u8 + 4 * self.in_planes as u8
    }

    /// Returns the scheme with this code in a stream of tiles that extend along `axes` axes, 1 to 3. A single axis is
    /// always interpolated.
    pub const fn from_code(code: u8, axes: usize) -> Option<Self> {
        match (code, axes) {
            (1..=4, 1) | (1..=8, 2..) => {
                let flags = code - 1;
                Some(scheme(flags & 1 != 0, flags & 2 != 0, flags & 4 != 0))
            }
            _ => None,
        }
    }

    /// Returns the axes in the order in which values are interpolated along them: 0 for z, 1 for y, 2 for x.
    pub(super) const fn order(self) -> [usize; 3] {
        if self.x_first { [2, 1, 0] } else { [0, 1, 2] }
    }
}
