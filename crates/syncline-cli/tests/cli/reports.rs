use serde_json::Value;

use super::*;

fn json(bytes: &[u8]) -> Value {
    serde_json::from_slice(bytes).unwrap()
}

fn workshop() -> Workshop {
    let workshop = Workshop::new();
    std::fs::copy(geoid(), workshop.path("geoid_361x720.f32")).unwrap();
    workshop.ok("compress geoid_361x720.f32 --shape 361x720 --rel 1e-3 --effort fast -o g.syn --quiet");
    workshop
}

#[test]
fn compress_prints_a_summary() {
    let w = workshop();
    let line = "compress geoid_361x720.f32 --shape 361x720 --rel 1e-3 -o h.syn";
    let output = w.run(&format!("{line} -v"));
    let stderr = String::from_utf8_lossy(&output.stderr).to_string();
    assert!(stderr.contains("ratio") && stderr.contains("f32 361x720") && output.stdout.is_empty(), "{stderr}");
    let report = json(&w.ok(&format!("{line} --json --force")));
    assert_eq!(report["shape"], serde_json::json!([361, 720]));
    assert_eq!(report["uncompressed_bytes"], 361 * 720 * 4);
    assert_eq!(report["compressed_bytes"].as_u64().unwrap(), w.read("h.syn").len() as u64);
    assert_eq!(report["bound"], serde_json::json!({ "kind": "rel", "value": 1e-3 }));
    let output = w.run(&format!("{line} --quiet --force"));
    assert!(output.stdout.is_empty() && output.stderr.is_empty());
    let report = json(&w.ok("decompress h.syn --json -o h"));
    assert_eq!(report["bytes"], 361 * 720 * 4);
}

#[test]
fn inspect_describes() {
    let w = workshop();
    let text = String::from_utf8(w.ok("inspect g.syn")).unwrap();
    for expected in
        ["f32 361x720", "0.001 of the value range", "ratio", "bits a value", "chunks", "interpolated", "index", "█"]
    {
        assert!(text.contains(expected), "{expected}: {text}");
    }
    let report = json(&w.ok("inspect g.syn --json"));
    assert_eq!(report["element_type"], "f32");
    assert_eq!(report["format_version"], 1);
    let size = w.read("g.syn").len() as u64;
    assert_eq!(report["compressed_bytes"], size);
    assert!((report["bits_per_value"].as_f64().unwrap() - 8.0 * size as f64 / 259_920.0).abs() < 1e-9);
    let lengths: Vec<u64> = report["code_lengths"].as_array().unwrap().iter().map(|n| n.as_u64().unwrap()).collect();
    assert_eq!(lengths[0], 0);
    assert!(lengths.iter().sum::<u64>() > 10, "{lengths:?}");
}

#[test]
fn inspect_describes_blocks() {
    let w = workshop();
    w.ok("compress geoid_361x720.f32 --shape 361x720 --rel 1e-3 -o b.syn --quiet");
    let text = String::from_utf8(w.ok("inspect b.syn")).unwrap();
    for expected in ["blocks           2\n", "coded values", "code tables", "all else"] {
        assert!(text.contains(expected), "{expected}: {text}");
    }
    for of_tiles in ["tiles", "groups", "scheme", "codewords", "index"] {
        assert!(!text.contains(of_tiles), "{of_tiles}: {text}");
    }
}

#[test]
fn coders_and_schemes_are_shown() {
    let w = workshop();
    let report = json(&w.ok("inspect g.syn --json"));
    assert!(report["interpolated_tiles"].as_u64().unwrap() > 0);
    let text = String::from_utf8(w.ok("inspect g.syn")).unwrap();
    assert!(text.contains("chunks by scheme") && text.contains("of the tiles are interpolated"), "{text}");
    let info = json(&w.ok("info --json"));
    assert_eq!(info["coders"], serde_json::json!(["auto", "numbers", "lzss", "lzss+huffman"]));
    assert!(String::from_utf8(w.ok("info")).unwrap().contains("auto, numbers, lzss, lzss+huffman"));
}

#[test]
fn verify_measures_and_judges() {
    let w = workshop();
    let text = String::from_utf8(w.ok("verify geoid_361x720.f32 g.syn")).unwrap();
    for expected in ["max error", "PSNR", "NRMSE", "SSIM", "correlation", "ratio", "the bound holds"] {
        assert!(text.contains(expected), "{expected}: {text}");
    }
    let report = json(&w.ok("verify geoid_361x720.f32 g.syn --json"));
    assert_eq!(report["holds"], true);
    assert!(report["max_error_to_bound"].as_f64().unwrap() <= 1.0);
    w.ok("decompress g.syn -o back.f32");
    let error = largest_error(&w.read("geoid_361x720.f32"), &w.read("back.f32"));
    assert!((report["max_absolute_error"]["value"].as_f64().unwrap() - error).abs() < 1e-12);
    assert!(w.run("verify geoid_361x720.f32 g.syn -q").stdout.is_empty());

    // One value moved by more than the bound.
    let mut moved = w.read("geoid_361x720.f32");
    let place = 4 * 100_000;
    let value = f32::from_le_bytes(moved[place..place + 4].try_into().unwrap());
    moved[place..place + 4].copy_from_slice(&(value + 1.0).to_le_bytes());
    w.write("moved.f32", &moved);
    let output = w.run("verify moved.f32 g.syn --json");
    failed("verify", &output, 1, "the bound does not hold: 1 element beyond it, 0 special values changed");
    let report = json(&output.stdout);
    assert_eq!((&report["holds"], &report["violations"]), (&Value::Bool(false), &Value::from(1)));
    assert_eq!(report["max_absolute_error"]["element"], 100_000);

    // Lossless: one bit.
    w.ok("compress geoid_361x720.f32 --shape 361x720 --lossless -o l.syn");
    let text = String::from_utf8(w.ok("verify geoid_361x720.f32 l.syn")).unwrap();
    assert!(text.lines().any(|line| line.starts_with("PSNR ") && line.ends_with(" infinite")), "{text}");
    moved.copy_from_slice(&w.read("geoid_361x720.f32"));
    moved[place] ^= 1;
    w.write("moved.f32", &moved);
    w.fails("verify moved.f32 l.syn", 1, "not equal bit for bit in 1 element:");

    w.write("short.f32", &moved[4..]);
    w.fails("verify short.f32 g.syn", 1, "the stream was made from");
}

#[test]
fn demo_needs_nothing_and_leaves_nothing() {
    let w = Workshop::new();
    let text = String::from_utf8(w.ok("demo")).unwrap();
    for expected in ["361x720", "ratio", "the bound holds", "before", "after", "PSNR", "▓"] {
        assert!(text.contains(expected), "{expected}: {text}");
    }
    assert_eq!(w.names(), [""; 0]);
    let report = json(&w.ok("demo --json --threads 1"));
    assert_eq!(report["holds"], true);
    assert!(report["ratio"].as_f64().unwrap() > 8.0);
    w.ok("demo -o d.syn");
    w.ok(&format!("verify {} d.syn", geoid().display()));
    w.fails("demo -o d.syn", 2, "--force");
}

#[test]
fn help_completions_and_manual() {
    let w = Workshop::new();
    for command in ["", "compress", "decompress", "estimate", "inspect", "verify", "report", "demo", "completions"] {
        let text = String::from_utf8(w.ok(&format!("{command} --help"))).unwrap();
        assert!(text.contains("Usage: syncline"), "{text}");
    }
    assert!(String::from_utf8(w.ok("--version")).unwrap().starts_with("syncline "));
    for shell in ["bash", "zsh", "fish", "powershell", "elvish"] {
        assert!(String::from_utf8(w.ok(&format!("completions {shell}"))).unwrap().contains("decompress"), "{shell}");
    }
    assert!(String::from_utf8(w.ok("man")).unwrap().contains(".TH syncline 1"));
    assert!(String::from_utf8(w.ok("man compress")).unwrap().contains("pw\\-rel"));
    for command in ["estimate", "report"] {
        assert!(String::from_utf8(w.ok(&format!("man {command}"))).unwrap().contains("syncline"), "{command}");
    }
    w.fails("man nothing", 2, "possible values: compress");
}

#[test]
fn info_answers_with_and_without_a_gpu() {
    let w = Workshop::new();
    let text = String::from_utf8(w.ok("info")).unwrap();
    assert!(text.contains("format version") && text.contains("GPU"), "{text}");
    let text = w.ok("info --json");
    assert!(text.starts_with(b"{\n  \""), "as legible as that of other commands");
    let report = json(&text);
    assert_eq!(report["format_version"], 1);
    assert!(report["gpus"].is_array() && report["threads"].as_u64().unwrap() > 0);
    assert!(report["gpu_error"].is_string() || report["gpu_error"].is_null());
}

#[test]
fn a_bound_of_the_user_and_a_region_are_verified() {
    let w = workshop();
    let report = json(&w.ok("verify geoid_361x720.f32 g.syn --abs 0.2 --json"));
    assert_eq!(report["bound"], serde_json::json!({ "kind": "abs", "value": 0.2 }));
    assert_eq!((&report["element_type"], &report["shape"]), (&"f32".into(), &serde_json::json!([361, 720])));
    w.ok("verify geoid_361x720.f32 g.syn --rel 1e-3");
    w.fails_with_output("verify geoid_361x720.f32 g.syn --abs 0.01", 1, "the bound does not hold");
    w.fails_with_output("verify geoid_361x720.f32 g.syn --rel 1e-4", 1, "the bound does not hold");
    w.fails("verify geoid_361x720.f32 g.syn --rel 1 --abs 1", 2, "cannot be used with");

    // One wrong value, inside and outside of the region.
    let mut moved = w.read("geoid_361x720.f32");
    moved[4 * (100 * 720 + 50)..][..4].copy_from_slice(&1e3f32.to_le_bytes());
    w.write("moved.f32", &moved);
    let report = json(&w.ok("verify moved.f32 g.syn --region 101:200,3:60 --json"));
    assert_eq!(report["shape"], serde_json::json!([99, 57]));
    assert_eq!(report["elements"], 99 * 57);
    w.fails_with_output("verify moved.f32 g.syn --region 100:101,50", 1, "1 element beyond it");
    w.fails("verify moved.f32 g.syn --region 0:400", 2, "0:361");
}

#[test]
fn two_arrays_are_compared() {
    let w = workshop();
    w.ok("decompress g.syn -o back.f32");
    let line = "compare geoid_361x720.f32 back.f32 --shape 361x720";
    let text = String::from_utf8(w.ok(line)).unwrap();
    for expected in ["f32 361x720", "max error", "PSNR", "differing"] {
        assert!(text.contains(expected), "{expected}: {text}");
    }
    w.ok(&format!("{line} --rel 1.0001e-3"));
    w.fails_with_output(&format!("{line} --abs 1e-3"), 1, "the bound does not hold");
    let report = json(&w.ok(&format!("{line} --json")));
    assert_eq!((&report["holds"], &report["bound"]), (&Value::Null, &Value::Null));
    let verified = json(&w.ok("verify geoid_361x720.f32 g.syn --json"));
    assert_eq!(
        (&report["max_absolute_error"], &report["psnr_db"]),
        (&verified["max_absolute_error"], &verified["psnr_db"])
    );
    w.write("short.f32", &[0; 8]);
    w.fails("compare geoid_361x720.f32 short.f32 --shape 361x720", 1, "short.f32: has 8 bytes");
}
