//! What a file contains, for the choice of what is compressed.

#![allow(unsafe_code, reason = "functions of a library that is found at run time")]

use std::collections::{BTreeMap, HashMap};
use std::path::Path;

use syncline::ElementType;

use crate::dataset::{self, extents};
use crate::element::{ENUM, FLOAT};
use crate::error::Result;
use crate::file::File;
use crate::functions::Id;
use crate::library::Library;
use crate::links::{Found, join, walk};
use crate::object::{DATASET, GROUP, Handle};
use crate::value::Value;

/// `H5D_VIRTUAL`.
const VIRTUAL: i32 = 3;

/// Attributes by their names.
pub type Attributes = BTreeMap<String, Value>;

/// A dataset of a file.
#[derive(Clone, Debug)]
pub struct Variable {
    /// Path, by its first link.
    pub path: String,
    /// Element type; `None` for one that Syncline does not have.
    pub element: Option<ElementType>,
    /// Whether elements are floating-point numbers, of a type that Syncline has or another.
    pub is_floating: bool,
    /// Extents, slowest axis first.
    pub extents: Vec<u64>,
    /// Bytes of the elements.
    pub array: u64,
    /// Bytes that the elements take in the file.
    pub stored: u64,
    /// Whether the elements are in other datasets or files.
    pub is_elsewhere: bool,
    /// Whether it has the coordinates along an axis of others: a dimension scale.
    pub is_scale: bool,
    /// Those that were asked for.
    pub attributes: Attributes,
}

/// What a file contains.
#[derive(Clone, Debug, Default)]
pub struct Contents {
    /// All datasets, in order.
    pub variables: Vec<Variable>,
    /// The paths of all groups, and their attributes.
    pub groups: Vec<(String, Attributes)>,
}

impl Contents {
    /// Reads what a file contains, with the attributes of these names.
    ///
    /// # Errors
    /// [`Error::Failed`](crate::Error::Failed) for a damaged file.
    pub fn of(library: &Library, path: &Path, names: &[&str]) -> Result<Self> {
        let file = File::open(library, path)?;
        let root = library.object(file.id(), "/")?;
        let groups = vec![("/".to_owned(), attributes(library, root.id, names)?)];
        let mut contents = Self { variables: Vec::new(), groups };
        walk(library, file.id(), "/", &mut HashMap::new(), &mut |group, name, _, found| {
            match found {
                Found::Object(object, GROUP) => {
                    contents.groups.push((join(group, name), attributes(library, object.id, names)?));
                }
                Found::Object(object, DATASET) => {
                    contents.variables.push(variable(library, object, join(group, name), names)?);
                }
                _ => {}
            }
            Ok(())
        })?;
        Ok(contents)
    }
}

/// Returns the attributes of these names that an object has.
fn attributes(library: &Library, object: Id, names: &[&str]) -> Result<Attributes> {
    let mut found = Attributes::new();
    for &name in names {
        if let Some(value) = Value::read(library, object, name)? {
            found.insert(name.to_owned(), value);
        }
    }
    Ok(found)
}

fn variable(library: &Library, object: &Handle<'_>, path: String, names: &[&str]) -> Result<Variable> {
    let f = &library.f;
    // SAFETY: an open identifier; the results are closed by their owners only.
    let (kind, space, creation) = unsafe {
        (
            library.own_type((f.dataset_type)(object.id))?,
            library.own_space((f.dataset_space)(object.id))?,
            library.own_properties((f.dataset_creation)(object.id))?,
        )
    };
    let traits = dataset::traits(library, kind.id);
    let extents = extents(library, space.id)?.unwrap_or_default();
    let count = match extents.is_empty() {
        // SAFETY: an open identifier.
        true => unsafe { (f.space_points)(space.id) }.max(0).cast_unsigned(),
        false => extents.iter().fold(1, |count: u64, &extent| count.saturating_mul(extent)),
    };
    // SAFETY: open identifiers.
    let (stored, layout, external) =
        unsafe { ((f.dataset_stored)(object.id), (f.layout)(creation.id), (f.external_count)(creation.id)) };
    let class = Value::read(library, object.id, "CLASS")?;
    Ok(Variable {
        path,
        // The numbers of an enumeration are names, which no bound is for.
        element: traits.element().filter(|_| traits.class != ENUM),
        is_floating: traits.class == FLOAT,
        extents,
        array: count.saturating_mul(traits.size as u64),
        stored,
        is_elsewhere: layout == VIRTUAL || external > 0,
        is_scale: class == Some(Value::Text("DIMENSION_SCALE".into())),
        attributes: attributes(library, object.id, names)?,
    })
}
