//! Runs the subcommand `lossy` as a process on the CPU.

use std::process::{Command, Output};

fn bench(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_syncline-bench")).arg("lossy").args(arguments).output().unwrap()
}

const SMALL: [&str; 8] = ["--sets", "hurricane,rtm-f64", "--mebibytes", "1", "--runs", "1", "--threads", "1,2"];

#[test]
fn rows_of_the_cpu_as_text_and_in_files() {
    let folder = std::env::temp_dir().join(format!("syncline-bench-lossy-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let path = folder.join("run");
    let more = ["--bounds", "1e-2,1e-4", "--save", path.to_str().unwrap()];
    let output = bench(&[&SMALL[..], &more].concat());
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    // With two sets, bounds and numbers of threads, each row is printed at once, and then in the table.
    assert_eq!(
        text.lines().filter(|line| line.contains("error / bound 0.") || line.contains("error / bound 1.")).count(),
        8
    );
    assert_eq!(text.lines().filter(|line| line.starts_with("  rtm-f64")).count(), 4, "{text}");

    let json: serde_json::Value = serde_json::from_slice(&std::fs::read(folder.join("run.json")).unwrap()).unwrap();
    let rows = json["results"]["rows"].as_array().unwrap();
    assert_eq!(rows.len(), 8);
    for row in rows {
        assert!(row["error_over_bound"].as_f64().unwrap() <= 1.0, "{row}");
        assert!(row["psnr"].as_f64().unwrap() > -20.0 * row["relative"].as_f64().unwrap().log10(), "{row}");
        assert!(row["compress"]["median"].as_f64().unwrap() > 0.0 && row["compress_copies"].is_null(), "{row}");
    }
    let field = |row: usize, name: &str| rows[row][name].clone();
    assert_eq!(field(0, "ratio"), field(1, "ratio"), "threads change nothing");
    assert!(field(0, "ratio").as_f64() > field(2, "ratio").as_f64(), "bounds do");
    assert_eq!((field(0, "element"), field(4, "element")), ("f32".into(), "f64".into()));
    let csv = std::fs::read_to_string(folder.join("run.csv")).unwrap();
    assert!(csv.starts_with("set,element,shape,") && csv.lines().nth(8).unwrap().starts_with("rtm-f64,f64,"), "{csv}");
    std::fs::remove_dir_all(folder).unwrap();
}

#[test]
fn json_and_csv_on_standard_output() {
    let json = bench(&[&SMALL[..], &["--json"]].concat());
    let json: serde_json::Value = serde_json::from_slice(&json.stdout).unwrap();
    assert_eq!((json["device"].as_str(), json["results"]["rows"].as_array().map(Vec::len)), (Some("cpu"), Some(4)));
    let csv = String::from_utf8(bench(&[&SMALL[..], &["--csv"]].concat()).stdout).unwrap();
    // The output has five lines of rows, an empty line, and the table with as many lines.
    assert_eq!(csv.lines().count(), 11, "{csv}");
}

#[test]
fn arguments_that_make_no_sense() {
    for (arguments, complaint) in [
        (&["--sets", "nowhere"][..], "nowhere"),
        (&["--sets", "text"], "text"),
        (&["--bounds", "0"], "between 0 and 1"),
        (&["--bounds", "1e-3,2"], "between 0 and 1"),
        (&["--bounds", "tight"], "tight"),
        (&["--threads", "0"], "--threads"),
        (&["--mebibytes", "0"], "mebibytes"),
        (&["--json", "--csv"], "--csv"),
    ] {
        let output = bench(arguments);
        let errors = String::from_utf8(output.stderr).unwrap();
        assert!(!output.status.success() && errors.contains(complaint), "{arguments:?}: {errors}");
    }
}
