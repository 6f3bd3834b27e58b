//! Data on which a compressor could fall off a cliff: outliers, fill values, levels, and what `auto` chooses.

use super::*;

const SIDE: usize = 500;

/// A smooth field with some noise.
fn smooth() -> Vec<f32> {
    let noise = |i: usize| (i.wrapping_mul(2_654_435_761) >> 7) % 1000;
    let at = |i: usize| {
        let (y, x) = ((i / SIDE) as f32, (i % SIDE) as f32);
        10.0 * ((x / 40.0).sin() + (y / 55.0).cos()) + noise(i) as f32 * 1e-5
    };
    (0..SIDE * SIDE).map(at).collect()
}

fn bytes(values: &[f32]) -> Vec<u8> {
    values.iter().flat_map(|value| value.to_le_bytes()).collect()
}

/// The field with some elements replaced.
fn with(value: impl Fn(usize, f32) -> f32) -> Vec<u8> {
    bytes(&smooth().into_iter().enumerate().map(|(i, x)| value(i, x)).collect::<Vec<f32>>())
}

impl Workshop {
    /// Compresses x.f32 and returns the length of the stream and what is said. The bound is verified.
    fn compressed(&self, options: &str) -> (usize, String) {
        let line = format!("compress x.f32 --shape {SIDE}x{SIDE} {options} -o x.syn --force");
        let output = self.run(&line);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        succeeded(&line, output);
        self.ok("verify x.f32 x.syn -q");
        (self.read("x.syn").len(), said)
    }
}

#[test]
fn outliers_keep_the_ratio_of_an_absolute_bound() {
    let w = Workshop::new();
    w.write("x.f32", &with(|_, x| x));
    let (plain, _) = w.compressed("--abs 1e-3");
    type Replace = fn(usize, f32) -> f32;
    let cases: [(&str, Replace); 8] = [
        // It can be quantized, and its tile is predicted badly.
        ("one -9999", |i, x| if i == 123_456 { -9999.0 } else { x }),
        ("one 1e6", |i, x| if i == 123_456 { 1e6 } else { x }),
        ("one 1e20", |i, x| if i == 123_456 { 1e20 } else { x }),
        ("one of each", |i, x| if i % 90_000 == 7 { [1e9, -1e25, 3e35][i / 90_000] } else { x }),
        ("1 %", |i, x| if i % 97 == 5 { 1e6 + i as f32 } else { x }),
        ("one per tile", |i, x| if i % 32 == 3 && i / SIDE % 32 == 4 { 1e12 } else { x }),
        ("a whole tile", |i, x| {
            if (64..96).contains(&(i % SIDE)) && (32..64).contains(&(i / SIDE)) { 1e15 + i as f32 * 1e10 } else { x }
        }),
        ("two scales", |i, x| if i % 97 == 0 { x * 1e9 } else { x }),
    ];
    for (name, replace) in cases {
        let values = with(replace);
        let outliers = floats(&values).iter().filter(|value| value.abs() > 100.0).count();
        w.write("x.f32", &values);
        let (length, said) = w.compressed("--abs 1e-3 --fill none");
        // Each takes its position, its value, and disturbs the prediction of its neighbors.
        let most = plain * 11 / 10 + 12 * outliers;
        assert!(length < most, "{name}: {length} instead of {plain}, with {outliers} outliers");
        assert!(said.contains("|error| <= 0.001"), "{name}: {said}");
    }
    // In f64 as well.
    let doubles: Vec<u8> = smooth()
        .iter()
        .enumerate()
        .flat_map(|(i, &x)| if i == 99 { 1e12f64 } else { f64::from(x) }.to_le_bytes())
        .collect();
    w.write("y.f64", &doubles);
    w.ok(&format!("compress y.f64 --shape {SIDE}x{SIDE} --abs 1e-3"));
    w.ok("verify y.f64 y.f64.syn");
    assert!(w.read("y.f64.syn").len() < plain * 21 / 20);
}

#[test]
fn several_fill_values_are_given_or_detected() {
    let w = Workshop::new();
    w.write("x.f32", &with(|_, x| x));
    let (plain, _) = w.compressed("--rel 1e-3");
    // Far fewer than 0.1 %.
    let few = with(|i, x| match i {
        17 | 40_017 | 90_017 => 1e20,
        20_000 | 120_000 => -9999.0,
        30_000 | 130_000 | 230_000 => -32768.0,
        _ => x,
    });
    w.write("x.f32", &few);
    let (length, said) = w.compressed("--rel 1e-3");
    for line in ["1e20 in 3 elements", "-9999 in 2 elements", "-32768 in 3 elements"] {
        assert!(said.contains(line), "{said}");
    }
    assert!(length < plain * 11 / 10, "{length} instead of {plain}");
    let detected = w.read("x.syn");
    // The order is that of the option.
    for options in ["--fill 1e20,-32768,-9999", "--fill 1e20 --fill -32768,-9999"] {
        w.compressed(&format!("--rel 1e-3 {options}"));
        assert!(w.read("x.syn") == detected, "{options}");
    }
    w.ok("decompress x.syn -o back.f32");
    for (before, after) in floats(&few).iter().zip(floats(&w.read("back.f32"))) {
        assert!(before.abs() < 100.0 || *before == after);
    }
    // A pipe, whose fill values are not detected.
    let line = format!("compress - --dtype f32 --shape {SIDE}x{SIDE} --abs 1e-3 --fill 1e20,-9999,-32768 -o -");
    let stream = succeeded(&line, w.run_with_stdin(&line, &few));
    w.write("piped.syn", &stream);
    w.ok("verify x.f32 piped.syn");
    w.compressed("--pw-rel 1e-3 --fill 1e20,-9999,-32768,7");

    let line = format!("compress x.f32 --shape {SIDE}x{SIDE} --rel 1e-3 -o no.syn --fill");
    w.fails(&format!("{line} 1,2,3,4,5"), 2, "at most 4");
    w.fails(&format!("{line} auto,3"), 2, "none and auto stand alone");
    w.fails(&format!("{line} x"), 2, "must be none, auto, or numbers");
}

#[test]
fn a_few_values_that_make_up_the_range_are_named() {
    let w = Workshop::new();
    // Different values, so that none repeats.
    w.write("x.f32", &with(|i, x| if i % 40_000 == 9 { 1e8 + i as f32 * 100.0 } else { x }));
    let (_, said) = w.compressed("--rel 1e-3");
    for text in ["warning", "fewer than 0.1 % of the values", "more than 90 % of the range", "--fill 1", "--abs"] {
        assert!(said.contains(text), "{text}: {said}");
    }
    let (_, said) = w.compressed("--rel 1e-3 -q");
    assert_eq!(said, "");
    // With an absolute bound it does not matter.
    assert!(!w.compressed("--abs 1e-3").1.contains("warning"));
    w.write("x.f32", &with(|i, x| if i == 40_000 { -9999.0 } else { x }));
    assert!(w.compressed("--rel 1e-3").1.contains("--fill -9999.0"));
    assert!(!w.compressed("--rel 1e-3 --fill -9999").1.contains("warning"));
}

#[test]
fn fill_value_that_nothing_equals_is_named_with_the_one_nearby() {
    let w = Workshop::new();
    w.write("x.f32", &with(|i, x| if i % 40 == 0 { -9999.0 } else { x }));
    for bound in ["--rel 1e-3", "--abs 1e-3"] {
        let (_, said) = w.compressed(&format!("{bound} --fill -9999.1"));
        assert!(
            said.contains("no value equals --fill -9999.1, but -9999.0 is close to it: use --fill -9999.0"),
            "{said}"
        );
        // Arrays without missing values are common.
        assert!(!w.compressed(&format!("{bound} --fill -9999,1e20")).1.contains("warning"));
    }
}

/// Lossless lengths at these levels.
fn lengths(w: &Workshop, file: &str, options: &str, levels: &[u8]) -> Vec<usize> {
    let one = |level: &u8| {
        w.ok(&format!("compress {file} {options} --lossless --advanced level={level} -o l.syn --force -q"));
        w.read("l.syn").len()
    };
    levels.iter().map(one).collect()
}

#[test]
fn a_higher_level_is_no_worse() {
    let w = Workshop::new();
    let random = |i: usize| {
        let mixed = (i as u64 + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        ((mixed ^ mixed >> 29).wrapping_mul(0xBF58_476D_1CE4_E5B9) >> 33) as u32
    };
    let words = |value: &dyn Fn(usize) -> u32| (0..400_000).flat_map(|i| value(i).to_le_bytes()).collect::<Vec<u8>>();
    w.write("bits.u8", &(0..3_000_000).map(|i| (random(i) % 2) as u8).collect::<Vec<u8>>());
    w.write("quarters.u8", &(0..1_500_000).map(|i| (random(i) % 4) as u8).collect::<Vec<u8>>());
    w.write("bits.u32", &words(&|i| random(i) % 2));
    w.write("runs.i32", &words(&|i| random(i / 8) % 1000));
    w.write("noise.u32", &words(&random));
    for (file, shape) in [
        ("bits.u8", 3_000_000),
        ("quarters.u8", 1_500_000),
        ("bits.u32", 400_000),
        ("runs.i32", 400_000),
        ("noise.u32", 400_000),
    ] {
        for coder in ["lzss", "lzss+huffman", "auto"] {
            let found = lengths(&w, file, &format!("--shape {shape} --advanced coder={coder}"), &[1, 5, 9]);
            assert!(found[2] <= found[0] && found[1] <= found[0], "{file} {coder}: {found:?}");
        }
    }
    // About a bit for each byte.
    assert!(lengths(&w, "bits.u8", "--shape 3000000", &[9])[0] < 3_000_000 * 103 / 800);
}

#[test]
fn auto_is_no_larger_than_the_best_that_it_chooses_from() {
    let w = Workshop::new();
    std::fs::copy(geoid(), w.path("x.f32")).unwrap();
    w.ok("compress x.f32 --shape 361x720 --rel 1e-3 -o q.syn -q");
    // A decompressed field has few different values.
    w.ok("decompress q.syn -o decompressed.f32 -q");
    w.write("normal.f32", &with(|i, x| x + ((i * 7919) % 1013) as f32));
    for (file, shape) in [("x.f32", "361x720"), ("decompressed.f32", "361x720"), ("normal.f32", "500x500")] {
        for bound in ["--lossless", "--rel 1e-2", "--rel 1e-3", "--rel 1e-4"] {
            let length = |coder: &str| {
                w.ok(&format!("compress {file} --shape {shape} {bound} --advanced coder={coder} -o c.syn --force -q"));
                w.read("c.syn").len()
            };
            let (auto, best) = (length("auto,level=9"), length("numbers").min(length("lzss+huffman,level=9")));
            assert!(auto * 100 <= best * 104, "{file} {bound}: {auto} against {best}");
        }
    }
}

#[test]
fn options_without_effect_are_named() {
    let w = Workshop::new();
    w.write("x.f32", &with(|_, x| x));
    for (options, text) in [
        ("--abs 1 --advanced level=9", "--advanced level has no effect with an error bound"),
        ("--abs 1 --advanced coder=auto", "--advanced coder has no effect with an error bound"),
        ("--lossless --advanced coder=numbers,symbol=4", "--advanced symbol has no effect without LZSS"),
        ("--lossless --fill -9999", "--fill has no effect with --lossless"),
        ("--lossless --advanced coder=lzss --advanced index=none", "--advanced index has no effect with coder=lzss"),
    ] {
        let (_, said) = w.compressed(options);
        assert!(said.contains("warning") && said.contains(text), "{options}: {said}");
        assert!(!w.compressed(&format!("{options} -q")).1.contains("warning"));
    }
    assert!(!w.compressed("--lossless --advanced level=9").1.contains("warning"));
    let said = w.compressed("--lossless --advanced coder=auto --advanced level=9,symbol=2,index=symbol").1;
    assert!(!said.contains("warning"), "{said}");
}
