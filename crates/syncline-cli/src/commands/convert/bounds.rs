//! Which arrays are compressed, and with which bound.

use syncline::Bound;

use super::changes::Array;
use crate::args::{BoundChoice, ConvertBoundArgs};
use crate::conventions::{self, Attributes};
use crate::format;
use crate::message::{Failure, Outcome};

/// Arrays of fewer elements stay as they are: a stream would take more than is saved.
const SMALLEST: u64 = 1024;

/// What becomes of an array.
#[derive(Clone, Debug, PartialEq)]
pub enum Decision {
    /// It is compressed with this bound.
    Compress(Bound),
    /// It is copied as it is, for this reason.
    Keep(String),
}

/// Decides what becomes of each array. `groups` are the paths and attributes of groups.
///
/// # Errors
/// Bounds that contradict each other, that fit no array, or that name one which can have none.
pub fn decide(
    given: &ConvertBoundArgs,
    except: &[String],
    arrays: &[Array],
    groups: &[(String, Attributes)],
) -> Outcome<Vec<Decision>> {
    let choices = given.choices();
    let mut defaults = choices.iter().filter(|choice| choice.name.is_none());
    let default = defaults.next();
    if let (Some(first), Some(second)) = (default, defaults.next()) {
        let text = format!("{first} and {second}: are both for all arrays: leave one out, or name arrays as NAME=X");
        return Err(Failure::usage(text));
    }
    for choice in &choices {
        check_name(choice, arrays)?;
    }
    let is_path = |path: &String| {
        let is_it = |other: &str| other.trim_matches('/') == path.trim_matches('/');
        groups.iter().any(|(group, _)| is_it(group)) || arrays.iter().any(|array| is_it(&array.variable.path))
    };
    if let Some(path) = except.iter().find(|path| !is_path(path)) {
        return Err(Failure::usage(format!("there is no group or array {path}: check --except")));
    }
    let variables: Vec<_> = arrays.iter().map(|array| array.variable.clone()).collect();
    let reasons = conventions::exact_reasons(&variables, groups);
    let decision = |(array, reason): (&Array, Option<String>)| {
        if is_within(&array.variable.path, except) {
            return Ok(Decision::Keep("named by --except".into()));
        }
        one(array, reason, &choices, default)
    };
    arrays.iter().zip(reasons).map(decision).collect()
}

/// Returns whether a path is one of others, or within one.
pub fn is_within(path: &str, others: &[String]) -> bool {
    let path = path.trim_matches('/');
    let within = |other: &str| path.strip_prefix(other).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'));
    others.iter().any(|other| within(other.trim_matches('/')))
}

/// Fails if a name fits no array.
fn check_name(choice: &BoundChoice, arrays: &[Array]) -> Outcome {
    let Some(name) = &choice.name else { return Ok(()) };
    let is_lossless = choice.bound == Bound::Lossless;
    let fits = |array: &&Array| is_lossless || name.is_plain() || array.is_floating;
    if arrays.iter().filter(fits).any(|array| name.matches(&array.variable.path)) {
        return Ok(());
    }
    const MOST: usize = 20;
    let there: Vec<&str> =
        arrays.iter().filter(|array| array.is_floating).map(|array| array.variable.path.as_str()).collect();
    let more = if there.len() > MOST { ", ..." } else { "" };
    let list = there.iter().take(MOST).copied().collect::<Vec<_>>().join(", ");
    Err(Failure::usage(match there.is_empty() {
        true => {
            format!("{choice}: there are no floating-point arrays: name an array of integers, or leave the bound out")
        }
        false => format!("{choice}: no floating-point array has such a name: name some of {list}{more}"),
    }))
}

/// Decides what becomes of one array. `reason` is why it stays exact by the conventions.
fn one(
    array: &Array,
    reason: Option<String>,
    choices: &[BoundChoice],
    default: Option<&BoundChoice>,
) -> Outcome<Decision> {
    let path = &array.variable.path;
    let element = array.variable.element;
    let matching = |choice: &&BoundChoice| choice.name.as_ref().is_some_and(|name| name.matches(path));
    let (plain, patterns): (Vec<_>, Vec<_>) =
        choices.iter().filter(matching).partition(|choice| choice.name.as_ref().is_some_and(|name| name.is_plain()));
    let is_lossless = |choice: &&BoundChoice| choice.bound == Bound::Lossless;
    let is_lossless = plain.iter().chain(&patterns).copied().any(|choice| is_lossless(&choice));
    let by_name = if is_lossless { None } else { only(path, &plain)? };
    if let (Some(choice), None) = (by_name, element) {
        let text = format!("{choice}: {path} holds another type than numbers, which has no error bound: leave it out");
        return Err(Failure::usage(text));
    }
    if let (Some(choice), Some(element)) = (by_name, element) {
        choice.bound.validate(element).map_err(|error| Failure::usage(format!("{choice}: {path}: {error}")))?;
    }
    let bound = match by_name {
        Some(choice) => Some(choice.bound),
        // Integers may be labels or indices: only their own name gives them a bound.
        None if !array.is_floating => {
            return Ok(Decision::Keep(reason.unwrap_or_else(|| "its type cannot be compressed".into())));
        }
        None if is_lossless => Some(Bound::Lossless),
        None => only(path, &patterns)?.or(default).map(|choice| choice.bound),
    };
    Ok(match (bound, element, reason) {
        _ if array.is_elsewhere => Decision::Keep("its elements are in other datasets or files".into()),
        (None, ..) => Decision::Keep("no bound is given for it".into()),
        (_, None, _) => Decision::Keep("its type cannot be compressed".into()),
        (Some(Bound::Lossless), ..) if array.is_small() => Decision::Keep(small()),
        (Some(Bound::Lossless), ..) => Decision::Compress(Bound::Lossless),
        (_, _, Some(reason)) if by_name.is_none() => Decision::Keep(reason),
        _ if array.is_small() => Decision::Keep(small()),
        (Some(bound), ..) => Decision::Compress(bound),
    })
}

fn small() -> String {
    format!("fewer than {} elements", format::grouped(SMALLEST))
}

impl Array {
    fn is_small(&self) -> bool {
        self.extents.iter().fold(1, |count: u64, &extent| count.saturating_mul(extent)) < SMALLEST
    }
}

/// Returns the only one of some choices, or the first of equal ones.
fn only<'a>(path: &str, choices: &[&'a BoundChoice]) -> Outcome<Option<&'a BoundChoice>> {
    let Some((first, others)) = choices.split_first() else { return Ok(None) };
    match others.iter().find(|other| other.bound != first.bound) {
        Some(other) => Err(Failure::usage(format!(
            "{first} and {other}: are both for {path}: leave one out, or name {path} alone"
        ))),
        None => Ok(Some(first)),
    }
}
