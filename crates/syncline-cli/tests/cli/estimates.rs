//! `syncline estimate`, and the search for the bound of a size.

use serde_json::Value;

use super::*;

fn json(bytes: &[u8]) -> Value {
    serde_json::from_slice(bytes).unwrap()
}

/// The extents of a field that is larger than a sample.
const LARGE: [usize; 3] = [100, 250, 260];
const SMALL: [usize; 3] = [60, 150, 160];

/// Returns a folder with a field of these extents in `x.f32`, the extents as an option takes them, and their product.
fn workshop(extents: [usize; 3]) -> (Workshop, String, usize) {
    let w = Workshop::new();
    let [nz, ny, nx] = extents;
    let value = |i: usize| {
        let (z, y, x) = ((i / nx / ny) as f32, (i / nx % ny) as f32, (i % nx) as f32);
        (x / 20.0).sin() * (y / 31.0).cos() + (z / 15.0 + x / 50.0).sin() + (i * 7919 % 1013) as f32 * 2e-6
    };
    let count = nz * ny * nx;
    w.write("x.f32", &(0..count).flat_map(|i| value(i).to_le_bytes()).collect::<Vec<u8>>());
    (w, format!("{nz}x{ny}x{nx}"), count)
}

#[test]
fn estimates_are_near_the_truth() {
    let (w, shape, count) = workshop(LARGE);
    let report = json(&w.ok(&format!("estimate x.f32 --shape {shape} --rel 1e-2,1e-4 --effort fast,balanced --json")));
    assert!(report["sampled_bytes"].as_u64().unwrap() < 4 * count as u64 * 7 / 10, "{report:#}");
    let estimates = report["estimates"].as_array().unwrap();
    assert_eq!(estimates.len(), 4);
    for estimate in estimates {
        let (bound, effort) = (&estimate["bound"]["value"], estimate["effort"].as_str().unwrap());
        w.ok(&format!("compress x.f32 --shape {shape} --rel {bound} --effort {effort} -o y.syn --force -q"));
        let truth = 4.0 * count as f64 / w.read("y.syn").len() as f64;
        let ratio = estimate["ratio"].as_f64().unwrap();
        assert!((ratio / truth - 1.0).abs() < 0.1, "{effort} {bound}: {ratio} instead of {truth}");
        for key in ["psnr_db", "compression_bytes_per_second", "decompression_bytes_per_second", "resolved_bound"] {
            assert!(estimate[key].as_f64().unwrap() > 0.0, "{key}: {estimate:#}");
        }
    }
    // The same each time, but for the times.
    let again = json(&w.ok(&format!("estimate x.f32 --shape {shape} --rel 1e-2 --threads 1 --json")));
    assert_eq!(again["estimates"][0]["compressed_bytes"], estimates[0]["compressed_bytes"]);
}

#[test]
fn estimates_are_a_table() {
    let w = Workshop::new();
    w.write("x.f32", &field_f32(6000));
    let text = String::from_utf8(w.ok("estimate x.f32 --shape 60x100")).unwrap();
    for expected in ["BOUND", "RATIO", "PSNR", "DECOMPRESSION", "0.001 of the value range", "balanced", "lossless"] {
        assert!(text.contains(expected), "{expected}: {text}");
    }
    assert_eq!(text.lines().count(), 1 + (4 + 1) * 3);
    // Of a small array it is the truth.
    let report = json(&w.ok("estimate x.f32 --shape 60x100 --abs 0.01 --effort fast --advanced coder=auto --json"));
    w.ok("compress x.f32 --shape 60x100 --abs 0.01 --effort fast --advanced coder=auto");
    assert_eq!(report["estimates"][0]["compressed_bytes"], w.read("x.f32.syn").len());
    w.write("i.u16", &field_f32(3000));
    let text = String::from_utf8(w.ok("estimate i.u16 --shape 6000 -q")).unwrap();
    assert_eq!(text.lines().count(), 1 + (4 + 1) * 3, "{text}");
    w.fails("estimate i.u16 --shape 6000 --pw-rel 0.1", 2, "absolute bound in counts");
    w.fails("estimate x.f32 --shape 60x100 --rel 0", 2, "a finite number above 0");
    succeeded("estimate -", w.run_with_stdin("estimate - --dtype f32 --shape 6000 --rel 1e-3", &field_f32(6000)));
}

#[test]
fn sizes_are_reached() {
    let (w, shape, count) = workshop(SMALL);
    for (options, most) in
        [("--ratio 20", 4 * count / 20), ("--size 70K", 70 << 10), ("--ratio 8 --effort fast", count / 2)]
    {
        let line = format!("compress x.f32 --shape {shape} {options} -o y.syn --force");
        let output = w.run(&line);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        succeeded(&line, output);
        let length = w.read("y.syn").len();
        assert!(length <= most && length * 100 >= most * 96, "{options}: {length} of {most}");
        assert!(said.contains("reached") && said.contains("--rel"), "{said}");
        w.ok("verify x.f32 y.syn -q");
        let text = String::from_utf8(w.ok(&format!("{line} --json"))).unwrap();
        let report = json(text.as_bytes());
        assert_eq!((&report["target"]["bytes"], &report["target"]["reached_bytes"]), (&most.into(), &length.into()));
        assert!(report["target"]["compressions"].as_u64().unwrap() <= 7);
        // The bound that is reported makes the same stream.
        let stream = w.read("y.syn");
        // Parsing would round the number.
        let rel = text.split("\"rel\":").nth(1).and_then(|rest| rest.split([',', '}']).next()).unwrap().trim();
        let effort = options.split_once("--effort").map_or("balanced", |(_, effort)| effort.trim());
        w.ok(&format!("compress x.f32 --shape {shape} --rel {rel} --effort {effort} -o z.syn --force -q"));
        assert!(w.read("z.syn") == stream, "{options}");
    }
    w.fails(&format!("compress x.f32 --shape {shape} --size 1 -o no.syn"), 1, "cannot be reached");
    w.write("i.i32", &field_f32(100));
    w.fails("compress i.i32 --shape 100 --ratio 2 -o no.syn", 1, "cannot be reached");
}

#[test]
fn the_effort_chooses_the_size_of_tiles() {
    let (w, shape, _) = workshop(SMALL);
    let line = format!("compress x.f32 --shape {shape} --rel 1e-3 --force -q -o");
    for (effort, expected) in [("fast", "small"), ("balanced", "block"), ("best", "block")] {
        w.ok(&format!("{line} {effort}.syn --effort {effort}"));
        assert_eq!(json(&w.ok(&format!("inspect {effort}.syn --json")))["tile_size"], expected);
        let text = String::from_utf8(w.ok(&format!("inspect {effort}.syn"))).unwrap();
        let named = if expected == "block" { "\nblocks ".into() } else { format!(" {expected}: ") };
        assert!(text.contains(&named), "{text}");
        w.ok(&format!("verify x.f32 {effort}.syn -q"));
    }
    w.ok(&format!("{line} none.syn"));
    assert!(w.read("none.syn") == w.read("balanced.syn") && w.read("best.syn") == w.read("balanced.syn"));
}
