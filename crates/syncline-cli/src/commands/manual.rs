//! Shell completions and manual pages.

use clap::CommandFactory;
use clap_complete::Shell;

use crate::args::Cli;
use crate::message::{Failure, Outcome, print};

/// Prints the completion script of a shell.
pub fn completions(shell: Shell) -> Outcome {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "syncline", &mut script);
    print(&script)
}

/// Prints the manual page of the program or of one command.
pub fn page(command: Option<&str>) -> Outcome {
    let mut program = Cli::command();
    program.build();
    let described = match command {
        None => program,
        Some(name) => {
            let found = program.find_subcommand(name).cloned();
            let found = found.ok_or_else(|| Failure::usage(format!("no command '{name}': see 'syncline --help'")))?;
            found.display_name(format!("syncline-{name}"))
        }
    };
    let mut page = Vec::new();
    clap_mangen::Man::new(described).render(&mut page).map_err(|error| Failure::io("manual page", &error))?;
    print(&page)
}
