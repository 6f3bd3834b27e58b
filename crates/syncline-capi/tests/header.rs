//! `include/syncline.h` is what the Rust source declares. `SYNCLINE_WRITE_HEADER=1` writes it anew.

use std::fs;
use std::path::Path;

#[test]
fn the_header_in_the_tree_is_that_of_the_source() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let config = cbindgen::Config::from_file(root.join("cbindgen.toml")).unwrap();
    let sources = ["status", "context", "options", "codec", "device"];
    let builder = sources.iter().fold(cbindgen::Builder::new().with_config(config), |builder, name| {
        builder.with_src(root.join("src").join(name).with_extension("rs"))
    });
    let mut made = Vec::new();
    builder.generate().unwrap().write(&mut made);
    let made = String::from_utf8(made).unwrap();
    let file = root.join("include/syncline.h");
    if std::env::var_os("SYNCLINE_WRITE_HEADER").is_some() {
        fs::write(&file, &made).unwrap();
    }
    let kept = fs::read_to_string(&file).unwrap_or_default();
    assert!(kept == made, "run with SYNCLINE_WRITE_HEADER=1 to write {} anew", file.display());
}
