//! `syncline verify`.

use std::ops::Range;

use serde_json::{Value, json};
use syncline::quality::{Comparison, Criteria, Quality, RangeScan, Tolerance};
use syncline::{Bound, Execution, Header, Pipeline, Shape};

use crate::args::{JudgeArgs, Limits, Talk, VerifyArgs};
use crate::commands::{aligned, check_device, say};
use crate::format::{self, bits_per_value, bytes, counted, grouped, number, optional, psnr, ratio};
use crate::input::ArrayInput;
use crate::json;
use crate::message::{Failure, Outcome};
use crate::names::is_dash;

use crate::progress::Bar;
use crate::region::{shape_of, stretches, whole};
use crate::stream::{OpenStream, decode_options};

/// Bytes of the original that are scanned at a time.
const PIECE: u64 = 16 << 20;
/// The same with a low memory limit: with less, reading would take long.
const SMALLEST_PIECE: u64 = 1 << 16;

/// Runs the command.
pub fn run(args: &VerifyArgs, talk: Talk) -> Outcome {
    if is_dash(&args.original) && is_dash(&args.input) {
        return Err(Failure::usage("only one of ORIGINAL and IN can be stdin: name a file for the other"));
    }
    let limit = args.resources.limits.memory_limit;
    let stream = OpenStream::open(&args.input, limit)?;
    let header = stream.file.header();
    let original = ArrayInput::open_original(&args.original, header.element_type, header.shape, limit)?;
    let region = args.region.as_ref().map(|region| region.within(header.shape)).transpose();
    let region = region.map_err(|text| Failure::usage(format!("{}: {text}", stream.name)))?;
    let shape = region.as_deref().map_or(header.shape, shape_of);
    let bar = Bar::new("verifying", header.element_type, !talk.quiet);
    let range = scan_range(&original, &fills(header), args.resources.limits)?;
    let criteria = Criteria {
        element_type: header.element_type,
        shape,
        fills: fills(header),
        range,
        tolerance: judged(args.judge, range).unwrap_or_else(|| tolerance(header)),
    };
    let comparison = Comparison::new(criteria).with_threads(args.resources.limits.threads);
    let mut comparison = comparison.map_err(|error| Failure::of(&stream.name, error))?;
    let mut elements = Elements::new(&original, region.as_deref());
    let region = region.unwrap_or_else(|| whole(header.shape));
    let execution = stream.for_each_slab(&region, &decode_options(args.resources), |part, done| {
        let piece = elements.next(part.len())?;
        comparison.push(&piece, part).map_err(|error| Failure::of(&stream.name, error))?;
        bar.show(done, shape.len());
        Ok(())
    })?;
    let quality = comparison.finish().map_err(|error| Failure::of(&stream.name, error))?;
    bar.finish();
    check_device(args.resources, &execution, talk);

    // The bound of the stream refers to the whole array.
    let own = args.judge.is_none() && args.region.is_none();
    let complaint = if own { complaint(&quality, header) } else { beyond(&quality) };
    let complaint_text = complaint.as_deref();
    let verified = Verified { original, shape, judge: args.judge, stream: &stream, quality, execution, complaint_text };
    let said = match (args.json, talk.quiet) {
        (true, _) => json::print(&verified.json()),
        (false, false) => say(&verified.lines(talk)),
        (false, true) => Ok(()),
    };
    // The verdict is returned even if the reader closes the pipe.
    match complaint {
        Some(text) => Err(Failure::data(format!("{}: {text}: do not use it in place of the original", stream.name))),
        None => said,
    }
}

/// The result of a comparison.
struct Verified<'a> {
    original: ArrayInput,
    /// The shape of what was compared.
    shape: Shape,
    judge: JudgeArgs,
    stream: &'a OpenStream,
    quality: Quality,
    execution: Execution,
    complaint_text: Option<&'a str>,
}

impl Verified<'_> {
    fn ratio(&self) -> f64 {
        ratio(self.original.size(), self.stream.bytes)
    }

    fn bits_per_value(&self) -> f64 {
        bits_per_value(self.stream.bytes, self.original.shape.len())
    }

    /// Returns the result as JSON.
    fn json(&self) -> Value {
        let more = json!({
            "original": self.original.input.to_string(),
            "input": self.stream.name,
            "holds": self.complaint_text.is_none(),
            "bound": self.judge.json().unwrap_or_else(|| json::bound(self.stream.file.header().bound)),
            "element_type": self.original.element_type.name(),
            "shape": self.shape.extents(),
            "device": json::execution(&self.execution),
            "compressed_bytes": self.stream.bytes,
            "uncompressed_bytes": self.original.size(),
            "ratio": self.ratio(),
            "bits_per_value": self.bits_per_value(),
        });
        json::merged(json::quality(&self.quality), more)
    }

    /// Returns the result as lines of text.
    fn lines(&self, talk: Talk) -> Vec<String> {
        let header = self.stream.file.header();
        let sizes = format!("{} -> {}", bytes(self.original.size()), bytes(self.stream.bytes));
        let mut rows = vec![
            ("array", format!("{} {}", header.element_type, self.shape)),
            ("bound", format::bound(self.judge.bound().unwrap_or(header.bound))),
        ];
        rows.extend(quality_rows(&self.quality));
        rows.extend([
            ("ratio", format!("{} ({sizes})", number(self.ratio()))),
            ("bits a value", number(self.bits_per_value())),
        ]);
        if talk.verbose {
            rows.push(("decompressed on", self.execution.to_string()));
        }
        rows.push(("verdict", self.complaint_text.unwrap_or("the bound holds").into()));
        aligned(&rows)
    }
}

/// Returns the error that each element of a stream may have.
pub fn tolerance(header: &Header) -> Tolerance {
    match (header.pipeline, header.bound) {
        (Pipeline::Lossless, _) => Tolerance::Exact,
        (_, Bound::PwRel(_)) => Tolerance::PointwiseRelative(header.abs_bound),
        _ => Tolerance::Absolute(header.abs_bound),
    }
}

/// Returns the patterns of a stream that mean "no value". Zeros may be masked only because they must be exact; they are
/// values.
pub fn fills(header: &Header) -> Vec<u64> {
    let negative_zero = 1u64 << (8 * header.element_type.size() - 1);
    let is_value = |&bits: &u64| bits == negative_zero || bits == 0 && matches!(header.bound, Bound::PwRel(_));
    header.patterns.iter().copied().filter(|bits| !is_value(bits)).collect()
}

/// Returns the tolerance for a bound of the command line; `None` without one.
pub fn judged(judge: JudgeArgs, range: Option<(f64, f64)>) -> Option<Tolerance> {
    let extent = range.map_or(0.0, |(low, high)| high - low);
    judge.bound().map(|bound| match bound {
        Bound::Rel(part) => Tolerance::Absolute(part * extent),
        other => Tolerance::Absolute(other.value()),
    })
}

impl JudgeArgs {
    fn is_none(self) -> bool {
        self.bound().is_none()
    }

    /// Returns the bound of the command line.
    pub fn bound(self) -> Option<Bound> {
        self.abs.map(Bound::Abs).or(self.rel.map(Bound::Rel))
    }

    /// Returns the bound as JSON.
    pub fn json(self) -> Option<Value> {
        self.bound().map(json::bound)
    }
}

/// The elements of an array in order, or those of a region of it.
pub struct Elements<'a> {
    array: &'a ArrayInput,
    /// Stretches of elements that are left: the first element of each and its length.
    stretches: Box<dyn Iterator<Item = (u64, u64)>>,
    current: (u64, u64),
}

impl<'a> Elements<'a> {
    /// Starts with the first element.
    pub fn new(array: &'a ArrayInput, region: Option<&[Range<u64>]>) -> Self {
        let stretches: Box<dyn Iterator<Item = (u64, u64)>> = match region {
            Some(region) => Box::new(stretches(region, array.shape)),
            None => Box::new(std::iter::once((0, array.shape.len()))),
        };
        Self { array, stretches, current: (0, 0) }
    }

    /// Returns the next elements as bytes.
    pub fn next(&mut self, length: usize) -> Outcome<Vec<u8>> {
        let size = self.array.element_type.size() as u64;
        let mut left = length as u64 / size;
        let mut bytes = Vec::with_capacity(length);
        while left > 0 {
            let (start, count) = self.current;
            let now = count.min(left);
            if now > 0 {
                bytes.extend(self.array.input.bytes(self.array.offset + start * size, (now * size) as usize)?);
                self.current = (start + now, count - now);
                left -= now;
            } else if let Some(next) = self.stretches.next() {
                self.current = next;
            } else {
                break;
            }
        }
        Ok(bytes)
    }
}

/// Returns the range of all values of an array but fill values.
pub fn scan_range(original: &ArrayInput, fills: &[u64], limits: Limits) -> Outcome<Option<(f64, f64)>> {
    let scan = RangeScan::new(original.element_type, fills).with_threads(limits.threads);
    let mut scan = scan.map_err(|error| Failure::of(&original.input, error))?;
    let most = piece_bytes(limits);
    let mut done = 0;
    while done < original.size() {
        let piece = original.input.bytes(original.offset + done, (original.size() - done).min(most) as usize)?;
        scan.push(&piece).map_err(|error| Failure::of(&original.input, error))?;
        done += piece.len() as u64;
    }
    Ok(scan.range())
}

/// Returns the bytes of a whole number of elements that are read at a time.
pub fn piece_bytes(limits: Limits) -> u64 {
    limits.memory_limit.map_or(PIECE, |limit| (limit / 4).clamp(SMALLEST_PIECE, PIECE) / 8 * 8)
}

/// Returns the elements for which the tolerance does not hold, if there are any.
pub fn beyond(quality: &Quality) -> Option<String> {
    if quality.holds() {
        return None;
    }
    Some(match quality.tolerance {
        Tolerance::Exact => format!("not equal bit for bit in {}", counted(quality.differing, "element")),
        _ => format!(
            "the bound does not hold: {} beyond it, {} changed",
            counted(quality.violations, "element"),
            counted(quality.mismatches, "special value")
        ),
    })
}

/// Returns the reason why the bound does not hold, if there is one: in the elements, or because the stream's own bound
/// is larger than the requested one.
pub fn complaint(quality: &Quality, header: &Header) -> Option<String> {
    if let Some(text) = beyond(quality) {
        return Some(text);
    }
    if quality.tolerance == Tolerance::Exact {
        return None;
    }
    let extent = quality.range.map_or(0.0, |(low, high)| high - low);
    match header.bound {
        Bound::Abs(asked) if header.abs_bound > asked => Some(format!("the stream's bound is not {}", number(asked))),
        Bound::PwRel(asked) if header.abs_bound > asked => Some(format!("the stream's bound is not {}", number(asked))),
        Bound::Rel(asked) if header.abs_bound > asked * extent => {
            Some(format!("the stream's bound is more than {} of the range of the original", number(asked)))
        }
        Bound::Psnr(asked) if quality.psnr.is_some_and(|held| held < asked) => {
            Some(format!("the PSNR is {}, below the requested {}", psnr(quality.psnr), psnr(Some(asked))))
        }
        _ => None,
    }
}

/// Returns the metrics as lines of text.
pub fn quality_rows(quality: &Quality) -> Vec<(&'static str, String)> {
    let of_bound = quality.bound_ratio().map(|ratio| format!("{} of the bound", number(ratio)));
    let absolute = quality.max_absolute.map(|peak| peak.value);
    let relative = quality.max_relative.map(|peak| peak.value);
    let (after_absolute, after_relative) = match (of_bound, quality.tolerance) {
        (Some(text), Tolerance::PointwiseRelative(_)) => (String::new(), format!(", {text}")),
        (Some(text), _) => (format!(", {text}"), String::new()),
        (None, _) => (String::new(), String::new()),
    };
    let mut rows = vec![
        ("max error", format!("{}{after_absolute}", optional(absolute))),
        ("max point-wise relative error", format!("{}{after_relative}", optional(relative))),
        ("PSNR", psnr(quality.psnr)),
        ("NRMSE", optional(quality.nrmse)),
        ("SSIM", quality.ssim.map_or_else(|| "-".into(), |ssim| format!("{ssim:.6}"))),
        ("correlation", quality.correlation.map_or_else(|| "-".into(), |value| format!("{value:.9}"))),
    ];
    if quality.special > 0 || quality.mismatches > 0 {
        let exact = match quality.mismatches {
            0 => "all exact".into(),
            count => format!("{} changed", grouped(count)),
        };
        rows.push(("NaN, infinite and fill", format!("{}, {exact}", counted(quality.special, "element"))));
    }
    rows
}
