//! Command lines without a command: `syncline x.syn`, `syncline -d x.syn`, `syncline x.npy --lossless`.

use std::ffi::{OsStr, OsString};
use std::path::Path;

use clap::{Command, CommandFactory};

use crate::args::Cli;
use crate::names::{self, is_dash};

/// What compresses any bytes that come through a pipe, as `tar -I syncline` wants it.
const BYTES: [&str; 5] = ["compress", "--dtype=u8", "--lossless", "--quiet", "-"];

/// Inserts the command that the short options or the names of files imply, unless there is a command. Without a name,
/// and between pipes (`piped`), bytes are compressed losslessly.
pub fn expanded(mut arguments: Vec<OsString>, piped: bool) -> Vec<OsString> {
    let program = Cli::command();
    let words = words(&program, &arguments);
    let first = words.first().map(|&place| &arguments[place]);
    if first.is_some_and(|word| program.find_subcommand(word).is_some() || word == "help") {
        return arguments;
    }
    let mode = take_mode(&mut arguments, &words);
    let plain = |option: &OsString| option.to_str().is_some_and(is_of_gzip);
    if mode.is_none() && words.is_empty() && piped && arguments.iter().skip(1).all(plain) {
        arguments.splice(1.min(arguments.len())..1.min(arguments.len()), BYTES.map(OsString::from));
        return arguments;
    }
    let inferred = mode.or_else(|| inferred(words.iter().map(|&place| arguments[place].as_os_str())));
    let Some(command) = inferred else { return arguments };
    if words.is_empty() {
        arguments.push("-".into());
    }
    arguments.insert(1.min(arguments.len()), command.into());
    // What became of options that were only a mode.
    arguments.retain(|argument| !argument.is_empty());
    arguments
}

/// Returns the places of arguments that are neither options nor their values.
fn words(program: &Command, arguments: &[OsString]) -> Vec<usize> {
    let mut words = Vec::new();
    let mut is_value = true;
    for (place, argument) in arguments.iter().enumerate() {
        let option = argument.to_str().is_some_and(|text| text.starts_with('-') && text.len() > 1);
        match (is_value, option) {
            (true, _) => is_value = false,
            (false, true) => is_value = takes_value(program, &argument.to_string_lossy()),
            (false, false) => words.push(place),
        }
    }
    words
}

/// Returns whether an argument is an option whose value is the next argument.
fn takes_value(program: &Command, option: &str) -> bool {
    let commands = program.get_subcommands().filter(|command| ["compress", "decompress"].contains(&command.get_name()));
    let mut options = commands.flat_map(Command::get_arguments).filter(|option| option.get_action().takes_values());
    match option.strip_prefix("--") {
        Some(name) => options.any(|option| {
            option.get_long() == Some(name) || option.get_visible_aliases().is_some_and(|all| all.contains(&name))
        }),
        // In -qo, the last letter may take the value.
        None => options.any(|known| known.get_short().is_some_and(|short| option.ends_with(short))),
    }
}

/// Returns whether an option is one of gzip or zstd that says nothing of the array: -1 to -9, -c, -T4.
fn is_of_gzip(option: &str) -> bool {
    let flags = option.strip_prefix('-').unwrap_or_default();
    let threads = flags.strip_prefix('T').unwrap_or_default();
    !flags.is_empty() && flags.chars().all(|c| matches!(c, 'c' | '1'..='9'))
        || !threads.is_empty() && threads.chars().all(|c| c.is_ascii_digit())
}

/// Removes the option that names a command: -d, -t, -l, also among other letters, or its long form.
fn take_mode(arguments: &mut [OsString], words: &[usize]) -> Option<&'static str> {
    const MODES: [(char, &str, &str); 3] =
        [('d', "--decompress", "decompress"), ('t', "--test", "test"), ('l', "--list", "list")];
    for (place, argument) in arguments.iter_mut().enumerate().skip(1) {
        let Some(text) = argument.to_str().filter(|_| !words.contains(&place)) else { continue };
        for (letter, long, command) in MODES {
            if text == long {
                *argument = OsString::new();
                return Some(command);
            }
            // Letters after one that takes a value are the value.
            let is_letter = |c: char| matches!(c, 'd' | 't' | 'l' | 'c' | 'f' | 'k' | 'q' | 'v' | '1'..='9');
            let flags = text.strip_prefix('-').filter(|flags| !flags.is_empty());
            let Some(flags) = flags else { continue };
            let plain: String = flags.chars().take_while(|&c| is_letter(c)).collect();
            if plain.contains(letter) {
                let kept = format!("-{}{}", plain.replacen(letter, "", 1), &flags[plain.len()..]);
                *argument = if kept == "-" { OsString::new() } else { kept.into() };
                return Some(command);
            }
        }
    }
    None
}

/// Returns the command for files of these names; `None` if the first is no file.
fn inferred<'a>(mut names: impl Iterator<Item = &'a OsStr>) -> Option<&'static str> {
    let first = Path::new(names.next()?);
    let text = first.to_string_lossy();
    if !is_dash(first) && !text.contains(['.', '/', '\\']) && !first.exists() {
        // More likely a command that does not exist.
        return None;
    }
    Some(if names::is_stream(first) { "decompress" } else { "compress" })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn expanded_line(line: &str, piped: bool) -> String {
        let arguments = ["syncline"].into_iter().chain(line.split_whitespace()).map(OsString::from).collect();
        let parts: Vec<String> =
            expanded(arguments, piped)[1..].iter().map(|a| a.to_string_lossy().into_owned()).collect();
        parts.join(" ")
    }

    #[test]
    fn shorthand_inserts_the_command() {
        for (line, expected) in [
            ("x.syn", "decompress x.syn"),
            ("x.npy --lossless", "compress x.npy --lossless"),
            ("--rel 1e-3 x.npy -o y.syn", "compress --rel 1e-3 x.npy -o y.syn"),
            ("-o y.npy x.syn", "decompress -o y.npy x.syn"),
            ("-d x", "decompress x"),
            ("-dc x.syn", "decompress -c x.syn"),
            ("-cdf x.syn", "decompress -cf x.syn"),
            ("-d", "decompress -"),
            ("-t a.syn b.syn", "test a.syn b.syn"),
            ("-l a.syn", "list a.syn"),
            ("-9 -T4 x.npy --lossless", "compress -9 -T4 x.npy --lossless"),
            ("- --lossless", "compress - --lossless"),
            ("-q x.npy --fill -9 --abs 1", "compress -q x.npy --fill -9 --abs 1"),
            ("--decompress x.syn", "decompress x.syn"),
            // Not touched.
            ("compress -1 x.npy", "compress -1 x.npy"),
            ("-q compress x.npy -o d", "-q compress x.npy -o d"),
            ("frobnicate", "frobnicate"),
            ("--help", "--help"),
            ("", ""),
        ] {
            assert_eq!(expanded_line(line, false), expected, "{line}");
        }
    }

    #[test]
    fn between_pipes_bytes_are_compressed_without_a_command() {
        for (line, expected) in [
            ("", "compress --dtype=u8 --lossless --quiet -"),
            ("-9 -T4", "compress --dtype=u8 --lossless --quiet - -9 -T4"),
            ("-d", "decompress -"),
            ("-dc", "decompress -c -"),
            ("x.syn", "decompress x.syn"),
            ("--help", "--help"),
            ("--version", "--version"),
        ] {
            assert_eq!(expanded_line(line, true), expected, "{line}");
        }
    }
}
