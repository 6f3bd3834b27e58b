//! Sets of headers that kernel sources include by name. The device layer knows none of their contents.

use std::sync::OnceLock;

use super::Source;
use crate::device_struct::DeviceStruct;

/// A header that declares structs, generated from their declarations in Rust.
#[derive(Debug)]
pub struct StructHeader {
    /// The name in `#include`.
    pub name: &'static str,
    /// Headers that declare the types of the structs' fields.
    pub includes: &'static [&'static str],
    /// The structs, each after those that it contains.
    pub structs: &'static [DeviceStruct],
}

/// A header of constants, generated from their values in Rust.
#[derive(Debug)]
pub struct ConstantHeader {
    /// The name in `#include`.
    pub name: &'static str,
    /// The namespace of the constants.
    pub namespace: &'static str,
    /// Names and values.
    pub constants: &'static [(&'static str, u64)],
}

/// The headers that the kernel sources of a device may include ([`Device::open`](super::Device::open)).
#[derive(Debug)]
pub struct Headers {
    base: Option<&'static Headers>,
    files: &'static [Source],
    structs: &'static [StructHeader],
    constants: &'static [ConstantHeader],
    generated: OnceLock<Vec<Source>>,
}

impl Headers {
    /// Declares a set of files and of headers to generate.
    pub const fn new(
        files: &'static [Source],
        structs: &'static [StructHeader],
        constants: &'static [ConstantHeader],
    ) -> Self {
        Self { base: None, files, structs, constants, generated: OnceLock::new() }
    }

    /// Returns the set with those of `base` added. A crate that builds upon another one's kernels thus declares only
    /// its own headers.
    pub const fn with_base(mut self, base: &'static Headers) -> Self {
        self.base = Some(base);
        self
    }

    /// Returns the files of the set, without those of its base.
    pub fn files(&self) -> &'static [Source] {
        self.files
    }

    /// Returns the headers that `source` includes directly or indirectly, each once.
    pub fn included(&self, source: Source) -> Vec<Source> {
        let mut found: Vec<Source> = Vec::new();
        let mut texts = vec![source.text];
        while let Some(text) = texts.pop() {
            for name in text.lines().filter_map(quoted_include) {
                if let Some(header) = self.find(name).filter(|header| !found.contains(header)) {
                    found.push(*header);
                    texts.push(header.text);
                }
            }
        }
        found
    }

    /// Returns the headers whose text includes a header that is in neither the set nor its base, with that header's
    /// name. There are none in a correct set.
    pub fn missing(&self) -> Vec<(&'static str, &'static str)> {
        let all = self.files.iter().chain(self.generated());
        let includes =
            all.flat_map(|header| header.text.lines().filter_map(move |line| Some((header, quoted_include(line)?))));
        includes.filter(|(_, name)| self.find(name).is_none()).map(|(header, name)| (header.name, name)).collect()
    }

    fn find(&self, name: &str) -> Option<&Source> {
        let own = self.files.iter().chain(self.generated()).find(|header| header.name == name);
        own.or_else(|| self.base?.find(name))
    }

    /// Returns the generated headers, which are built once per process.
    fn generated(&self) -> &[Source] {
        self.generated.get_or_init(|| {
            let leak = |name, text: String| Source { name, text: text.leak() };
            let structs = self.structs.iter().map(|header| leak(header.name, header.text()));
            structs.chain(self.constants.iter().map(|header| leak(header.name, header.text()))).collect()
        })
    }
}

/// How a generated header begins.
const BEGINNING: &str = "#pragma once\n#include \"common.cuh\"\n";

impl StructHeader {
    fn text(&self) -> String {
        let mut text = BEGINNING.to_owned();
        text.extend(self.includes.iter().map(|name| format!("#include \"{name}\"\n")));
        text.extend(self.structs.iter().map(DeviceStruct::declaration));
        text
    }
}

impl ConstantHeader {
    fn text(&self) -> String {
        let mut text = format!("{BEGINNING}namespace {} {{\n", self.namespace);
        text.extend(self.constants.iter().map(|(name, value)| format!("constexpr uint32_t {name} = {value};\n")));
        text.push_str("}\n");
        text
    }
}

/// Returns the name in a line `#include "name"`.
fn quoted_include(line: &str) -> Option<&str> {
    line.trim_start().strip_prefix("#include")?.trim().strip_prefix('"')?.strip_suffix('"')
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn header(name: &'static str, text: &'static str) -> Source {
        Source { name, text }
    }

    static BASE: Headers = Headers::new(
        &[header("common.cuh", ""), header("both.cuh", "#include \"common.cuh\"\n")],
        &[],
        &[ConstantHeader { name: "numbers.cuh", namespace: "numbers", constants: &[("ONE", 1)] }],
    );
    static OWN: Headers =
        Headers::new(&[header("own.cuh", "#include \"both.cuh\"\n"), header("both.cuh", "// another\n")], &[], &[])
            .with_base(&BASE);

    fn names(set: &Headers, text: &'static str) -> Vec<&'static str> {
        set.included(Source { name: "a.cu", text }).iter().map(|header| header.name).collect()
    }

    #[test]
    fn includes_are_followed() {
        assert_eq!(names(&BASE, "int a;\n// #include \"common.cuh\"\n"), Vec::<&str>::new());
        assert_eq!(names(&BASE, "#include \"common.cuh\"\n#include \"common.cuh\"\n"), ["common.cuh"]);
        assert_eq!(names(&BASE, "  #include \"both.cuh\"\n"), ["both.cuh", "common.cuh"]);
        assert_eq!(names(&BASE, "#include \"own.cuh\"\n"), Vec::<&str>::new());
    }

    #[test]
    fn a_set_has_its_own_headers_before_those_of_its_base() {
        assert_eq!(names(&OWN, "#include \"own.cuh\"\n"), ["own.cuh", "both.cuh"]);
        assert_eq!(names(&OWN, "#include \"numbers.cuh\"\n"), ["numbers.cuh", "common.cuh"]);
    }

    #[test]
    fn constants_are_declared_in_their_namespace() {
        let text = BASE.find("numbers.cuh").unwrap().text;
        assert!(text.ends_with("namespace numbers {\nconstexpr uint32_t ONE = 1;\n}\n"), "{text}");
    }

    #[test]
    fn a_header_that_is_in_no_set_is_missing() {
        static WRONG: Headers = Headers::new(&[header("wrong.cuh", "#include \"absent.cuh\"\n")], &[], &[]);
        assert_eq!(WRONG.missing(), [("wrong.cuh", "absent.cuh")]);
        assert_eq!(OWN.missing(), []);
    }
}
