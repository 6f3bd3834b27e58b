//! Runs the subcommand `huffman` as a process on the CPU.

use std::process::Command;

fn bench(arguments: &[&str]) -> std::process::Output {
    Command::new(env!("CARGO_BIN_EXE_syncline-bench")).arg("huffman").args(arguments).output().unwrap()
}

#[test]
fn sets_and_formats_of_the_cpu() {
    let small = ["--sets", "never-cycle", "--bytes", "20000", "--runs", "1"];
    let json = bench(&[&small[..], &["--json"]].concat());
    let rows: serde_json::Value = serde_json::from_slice(&json.stdout).unwrap();
    assert_eq!(rows.as_array().unwrap().len(), 7, "three ways to encode, four to decode");
    let csv = String::from_utf8(bench(&[&small[..], &["--csv"]].concat()).stdout).unwrap();
    let columns = |line: &str| line.split(',').count();
    assert!(csv.lines().count() == 8 && csv.lines().all(|line| columns(line) >= columns(csv.lines().next().unwrap())));
    let unknown = bench(&["--sets", "nowhere"]);
    assert_eq!(unknown.status.code(), Some(1));
    assert!(String::from_utf8(unknown.stderr).unwrap().contains("nowhere"));
}
