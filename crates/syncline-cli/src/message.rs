//! Failures as one line that says what is wrong and what to do, and an exit code.

use std::fmt::Display;
use std::io::{ErrorKind, Write};
use std::process::ExitCode;

use syncline::Error;

use crate::format::printable;
use crate::started::stdout_is_closed;

/// The reason why a command failed.
#[derive(Debug)]
pub enum Failure {
    /// The command line is wrong: exit code 2.
    Usage(String),
    /// The data, the files, or the machine are at fault: exit code 1.
    Data(String),
    /// Everything was reported before: only an exit code.
    Silent(u8),
}

/// Result of a command or of a part of one.
pub type Outcome<T = ()> = Result<T, Failure>;

impl Failure {
    /// Returns a [`Failure::Usage`].
    pub fn usage(text: impl Into<String>) -> Self {
        Self::Usage(text.into())
    }

    /// Returns a [`Failure::Data`].
    pub fn data(text: impl Into<String>) -> Self {
        Self::Data(text.into())
    }

    /// Returns the failure of an operation of the operating system on a file.
    pub fn io(what: impl Display, error: &std::io::Error) -> Self {
        match error.kind() {
            ErrorKind::BrokenPipe => {
                Self::Data(format!("{what}: the reading program ended before everything was written"))
            }
            ErrorKind::NotFound => Self::Data(format!("{what}: no such file or directory: check the name")),
            ErrorKind::PermissionDenied => Self::Data(format!("{what}: permission denied: check the access rights")),
            ErrorKind::StorageFull => {
                Self::Data(format!("{what}: no space left on the device: free some space and retry"))
            }
            ErrorKind::UnexpectedEof => Self::Data(format!(
                "{what}: ended early: it became shorter while it was read, or is truncated: retry when it is complete"
            )),
            _ => Self::Data(format!("{what}: {error}")),
        }
    }

    /// Returns the failure for an error of the library about this file.
    pub fn of(file: impl Display, error: Error) -> Self {
        match error {
            Error::InvalidArgument(text) => Self::Usage(format!("{file}: {text}")),
            Error::Cancelled => Self::Silent(130),
            Error::Io(error) => Self::io(file, &error),
            Error::MemoryLimit { .. } => Self::Usage(format!("{file}: {error}")),
            other => Self::Data(format!("{file}: {other}")),
        }
    }

    /// Returns the failure for an error of the library that read one file and wrote another.
    pub fn between(input: &str, output: &str, error: Error) -> Self {
        match error {
            // Reading never fails with these kinds.
            Error::Io(error) if matches!(error.kind(), ErrorKind::BrokenPipe | ErrorKind::StorageFull) => {
                Self::io(output, &error)
            }
            Error::Io(error) => Self::io(format_args!("{input} -> {output}"), &error),
            other => Self::of(input, other),
        }
    }

    /// Returns the result of printing a description on stdout. It is no failure if the reader has closed the pipe.
    pub fn to_say(error: &std::io::Error) -> Self {
        match error.kind() {
            ErrorKind::BrokenPipe => Self::Silent(0),
            _ => Self::io("stdout", error),
        }
    }

    /// Prints the message and returns the exit code.
    pub fn report(&self) -> ExitCode {
        let (text, code) = match self {
            Self::Usage(text) => (text, 2),
            Self::Data(text) => (text, 1),
            Self::Silent(code) => return ExitCode::from(*code),
        };
        let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
        // If even stderr is closed, only the exit code remains.
        let _ = writeln!(std::io::stderr(), "syncline: error: {}", printable(&line));
        ExitCode::from(code)
    }
}

/// Prints a description of the data, not the data themselves, on stdout.
pub fn print(text: &[u8]) -> Outcome {
    if stdout_is_closed() {
        return Err(Failure::data("stdout: is closed: redirect it"));
    }
    let mut stdout = std::io::stdout().lock();
    stdout.write_all(text).and_then(|()| stdout.flush()).map_err(|error| Failure::to_say(&error))
}

/// Prints a remark on stderr, because stdout may carry data.
pub fn remark(line: impl Display) {
    // A failing remark does not fail the command.
    let _ = writeln!(std::io::stderr(), "{}", printable(&line.to_string()));
}

/// Prints a warning. The command continues.
pub fn warn(text: impl Display) {
    let _ = writeln!(std::io::stderr(), "syncline: warning: {}", printable(&text.to_string()));
}
