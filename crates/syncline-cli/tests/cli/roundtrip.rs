use super::*;

const SHAPE: &str = "30x40x50";
const COUNT: usize = 60_000;

fn workshop() -> (Workshop, Vec<u8>) {
    let workshop = Workshop::new();
    let field = field_f32(COUNT);
    workshop.write("x.f32", &field);
    (workshop, field)
}

#[test]
fn default_names() {
    let (w, field) = workshop();
    w.ok(&format!("compress x.f32 --shape {SHAPE} --abs 1e-2"));
    assert_eq!(w.names(), ["x.f32", "x.f32.syn"]);
    assert!(w.read("x.f32.syn").len() < field.len() / 2);
    assert_eq!(w.read("x.f32"), field, "the input is as it was");
    std::fs::remove_file(w.path("x.f32")).unwrap();
    w.ok("decompress x.f32.syn");
    assert_eq!(w.names(), ["x.f32", "x.f32.syn"]);
    let error = largest_error(&field, &w.read("x.f32"));
    assert!(error > 0.0 && error <= 1e-2, "{error}");
}

#[test]
fn every_bound_holds() {
    let (w, _) = workshop();
    for bound in ["--abs 1e-3", "--rel 1e-4", "--psnr 70", "--pw-rel 1e-2", "--lossless"] {
        w.ok(&format!("compress x.f32 --shape {SHAPE} {bound} --force"));
        w.ok("verify x.f32 x.f32.syn");
    }
    w.ok("decompress x.f32.syn -o y.f32");
    assert_eq!(w.read("x.f32"), w.read("y.f32"));
}

#[test]
fn arrays_with_and_without_an_index_are_the_same() {
    let (w, _) = workshop();
    for index in ["none", "symbol"] {
        let options = format!("--lossless --advanced coder=numbers,index={index}");
        w.ok(&format!("compress x.f32 --shape {SHAPE} {options} -o {index}.syn"));
        w.ok(&format!("decompress {index}.syn -o y --force"));
        assert_eq!(w.read("y"), w.read("x.f32"), "{index}");
    }
    assert!(w.read("none.syn").len() < w.read("symbol.syn").len());
}

#[test]
fn levels_and_symbols_of_lzss() {
    let w = Workshop::new();
    // Phrases that come again and again, in no order: who searches longer finds more.
    let phrase = |i: u32| (0..24).map(move |j| ((i * i + 7 * i * j + j * j * j) >> 3) as u8);
    let text: Vec<u8> =
        (0..10_000u32).flat_map(|i| phrase(((i.wrapping_mul(0x9e37_79b1) ^ (i * i)) >> 20) & 255)).collect();
    w.write("x.u8", &text);
    let line = "compress x.u8 --lossless --advanced coder=lzss --force -o";
    let mut streams = Vec::new();
    for option in [
        "--advanced level=1",
        "--advanced level=9",
        "--advanced symbol=1",
        "--advanced symbol=2",
        "--advanced symbol=4",
        "--advanced symbol=8",
    ] {
        w.ok(&format!("{line} y.syn {option}"));
        w.ok("verify x.u8 y.syn");
        streams.push(w.read("y.syn"));
    }
    let [fastest, smallest, symbols @ ..] = streams.as_slice() else { unreachable!() };
    assert!(smallest.len() < fastest.len(), "{} {}", smallest.len(), fastest.len());
    assert!((0..4).all(|i| !symbols[..i].contains(&symbols[i])), "each width has a stream of its own");
    w.ok(&format!("{line} y.syn --advanced level=3 --advanced symbol=auto"));
    w.ok(&format!("{line} z.syn"));
    assert_eq!(w.read("y.syn"), w.read("z.syn"), "the defaults");
}

#[test]
fn regions() {
    let (w, _) = workshop();
    w.ok(&format!("compress x.f32 --shape {SHAPE} --abs 1e-3"));
    w.ok("decompress x.f32.syn -o whole");
    let whole = floats(&w.read("whole"));
    for (text, z, y, x) in [
        ("3:17,5:33,7:50", 3..17, 5..33, 7..50),
        ("29", 29..30, 0..40, 0..50),
        (":,39:,:1", 0..30, 39..40, 0..1),
        (":,:,:", 0..30, 0..40, 0..50),
        ("4:4", 4..4, 0..40, 0..50),
    ] {
        w.ok(&format!("decompress x.f32.syn --region {text} -o part --force"));
        let stdout = w.ok(&format!("decompress x.f32.syn --region {text} -o -"));
        let part = w.read("part");
        assert_eq!(stdout, part);
        let expected: Vec<f32> = z
            .flat_map(|z| y.clone().map(move |y| (z * 40 + y) * 50))
            .flat_map(|row| whole[row + x.start..row + x.end].to_vec())
            .collect();
        assert_eq!(floats(&part), expected, "{text}");
    }
    w.fails("decompress x.f32.syn --region 0:31 -o p", 2, "0:30");
    w.fails("decompress x.f32.syn --region 10:5 -o p", 2, "starts after its end");
    w.fails("decompress x.f32.syn --region 0:5 --force", 2, "-o");
    w.fails("decompress x.f32.syn --region 0:1,0:1,0:1,0:1 -o p", 2, "axes");
    w.fails("decompress x.f32.syn --region 1:2:3 -o p", 2, "--region");
}

#[test]
fn more_than_four_axes() {
    let (w, _) = workshop();
    w.ok("compress x.f32 --shape 3x2x5x10x4x50 --lossless");
    w.ok("verify x.f32 x.f32.syn");
    assert!(String::from_utf8(w.ok("inspect x.f32.syn")).unwrap().contains("3x2x5x10x4x50"));
    w.ok("decompress x.f32.syn -o whole");
    assert_eq!(w.read("whole"), w.read("x.f32"));
    let part = floats(&w.ok("decompress x.f32.syn --region 1:3,1,2:4,:,3,49 -o -"));
    let whole = floats(&w.read("whole"));
    let row = |a: usize, c: usize| (0..10).map(move |d| ((((a * 2 + 1) * 5 + c) * 10 + d) * 4 + 3) * 50 + 49);
    let expected: Vec<f32> =
        [(1, 2), (1, 3), (2, 2), (2, 3)].into_iter().flat_map(|(a, c)| row(a, c)).map(|i| whole[i]).collect();
    assert_eq!(part, expected);
}

#[test]
fn pipes() {
    let (w, field) = workshop();
    let stream = succeeded(
        "compress -",
        w.run_with_stdin(&format!("compress - --dtype f32 --shape {SHAPE} --rel 1e-3"), &field),
    );
    w.ok(&format!("compress x.f32 --shape {SHAPE} --rel 1e-3"));
    assert_eq!(stream, w.read("x.f32.syn"));
    let stream = succeeded(
        "compress -",
        w.run_with_stdin(&format!("compress - --dtype f32 --shape {SHAPE} --abs 1e-3"), &field),
    );
    w.ok(&format!("compress x.f32 --shape {SHAPE} --abs 1e-3 --force"));
    let back = succeeded("decompress -", w.run_with_stdin("decompress -", &stream));
    assert!(largest_error(&field, &back) <= 1e-3);
    assert!(largest_error(&field, &w.ok("decompress x.f32.syn -o -")) <= 1e-3);
    succeeded("verify - x", w.run_with_stdin("verify - x.f32.syn", &field));
    succeeded("verify x -", w.run_with_stdin("verify x.f32 -", &stream));
    succeeded("inspect -", w.run_with_stdin("inspect -", &stream));
    let output = w.run_with_stdin("decompress - -o y", &stream[..stream.len() - 100]);
    failed("decompress -", &output, 1, "stdin");
    w.fails("verify - -", 2, "stdin");
    w.fails("decompress x.f32.syn -o - --json", 2, "--json");
}

#[cfg(unix)]
#[test]
fn a_redirected_file_is_stdin_too() {
    let (w, field) = workshop();
    let line = format!("compress - --dtype f32 --shape {SHAPE} --abs 1e-3 -o y.syn");
    let output = w.command(&line).stdin(std::fs::File::open(w.path("x.f32")).unwrap()).output().unwrap();
    succeeded(&line, output);
    w.ok("decompress y.syn -o y");
    assert!(largest_error(&field, &w.read("y")) <= 1e-3);
}

#[test]
fn every_element_type_with_and_without_loss() {
    let w = Workshop::new();
    let bytes: Vec<u8> = (0..1000u32).flat_map(|i| (i * i).to_le_bytes()).collect();
    for (name, size) in [
        ("f16", 2),
        ("bf16", 2),
        ("f32", 4),
        ("f64", 8),
        ("u8", 1),
        ("u16", 2),
        ("u32", 4),
        ("u64", 8),
        ("i8", 1),
        ("i16", 2),
        ("i32", 4),
        ("i64", 8),
    ] {
        let file = format!("x.{name}");
        w.write(&file, &bytes);
        w.ok(&format!("compress {file} --shape {} --lossless", 4000 / size));
        w.ok(&format!("verify {file} {file}.syn"));
        w.ok(&format!("decompress {file}.syn -o y --force"));
        assert_eq!(w.read("y"), bytes, "{name}");
        w.ok(&format!("compress {file} --shape {} --abs 3 --fill none --force", 4000 / size));
        w.ok(&format!("verify {file} {file}.syn --abs 3"));
        w.ok(&format!("decompress {file}.syn -o {file}.back.{name} --force"));
        w.ok(&format!("compare {file} {file}.back.{name} --shape {} --abs 3", 4000 / size));
        if name.starts_with(['u', 'i']) {
            let text = w.ok(&format!("compress {file} --shape {} --abs 0.9 --force", 4000 / size));
            assert!(text.is_empty());
            w.ok(&format!("verify {file} {file}.syn"));
            w.ok(&format!("decompress {file}.syn -o y --force"));
            assert_eq!(w.read("y"), bytes, "{name}");
            let line = format!("compress {file} --shape {} --pw-rel 0.1 --force", 4000 / size);
            w.fails(&line, 2, "absolute bound in counts");
        }
    }
}

#[test]
fn fill_values_come_back() {
    let w = Workshop::new();
    let mut values = floats(&field_f32(10_000));
    for i in (0..values.len()).step_by(7) {
        values[i] = -1e10;
    }
    values[3] = f32::NAN;
    let bytes: Vec<u8> = values.iter().flat_map(|v| v.to_le_bytes()).collect();
    w.write("sea.f32", &bytes);
    for fill in ["auto", "-1e10"] {
        w.ok(&format!("compress sea.f32 --shape 100x100 --rel 1e-3 --fill {fill} --force"));
        w.ok("verify sea.f32 sea.f32.syn");
        w.ok("decompress sea.f32.syn -o back --force");
        let back = floats(&w.read("back"));
        assert!(back.iter().zip(&values).all(|(b, v)| (b.to_bits() == v.to_bits()) || *v != -1e10));
        let valid = |v: &f32| *v != -1e10 && !v.is_nan();
        let worst = back.iter().zip(&values).filter(|(_, v)| valid(v)).map(|(b, v)| (b - v).abs()).fold(0.0, f32::max);
        assert!(worst <= 0.0202, "{fill}: {worst}");
    }
    let line = "compress sea.f32 --shape 100x100 --rel 1e-3 --fill none --force --json";
    let json: serde_json::Value = serde_json::from_slice(&w.ok(line)).unwrap();
    assert!(json["resolved_bound"].as_f64().unwrap() > 1e6);
}

#[test]
fn a_few_values_that_make_up_the_range_are_named() {
    let w = Workshop::new();
    let mut values = floats(&field_f32(100_000));
    let write = |values: &[f32]| w.write("x.f32", &values.iter().flat_map(|v| v.to_le_bytes()).collect::<Vec<_>>());
    let said = |options: &str| {
        let output = w.run(&format!("compress x.f32 --shape 100000 --rel 1e-3 --force {options}"));
        assert!(output.status.success());
        String::from_utf8(output.stderr).unwrap()
    };
    write(&values);
    assert!(!said("").contains("warning"));
    (values[77], values[5_000]) = (-9999.0, 1e20);
    write(&values);
    let text = said("");
    assert!(text.contains("warning: x.f32: fewer than 0.1 % of the values, such as 1e20, make up more"), "{text}");
    assert!(text.contains("add --fill 1e20 if it means \"no data\", or use --abs 0.02"), "{text}");
    // Then the other one is what remains.
    let text = said("--fill 1e20");
    assert!(text.contains("such as -9999, make up"), "{text}");
    assert!(!said("--quiet").contains("warning"));
    values[5_000] = 0.0;
    write(&values);
    assert!(!said("--fill -9999").contains("warning"));
}

#[test]
fn a_ratio_or_a_size_is_reached() {
    let (w, field) = workshop();
    let line = format!("compress x.f32 --shape {SHAPE} --force");
    for (target, most) in [("--ratio 8", field.len() / 8), ("--ratio 4", field.len() / 4), ("--size 20000", 20_000)] {
        w.ok(&format!("{line} {target}"));
        let length = w.read("x.f32.syn").len();
        assert!(length <= most && length as f64 >= 0.95 * most as f64, "{target}: {length} of {most}");
        w.ok("verify x.f32 x.f32.syn");
    }
    let piped = w.run_with_stdin(&format!("compress - --dtype f32 --shape {SHAPE} --size 20000"), &field).stdout;
    assert!(piped == w.read("x.f32.syn"));
    let output = w.run(&format!("{line} --ratio 1e6"));
    failed(&line, &output, 1, "cannot be reached");
    w.fails(&format!("{line} --ratio 4 --abs 1"), 2, "cannot be used with");
    w.fails(&format!("{line} --size 0"), 2, "a size in bytes");
    w.write("x.u8", &field);
    w.ok("compress x.u8 --ratio 4");
    assert!(w.read("x.u8.syn").len() <= field.len() / 4);
    w.ok("verify x.u8 x.u8.syn");
}

#[test]
fn empty_and_single() {
    let w = Workshop::new();
    w.write("none.f32", &[]);
    w.write("one.f64", &1.25f64.to_le_bytes());
    w.ok("compress none.f32 --shape 0x5 --abs 1");
    for command in ["verify none.f32", "inspect"] {
        let text = String::from_utf8(w.ok(&format!("{command} none.f32.syn"))).unwrap();
        assert!(text.lines().any(|line| line.starts_with("bits a value ") && line.ends_with(" 0")), "{text}");
        let json = w.ok(&format!("{command} none.f32.syn --json"));
        let report: serde_json::Value = serde_json::from_slice(&json).unwrap();
        assert_eq!((report["bits_per_value"].as_f64(), report["ratio"].as_f64()), (Some(0.0), Some(0.0)));
    }
    w.ok("decompress none.f32.syn -o none");
    assert!(w.read("none").is_empty());
    assert!(w.ok("decompress none.f32.syn -o -").is_empty());
    w.ok("compress one.f64 --shape 1 --abs 1e-9");
    w.ok("verify one.f64 one.f64.syn");
    w.ok("inspect one.f64.syn");
    w.ok("decompress one.f64.syn -o one");
    let back = f64::from_le_bytes(w.read("one").try_into().unwrap());
    assert!((back - 1.25).abs() <= 1e-9);
}

/// Decompresses and compresses again after parts have changed, as programs do that update a file.
#[test]
fn rewritable_arrays_stay_within_the_bound_however_often_they_are_rewritten() {
    const SIDE: usize = 64;
    let w = Workshop::new();
    let drift = |option: &str| {
        let mut wanted = field_f32(SIDE * SIDE);
        w.write("x.f32", &wanted);
        let mut worst = 0.0_f64;
        for round in 0..12 {
            w.ok(&format!("compress x.f32 --shape {SIDE}x{SIDE} --abs 0.01 {option} -f"));
            let mut back = w.ok("decompress x.f32.syn -c");
            worst = worst.max(largest_error(&wanted, &back));
            for bytes in [&mut wanted, &mut back] {
                let row = round * 5 * SIDE * 4;
                bytes[row..row + SIDE * 4].iter_mut().zip(field_f32(SIDE)).for_each(|(byte, new)| *byte = new);
            }
            w.write("x.f32", &back);
        }
        worst
    };
    assert!(drift("--rewritable") <= 0.01);
    assert!(drift("") > 0.01, "the option would not be needed");
    let output = w.run(&format!("compress x.f32 --shape {SIDE}x{SIDE} --rel 0.01 --rewritable -f"));
    assert!(String::from_utf8_lossy(&output.stderr).contains("warning: --rewritable keeps only the bounds --abs"));
    let line = format!("estimate x.f32 --shape {SIDE}x{SIDE} --abs 0.01 --effort balanced --json");
    let bytes = |line: &str| String::from_utf8(w.ok(line)).unwrap();
    let compressed = |line: &str| {
        let text = bytes(line);
        let at = text.split("\"compressed_bytes\":").nth(1).unwrap();
        at.trim_start().chars().take_while(char::is_ascii_digit).collect::<String>().parse::<u64>().unwrap()
    };
    assert_ne!(compressed(&line), compressed(&format!("{line} --rewritable")));
}
