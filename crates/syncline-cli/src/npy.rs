//! The header of NumPy's `.npy` files, versions 1 to 3. The elements are read and written in place.

use syncline::{ElementType, Shape};

/// The first bytes of the format.
pub const MAGIC: &[u8; 6] = b"\x93NUMPY";

/// The message for a header that ends too early.
pub const TRUNCATED: &str = "the .npy header is truncated: copy or save the file again";

/// The longest header that is read. NumPy's own limit for untrusted files is 10,000.
pub const LONGEST_HEADER: usize = 1 << 16;

/// The contents of a header.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct NpyHeader {
    /// Element type.
    pub element_type: ElementType,
    /// Shape, slowest axis first.
    pub shape: Shape,
    /// Position of the first element in bytes.
    pub offset: u64,
    /// What differs from the array in NumPy.
    pub differences: Differences,
}

/// What an array that is read differs in from the array in NumPy.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Differences {
    /// The array is in Fortran order: its axes are read in reverse.
    pub reversed: bool,
    /// Every element has its bytes in the opposite order.
    pub big_endian: bool,
    /// Bool is read as u8.
    pub boolean: bool,
    /// Complex numbers are read as pairs, along one more axis.
    pub complex: bool,
    /// Dates or times are read as i64.
    pub time: bool,
}

impl Differences {
    /// Returns whether elements are no numbers that may have errors.
    pub fn is_exact(self) -> bool {
        self.boolean || self.time
    }

    /// Says what differs.
    pub fn said(self) -> Vec<&'static str> {
        let all = [
            (self.reversed, "  the array is in Fortran order: its axes are stored in reverse"),
            (self.big_endian, "  the array is big-endian: it is stored as little-endian"),
            (self.boolean, "  the array is of bool: it is stored as u8"),
            (self.time, "  the array is of dates or times: it is stored as i64, whose unit is not kept"),
            (self.is_exact(), "  its elements are no numbers: they are stored exactly"),
            (self.complex, "  the array is complex: real and imaginary parts are stored as a last axis of extent 2"),
        ];
        all.into_iter().filter(|(holds, _)| *holds).map(|(_, text)| text).collect()
    }
}

/// Bytes that contain the length of the header.
pub const PREFIX: usize = 12;

/// Returns the length of the whole header from the first [`PREFIX`] bytes, or fewer if the file is shorter.
pub fn header_length(prefix: &[u8]) -> Result<usize, String> {
    if !prefix.starts_with(MAGIC) {
        return Err("not a .npy file: rename it, or convert it with numpy.save".into());
    }
    let length = match prefix {
        [_, _, _, _, _, _, 1, _, a, b, ..] => 10 + usize::from(u16::from_le_bytes([*a, *b])),
        [_, _, _, _, _, _, 2 | 3, _, a, b, c, d] => (u32::from_le_bytes([*a, *b, *c, *d]) as usize).saturating_add(12),
        [_, _, _, _, _, _, 1..=3, ..] => return Err(TRUNCATED.into()),
        [_, _, _, _, _, _, major, ..] => {
            return Err(format!("version {major} of .npy is unknown: save the array with numpy.save"));
        }
        _ => return Err(TRUNCATED.into()),
    };
    if length > LONGEST_HEADER {
        return Err(format!(
            "the .npy header has {length} bytes, which is too long for a plain array: save one array alone"
        ));
    }
    Ok(length)
}

/// Parses a whole header of [`header_length`] bytes.
pub fn parse_header(header: &[u8]) -> Result<NpyHeader, String> {
    let start = if header.get(6) == Some(&1) { 10 } else { 12 };
    let text = header.get(start..).and_then(|text| std::str::from_utf8(text).ok());
    let text = text.ok_or("damaged .npy header: write the file again")?.trim();
    let descr = entry(text, "descr")?;
    let fortran = entry(text, "fortran_order")?;
    let extents = entry(text, "shape")?;
    let (element_type, mut differences) = parse_descr(descr)?;
    let mut extents = parse_shape(extents)?;
    let two_axes = extents.iter().filter(|&&extent| extent != 1).count() > 1;
    match fortran {
        "False" => {}
        "True" if two_axes => {
            extents.reverse();
            differences.reversed = true;
        }
        // The order makes no difference.
        "True" => {}
        _ => return Err("damaged .npy header: fortran_order is neither True nor False".into()),
    }
    if differences.complex {
        extents.push(2);
    }
    let shape = Shape::new(&extents).map_err(|error| error.to_string())?;
    Ok(NpyHeader { element_type, shape, offset: header.len() as u64, differences })
}

/// Returns the value of a key of the header's dictionary, up to the comma or brace that ends it.
fn entry<'a>(text: &'a str, key: &str) -> Result<&'a str, String> {
    let damaged = || format!("damaged .npy header: no usable {key}");
    let text = text.strip_prefix('{').ok_or_else(damaged)?;
    let at =
        [format!("'{key}'"), format!("\"{key}\"")].iter().find_map(|quoted| Some(text.find(quoted)? + quoted.len()));
    let value = text[at.ok_or_else(damaged)?..].trim_start().strip_prefix(':').ok_or_else(damaged)?.trim_start();
    let end = match value.as_bytes().first() {
        Some(b'(') => value.find(')').map(|end| end + 1),
        Some(b'[') => end_of_list(value),
        Some(quote @ (b'\'' | b'"')) => value[1..].find(char::from(*quote)).map(|end| end + 2),
        _ => value.find([',', '}']),
    };
    Ok(value[..end.ok_or_else(damaged)?].trim())
}

/// Returns the position after the bracket that closes a list, such as that of the fields of a record.
fn end_of_list(text: &str) -> Option<usize> {
    let (mut depth, mut quote) = (0, None);
    for (at, byte) in text.bytes().enumerate() {
        match (quote, byte) {
            (Some(open), _) => quote = Some(open).filter(|_| byte != open),
            (None, b'\'' | b'"') => quote = Some(byte),
            (None, b'[' | b'(') => depth += 1,
            (None, b']' | b')') => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return Some(at + 1);
        }
    }
    None
}

/// Returns the names of the fields of a record.
fn fields_of(descr: &str) -> Vec<&str> {
    let starts = descr.split("('").skip(1).chain(descr.split("(\"").skip(1));
    starts.filter_map(|field| field.split(['\'', '"']).next()).filter(|name| !name.is_empty()).collect()
}

fn parse_descr(descr: &str) -> Result<(ElementType, Differences), String> {
    let mut differences = Differences::default();
    let plain = descr.trim_matches(['\'', '"']);
    if descr.starts_with('[') {
        let fields = fields_of(descr);
        let example = fields.first().copied().unwrap_or("field");
        return Err(format!(
            "is a structured array with the fields {}: save one of them alone, as numpy.save('{example}.npy', \
             a['{example}'])",
            fields.join(", ")
        ));
    }
    if plain.contains('O') {
        return Err("is an array of Python objects, which are no numbers: save an array of a numeric type".into());
    }
    if !plain.is_ascii() || plain.len() < 3 {
        return Err(format!("the .npy type {descr} is not supported: save one field of it as a plain array"));
    }
    let (order, code) = plain.split_at(1);
    let element_type = match code {
        "f2" => ElementType::F16,
        "f4" => ElementType::F32,
        "f8" => ElementType::F64,
        "u1" => ElementType::U8,
        "u2" => ElementType::U16,
        "u4" => ElementType::U32,
        "u8" => ElementType::U64,
        "i1" => ElementType::I8,
        "i2" => ElementType::I16,
        "i4" => ElementType::I32,
        "i8" => ElementType::I64,
        "b1" => {
            differences.boolean = true;
            ElementType::U8
        }
        "c8" => {
            differences.complex = true;
            ElementType::F32
        }
        "c16" => {
            differences.complex = true;
            ElementType::F64
        }
        _ if code.starts_with("M8") || code.starts_with("m8") => {
            differences.time = true;
            ElementType::I64
        }
        _ => {
            return Err(format!(
                "the .npy type '{plain}' is not supported: use float16 to 64, complex64 or 128, bool, a date, or an \
                 integer type"
            ));
        }
    };
    match order {
        "<" => {}
        "|" | ">" if element_type.size() == 1 => {}
        ">" => differences.big_endian = true,
        _ => return Err(format!("the .npy type '{plain}' is not supported: save a.astype('<{code}') instead")),
    }
    Ok((element_type, differences))
}

fn parse_shape(text: &str) -> Result<Vec<u64>, String> {
    let inner =
        text.strip_prefix('(').and_then(|text| text.strip_suffix(')')).ok_or("damaged .npy header: no shape")?;
    let extents: Result<Vec<u64>, _> =
        inner.split(',').map(str::trim).filter(|extent| !extent.is_empty()).map(str::parse).collect();
    extents.map_err(|_| format!("damaged .npy header: shape {text}"))
}

/// Returns the header of an array as `numpy.save` writes it; `None` for bfloat16, which NumPy does not have.
pub fn write_header(element_type: ElementType, shape: Shape) -> Option<Vec<u8>> {
    let descr = match element_type {
        ElementType::Bf16 => return None,
        ElementType::U8 => "|u1",
        ElementType::I8 => "|i1",
        ElementType::F16 => "<f2",
        ElementType::F32 => "<f4",
        ElementType::F64 => "<f8",
        ElementType::U16 => "<u2",
        ElementType::U32 => "<u4",
        ElementType::U64 => "<u8",
        ElementType::I16 => "<i2",
        ElementType::I32 => "<i4",
        ElementType::I64 => "<i8",
    };
    let extents: Vec<String> = shape.extents().iter().map(u64::to_string).collect();
    let trailing = if extents.len() == 1 { "," } else { "" };
    let mut text =
        format!("{{'descr': '{descr}', 'fortran_order': False, 'shape': ({}{trailing}), }}", extents.join(", "));
    // The elements start at a multiple of 64 bytes, after a line feed.
    while !(10 + text.len() + 1).is_multiple_of(64) {
        text.push(' ');
    }
    text.push('\n');
    let mut header = MAGIC.to_vec();
    header.extend([1, 0]);
    header.extend((text.len() as u16).to_le_bytes());
    header.extend(text.as_bytes());
    Some(header)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header(text: &str) -> Vec<u8> {
        [MAGIC.as_slice(), &[1, 0], &(text.len() as u16).to_le_bytes(), text.as_bytes()].concat()
    }

    fn parse(bytes: &[u8]) -> Result<NpyHeader, String> {
        let length = header_length(&bytes[..bytes.len().min(PREFIX)])?;
        parse_header(bytes.get(..length).ok_or("short")?)
    }

    #[test]
    fn headers_come_back() {
        for element_type in ElementType::ALL {
            for extents in [&[][..], &[0], &[7], &[2, 3], &[1, 2, 3, 1 << 40]] {
                let shape = Shape::new(extents).unwrap();
                let Some(bytes) = write_header(element_type, shape) else {
                    assert_eq!(element_type, ElementType::Bf16);
                    continue;
                };
                assert!(bytes.len().is_multiple_of(64));
                assert_eq!(
                    parse(&bytes),
                    Ok(NpyHeader {
                        element_type,
                        shape,
                        offset: bytes.len() as u64,
                        differences: Differences::default()
                    })
                );
            }
        }
    }

    #[test]
    fn other_versions_and_spellings() {
        let text = "{\"shape\": (4,), \"descr\": \"<f8\", \"fortran_order\": False}\n";
        let mut bytes = [MAGIC.as_slice(), &[2, 0], &(text.len() as u32).to_le_bytes(), text.as_bytes()].concat();
        let parsed = parse(&bytes).unwrap();
        assert_eq!((parsed.element_type, parsed.shape.extents()), (ElementType::F64, &[4][..]));
        assert_eq!(parsed.offset, bytes.len() as u64);
        bytes[6] = 9;
        assert!(parse(&bytes).unwrap_err().contains("version 9"));
        assert!(parse(&header("{'descr': '<f4', 'fortran_order': True, 'shape': (1, 5), }")).is_ok());
    }

    #[test]
    fn other_arrays_are_read_as_what_there_is() {
        for (descr, fortran, element_type, extents, said) in [
            ("<f4", "True", ElementType::F32, &[4, 3][..], "Fortran"),
            (">f8", "False", ElementType::F64, &[3, 4], "big-endian"),
            ("|b1", "False", ElementType::U8, &[3, 4], "bool"),
            ("<c8", "False", ElementType::F32, &[3, 4, 2], "complex"),
            (">c16", "True", ElementType::F64, &[4, 3, 2], "Fortran"),
        ] {
            let text = format!("{{'descr': '{descr}', 'fortran_order': {fortran}, 'shape': (3, 4), }}");
            let parsed = parse(&header(&text)).unwrap();
            assert_eq!((parsed.element_type, parsed.shape.extents()), (element_type, extents), "{descr}");
            assert!(parsed.differences.said()[0].contains(said), "{descr}");
        }
    }

    #[test]
    fn unreadable_input_error_states_the_reason() {
        for (text, reason) in [
            ("{'descr': '<c32', 'fortran_order': False, 'shape': (3,), }", "not supported"),
            ("{'descr': '=f4', 'fortran_order': False, 'shape': (3,), }", "not supported"),
            ("{'descr': '<f4', 'fortran_order': Maybe, 'shape': (3, 2), }", "damaged"),
            (
                "{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (3,), }",
                "structured array with the fields a",
            ),
            (
                "{'descr': [('x', '<f4', (2, 3)), ('y]', [('z', '|u1')])], 'fortran_order': False, 'shape': (3,), }",
                "structured array with the fields x, y], z: save one of them alone",
            ),
            ("{'descr': '|O', 'fortran_order': False, 'shape': (3,), }", "Python objects"),
            ("{'descr': [('a', '<f4'), 'fortran_order': False, 'shape': (3,), }", "damaged"),
            (&format!("{{'descr': '<f4', 'fortran_order': False, 'shape': ({}), }}", "1, ".repeat(33)), "dimensions"),
            ("{'descr': '<f4', 'fortran_order': False, 'shape': (-1,), }", "damaged"),
            ("{'descr': '<f4', 'fortran_order': Maybe, 'shape': (1,), }", "damaged"),
            ("{'descr': '<f4', 'shape': (1,), }", "damaged"),
            ("{'descr': ", "damaged"),
            ("", "damaged"),
        ] {
            let error = parse(&header(text)).unwrap_err();
            assert!(error.contains(reason), "{text}: {error}");
        }
        assert!(header_length(b"\x93NUMPY\x01\x00").is_err());
        assert!(header_length(b"PK").is_err());
        assert!(header_length(b"\x93NUMPY\x02\x00\xff\xff\xff\xff").is_err());
    }
}
