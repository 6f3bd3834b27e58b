//! Runs the subcommand `lzss` as a process on the CPU.

use std::process::{Command, Output};

fn bench(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_syncline-bench")).arg("lzss").args(arguments).output().unwrap()
}

const SMALL: [&str; 4] = ["--mebibytes", "1", "--runs", "1"];

fn json(arguments: &[&str]) -> serde_json::Value {
    let output = bench(&[&SMALL[..], arguments, &["--json"]].concat());
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

#[test]
fn the_grid_has_a_row_for_every_point() {
    let report = json(&[
        "tpch-linenumber",
        "hurr-quant",
        "--parts",
        "grid",
        "--chunks",
        "2048,16384",
        "--levels",
        "1,3",
        "--widths",
        "2,4",
    ]);
    let rows = report["results"]["rows"].as_array().unwrap();
    assert_eq!(rows.len(), 2 * 8);
    assert!(
        rows.iter().all(|row| row["ratio"].as_f64() > Some(1.0) && row["decompress"]["median"].as_f64() > Some(0.0))
    );
    let titles: Vec<&str> =
        report["tables"].as_array().unwrap().iter().map(|table| table["title"].as_str().unwrap()).collect();
    assert!(titles.len() == 3 && titles[0].contains("Table 1") && titles[1].contains("Table 2"), "{titles:?}");
    // Each set has two rows of ours; its own set also has the paper's figures.
    assert_eq!(report["tables"][0]["lines"].as_array().unwrap().len(), 2 + 4);
}

#[test]
fn files_codecs_and_choices_as_text_and_in_files() {
    let folder = std::env::temp_dir().join(format!("syncline-bench-lzss-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let column = folder.join("column.i32");
    let values: Vec<u8> = (0..50_000_u32).flat_map(|i| (i / 3 % 1000).to_le_bytes()).collect();
    std::fs::write(&column, values).unwrap();
    let path = folder.join("run");
    let output = bench(
        &[&SMALL[..], &[column.to_str().unwrap(), "--parts", "codecs,choice", "--save", path.to_str().unwrap()]]
            .concat(),
    );
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains("column.i32: lzss+huffman W 128 S 4") && text.contains("Levels, the symbol width"), "{text}");
    let csv = std::fs::read_to_string(folder.join("run.csv")).unwrap();
    let rows = csv.lines().take_while(|line| !line.is_empty()).count() - 1;
    // Four coders and the other codecs, and two coders at eight more levels and four widths.
    assert_eq!(rows, 4 + if cfg!(feature = "rivals") { 4 } else { 0 } + 2 * (8 + 4), "{csv}");
    let report: serde_json::Value = serde_json::from_slice(&std::fs::read(folder.join("run.json")).unwrap()).unwrap();
    assert_eq!(report["results"]["rows"].as_array().unwrap().len(), rows);
    assert_eq!(report["results"]["rows"][0]["element"], "i32");
    std::fs::remove_dir_all(folder).unwrap();
}

#[test]
fn arguments_that_make_no_sense() {
    for (arguments, complaint) in [
        (&["nowhere"][..], "nowhere"),
        (&["tpch-tax"], "extendedprice"),
        (&["--widths", "3"], "1, 2, 4 or 8"),
        (&["--chunks", "100"], "--chunks"),
        (&["--levels", "10"], "1..=9"),
        (&["--parts", "all"], "grid"),
        (&["--json", "--csv"], "--csv"),
    ] {
        let output = bench(arguments);
        let errors = String::from_utf8(output.stderr).unwrap();
        assert!(!output.status.success() && errors.contains(complaint), "{arguments:?}: {errors}");
    }
}
