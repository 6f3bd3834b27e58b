//! Failures of the command line itself.

use std::ffi::OsString;

use clap::CommandFactory;
use clap::error::{ContextKind, ContextValue, ErrorKind};

use crate::args::Cli;
use crate::message::Failure;

/// Returns one line for an error of clap in the command line. Help and version texts are printed unchanged.
pub fn command_line_failure(error: &clap::Error, arguments: &[OsString]) -> Failure {
    if !error.use_stderr() {
        return match error.print() {
            Ok(()) => Failure::Silent(0),
            Err(io) => Failure::to_say(&io),
        };
    }
    if error.kind() == ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand {
        return Failure::usage("the command is missing: see 'syncline --help', or try 'syncline demo'");
    }
    if lacks_only_a_bound(error) {
        let bounds = "such as --rel 1e-3, a thousandth of the value range, --abs 0.01, or --lossless";
        return Failure::usage(format!(
            "the bound is missing: add one, {bounds} (see '{} --help')",
            command_typed(arguments)
        ));
    }
    let text = error.to_string();
    let text = text.strip_prefix("error: ").unwrap_or(&text);
    let said: String = text
        .lines()
        .map(str::trim)
        .take_while(|line| !line.starts_with("Usage:") && !line.starts_with("For more information"))
        // Clap's hint about passing an option as a value is left out.
        .filter(|line| !line.is_empty() && !line.starts_with("tip: to pass"))
        .map(|line| line.strip_prefix("tip: ").map_or(format!(" {line}"), |tip| format!("; {tip}")))
        .collect();
    Failure::usage(format!("{} (see '{} --help')", said.trim_start(), command_typed(arguments)))
}

/// Returns whether a bound is all that is missing. Clap names every kind of bound as if each were required.
fn lacks_only_a_bound(error: &clap::Error) -> bool {
    let Some(ContextValue::Strings(missing)) = error.get(ContextKind::InvalidArg) else { return false };
    error.kind() == ErrorKind::MissingRequiredArgument && matches!(&missing[..], [one] if one.starts_with("<--abs "))
}

/// Returns the command whose help is referred to: the one on the command line, if it exists.
fn command_typed(arguments: &[OsString]) -> String {
    let mut typed = arguments.iter().skip(1).map(|text| text.to_string_lossy().into_owned());
    let command = typed.find(|text| !text.starts_with('-'));
    match command.filter(|name| Cli::command().find_subcommand(name).is_some()) {
        Some(name) => format!("syncline {name}"),
        None => "syncline".into(),
    }
}
