//! Operations on integers and bits.

use super::{Lanes, Map1, Map2, Map3, Map4, Update, each, each2, each3, each4, table};

/// Returns the low 32 bits.
fn word(value: u64) -> u32 {
    value as u32
}

/// Returns the low 32 bits as a signed number.
fn signed(value: u64) -> i32 {
    value as u32 as i32
}

/// Returns the low 16 bits as a signed number.
fn short(value: u64) -> i16 {
    value as u16 as i16
}

/// Returns the register contents of a signed 32-bit number.
fn bits(value: i32) -> u64 {
    u64::from(value as u32)
}

/// Returns the register contents of a signed 16-bit number.
fn short_bits(value: i16) -> u64 {
    u64::from(value as u16)
}

/// Applies `f` to both halves of a word.
fn halves(a: u64, b: u64, f: impl Fn(u16, u16) -> u16) -> u64 {
    let low = f(a as u16, b as u16);
    let high = f((a >> 16) as u16, (b >> 16) as u16);
    u64::from(low) | u64::from(high) << 16
}

/// Selects bytes of `a` (0 to 3) and `b` (4 to 7) by the four low nibbles of `selector`. If the top bit of a nibble is
/// set, the result's byte consists of copies of the selected byte's sign.
fn permute(a: u64, b: u64, selector: u64) -> u64 {
    let bytes = a & 0xFFFF_FFFF | b << 32;
    (0..4).fold(0, |sum, place| {
        let nibble = selector >> (4 * place) & 0xF;
        let byte = bytes >> (8 * (nibble & 7)) & 0xFF;
        let byte = if nibble & 8 == 0 { byte } else { (byte >> 7) * 0xFF };
        sum | byte << (8 * place)
    })
}

/// Returns `into` with the `length` low bits of `from` inserted at bit `position`; both have `width` bits.
fn insert(from: u64, into: u64, position: u64, length: u64, width: u64) -> u64 {
    let (position, length) = (position & 0xFF, length & 0xFF);
    if position >= width || length == 0 {
        return into;
    }
    let length = length.min(width - position);
    let mask = (u64::MAX >> (64 - length)) << position;
    into & !mask | from << position & mask
}

/// Returns `length` bits of `from` at bit `position`, zero-extended. `from` has `width` bits.
fn extract(from: u64, position: u64, length: u64, width: u64) -> u64 {
    let (position, length) = (position & 0xFF, length & 0xFF);
    if position >= width || length == 0 {
        return 0;
    }
    from >> position & u64::MAX >> (64 - length.min(width - position))
}

/// Returns the upper word of the 64-bit value `high:low`, shifted left by `shift` bits.
fn funnel_left(low: u64, high: u64, shift: u32) -> u64 {
    let both = (high & 0xFFFF_FFFF) << 32 | low & 0xFFFF_FFFF;
    u64::from((both.checked_shl(shift).unwrap_or(0) >> 32) as u32)
}

/// Returns the lower word of the 64-bit value `high:low`, shifted right by `shift` bits.
fn funnel_right(low: u64, high: u64, shift: u32) -> u64 {
    let both = (high & 0xFFFF_FFFF) << 32 | low & 0xFFFF_FFFF;
    u64::from(both.checked_shr(shift).unwrap_or(0) as u32)
}

/// Returns `sum` plus the products of four pairs of bytes.
fn dot4(a: u64, b: u64, sum: u64) -> u64 {
    let product = |place: u32| (word(a) >> (8 * place) & 0xFF).wrapping_mul(word(b) >> (8 * place) & 0xFF);
    u64::from((0..4).fold(word(sum), |sum, place| sum.wrapping_add(product(place))))
}

/// Returns `sum` plus the products of two halves of `a` and two bytes of `b`, from byte `first` on.
fn dot2(a: u64, b: u64, sum: u64, first: u32) -> u64 {
    let product = |place: u32| (word(a) >> (16 * place) & 0xFFFF).wrapping_mul(word(b) >> (8 * (first + place)) & 0xFF);
    u64::from(word(sum).wrapping_add(product(0)).wrapping_add(product(1)))
}

pub(super) fn unary(opcode: &str) -> Option<Map1> {
    table! { opcode; each;
        "mov.u16" | "mov.b16" | "mov.s16" | "mov.u32" | "mov.b32" | "mov.s32" | "mov.f32" | "mov.u64" | "mov.b64"
            | "mov.s64" | "mov.f64" | "cvta.to.global.u64" | "cvta.global.u64" | "cvta.local.u64" | "cvta.to.local.u64"
            | "cvta.param.u64" | "cvta.const.u64" | "cvta.to.const.u64" => |a| a,
        "not.b16" => |a| !a & 0xFFFF,
        "not.b32" => |a| !a & 0xFFFF_FFFF,
        "not.b64" => |a| !a,
        "neg.s16" => |a| short_bits(short(a).wrapping_neg()),
        "neg.s32" => |a| bits(signed(a).wrapping_neg()),
        "neg.s64" => |a| a.wrapping_neg(),
        "abs.s16" => |a| short_bits(short(a).wrapping_abs()),
        "abs.s32" => |a| bits(signed(a).wrapping_abs()),
        "abs.s64" => |a| (a as i64).wrapping_abs() as u64,
        "popc.b32" => |a| u64::from(word(a).count_ones()),
        "popc.b64" => |a| u64::from(a.count_ones()),
        "clz.b32" => |a| u64::from(word(a).leading_zeros()),
        "clz.b64" => |a| u64::from(a.leading_zeros()),
        "brev.b32" => |a| u64::from(word(a).reverse_bits()),
        "brev.b64" => |a| a.reverse_bits(),
        "bfind.u32" => |a| u64::from(31_u32.wrapping_sub(word(a).leading_zeros())),
        "bfind.shiftamt.u32" => |a| if word(a) == 0 { 0xFFFF_FFFF } else { u64::from(word(a).leading_zeros()) },
        "bfind.u64" => |a| u64::from(63_u32.wrapping_sub(a.leading_zeros())),
        "bfind.shiftamt.u64" => |a| if a == 0 { 0xFFFF_FFFF } else { u64::from(a.leading_zeros()) },
    }
}

pub(super) fn binary(opcode: &str) -> Option<Map2> {
    arithmetic(opcode).or_else(|| bitwise(opcode))
}

fn arithmetic(opcode: &str) -> Option<Map2> {
    table! { opcode; each2;
        "add.s16" | "add.u16" => |a, b| (a.wrapping_add(b)) & 0xFFFF,
        "add.s32" | "add.u32" => |a, b| u64::from(word(a).wrapping_add(word(b))),
        "add.s64" | "add.u64" => |a, b| a.wrapping_add(b),
        "add.u16x2" => |a, b| halves(a, b, u16::wrapping_add),
        "sub.s16" | "sub.u16" => |a, b| a.wrapping_sub(b) & 0xFFFF,
        "sub.s32" | "sub.u32" => |a, b| u64::from(word(a).wrapping_sub(word(b))),
        "sub.s64" | "sub.u64" => |a, b| a.wrapping_sub(b),
        "mul.lo.s16" | "mul.lo.u16" => |a, b| a.wrapping_mul(b) & 0xFFFF,
        "mul.lo.s32" | "mul.lo.u32" => |a, b| u64::from(word(a).wrapping_mul(word(b))),
        "mul.lo.s64" | "mul.lo.u64" => |a, b| a.wrapping_mul(b),
        "mul.hi.u16" => |a, b| ((a & 0xFFFF) * (b & 0xFFFF)) >> 16,
        "mul.hi.u32" => |a, b| (u64::from(word(a)) * u64::from(word(b))) >> 32,
        "mul.hi.s32" => |a, b| bits(((i64::from(signed(a)) * i64::from(signed(b))) >> 32) as i32),
        "mul.hi.u64" => |a, b| ((u128::from(a) * u128::from(b)) >> 64) as u64,
        "mul.hi.s64" => |a, b| ((i128::from(a as i64) * i128::from(b as i64)) >> 64) as u64,
        "mul.wide.u16" => |a, b| (a & 0xFFFF) * (b & 0xFFFF),
        "mul.wide.s16" => |a, b| bits(i32::from(short(a)) * i32::from(short(b))),
        "mul.wide.u32" => |a, b| u64::from(word(a)) * u64::from(word(b)),
        "mul.wide.s32" => |a, b| (i64::from(signed(a)) * i64::from(signed(b))) as u64,
        "div.u16" => |a, b| (a & 0xFFFF).checked_div(b & 0xFFFF).unwrap_or(0xFFFF),
        "div.u32" => |a, b| u64::from(word(a).checked_div(word(b)).unwrap_or(u32::MAX)),
        "div.s32" => |a, b| bits(signed(a).checked_div(signed(b)).unwrap_or(-1)),
        "div.u64" => |a, b| a.checked_div(b).unwrap_or(u64::MAX),
        "div.s64" => |a, b| (a as i64).checked_div(b as i64).unwrap_or(-1) as u64,
        "rem.u16" => |a, b| (a & 0xFFFF).checked_rem(b & 0xFFFF).unwrap_or(a & 0xFFFF),
        "rem.u32" => |a, b| u64::from(word(a).checked_rem(word(b)).unwrap_or(word(a))),
        "rem.s32" => |a, b| bits(signed(a).checked_rem(signed(b)).unwrap_or(signed(a))),
        "rem.u64" => |a, b| a.checked_rem(b).unwrap_or(a),
        "rem.s64" => |a, b| (a as i64).checked_rem(b as i64).unwrap_or(a as i64) as u64,
        "min.u16" | "min.u32" | "min.u64" => |a, b| a.min(b),
        "max.u16" | "max.u32" | "max.u64" => |a, b| a.max(b),
        "min.s16" => |a, b| short_bits(short(a).min(short(b))),
        "max.s16" => |a, b| short_bits(short(a).max(short(b))),
        "min.s32" => |a, b| bits(signed(a).min(signed(b))),
        "max.s32" => |a, b| bits(signed(a).max(signed(b))),
        "min.s64" => |a, b| (a as i64).min(b as i64) as u64,
        "max.s64" => |a, b| (a as i64).max(b as i64) as u64,
        "min.u16x2" => |a, b| halves(a, b, u16::min),
        "max.u16x2" => |a, b| halves(a, b, u16::max),
        "min.s16x2" => |a, b| halves(a, b, |a, b| (a as i16).min(b as i16) as u16),
        "max.s16x2" => |a, b| halves(a, b, |a, b| (a as i16).max(b as i16) as u16),
    }
}

fn bitwise(opcode: &str) -> Option<Map2> {
    table! { opcode; each2;
        "and.b16" | "and.b32" | "and.b64" => |a, b| a & b,
        "or.b16" | "or.b32" | "or.b64" => |a, b| a | b,
        "xor.b16" | "xor.b32" | "xor.b64" => |a, b| a ^ b,
        "shl.b16" => |a, b| a.checked_shl(word(b)).unwrap_or(0) & 0xFFFF,
        "shl.b32" => |a, b| a.checked_shl(word(b)).unwrap_or(0) & 0xFFFF_FFFF,
        "shl.b64" => |a, b| a.checked_shl(word(b)).unwrap_or(0),
        "shr.u16" | "shr.b16" | "shr.u32" | "shr.b32" | "shr.u64" | "shr.b64" =>
            |a, b| a.checked_shr(word(b)).unwrap_or(0),
        "shr.s16" => |a, b| short_bits(short(a) >> word(b).min(15)),
        "shr.s32" => |a, b| bits(signed(a) >> word(b).min(31)),
        "shr.s64" => |a, b| ((a as i64) >> word(b).min(63)) as u64,
    }
}

pub(super) fn ternary(opcode: &str) -> Option<Map3> {
    table! { opcode; each3;
        "mad.lo.s16" | "mad.lo.u16" => |a, b, c| a.wrapping_mul(b).wrapping_add(c) & 0xFFFF,
        "mad.lo.s32" | "mad.lo.u32" => |a, b, c| u64::from(word(a).wrapping_mul(word(b)).wrapping_add(word(c))),
        "mad.lo.s64" | "mad.lo.u64" => |a, b, c| a.wrapping_mul(b).wrapping_add(c),
        "mad.wide.u32" => |a, b, c| (u64::from(word(a)) * u64::from(word(b))).wrapping_add(c),
        "mad.wide.s32" => |a, b, c| ((i64::from(signed(a)) * i64::from(signed(b))) as u64).wrapping_add(c),
        "mad.hi.u32" => |a, b, c| {
            let product = u64::from(word(a)) * u64::from(word(b));
            u64::from(((product >> 32) as u32).wrapping_add(word(c)))
        },
        "shf.l.wrap.b32" => |a, b, c| funnel_left(a, b, word(c) & 31),
        "shf.l.clamp.b32" => |a, b, c| funnel_left(a, b, word(c).min(32)),
        "shf.r.wrap.b32" => |a, b, c| funnel_right(a, b, word(c) & 31),
        "shf.r.clamp.b32" => |a, b, c| funnel_right(a, b, word(c).min(32)),
        "prmt.b32" => |a, b, c| permute(a, b, c),
        "dp4a.u32.u32" => |a, b, c| dot4(a, b, c),
        "dp2a.lo.u32.u32" => |a, b, c| dot2(a, b, c, 0),
        "dp2a.hi.u32.u32" => |a, b, c| dot2(a, b, c, 2),
        "bfe.u32" => |a, b, c| extract(a, b, c, 32),
        "bfe.u64" => |a, b, c| extract(a, b, c, 64),
    }
}

pub(super) fn quaternary(opcode: &str) -> Option<Map4> {
    table! { opcode; each4;
        "bfi.b32" => |a, b, c, d| insert(a, b, c, d, 32),
        "bfi.b64" => |a, b, c, d| insert(a, b, c, d, 64),
    }
}

pub(super) fn update(name: &str, kind: &str) -> Option<Update> {
    Some(match (name, kind) {
        ("add", "u32" | "s32") => |a, b| u64::from(word(a).wrapping_add(word(b))),
        ("add", "u64" | "s64") => |a, b| a.wrapping_add(b),
        ("min", "u32" | "u64") => |a, b| a.min(b),
        ("max", "u32" | "u64") => |a, b| a.max(b),
        ("min", "s32") => |a, b| bits(signed(a).min(signed(b))),
        ("max", "s32") => |a, b| bits(signed(a).max(signed(b))),
        ("min", "s64") => |a, b| (a as i64).min(b as i64) as u64,
        ("max", "s64") => |a, b| (a as i64).max(b as i64) as u64,
        ("and", "b32" | "b64") => |a, b| a & b,
        ("or", "b32" | "b64") => |a, b| a | b,
        ("xor", "b32" | "b64") => |a, b| a ^ b,
        ("exch", "b32" | "b64") => |_, b| b,
        ("inc", "u32") => |a, b| if word(a) >= word(b) { 0 } else { a + 1 },
        ("dec", "u32") => |a, b| if a == 0 || word(a) > word(b) { b } else { a - 1 },
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the result of an opcode for these values.
    fn of(opcode: &str, values: &[u64]) -> u64 {
        let lanes: Vec<Lanes> = values.iter().map(|&value| [value; 32]).collect();
        match lanes.as_slice() {
            [a] => unary(opcode).unwrap()(a)[7],
            [a, b] => binary(opcode).unwrap()(a, b)[7],
            [a, b, c] => ternary(opcode).unwrap()(a, b, c)[7],
            [a, b, c, d] => quaternary(opcode).unwrap()(a, b, c, d)[7],
            _ => unreachable!(),
        }
    }

    #[test]
    fn results_are_zero_extended() {
        assert_eq!(of("add.s32", &[0xFFFF_FFFF, 1]), 0);
        assert_eq!(of("sub.s32", &[0, 1]), 0xFFFF_FFFF);
        assert_eq!(of("sub.s16", &[0, 1]), 0xFFFF);
        assert_eq!(of("neg.s32", &[5]), 0xFFFF_FFFB);
        assert_eq!(of("not.b32", &[0]), 0xFFFF_FFFF);
        assert_eq!(of("mul.wide.s32", &[0xFFFF_FFFF, 2]), u64::MAX - 1);
        assert_eq!(of("mul.hi.s32", &[0xFFFF_FFFF, 2]), 0xFFFF_FFFF);
        assert_eq!(of("shr.s32", &[0x8000_0000, 40]), 0xFFFF_FFFF);
        assert_eq!(of("shl.b32", &[1, 32]), 0);
        assert_eq!(of("bfind.u32", &[0]), 0xFFFF_FFFF);
        assert_eq!(of("bfind.shiftamt.u32", &[1]), 31);
    }

    #[test]
    fn bits_move_as_the_manual_says() {
        assert_eq!(of("prmt.b32", &[0x3322_1100, 0x7766_5544, 0x7531]), 0x7755_3311);
        assert_eq!(of("prmt.b32", &[0x0000_0080, 0, 0x8888]), 0xFFFF_FFFF);
        assert_eq!(of("shf.l.wrap.b32", &[0x8000_0000, 1, 1]), 3);
        assert_eq!(of("shf.r.wrap.b32", &[2, 1, 1]), 0x8000_0001);
        assert_eq!(of("shf.r.clamp.b32", &[2, 1, 40]), 1);
        assert_eq!(of("bfi.b32", &[0xF, 0, 4, 2]), 0x30);
        assert_eq!(of("bfi.b64", &[0xFF, u64::MAX, 60, 8]), u64::MAX);
        assert_eq!(of("dp4a.u32.u32", &[0x0102_0304, 0x0101_0101, 5]), 15);
        assert_eq!(of("dp2a.lo.u32.u32", &[0x0002_0003, 0x0000_0504, 1]), 23);
    }
}
