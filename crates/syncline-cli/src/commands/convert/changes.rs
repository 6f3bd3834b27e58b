//! The arrays of a file or store, and what a conversion made of them.

use syncline::Bound;

use crate::conventions::{Variable, was_lossy};

/// An array of the input.
pub struct Array {
    /// What the conventions look at.
    pub variable: Variable,
    /// Whether elements are floating-point numbers, of a type that Syncline has or another.
    pub is_floating: bool,
    /// Extents, slowest axis first.
    pub extents: Vec<u64>,
    /// Bytes of the elements.
    pub array: u64,
    /// Bytes that the elements take in the input.
    pub before: u64,
    /// Whether the elements are in other arrays or files.
    pub is_elsewhere: bool,
}

/// What became of a floating-point array.
pub struct Change {
    /// The array.
    pub array: Array,
    /// Bytes that the chunks take now.
    pub after: u64,
    /// What was done: the bound that was asked for, and the one that holds, which is an absolute error, or relative to
    /// each value for [`Bound::PwRel`], and 0 if lossless. Or the reason why it was copied.
    pub result: Result<(Bound, f64), String>,
}

impl Change {
    /// Returns what else is to be known, if the array was compressed with a bound before.
    pub fn remark(&self) -> Option<String> {
        let is_lossy = self.result.as_ref().is_ok_and(|&(_, holds)| holds > 0.0);
        let again = is_lossy && was_lossy(&self.array.variable.attributes);
        let path = &self.array.variable.path;
        again.then(|| format!("{path}: was compressed with an error bound before: the errors of both add up"))
    }
}

/// What a conversion did.
#[derive(Default)]
pub struct Conversion {
    /// Bytes of the input and of the output.
    pub bytes: [u64; 2],
    /// Floating-point arrays, in order.
    pub changes: Vec<Change>,
    /// The number of other arrays, which are as they were.
    pub others: u64,
    /// Attributes and datasets with references that are null in the copy.
    pub lost_references: u64,
    /// What else is not as it was.
    pub remarks: Vec<String>,
}
