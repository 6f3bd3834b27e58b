//! Options for many files.

use std::path::PathBuf;

use clap::Args;

use super::OUTPUT;

/// What becomes of several outputs and of the inputs.
#[derive(Clone, Debug, Args)]
pub struct Files {
    /// Folder for the outputs, which keep their names [default: that of each input].
    ///
    /// It is created if it does not exist. Files from folders keep their place below the folder.
    #[arg(long, value_name = "DIR", conflicts_with_all = ["output", "stdout"], help_heading = OUTPUT)]
    pub output_dir: Option<PathBuf>,
    /// Write to stdout, as -o - does.
    #[arg(short = 'c', long, conflicts_with = "output", help_heading = OUTPUT)]
    pub stdout: bool,
    /// Replace existing output files.
    #[arg(short, long, help_heading = OUTPUT)]
    pub force: bool,
    /// Remove each input file after its output is complete and on the disk.
    ///
    /// A file that was changed, or whose name another file got meanwhile, is kept and is an error.
    #[arg(long, overrides_with = "keep", help_heading = OUTPUT)]
    pub rm: bool,
    /// Keep the input files, which is the default.
    #[arg(short, long, overrides_with = "rm", help_heading = OUTPUT)]
    pub keep: bool,
}
