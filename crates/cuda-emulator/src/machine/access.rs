//! Instructions that change registers or memory. Every address is checked before it is accessed.

#![allow(unsafe_code)]

use std::ptr;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::atomic::{AtomicU16, AtomicU32, AtomicU64};

use super::copies::Copy;
use super::lanes::lanes;
use super::program::{Address, LANES, Lanes, MOST_PARTS, Operation, Space};
use super::surroundings::Surroundings;
use super::warp::Warp;
use crate::memory::POISON;

/// Number of low bits of an address in a cluster's shared memory that are the offset in a block's; the upper bits are
/// the block's rank.
const RANK_SHIFT: u32 = 24;

impl Warp {
    /// Executes an operation that changes registers or memory, in the lanes of `mask`.
    pub(super) fn change(&mut self, operation: &Operation, mask: u32, here: &Surroundings<'_>) -> Result<(), String> {
        match operation {
            Operation::Map1(by, to, a) => {
                let values = by(&self.read(*a, here));
                self.write(*to, &values, mask);
            }
            Operation::Map2(by, to, a, b) => {
                let values = by(&self.read(*a, here), &self.read(*b, here));
                self.write(*to, &values, mask);
            }
            Operation::Map3(by, to, a, b, c) => {
                let values = by(&self.read(*a, here), &self.read(*b, here), &self.read(*c, here));
                self.write(*to, &values, mask);
            }
            Operation::Map4(by, to, sources) => {
                let [a, b, c, d] = sources.map(|source| self.read(source, here));
                self.write(*to, &by(&a, &b, &c, &d), mask);
            }
            Operation::Compare { by, to, opposite, a, b } => {
                let holds = by(&self.read(*a, here), &self.read(*b, here));
                to.iter().for_each(|to| self.write_predicate(*to, holds, mask));
                opposite.iter().for_each(|to| self.write_predicate(*to, !holds, mask));
            }
            Operation::Select { to, a, b, by } => {
                let (first, a, b) = (self.decide(*by), self.read(*a, here), self.read(*b, here));
                let values = std::array::from_fn(|lane| if first >> lane & 1 == 1 { a[lane] } else { b[lane] });
                self.write(*to, &values, mask);
            }
            Operation::Logic { by, to, a, b } => {
                let values = by(self.decide(*a), self.decide(*b));
                self.write_predicate(*to, values, mask);
            }
            Operation::Carry { high, to, sources } => {
                let sources = sources.map(|source| self.read(source, here));
                self.multiply_and_carry(*high, *to, &sources, mask);
            }
            Operation::Pack { to, bits, from } => {
                let mut values = [0; LANES];
                for (part, from) in from.iter().enumerate() {
                    let from = self.read(*from, here);
                    let cut = u64::MAX >> (64 - bits);
                    (0..LANES).for_each(|lane| values[lane] |= (from[lane] & cut) << (part as u32 * bits));
                }
                self.write(*to, &values, mask);
            }
            Operation::Unpack { to, bits, from } => {
                let from = self.read(*from, here);
                let cut = u64::MAX >> (64 - bits);
                for (part, to) in to.iter().enumerate() {
                    let values = from.map(|value| value >> (part as u32 * bits) & cut);
                    to.iter().for_each(|to| self.write(*to, &values, mask));
                }
            }
            Operation::Active(to) => self.write(*to, &[u64::from(mask); LANES], mask),
            Operation::Map { to, address, rank } => {
                let (address, rank) = (self.read(*address, here), self.read(*rank, here));
                let values = std::array::from_fn(|lane| rank[lane] << RANK_SHIFT | address[lane]);
                self.write(*to, &values, mask);
            }
            other => return self.change_memory(other, mask, here),
        }
        Ok(())
    }

    /// Executes a multiplication and addition with carry: 64-bit results take two such instructions.
    fn multiply_and_carry(&mut self, high: bool, to: u32, [a, b, c]: &[Lanes; 3], mask: u32) {
        let mut carry = 0;
        let values = std::array::from_fn(|lane| {
            let product = (a[lane] & 0xFFFF_FFFF) * (b[lane] & 0xFFFF_FFFF);
            let (part, before) =
                if high { (product >> 32, u64::from(self.carry >> lane & 1)) } else { (product & 0xFFFF_FFFF, 0) };
            let sum = part + (c[lane] & 0xFFFF_FFFF) + before;
            carry |= ((sum >> 32 != 0) as u32) << lane;
            sum & 0xFFFF_FFFF
        });
        if !high {
            self.carry = self.carry & !mask | carry & mask;
        }
        self.write(to, &values, mask);
    }

    fn change_memory(&mut self, operation: &Operation, mask: u32, here: &Surroundings<'_>) -> Result<(), String> {
        match operation {
            Operation::Load { to, bytes, extend, address } => {
                let addresses = self.addresses(address, here);
                let mut values = [[0; LANES]; MOST_PARTS];
                for lane in lanes(mask) {
                    let from = self.reach(address.space, addresses[lane], *bytes, to.len() as u32, lane, here)?;
                    for (part, values) in values.iter_mut().enumerate().take(to.len()) {
                        // SAFETY: `reach` has checked that the aligned values are in valid memory.
                        values[lane] = unsafe { get(from.add(part * *bytes as usize), *bytes) };
                    }
                }
                for (to, values) in to.iter().zip(&values) {
                    let values = extend.map_or(*values, |extend| extend(values));
                    to.iter().for_each(|to| self.write(*to, &values, mask));
                }
            }
            Operation::Store { from, bytes, address } => {
                let addresses = self.addresses(address, here);
                let mut values = [[0; LANES]; MOST_PARTS];
                values.iter_mut().zip(from).for_each(|(values, from)| *values = self.read(*from, here));
                for lane in lanes(mask) {
                    let to = self.reach(address.space, addresses[lane], *bytes, from.len() as u32, lane, here)?;
                    for (part, values) in values.iter().enumerate().take(from.len()) {
                        // SAFETY: `reach` has checked that the aligned values are in valid memory.
                        unsafe { put(to.add(part * *bytes as usize), *bytes, values[lane]) };
                    }
                }
            }
            Operation::Atomic { to, by, bytes, address, value } => {
                let value = self.read(*value, here);
                self.update(*to, *bytes, address, mask, here, |there, lane| Some(by(there, value[lane])))?;
            }
            Operation::Exchange { to, bytes, address, expected, value } => {
                let (expected, value) = (self.read(*expected, here), self.read(*value, here));
                self.update(*to, *bytes, address, mask, here, |there, lane| {
                    (there == expected[lane]).then_some(value[lane])
                })?;
            }
            Operation::Copy { to, from, bytes, bulk } => {
                let bytes = self.read(*bytes, here);
                let (there, source) = (self.addresses(to, here), self.addresses(from, here));
                for lane in lanes(mask) {
                    let spaces = [to.space, from.space];
                    self.begin_copy(spaces, [there[lane], source[lane]], bytes[lane] as u32, *bulk, lane, here)?;
                }
            }
            Operation::Group { bulk } => self.copies.group(*bulk, mask),
            Operation::Await { bulk, but } => {
                let copies = self.copies.awaited(*bulk, *but, mask);
                self.finish(copies);
            }
            Operation::Discard { address, bytes } => {
                let addresses = self.addresses(address, here);
                for lane in lanes(mask) {
                    if !addresses[lane].is_multiple_of(u64::from(*bytes)) {
                        return Err(format!(
                            "lane {lane} drops {bytes} bytes at {:#x}, which are no line",
                            addresses[lane]
                        ));
                    }
                    let line = self.reach(address.space, addresses[lane], *bytes, 1, lane, here)?;
                    // SAFETY: `reach` has checked that the bytes are in valid memory.
                    unsafe { line.write_bytes(POISON, *bytes as usize) };
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// Starts an asynchronous copy of a lane. Until a small copy completes, its destination contains undefined bytes,
    /// as on a device.
    fn begin_copy(
        &mut self,
        [to, from]: [Space; 2],
        [there, source]: [u64; 2],
        bytes: u32,
        bulk: bool,
        lane: usize,
        here: &Surroundings<'_>,
    ) -> Result<(), String> {
        let unit = if bulk { 16 } else { bytes };
        if !(if bulk { bytes.is_multiple_of(16) } else { matches!(bytes, 4 | 8 | 16) }) {
            return Err(format!("lane {lane} copies {bytes} bytes, which no copy can"));
        }
        if [there, source].iter().any(|address| !address.is_multiple_of(unit.into())) {
            return Err(format!(
                "lane {lane} copies {bytes} bytes from {source:#x} to {there:#x}, which are not aligned"
            ));
        }
        let source = self.reach(from, source, bytes, 1, lane, here)?;
        let target = self.reach(to, there, bytes, 1, lane, here)?;
        if !bulk {
            // SAFETY: `reach` has checked that the bytes are in valid memory.
            unsafe { target.write_bytes(POISON, bytes as usize) };
        }
        self.copies.begin(Copy { lane, bulk, to: target as u64, from: source as u64, bytes });
        Ok(())
    }

    /// Completes copies that were started.
    pub(super) fn finish(&mut self, copies: Vec<Copy>) {
        for Copy { to, from, bytes, .. } in copies {
            // SAFETY: `begin_copy` has checked both ranges. One is in device memory, which the host must not free while
            // a kernel runs, the other in the shared memory of the running block.
            unsafe { ptr::copy_nonoverlapping(from as *const u8, to as *mut u8, bytes as usize) };
        }
    }

    /// Atomically replaces the value at each lane's address by the result of `change`, if there is one, lane after
    /// lane. The old values are written to a register. Atomic, because kernels of other host threads may access the
    /// same value.
    fn update(
        &mut self,
        to: Option<u32>,
        bytes: u32,
        address: &Address,
        mask: u32,
        here: &Surroundings<'_>,
        change: impl Fn(u64, usize) -> Option<u64>,
    ) -> Result<(), String> {
        let addresses = self.addresses(address, here);
        let mut before = [0; LANES];
        for lane in lanes(mask) {
            let place = self.reach(address.space, addresses[lane], bytes, 1, lane, here)?;
            // SAFETY: `reach` has checked that the aligned value is in valid memory.
            before[lane] = unsafe { replace(place, bytes, |there| change(there, lane)) }?;
        }
        to.iter().for_each(|to| self.write(*to, &before, mask));
        Ok(())
    }

    fn addresses(&self, address: &Address, here: &Surroundings<'_>) -> Lanes {
        self.read(address.base, here).map(|base| base.wrapping_add_signed(address.offset))
    }

    /// Returns the host address of a lane's `address`, after checking that all of `count` values of `bytes` bytes are
    /// aligned and in valid memory.
    fn reach(
        &mut self,
        space: Space,
        address: u64,
        bytes: u32,
        count: u32,
        lane: usize,
        here: &Surroundings<'_>,
    ) -> Result<*mut u8, String> {
        let all = u64::from(bytes) * u64::from(count);
        let place = match space {
            Space::Shared => in_shared(u64::from(address as u32), here.rank, all, here),
            Space::Cluster => {
                let rank = address as u32 >> RANK_SHIFT;
                in_shared(u64::from(address as u32) & ((1 << RANK_SHIFT) - 1), rank, all, here)
            }
            Space::Global => self.in_device_memory(address, all, here),
            Space::Local => self.in_local(address, all, lane, here),
            Space::Parameter => in_piece(address, all, here.parameters),
            Space::Generic => {
                let shared = here.shared[here.rank as usize];
                in_piece(address, all, (shared, here.shared_bytes))
                    .or_else(|| self.in_local(address, all, lane, here))
                    .or_else(|| in_piece(address, all, here.parameters))
                    .or_else(|| self.in_device_memory(address, all, here))
            }
        };
        let place = place.ok_or_else(|| {
            format!("lane {lane} reaches for {all} bytes at {address:#x} ({space:?}), where there is nothing")
        })?;
        let unit = if count.is_power_of_two() && count as usize <= MOST_PARTS { all } else { u64::from(bytes) };
        if unit.is_power_of_two() && unit <= 16 && !place.is_multiple_of(unit) {
            return Err(format!(
                "lane {lane} reaches for {all} bytes at {address:#x} ({space:?}), which are not aligned"
            ));
        }
        Ok(place as *mut u8)
    }

    fn in_device_memory(&mut self, address: u64, bytes: u64, here: &Surroundings<'_>) -> Option<u64> {
        let inside =
            |(start, end): (u64, u64)| address >= start && address.checked_add(bytes).is_some_and(|last| last <= end);
        if inside(self.window) {
            return Some(address);
        }
        let (start, length) = here.memory.piece(address)?;
        self.window = (start, start + length as u64);
        inside(self.window).then_some(address)
    }

    fn in_local(&self, address: u64, bytes: u64, lane: usize, here: &Surroundings<'_>) -> Option<u64> {
        let stride = Self::local_stride(here.program);
        in_piece(address, bytes, (self.local.as_ptr() as u64 + lane as u64 * stride, stride))
    }
}

/// Returns the address if the whole range lies within this allocation.
fn in_piece(address: u64, bytes: u64, (start, length): (u64, u64)) -> Option<u64> {
    let offset = address.checked_sub(start)?;
    (offset < length && bytes <= length - offset).then_some(address)
}

/// Returns the host address of a range in a block's shared memory, or `None` if the block has exited.
fn in_shared(offset: u64, rank: u32, bytes: u64, here: &Surroundings<'_>) -> Option<u64> {
    let start = *here.shared.get(rank as usize).filter(|&&start| start != 0)?;
    (offset < here.shared_bytes && bytes <= here.shared_bytes - offset).then_some(start + offset)
}

/// Reads a number of `bytes` bytes.
///
/// # Safety
/// `from` must be aligned and valid for reads of `bytes` bytes.
unsafe fn get(from: *const u8, bytes: u32) -> u64 {
    // Volatile, because the host and kernels on other streams may access the same memory meanwhile. SAFETY: the caller
    // guarantees that `from` is aligned and valid.
    unsafe {
        match bytes {
            1 => u64::from(from.read_volatile()),
            2 => u64::from(from.cast::<u16>().read_volatile()),
            4 => u64::from(from.cast::<u32>().read_volatile()),
            _ => from.cast::<u64>().read_volatile(),
        }
    }
}

/// Atomically replaces a number of `bytes` bytes by the result of `change`, if there is one. Returns the old number.
///
/// # Safety
/// `place` must be aligned and valid for reads and writes of `bytes` bytes.
unsafe fn replace(place: *mut u8, bytes: u32, mut change: impl FnMut(u64) -> Option<u64>) -> Result<u64, String> {
    macro_rules! replace {
        ($atomic:ident, $word:ty) => {{
            // SAFETY: the caller guarantees that `place` is aligned and valid.
            let place = unsafe { $atomic::from_ptr(place.cast()) };
            let change = |there: $word| change(there.into()).map(|value| value as $word);
            u64::from(place.fetch_update(SeqCst, SeqCst, change).unwrap_or_else(|there| there))
        }};
    }
    Ok(match bytes {
        2 => replace!(AtomicU16, u16),
        4 => replace!(AtomicU32, u32),
        8 => replace!(AtomicU64, u64),
        _ => return Err(format!("nothing changes {bytes} bytes at once")),
    })
}

/// Writes the low bytes of a number.
///
/// # Safety
/// `to` must be aligned and valid for writes of `bytes` bytes.
unsafe fn put(to: *mut u8, bytes: u32, value: u64) {
    // SAFETY: the caller guarantees that `to` is aligned and valid.
    unsafe {
        match bytes {
            1 => to.write_volatile(value as u8),
            2 => to.cast::<u16>().write_volatile(value as u16),
            4 => to.cast::<u32>().write_volatile(value as u32),
            _ => to.cast::<u64>().write_volatile(value),
        }
    }
}
