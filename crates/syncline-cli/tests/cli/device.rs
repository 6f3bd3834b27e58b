//! `--device`: which processor does the work.

use super::*;

/// Whether this machine has a GPU that can be used. Without one, a failure if `SYNCLINE_REQUIRE_CUDA` is 1.
fn has_gpu(w: &Workshop) -> bool {
    let info: serde_json::Value = serde_json::from_slice(&w.ok("info --json")).unwrap();
    let there = info["gpus"].as_array().unwrap().iter().any(|gpu| gpu["error"].is_null());
    let required = std::env::var_os("SYNCLINE_REQUIRE_CUDA").is_some_and(|value| value == "1");
    assert!(there || !required, "SYNCLINE_REQUIRE_CUDA is set: {info:#}");
    there
}

fn workshop() -> Workshop {
    let w = Workshop::new();
    w.write("x.f32", &field_f32(60_000));
    w
}

#[test]
fn names_are_checked() {
    let w = workshop();
    for name in ["gpu", "cuda:", "cuda:-1", "cuda:x", "cuda:0,1", "CPU"] {
        for command in ["compress x.f32 --shape 60000 --abs 1", "decompress x.f32.syn", "verify x.f32 x.syn", "demo"] {
            w.fails(&format!("{command} --device {name}"), 2, "use auto, cpu, cuda, cuda:N or cuda:all");
        }
    }
}

#[test]
fn the_processor_is_named_with_its_reason() {
    let w = workshop();
    for (device, reason) in [("auto", "estimated time: "), ("cpu", "as requested")] {
        let verbose = |line: &str| {
            let output = w.run(&format!("{line} --device {device} -v"));
            format!("{}{}", String::from_utf8_lossy(&output.stderr), String::from_utf8_lossy(&output.stdout))
        };
        for line in [
            "compress x.f32 --shape 30x40x50 --rel 1e-3 --force",
            "decompress x.f32.syn -o y --force",
            "decompress x.f32.syn --region 3:9 -o y --force",
            "verify x.f32 x.f32.syn",
            "demo",
        ] {
            let text = verbose(line);
            assert!(text.contains("the CPU: "), "{line}: {text}");
            assert!(text.contains(reason), "{line}: {text}");
        }
        let line = format!("compress x.f32 --shape 30x40x50 --rel 1e-3 --force --json --device {device}");
        let report: serde_json::Value = serde_json::from_slice(&w.ok(&line)).unwrap();
        assert_eq!(report["device"]["gpus"], serde_json::json!([]));
        assert!(report["device"]["reason"].as_str().unwrap().contains(reason));
    }
}

#[test]
fn a_gpu_that_is_not_there_is_an_error_only_if_asked_for() {
    let w = workshop();
    w.ok("compress x.f32 --shape 60000 --abs 1e-3 -o a.syn");
    w.ok("compress x.f32 --shape 60000 --lossless -o l.syn");
    w.ok("compress x.f32 --shape 60000 --abs 1 --effort fast -o t.syn");
    let lines = [
        "compress x.f32 --shape 60000 --abs 1e-3 -o b.syn",
        "compress x.f32 --shape 60000 --lossless -o b.syn",
        "decompress a.syn -o b",
        "decompress l.syn -o b",
        "compress x.f32 --shape 60000 --abs 1 --effort fast -o b.syn",
        "decompress t.syn -o b",
        "decompress a.syn --region 5:10 -o b",
        "verify x.f32 a.syn",
        "demo -o b.syn",
    ];
    if has_gpu(&w) {
        for line in lines {
            w.fails(&format!("{line} --device cuda:999"), 1, "no CUDA device 999");
        }
        return;
    }
    for line in lines {
        for device in ["cuda", "cuda:0", "cuda:3", "cuda:all"] {
            w.fails(&format!("{line} --device {device}"), 1, "CUDA");
        }
    }
}

#[test]
fn a_gpu_writes_and_reads_what_the_cpu_does() {
    let w = workshop();
    if !has_gpu(&w) {
        eprintln!("skipped: no CUDA device");
        return;
    }
    w.ok("compress x.f32 --shape 30x40x50 --rel 1e-3 -o cpu.syn --device cpu");
    w.ok("compress x.f32 --shape 30x40x50 --rel 1e-3 -o gpu.syn --device cuda:all");
    assert_eq!(w.read("cpu.syn"), w.read("gpu.syn"));
    w.ok("decompress cpu.syn -o cpu --device cpu");
    w.ok("decompress cpu.syn -o gpu --device cuda");
    assert_eq!(w.read("cpu"), w.read("gpu"));
    w.ok("verify x.f32 cpu.syn --device cuda");
    // What only the CPU does is done there, and said.
    let output = w.run("compress x.f32 --shape 60000 --lossless --advanced index=none -o n.syn --device cuda");
    let stderr = String::from_utf8_lossy(&output.stderr).to_string();
    assert!(
        output.status.success() && stderr.contains("warning: --device cuda:0: the work was done on the CPU: streams"),
        "{stderr}"
    );
    w.ok("verify x.f32 n.syn --device cuda");
    // Lossless compression is not among that.
    w.ok("compress x.f32 --shape 60000 --lossless -o cl.syn --device cpu");
    let output = w.run("compress x.f32 --shape 60000 --lossless -o l.syn --device cuda");
    let stderr = String::from_utf8_lossy(&output.stderr).to_string();
    assert!(output.status.success() && !stderr.contains("done on the CPU"), "{stderr}");
    assert_eq!(w.read("cl.syn"), w.read("l.syn"));
    w.ok("verify x.f32 l.syn --device cuda");
    // Codes as LZSS tokens are not among that.
    for coder in ["lzss+huffman", "auto"] {
        let line = format!("compress x.f32 --shape 60000 --abs 1 --advanced coder={coder}");
        w.ok(&format!("{line} -o c.syn --force --device cpu"));
        let output = w.run(&format!("{line} -o t.syn --force --device cuda"));
        let stderr = String::from_utf8_lossy(&output.stderr).to_string();
        assert!(output.status.success() && !stderr.contains("done on the CPU"), "{stderr}");
        assert_eq!(w.read("c.syn"), w.read("t.syn"));
        let output = w.run("decompress t.syn -o t --force --device cuda");
        let stderr = String::from_utf8_lossy(&output.stderr).to_string();
        assert!(output.status.success() && !stderr.contains("done on the CPU"), "{stderr}");
        w.ok("verify x.f32 t.syn --device cuda");
    }
}

#[test]
fn manual_and_completions_have_the_device_option() {
    let w = Workshop::new();
    for line in
        ["man compress", "man decompress", "man verify", "completions bash", "completions zsh", "decompress --help"]
    {
        let text = String::from_utf8(w.ok(line)).unwrap().replace('\\', "");
        assert!(text.contains("--device"), "{line}");
    }
}
