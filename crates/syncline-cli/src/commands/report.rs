//! `syncline report`.

use std::io::Write;
use std::ops::Range;

use colorous::{Gradient, RED_BLUE, VIRIDIS};
use maud::{Markup, PreEscaped, html};
use syncline::estimate::Sample;
use syncline::quality::{Comparison, Criteria, Quality, Tolerance};
use syncline::{Bound, CompressOptions, Effort, Error, Fill, Header, StreamFile};

use crate::args::{ReportArgs, Talk};
use crate::commands::verify::{self, Elements, complaint, piece_bytes, scan_range};
use crate::format::{self, bits_per_value, bytes, counted, number, optional, psnr, ratio};
use crate::input::{ArrayInput, Input, Opened};
use crate::message::{Failure, Outcome, remark};
use crate::names::is_dash;
use crate::output::Output;

use crate::progress::Bar;
use crate::region::{shape_of, whole};
use crate::report::charts::{self, Series};
use crate::report::image::{self, Pooling};
use crate::report::page::{Chart, ColorBar, Page, Pictures};
use crate::report::signal::Signal;
use crate::report::statistics::Statistics;
use crate::report::{chunks, numbers, slices, without_special};
use crate::stream::{OpenStream, decode_options};

/// Bounds of the rate-distortion curve, relative to the value range.
const BOUNDS: [f64; 6] = [1e-1, 1e-2, 1e-3, 1e-4, 1e-5, 1e-6];

/// Elements that are converted to numbers at a time.
const BLOCK: usize = 1 << 16;
/// Bytes of memory for each element of the window of a slice.
const SLICE_BYTES: u64 = 64;

/// Runs the command.
pub fn run(args: &ReportArgs, talk: Talk) -> Outcome {
    if is_dash(&args.original) || is_dash(&args.other) {
        return Err(Failure::usage("a report reads its inputs several times: name files instead of '-'"));
    }
    let subject = Subject::open(args)?;
    let mut output = Output::create(&args.output, args.force, &[&args.original, &args.other])?;
    let bar = Bar::new("comparing", subject.original.element_type, !talk.quiet);
    let quality = subject.quality(&bar)?;
    let statistics = subject.statistics(&quality)?;
    bar.finish();
    let mut page = Page {
        title: format!("{} and {}", subject.original.input, subject.name()),
        subtitle: subject.subtitle(),
        verdict: subject.verdict(&quality),
        metrics: Vec::new(),
        slices: Vec::new(),
        bars: [color_bar(VIRIDIS, quality.range)?, color_bar(RED_BLUE, Some((-statistics.limit, statistics.limit)))?],
        charts: Vec::new(),
    };
    let signal = subject.slices(&quality, statistics.limit, &mut page)?;
    page.metrics = subject.metrics(&quality, &statistics, &signal);
    page.charts = subject.charts(&quality, &statistics, &signal)?;
    let name = output.name();
    output.write_all(page.html().as_bytes()).map_err(|error| Failure::io(&name, &error))?;
    output.commit(false)?;
    if !talk.quiet {
        remark(format_args!("{name}: {} and {}", subject.original.input, subject.name()));
    }
    Ok(())
}

/// What an original is compared with.
enum Other {
    Stream(Box<OpenStream>),
    Array(Box<ArrayInput>),
}

/// What the page is about.
struct Subject<'a> {
    args: &'a ReportArgs,
    original: ArrayInput,
    other: Other,
    /// Bits of fill values, and these as numbers.
    fills: Vec<u64>,
    fill_values: Vec<f64>,
}

impl<'a> Subject<'a> {
    fn open(args: &'a ReportArgs) -> Outcome<Self> {
        let limit = args.resources.limits.memory_limit;
        let input = |path: &std::path::Path| {
            Ok(match Opened::new(path)? {
                Opened::File(file) => Input::File(file, path.to_owned()),
                Opened::Pipe(pipe) => Input::spooled(pipe, path, limit, u64::MAX)?,
            })
        };
        let start = input(&args.other)?;
        let length = start.len()?.min(8) as usize;
        let is_stream = !matches!(Header::parse(&start.bytes(0, length)?), Err(Error::NotSyncline(_)));
        let (original, other, fills) = if is_stream {
            let stream = OpenStream::open(&args.other, limit)?;
            let header = stream.file.header();
            let original = ArrayInput::open_original(&args.original, header.element_type, header.shape, limit)?;
            let fills = verify::fills(header);
            (original, Other::Stream(Box::new(stream)), fills)
        } else {
            let original = ArrayInput::of(input(&args.original)?, &args.original, args.dtype, args.shape)?;
            let other = ArrayInput::open_original(&args.other, original.element_type, original.shape, limit)?;
            (original, Other::Array(Box::new(other)), Vec::new())
        };
        let size = original.element_type.size();
        let as_bytes: Vec<u8> = fills.iter().flat_map(|bits| bits.to_le_bytes()[..size].to_vec()).collect();
        let fill_values = numbers(&as_bytes, original.element_type);
        Ok(Self { args, original, other, fills, fill_values })
    }

    fn name(&self) -> String {
        match &self.other {
            Other::Stream(stream) => stream.name.clone(),
            Other::Array(array) => array.input.to_string(),
        }
    }

    fn stream(&self) -> Option<&StreamFile<Input>> {
        match &self.other {
            Other::Stream(stream) => Some(&stream.file),
            Other::Array(_) => None,
        }
    }

    /// Passes a region of both arrays on, piece by piece, with the number of elements that are done.
    fn for_each_piece(&self, region: &[Range<u64>], mut take: impl FnMut(&[u8], &[u8], u64) -> Outcome) -> Outcome {
        let mut original = Elements::new(&self.original, Some(region));
        match &self.other {
            Other::Stream(stream) => stream
                .for_each_slab(region, &decode_options(self.args.resources), |part, done| {
                    take(&original.next(part.len())?, part, done)
                })
                .map(drop),
            Other::Array(array) => {
                let mut other = Elements::new(array, Some(region));
                let size = self.original.element_type.size() as u64;
                let total = shape_of(region).len() * size;
                let mut done = 0;
                while done < total {
                    let length = (total - done).min(piece_bytes(self.args.resources.limits));
                    done += length;
                    take(&original.next(length as usize)?, &other.next(length as usize)?, done / size)?;
                }
                Ok(())
            }
        }
    }

    fn quality(&self, bar: &Bar) -> Outcome<Quality> {
        let limits = self.args.resources.limits;
        let (element_type, shape) = (self.original.element_type, self.original.shape);
        let range = scan_range(&self.original, &self.fills, limits)?;
        let tolerance = self.stream().map_or(Tolerance::Any, |stream| verify::tolerance(stream.header()));
        let criteria = Criteria { element_type, shape, fills: self.fills.clone(), range, tolerance };
        let failed = |error| Failure::of(self.name(), error);
        let mut comparison = Comparison::new(criteria).with_threads(limits.threads).map_err(failed)?;
        self.for_each_piece(&whole(shape), |original, other, done| {
            bar.show(done, shape.len());
            comparison.push(original, other).map_err(failed)
        })?;
        comparison.finish().map_err(failed)
    }

    /// Returns elements as numbers, with NaN for what is no value.
    fn values(&self, bytes: &[u8]) -> Vec<f64> {
        let mut values = numbers(bytes, self.original.element_type);
        without_special(&mut values, &self.fill_values);
        values
    }

    fn statistics(&self, quality: &Quality) -> Outcome<Statistics> {
        let limit = quality.max_absolute.map_or(0.0, |peak| peak.value);
        let mut statistics = Statistics::new(limit, quality.range);
        let block = BLOCK * self.original.element_type.size();
        self.for_each_piece(&whole(self.original.shape), |original, other, _| {
            for (original, other) in original.chunks(block).zip(other.chunks(block)) {
                statistics.push(&self.values(original), &self.values(other));
            }
            Ok(())
        })?;
        Ok(statistics)
    }

    /// Adds the pictures of the slices to the page, and returns what their rows have in common.
    fn slices(&self, quality: &Quality, limit: f64, page: &mut Page) -> Outcome<Signal> {
        let range = quality.range.unwrap_or((0.0, 1.0));
        let mut signal = Signal::default();
        let most = self.args.resources.limits.memory_limit.map_or(u64::MAX, |limit| limit / SLICE_BYTES);
        for slice in slices::of(self.original.shape, most) {
            let (mut before, mut after) = (Vec::new(), Vec::new());
            self.for_each_piece(&slice.region, |original, other, _| {
                before.extend(self.values(original));
                after.extend(self.values(other));
                Ok(())
            })?;
            let difference: Vec<f64> = before.iter().zip(&after).map(|(x, y)| y - x).collect();
            let width = slice.width as usize;
            signal.push(&before, &difference, width);
            let pictures = [
                image::address(&before, width, VIRIDIS, range, Pooling::First),
                image::address(&after, width, VIRIDIS, range, Pooling::First),
                image::address(&difference, width, RED_BLUE, (-limit, limit), Pooling::Largest),
            ];
            let [before, after, difference] = pictures.map(|picture| picture.map_err(not_drawn));
            page.slices.push(Pictures { label: slice.label(), addresses: [before?, after?, difference?] });
        }
        Ok(signal)
    }

    fn subtitle(&self) -> String {
        let array = format!("{} {}", self.original.element_type, self.original.shape);
        match self.stream() {
            Some(stream) => {
                let header = stream.header();
                let (asked, holds) = (format::bound(header.bound), format::resolved(header.bound, header.abs_bound));
                format!("{array}; requested bound: {asked}; guaranteed: {holds}")
            }
            None => format!("{array}; two arrays"),
        }
    }

    fn verdict(&self, quality: &Quality) -> (String, Option<bool>) {
        match self.stream() {
            Some(stream) => match complaint(quality, stream.header()) {
                Some(text) => (text, Some(false)),
                None => ("The bound holds for every element".into(), Some(true)),
            },
            None => (format!("{} differ", counted(quality.differing, "element")), None),
        }
    }

    fn metrics(&self, quality: &Quality, statistics: &Statistics, signal: &Signal) -> Vec<(String, String)> {
        let extent = quality.range.map(|(low, high)| high - low);
        let largest = quality.max_absolute.map(|peak| peak.value);
        let correlation = signal.autocorrelation();
        let at_lag = |lag: usize| correlation.get(lag).map(|point| point.1);
        let squared = quality.rmse.map(|rmse| rmse * rmse);
        let relative = largest.zip(extent).map(|(error, extent)| error / extent).filter(|share| share.is_finite());
        let mut rows = Vec::new();
        if let Other::Stream(stream) = &self.other {
            let sizes = format!("{} to {}", bytes(self.original.size()), bytes(stream.bytes));
            let rate = bits_per_value(stream.bytes, self.original.shape.len());
            rows.extend([
                ("Compression ratio", format!("{} ({sizes})", number(ratio(self.original.size(), stream.bytes)))),
                ("Bit rate (bits per value)", number(rate)),
            ]);
        }
        rows.extend([
            ("Smallest value", optional(quality.range.map(|range| range.0))),
            ("Largest value", optional(quality.range.map(|range| range.1))),
            ("Value range", optional(extent)),
            ("Mean", optional(statistics.mean())),
            ("Standard deviation", optional(statistics.deviation())),
            ("Largest absolute error", optional(largest)),
            ("Largest error relative to the range", optional(relative)),
            ("Largest error relative to its value", optional(quality.max_relative.map(|peak| peak.value))),
            ("MSE", optional(squared)),
            ("RMSE", optional(quality.rmse)),
            ("NRMSE", optional(quality.nrmse)),
            ("PSNR", psnr(quality.psnr)),
            ("SSIM (mean over slices)", quality.ssim.map_or_else(|| "-".into(), |ssim| format!("{ssim:.6}"))),
            ("Pearson correlation", quality.correlation.map_or_else(|| "-".into(), |value| format!("{value:.9}"))),
            ("Autocorrelation of errors at distance 1", optional(at_lag(1))),
            ("Autocorrelation of errors at distance 2", optional(at_lag(2))),
            ("Entropy of the histogram of errors (bits)", optional(statistics.error_entropy())),
            ("Distance of distributions (Kolmogorov-Smirnov)", optional(statistics.distribution_distance())),
            ("Elements", format::grouped(quality.elements)),
            ("NaN, infinite, and fill elements", format::grouped(quality.special)),
            ("Special elements that were changed", format::grouped(quality.mismatches)),
        ]);
        rows.into_iter().map(|(name, value)| (name.to_string(), value)).collect()
    }

    fn charts(&self, quality: &Quality, statistics: &Statistics, signal: &Signal) -> Outcome<Vec<Chart>> {
        let limit = if statistics.limit > 0.0 { statistics.limit } else { 1.0 };
        let mut all = vec![
            Chart {
                title: "Histogram of errors",
                text: "Differences of all elements between the two arrays.".into(),
                svg: drawn(charts::bars("difference", &statistics.errors, -limit..limit))?,
            },
            Chart {
                title: "Spectrum along the fastest axis",
                text: "Mean power of rows of the slices, with a Hann window.".into(),
                svg: drawn(charts::lines(
                    ("cycles per element", "log10 of the power"),
                    None,
                    true,
                    &[
                        Series::line("original", signal.spectrum(false)),
                        Series::line("difference", signal.spectrum(true)),
                    ],
                ))?,
            },
            Chart {
                title: "Autocorrelation of errors",
                text:
                    "Along the fastest axis. Values near 0 at all distances above 0 mean that errors look like noise."
                        .into(),
                svg: drawn(charts::lines(
                    ("distance in elements", "correlation"),
                    Some(-1.05..1.05),
                    true,
                    &[Series::line("difference", signal.autocorrelation())],
                ))?,
            },
        ];
        if let Some(stream) = self.stream() {
            let sizes: Vec<(u64, u64)> = stream.chunk_sizes().collect();
            let cells = chunks::cells(&sizes, self.original.element_type.size() as u64);
            all.push(Chart {
                title: "Ratio by chunk",
                text: "Chunks are runs of tiles, in the order of the array from left to right and from top to bottom."
                    .into(),
                svg: chunks::map(&cells).map_err(not_drawn)?,
            });
        }
        all.extend(self.rate_distortion(quality)?);
        Ok(all)
    }

    /// Returns the curve of ratio and error over several bounds, from a sample.
    fn rate_distortion(&self, quality: &Quality) -> Outcome<Option<Chart>> {
        let ArrayInput { input, element_type, shape, offset, .. } = &self.original;
        if quality.range.is_none_or(|(low, high)| low >= high) {
            return Ok(None);
        }
        let failed = |error| Failure::of(input, error);
        let known: Vec<f64> = self.fill_values.iter().copied().filter(|value| !value.is_nan()).collect();
        // The sample has blocks, which tiles of all sizes divide.
        let sampled = CompressOptions::new(Bound::Rel(BOUNDS[0]));
        let mut options = sampled.with_threads(self.args.resources.limits.threads);
        options = options.with_fill(if known.is_empty() { Fill::Auto } else { Fill::of(&known).map_err(failed)? });
        if let Some(limit) = self.args.resources.limits.memory_limit {
            options = options.with_memory_limit(limit);
        }
        let sample = Sample::of(input, *offset, *element_type, *shape, &options).map_err(failed)?;
        let curve = |effort: Effort| -> Outcome<Vec<(f64, f64)>> {
            let mut points = Vec::new();
            for bound in BOUNDS {
                let options = options.clone().with_bound(Bound::Rel(bound)).with_effort(effort);
                let estimate = sample.estimate(&options).map_err(failed)?;
                if let Some(psnr) = estimate.psnr.filter(|psnr| psnr.is_finite()) {
                    points.push((bits_per_value(estimate.compressed_bytes, shape.len()), psnr));
                }
            }
            Ok(points)
        };
        let mut series = vec![
            Series::line("effort fast", curve(Effort::Fast)?),
            Series::line("effort balanced", curve(Effort::Balanced)?),
        ];
        if let Other::Stream(stream) = &self.other
            && let Some(psnr) = quality.psnr.filter(|psnr| psnr.is_finite())
        {
            series.push(Series::marks("this stream", vec![(bits_per_value(stream.bytes, shape.len()), psnr)]));
        }
        let share = if sample.is_whole() { "the whole array" } else { "a sample of tiles" };
        Ok(Some(Chart {
            title: "Rate and distortion",
            text: format!("Bounds from 0.1 to 1e-6 of the value range, estimated from {share}."),
            svg: drawn(charts::lines(("bits per value", "PSNR in dB"), None, false, &series))?,
        }))
    }
}

fn color_bar(gradient: Gradient, range: Option<(f64, f64)>) -> Outcome<ColorBar> {
    let (low, high) = range.map_or((None, None), |(low, high)| (Some(low), Some(high)));
    let address = image::color_bar(gradient).map_err(not_drawn)?;
    Ok(ColorBar { address, ends: [optional(low), optional(high)] })
}

fn drawn(svg: Result<String, Box<dyn std::error::Error>>) -> Outcome<Markup> {
    svg.map(|svg| html! { (PreEscaped(svg)) }).map_err(not_drawn)
}

fn not_drawn(error: impl std::fmt::Display) -> Failure {
    Failure::data(format!("a picture of the report cannot be drawn: {error}"))
}
