//! Columns of TPC-H's table lineitem, made by the crate `tpchgen`: the numbers that every generator of this benchmark
//! makes.

use rayon::prelude::*;
use tpchgen::generators::{LineItem, LineItemGenerator};

/// Parts that a table is generated in.
const PARTS: i32 = 64;
/// About the lines of a table of scale factor 1, which has 6,001,215.
const LINES: usize = 6_000_000;

/// A column of integers: keys and dates (days since 1970) as they are, amounts in hundredths.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Integers {
    /// Of the order; ascending.
    OrderKey,
    /// Of the part; random.
    PartKey,
    /// Of the supplier; random.
    SuppKey,
    /// Number of the line in its order.
    LineNumber,
    /// 1 to 50 pieces.
    Quantity,
    /// Price of all of them.
    ExtendedPrice,
    /// 0 to 10 hundredths.
    Discount,
    /// Seven years of days.
    ShipDate,
}

impl Integers {
    /// Every column.
    pub const ALL: [Self; 8] = [
        Self::OrderKey,
        Self::PartKey,
        Self::SuppKey,
        Self::LineNumber,
        Self::Quantity,
        Self::ExtendedPrice,
        Self::Discount,
        Self::ShipDate,
    ];

    /// Its name without `l_`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::OrderKey => "orderkey",
            Self::PartKey => "partkey",
            Self::SuppKey => "suppkey",
            Self::LineNumber => "linenumber",
            Self::Quantity => "quantity",
            Self::ExtendedPrice => "extendedprice",
            Self::Discount => "discount",
            Self::ShipDate => "shipdate",
        }
    }

    fn of(self, line: &LineItem<'_>) -> i32 {
        // Keys are below 2^31 up to scale factors that no test of a codec needs.
        match self {
            Self::OrderKey => line.l_orderkey as i32,
            Self::PartKey => line.l_partkey as i32,
            Self::SuppKey => line.l_suppkey as i32,
            Self::LineNumber => line.l_linenumber,
            Self::Quantity => line.l_quantity as i32,
            Self::ExtendedPrice => line.l_extendedprice.into_inner() as i32,
            Self::Discount => line.l_discount.into_inner() as i32,
            Self::ShipDate => line.l_shipdate.to_unix_epoch(),
        }
    }
}

/// A column of strings, each ended by a newline.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Strings {
    /// Words of a small grammar.
    Comment,
    /// One of four.
    ShipInstruct,
    /// One of seven.
    ShipMode,
}

impl Strings {
    /// Every column.
    pub const ALL: [Self; 3] = [Self::Comment, Self::ShipInstruct, Self::ShipMode];

    /// Its name without `l_`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Comment => "comment",
            Self::ShipInstruct => "shipinstruct",
            Self::ShipMode => "shipmode",
        }
    }

    fn of<'l>(self, line: &LineItem<'l>) -> &'l str {
        match self {
            Self::Comment => line.l_comment,
            Self::ShipInstruct => line.l_shipinstruct,
            Self::ShipMode => line.l_shipmode,
        }
    }
}

/// What `take` makes of the first `lines` lines, in order. The table has scale factor 1, or as much as it takes to have
/// so many.
fn first_lines<T: Send>(lines: usize, take: impl Fn(&LineItem<'_>) -> T + Sync) -> Vec<T> {
    // Lines grow with the scale, but not quite evenly; so do those of parts.
    let scale = (lines as f64 * 1.01 / LINES as f64).ceil().max(1.0);
    let a_part = (LINES as f64 * scale / f64::from(PARTS) * 0.98) as usize;
    let parts = (lines.div_ceil(a_part) as i32).min(PARTS);
    let part = |part| LineItemGenerator::new(scale, part, PARTS).iter().map(|line| take(&line)).collect::<Vec<T>>();
    let all: Vec<Vec<T>> = (1..=parts).into_par_iter().map(part).collect();
    let mut all: Vec<T> = all.into_iter().flatten().collect();
    all.truncate(lines);
    all
}

/// The first `lines` values of columns, one column after the other.
pub fn integers(columns: &[Integers], lines: usize) -> Vec<i32> {
    let rows = first_lines(lines, |line| Integers::ALL.map(|column| column.of(line)));
    columns.iter().flat_map(|&column| rows.iter().map(move |row| row[column as usize])).collect()
}

/// The strings of the first `lines` lines in these columns, one column after the other.
pub fn strings(columns: &[Strings], lines: usize) -> Vec<u8> {
    let texts = columns.iter().flat_map(|&column| {
        let texts = first_lines(lines, |line| column.of(line).to_owned() + "\n");
        texts.into_iter().flat_map(String::into_bytes)
    });
    texts.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_those_of_the_benchmark() {
        // The first lines of the table at scale factor 1, as its specification's own generator prints them.
        let values = integers(&Integers::ALL, 3);
        let expected = [
            [1, 1, 1],
            [155_190, 67_310, 63_700],
            [7706, 7311, 3701],
            [1, 2, 3],
            [17, 36, 8],
            [2_116_823, 4_598_316, 1_330_960],
            [4, 9, 10],
            [9568, 9598, 9524],
        ];
        assert_eq!(values, expected.concat());
        let text = String::from_utf8(strings(&[Strings::ShipMode, Strings::Comment], 3)).unwrap();
        assert!(text.starts_with("TRUCK\nMAIL\nREG AIR\negular courts above the\n"), "{text}");
    }

    #[test]
    fn as_many_lines_as_asked_for_across_parts() {
        for lines in [0, 1, 250_000] {
            let keys = integers(&[Integers::OrderKey, Integers::LineNumber], lines);
            assert_eq!(keys.len(), 2 * lines);
            let (keys, numbers) = keys.split_at(lines);
            assert!(keys.is_sorted());
            assert!(
                keys.windows(2).zip(numbers.windows(2)).all(|(key, number)| (key[0] == key[1]) == (number[1] != 1))
            );
        }
    }
}
