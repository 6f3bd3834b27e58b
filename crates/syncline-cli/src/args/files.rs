//! Options for many files, and the level as one of nine short options.

use std::path::PathBuf;

use clap::{Arg, ArgAction, ArgGroup, ArgMatches, Args, Command, FromArgMatches};

/// What becomes of several outputs and of the inputs.
#[derive(Clone, Debug, Args)]
pub struct Files {
    /// Folder for the outputs, which keep their names [default: that of each input].
    ///
    /// It is created if it does not exist. Files from folders keep their place below the folder.
    #[arg(long, value_name = "DIR", conflicts_with_all = ["output", "stdout"])]
    pub output_dir: Option<PathBuf>,
    /// Write to stdout, as -o - does.
    #[arg(short = 'c', long, conflicts_with = "output")]
    pub stdout: bool,
    /// Replace existing output files.
    #[arg(short, long)]
    pub force: bool,
    /// Remove each input file after its output is complete and on the disk.
    ///
    /// A file that was changed, or whose name another file got meanwhile, is kept and is an error.
    #[arg(long, overrides_with = "keep")]
    pub rm: bool,
    /// Keep the input files, which is the default.
    #[arg(short, long, overrides_with = "rm")]
    pub keep: bool,
}

/// The level as one of the options -1 to -9.
#[derive(Clone, Copy, Debug)]
pub struct ShortLevel(pub Option<u8>);

const GROUP: &str = "short_level";

const IDS: [&str; 9] =
    ["level_1", "level_2", "level_3", "level_4", "level_5", "level_6", "level_7", "level_8", "level_9"];

fn id(level: u8) -> &'static str {
    IDS[usize::from(level) - 1]
}

impl FromArgMatches for ShortLevel {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        Ok(Self((1..=9).find(|&level| matches.get_flag(id(level)))))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

impl Args for ShortLevel {
    fn augment_args(command: Command) -> Command {
        let with_level = |command: Command, level: u8| {
            let help = if level == 1 { "The level as a short option: -1 to -9" } else { "As --level" };
            let option = Arg::new(id(level)).short(char::from(b'0' + level)).action(ArgAction::SetTrue);
            command.arg(option.help(help).hide(level != 1))
        };
        let group = ArgGroup::new(GROUP).args(IDS).multiple(false).conflicts_with("level");
        (1..=9).fold(command, with_level).group(group)
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}
