//! `syncline`: compresses, decompresses, inspects and verifies numeric arrays.

#[cfg(unix)]
mod aborted;
mod allocator;
mod args;
mod chart;
mod commands;
mod conventions;
mod format;
mod in_order;
mod input;
mod interrupt;
mod json;
mod message;
mod names;
mod npy;
mod output;
mod places;
mod progress;
mod region;
mod removal;
mod report;
mod shorthand;
mod started;
mod stream;
mod swap;
mod tasks;
mod usage;

use std::io::IsTerminal;
use std::process::ExitCode;

use clap::Parser;

use args::{Cli, Command};
use message::Outcome;
use usage::command_line_failure;

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => failure.report(),
    }
}

/// Makes Ctrl-C and similar signals remove unfinished output and the progress bar.
fn clean_up_on_interrupt() {
    let clean_up = || {
        progress::clear();
        output::remove_unfinished();
    };
    if let Err(error) = interrupt::before_the_end(clean_up) {
        message::warn(format_args!("Ctrl-C may leave a temporary file behind: {error}"));
    }
}

fn run() -> Outcome {
    let piped = !std::io::stdin().is_terminal() && !std::io::stdout().is_terminal();
    let arguments = shorthand::expanded(std::env::args_os().collect(), piped);
    let cli = Cli::try_parse_from(&arguments).map_err(|error| command_line_failure(&error, &arguments))?;
    clean_up_on_interrupt();
    if cli.command.memory_limit().is_some() {
        allocator::return_freed_memory();
    }
    match cli.command {
        Command::Compress(args) => commands::compress::run(&args, cli.talk),
        Command::Decompress(args) => commands::decompress::run(&args, cli.talk),
        Command::Convert(args) => commands::convert::run(&args, cli.talk),
        Command::Estimate(args) => commands::estimate::run(&args, cli.talk),
        Command::Test(args) => commands::test::run(&args, cli.talk),
        Command::List(args) => commands::list::run(&args, cli.talk),
        Command::Inspect(args) => commands::inspect::run(&args),
        Command::Verify(args) => commands::verify::run(&args, cli.talk),
        Command::Compare(args) => commands::compare::run(&args, cli.talk),
        Command::Report(args) => commands::report::run(&args, cli.talk),
        Command::Demo(args) => commands::demo::run(&args, cli.talk),
        Command::Info(args) => commands::info::run(&args),
        Command::Completions { shell } => commands::manual::completions(shell),
        Command::Man { command } => commands::manual::page(command.as_deref()),
    }
}
