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
    let element_type = parse_descr(descr)?;
    let shape = parse_shape(extents)?;
    let two_axes = shape.extents().iter().filter(|&&extent| extent != 1).count() > 1;
    match fortran {
        "False" => {}
        "True" if !two_axes => {}
        "True" => return Err("the array is in Fortran order: save numpy.ascontiguousarray(a) instead".into()),
        _ => return Err("damaged .npy header: fortran_order is neither True nor False".into()),
    }
    Ok(NpyHeader { element_type, shape, offset: header.len() as u64 })
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
        Some(b'[') => value.find(']').map(|end| end + 1),
        Some(quote @ (b'\'' | b'"')) => value[1..].find(char::from(*quote)).map(|end| end + 2),
        _ => value.find([',', '}']),
    };
    Ok(value[..end.ok_or_else(damaged)?].trim())
}

fn parse_descr(descr: &str) -> Result<ElementType, String> {
    let plain = descr.trim_matches(['\'', '"']);
    if descr.starts_with('[') || !plain.is_ascii() || plain.len() < 3 {
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
        "b1" => return Err("the .npy type is bool: save a.view('uint8') instead".into()),
        _ => return Err(format!("the .npy type '{plain}' is not supported: use float16 to 64 or an integer type")),
    };
    match order {
        "<" => Ok(element_type),
        "|" if element_type.size() == 1 => Ok(element_type),
        ">" if element_type.size() == 1 => Ok(element_type),
        ">" => Err(format!("the array is big-endian ('{plain}'): save a.astype('<{code}') instead")),
        _ => Err(format!("the .npy type '{plain}' is not supported: save a.astype('<{code}') instead")),
    }
}

fn parse_shape(text: &str) -> Result<Shape, String> {
    let inner =
        text.strip_prefix('(').and_then(|text| text.strip_suffix(')')).ok_or("damaged .npy header: no shape")?;
    let extents: Result<Vec<u64>, _> =
        inner.split(',').map(str::trim).filter(|extent| !extent.is_empty()).map(str::parse).collect();
    let extents = extents.map_err(|_| format!("damaged .npy header: shape {text}"))?;
    Shape::new(&extents).map_err(|error| error.to_string())
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
                assert_eq!(parse(&bytes), Ok(NpyHeader { element_type, shape, offset: bytes.len() as u64 }));
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
    fn what_cannot_be_read_says_why() {
        for (text, reason) in [
            ("{'descr': '>f4', 'fortran_order': False, 'shape': (3,), }", "big-endian"),
            ("{'descr': '<f4', 'fortran_order': True, 'shape': (3, 2), }", "Fortran"),
            ("{'descr': '<c8', 'fortran_order': False, 'shape': (3,), }", "not supported"),
            ("{'descr': '|b1', 'fortran_order': False, 'shape': (3,), }", "bool"),
            ("{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (3,), }", "not supported"),
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
