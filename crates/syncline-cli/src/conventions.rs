//! What the conventions for climate and forecast data (CF) say of arrays: which of them describe others and stay exact,
//! what values mean, and how a bound is written down. The Python package has the same rule for Xarray, in `_cf.py`.

use std::collections::{BTreeMap, HashMap};

use serde_json::{Value, json};
use syncline::{Bound, ElementType};
use syncline_core::bound::Scaling;

/// Attributes in which an array names others.
const NAMING: [&str; 16] = [
    "ancillary_variables",
    "bounds",
    "cell_measures",
    "climatology",
    "coordinate_interpolation",
    "coordinates",
    "edge_coordinates",
    "face_coordinates",
    "formula_terms",
    "geometry",
    "grid_mapping",
    "interior_ring",
    "node_coordinates",
    "node_count",
    "part_node_count",
    "volume_coordinates",
];

/// Those in which a word with a colon at its end is a key and no name.
const WITH_KEYS: [&str; 2] = ["cell_measures", "formula_terms"];

/// Attributes of arrays that hold names or classes.
const CLASSES: [&str; 3] = ["flag_values", "flag_masks", "cf_role"];

/// Other attributes that are looked at.
const OTHERS: [&str; 4] = ["units", "axis", "scale_factor", "add_offset"];

/// Attributes that say that values were compressed, by what, and how large errors are at most.
const METHOD: &str = "lossy_compression";
const IMPLEMENTATION: &str = "lossy_compression_implementation";
const ABSOLUTE: &str = "lossy_compression_maximum_absolute_error";
const RELATIVE: &str = "lossy_compression_maximum_relative_error";

/// Attributes by their names, as JSON.
pub type Attributes = BTreeMap<String, Value>;

/// What is known of an array.
#[derive(Clone, Debug, Default)]
pub struct Variable {
    /// Path in its file or store, which starts with `/`.
    pub path: String,
    /// Element type; `None` for one that Syncline does not have.
    pub element: Option<ElementType>,
    /// Whether it has the coordinates along an axis of others: its only dimension has its name.
    pub is_coordinate: bool,
    /// Its attributes.
    pub attributes: Attributes,
}

/// Returns the names of all attributes that are looked at.
pub fn names() -> Vec<&'static str> {
    [&NAMING[..], &CLASSES, &OTHERS, &[METHOD, ABSOLUTE, RELATIVE]].concat()
}

/// Returns for each array why it stays exact, in a few words; nothing for one that may have an error bound. `groups`
/// are the paths and the attributes of groups.
pub fn exact_reasons(variables: &[Variable], groups: &[(String, Attributes)]) -> Vec<Option<String>> {
    let named = named(variables, groups);
    let reason = |variable: &Variable| own_reason(variable).or_else(|| named.get(&variable.path).cloned());
    variables.iter().map(reason).collect()
}

/// Returns why an array stays exact whatever others say of it.
fn own_reason(variable: &Variable) -> Option<String> {
    match variable.element {
        Some(element) if element.is_float() => {}
        Some(element) => return Some(format!("its type is {element}")),
        None => return Some("its type cannot be compressed".into()),
    }
    let units = variable.attributes.get("units").and_then(Value::as_str).unwrap_or_default();
    if is_time(units) {
        return Some(format!("a time in {units}"));
    }
    if variable.is_coordinate || variable.attributes.contains_key("axis") || is_degrees(units) {
        return Some("a coordinate".into());
    }
    let class = CLASSES.iter().find(|name| variable.attributes.contains_key(**name))?;
    Some(format!("it has {class}"))
}

/// Returns whether units are those of a time with a reference, such as "days since 2000-01-01".
fn is_time(units: &str) -> bool {
    let mut words = units.split_whitespace();
    let unit = words.next().is_some_and(|word| word.bytes().all(|byte| byte.is_ascii_alphabetic()));
    unit && words.next().is_some_and(|word| word.eq_ignore_ascii_case("since")) && words.next().is_some()
}

/// Returns whether units are those of a latitude or a longitude.
fn is_degrees(units: &str) -> bool {
    let direction = units.strip_prefix("degree").map(|rest| rest.strip_prefix('s').unwrap_or(rest));
    let direction = direction.map(|rest| rest.strip_prefix('_').unwrap_or(rest));
    direction.is_some_and(|direction| ["north", "east", "N", "E"].contains(&direction))
}

/// Returns the paths of the arrays that other arrays or groups name, with the reason for the first of these.
fn named(variables: &[Variable], groups: &[(String, Attributes)]) -> HashMap<String, String> {
    let paths: HashMap<&str, ()> = variables.iter().map(|variable| (variable.path.as_str(), ())).collect();
    let mut reasons = HashMap::new();
    for variable in variables {
        let group = parent(&variable.path);
        for key in NAMING {
            for name in words(key, variable.attributes.get(key)) {
                let found = lookup(group, &name, |path| paths.contains_key(path));
                if let Some(path) = found.filter(|path| *path != variable.path) {
                    let owner = &variable.path;
                    reasons.entry(path).or_insert_with(|| format!("{key} of {owner} names it"));
                }
            }
        }
    }
    for (group, attributes) in groups {
        for name in words("coordinates", attributes.get("coordinates")) {
            if let Some(path) = lookup(group.trim_end_matches('/'), &name, |path| paths.contains_key(path)) {
                reasons.entry(path).or_insert_with(|| format!("coordinates of {group} names it"));
            }
        }
    }
    reasons
}

/// Returns the names of arrays in the value of an attribute.
fn words(key: &str, value: Option<&Value>) -> Vec<String> {
    let text = value.and_then(Value::as_str).unwrap_or_default();
    let is_name = |word: &&str| !(WITH_KEYS.contains(&key) && word.ends_with(':'));
    text.split_whitespace().filter(is_name).map(|word| word.strip_suffix(':').unwrap_or(word).to_owned()).collect()
}

/// Returns the path of the group of an array, without a slash at its end.
fn parent(path: &str) -> &str {
    path.rsplit_once('/').map_or("", |(group, _)| group)
}

/// Finds an array by its name in a group or in those around it, or by a path.
fn lookup(group: &str, name: &str, exists: impl Fn(&str) -> bool) -> Option<String> {
    if name.contains('/') {
        let mut parts: Vec<&str> = if name.starts_with('/') { Vec::new() } else { group.split('/').collect() };
        for part in name.split('/') {
            match part {
                "" | "." => {}
                ".." => drop(parts.pop()),
                part => parts.push(part),
            }
        }
        let path = format!("/{}", parts.join("/").trim_start_matches('/'));
        return exists(&path).then_some(path);
    }
    let mut group = group;
    loop {
        let path = format!("{group}/{name}");
        if exists(&path) {
            return Some(path);
        }
        if group.is_empty() {
            return None;
        }
        group = parent(group);
    }
}

/// Returns how readers turn stored values into those that a bound refers to.
pub fn scaling(attributes: &Attributes) -> Scaling {
    let number = |name: &str| attributes.get(name).and_then(one_number);
    Scaling { factor: number("scale_factor").unwrap_or(1.0), offset: number("add_offset").unwrap_or(0.0) }
}

/// Returns the number in the value of an attribute, which may be a list of one.
fn one_number(value: &Value) -> Option<f64> {
    match value {
        Value::Array(values) => values.first().and_then(Value::as_f64),
        value => value.as_f64(),
    }
}

/// Returns whether attributes say that the values were compressed with a bound, to which another one adds.
pub fn was_lossy(attributes: &Attributes) -> bool {
    attributes.contains_key(METHOD)
}

/// Returns the attributes that tell readers of a bound: the largest error, `holds`, and that of earlier compression of
/// the same kind, which adds to it. Nothing if all values are exact.
pub fn description(bound: Bound, holds: f64, attributes: &Attributes) -> Attributes {
    if holds == 0.0 {
        return Attributes::new();
    }
    let name = if matches!(bound, Bound::PwRel(_)) { RELATIVE } else { ABSOLUTE };
    let earlier = attributes.get(name).and_then(one_number).unwrap_or(0.0);
    let version = format!("syncline {}", env!("CARGO_PKG_VERSION"));
    [(METHOD, json!("syncline")), (IMPLEMENTATION, json!(version)), (name, json!(holds + earlier))]
        .map(|(name, value)| (name.to_owned(), value))
        .into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn variable(path: &str, attributes: &[(&str, &str)]) -> Variable {
        let attributes = attributes.iter().map(|&(name, value)| (name.to_owned(), json!(value))).collect();
        Variable { path: path.into(), element: Some(ElementType::F32), is_coordinate: false, attributes }
    }

    fn reasons(variables: &[Variable], groups: &[(String, Attributes)]) -> Vec<String> {
        let reasons = exact_reasons(variables, groups);
        let shown = |(variable, reason): (&Variable, Option<String>)| {
            format!("{}: {}", variable.path, reason.unwrap_or_else(|| "-".into()))
        };
        variables.iter().zip(reasons).map(shown).collect()
    }

    #[test]
    fn variables_that_describe_others_are_exact() {
        let mut coordinate = variable("/x", &[]);
        coordinate.is_coordinate = true;
        let mut whole = variable("/n", &[]);
        whole.element = Some(ElementType::I16);
        let variables = [
            whole,
            variable("/t", &[("units", "Days  since 1850-1-1"), ("bounds", "t_bounds")]),
            coordinate,
            variable("/depth", &[("axis", "Z"), ("formula_terms", "a: ap b: b missing: none")]),
            variable("/lat", &[("units", "degrees_north")]),
            variable("/mask", &[("flag_values", "1 2")]),
            variable("/t_bounds", &[]),
            variable("/ap", &[]),
            variable("/b", &[]),
            variable("/ta", &[("units", "K"), ("grid_mapping", "crs: x y"), ("coordinates", "lat2 ta")]),
            variable("/crs", &[]),
            variable("/lat2", &[]),
            variable("/since", &[("units", "days since")]),
        ];
        let expected = [
            "/n: its type is i16",
            "/t: a time in Days  since 1850-1-1",
            "/x: a coordinate",
            "/depth: a coordinate",
            "/lat: a coordinate",
            "/mask: it has flag_values",
            "/t_bounds: bounds of /t names it",
            "/ap: formula_terms of /depth names it",
            "/b: formula_terms of /depth names it",
            "/ta: -",
            "/crs: grid_mapping of /ta names it",
            "/lat2: coordinates of /ta names it",
            "/since: -",
        ];
        assert_eq!(reasons(&variables, &[]), expected);
    }

    #[test]
    fn names_are_looked_up_in_groups_from_the_inside_out() {
        let variables = [
            variable("/lat", &[]),
            variable("/g/lat", &[]),
            variable("/g/h/ta", &[("coordinates", "lat /lon ../../g/height")]),
            variable("/lon", &[]),
            variable("/g/height", &[]),
            variable("/g/h/lon", &[]),
            variable("/g/where", &[]),
        ];
        let groups = [("/g".to_owned(), Attributes::from([("coordinates".to_owned(), json!("where lat"))]))];
        let expected = [
            "/lat: -",
            "/g/lat: coordinates of /g/h/ta names it",
            "/g/h/ta: -",
            "/lon: coordinates of /g/h/ta names it",
            "/g/height: coordinates of /g/h/ta names it",
            "/g/h/lon: -",
            "/g/where: coordinates of /g names it",
        ];
        assert_eq!(reasons(&variables, &groups), expected);
    }

    #[test]
    fn units_of_times_and_angles() {
        let times = ["days since 1850-01-01", " hours SINCE 2000", "s since x"].map(is_time);
        let others = ["days", "K", "", "since 2000", "m2 since 1", "days after 1850"].map(is_time);
        assert!(times.iter().all(|is| *is) && !others.iter().any(|is| *is));
        let degrees = ["degrees_north", "degree_E", "degreeN", "degreesE"].map(is_degrees);
        let others = ["degrees", "degrees_C", "degree_west", "K", "degreess_N"].map(is_degrees);
        assert!(degrees.iter().all(|is| *is) && !others.iter().any(|is| *is));
    }

    #[test]
    fn errors_of_the_same_kind_add_up() {
        let first = description(Bound::Rel(1e-3), 0.5, &Attributes::new());
        assert_eq!(first[ABSOLUTE], 0.5);
        let second = description(Bound::Abs(0.25), 0.25, &first);
        assert_eq!((&second[ABSOLUTE], &second[METHOD]), (&json!(0.75), &json!("syncline")));
        assert_eq!(description(Bound::PwRel(0.125), 0.125, &first)[RELATIVE], 0.125);
        assert!(description(Bound::Lossless, 0.0, &first).is_empty() && was_lossy(&first));
        let scaling = scaling(&Attributes::from([("scale_factor".into(), json!([0.5]))]));
        assert_eq!((scaling.factor, scaling.offset), (0.5, 0.0));
    }
}
