//! `cargo xtask third-party`: the licenses of what is linked into the Python package and the C library.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use clap::Args;
use serde_json::Value;

/// What is distributed as a compiled library.
const ROOTS: [&str; 2] = ["syncline-capi", "syncline-python"];

/// The systems for which they are distributed.
const PLATFORMS: [&str; 7] = [
    "aarch64-apple-darwin",
    "aarch64-unknown-linux-gnu",
    "aarch64-unknown-linux-musl",
    "x86_64-apple-darwin",
    "x86_64-pc-windows-msvc",
    "x86_64-unknown-linux-gnu",
    "x86_64-unknown-linux-musl",
];

/// The file that is written. A link to it is in the folder of the Python package, which contains it.
const FILE: &str = "THIRD-PARTY.md";

/// How names of files begin that hold a license.
const LICENSE_FILES: [&str; 5] = ["license", "licence", "copying", "notice", "unlicense"];

/// Arguments of `third-party`.
#[derive(Args)]
pub struct Arguments {
    /// Fail if the file is not what would be written
    #[arg(long)]
    pub check: bool,
}

/// Writes the file, or compares it.
pub fn run(arguments: &Arguments) -> Result<()> {
    let path = crate::root().join(FILE);
    let text = contents()?;
    if !arguments.check {
        return fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()));
    }
    let written = fs::read_to_string(&path).unwrap_or_default();
    ensure!(written == text, "the dependencies have changed: run `cargo xtask third-party`, which writes {FILE}");
    Ok(())
}

/// A package that is linked.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Package {
    name: String,
    version: String,
    license: String,
}

fn contents() -> Result<String> {
    let mut packages = BTreeSet::new();
    // By their words: packages break the lines of a common license in different places.
    let mut texts = BTreeMap::<String, (Vec<String>, String)>::new();
    let platforms: Vec<_> = PLATFORMS.iter().flat_map(|platform| ["--filter-platform", platform]).collect();
    let metadata = crate::metadata(&platforms)?;
    for package in linked(&metadata)? {
        let word = |key: &str| package[key].as_str().unwrap_or_default().to_owned();
        let manifest = word("manifest_path");
        let folder = Path::new(&manifest).parent().context("a manifest lies in a folder")?;
        for text in license_texts(folder)? {
            let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
            texts.entry(words).or_insert_with(|| (Vec::new(), text)).0.push(word("name"));
        }
        packages.insert(Package { name: word("name"), version: word("version"), license: word("license") });
    }
    let mut out = String::from(
        "# Third-party licenses\n\nThe Python package and the C library contain these Rust packages and the standard \
         library of Rust (MIT OR Apache-2.0). On some platforms they contain fewer.\n`cargo xtask third-party` \
         writes this file.\n\n| package | version | license |\n|---|---|---|\n",
    );
    for Package { name, version, license } in packages {
        writeln!(out, "| {name} | {version} | {license} |")?;
    }
    // In the order of the packages, not of the texts.
    let mut texts: Vec<_> = texts.into_values().collect();
    texts.sort();
    for (names, text) in texts {
        write!(out, "\n## {}\n\n```text\n{text}\n```\n", names.join(", "))?;
    }
    Ok(out)
}

/// Returns the packages from a registry that become part of [`ROOTS`] on any of the platforms.
fn linked(metadata: &Value) -> Result<Vec<&Value>> {
    let list = |value: &'static str| metadata[value].as_array().context("cargo metadata lists packages");
    let packages: BTreeMap<_, _> = list("packages")?.iter().map(|package| (package["id"].as_str(), package)).collect();
    let nodes = metadata["resolve"]["nodes"].as_array().context("cargo metadata lists dependencies")?;
    let nodes: BTreeMap<_, _> = nodes.iter().map(|node| (node["id"].as_str(), node)).collect();
    let is_root = |package: &Value| ROOTS.iter().any(|root| package["name"] == *root);
    let mut waiting: Vec<_> = packages.iter().filter(|(_, package)| is_root(package)).map(|(id, _)| *id).collect();
    let mut seen = BTreeSet::new();
    while let Some(id) = waiting.pop() {
        if !seen.insert(id) {
            continue;
        }
        for dependency in nodes[&id]["deps"].as_array().into_iter().flatten() {
            // Neither for a build script nor for tests.
            let is_normal = |kind: &Value| kind["kind"].is_null();
            let normal = dependency["dep_kinds"].as_array().is_some_and(|kinds| kinds.iter().any(is_normal));
            let id = dependency["pkg"].as_str();
            if normal && !runs_in_the_compiler(packages[&id]) {
                waiting.push(id);
            }
        }
    }
    Ok(seen.into_iter().map(|id| packages[&id]).filter(|package| !package["source"].is_null()).collect())
}

/// Returns whether a package is a macro, which is no part of what is compiled.
fn runs_in_the_compiler(package: &Value) -> bool {
    let targets = package["targets"].as_array();
    targets.is_some_and(|targets| targets.iter().any(|target| target["kind"][0] == "proc-macro"))
}

/// Returns the licenses in a folder, in the order of their files, without white space at the ends of lines.
fn license_texts(folder: &Path) -> Result<Vec<String>> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder).with_context(|| format!("cannot read {}", folder.display()))? {
        let path = entry?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().to_lowercase();
        if path.is_file() && LICENSE_FILES.iter().any(|start| name.starts_with(start)) {
            files.push(path);
        }
    }
    files.sort();
    let text = |path: &Path| -> Result<String> {
        let text = fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
        Ok(text.trim().lines().map(str::trim_end).collect::<Vec<_>>().join("\n"))
    };
    files.iter().map(|path| text(path)).collect()
}
