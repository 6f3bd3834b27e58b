//! `cargo xtask site`: the documentation as a static site.

use std::process::Command;

use anyhow::Result;
use clap::Args;

use crate::environment::{self, Environment};

/// Arguments of `site`.
#[derive(Args)]
pub struct Arguments {
    /// Show the site at a local address, and build it again when a file changes
    #[arg(long)]
    serve: bool,
    /// Where there is no interpreter or no package index, say so and succeed
    #[arg(long)]
    if_available: bool,
}

/// Builds the site in `target/site`. A link to a page or a heading that does not exist is an error.
pub fn run(arguments: &Arguments) -> Result<()> {
    let environment = match prepare() {
        Ok(environment) => environment,
        Err(error) if arguments.if_available => {
            println!("skipped: documentation site: {error:#}");
            return Ok(());
        }
        Err(error) => return Err(error),
    };
    let mut mkdocs = Command::new(environment.python);
    mkdocs.args(["-m", "mkdocs", if arguments.serve { "serve" } else { "build" }, "--strict"]);
    mkdocs.args(["--config-file", "scripts/site/mkdocs.yml"]);
    crate::run(&mut mkdocs)?;
    if !arguments.serve {
        println!("{}", crate::root().join("target/site/index.html").display());
    }
    Ok(())
}

/// Returns an environment with MkDocs.
fn prepare() -> Result<Environment> {
    let (python, _) = environment::find(None)?;
    Environment::prepare(&python, "site", "scripts/site/requirements.txt")
}
