//! How much time compression takes for a smaller stream, also as one of nine short options.

use clap::{Arg, ArgAction, ArgGroup, ArgMatches, Args, Command, FromArgMatches};
use syncline::{Advanced, Effort, Error};

use super::{ADVANCED, SPEED, parse};
use crate::message::{Failure, Outcome};

/// The effort, by its name or by a digit.
#[derive(Clone, Debug, Args)]
pub struct EffortArgs {
    /// Time that compression may take for a smaller stream [default: balanced].
    ///
    /// With an error bound, fast predicts values in small tiles, of which parts of an array are read fastest, and
    /// balanced in blocks, whose streams are smaller. best is balanced then; lossless, it also looks for repetitions.
    #[arg(long, value_name = "EFFORT", value_parser = parse::effort(), env = "SYNCLINE_EFFORT", hide_env = true,
        help_heading = SPEED)]
    pub effort: Option<Effort>,
    /// The effort as one of the options -1 to -9.
    #[command(flatten)]
    pub short: ShortEffort,
}

impl EffortArgs {
    /// Returns the effort that was given.
    pub fn effort(&self) -> Option<Effort> {
        self.short.0.or(self.effort)
    }
}

/// Single choices of the encoder.
#[derive(Clone, Debug, Args)]
pub struct AdvancedArgs {
    /// A choice that the effort otherwise stands for, such as coder=lzss or level=9 (docs/ADVANCED.md); repeatable.
    ///
    /// The keys and their values: coder=auto|numbers|lzss|lzss+huffman, index=symbol|none, level=1-9, and
    /// symbol=auto|1|2|4|8.
    #[arg(long, value_name = "KEY=VALUE", env = "SYNCLINE_ADVANCED", hide_env = true, help_heading = ADVANCED)]
    advanced: Vec<String>,
}

impl AdvancedArgs {
    /// Returns the choices that were given.
    pub fn advanced(&self) -> Outcome<Advanced> {
        let parsed = self.advanced.join(",").parse();
        parsed.map_err(|error: Error| Failure::usage(format!("--advanced: {error}")))
    }
}

/// The effort as one of the options -1 to -9.
#[derive(Clone, Copy, Debug)]
pub struct ShortEffort(pub Option<Effort>);

const GROUP: &str = "short_effort";

const IDS: [&str; 9] =
    ["effort_1", "effort_2", "effort_3", "effort_4", "effort_5", "effort_6", "effort_7", "effort_8", "effort_9"];

impl FromArgMatches for ShortEffort {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let given = IDS.iter().position(|id| matches.get_flag(id));
        Ok(Self(given.map(|place| match place + 1 {
            1..=3 => Effort::Fast,
            4..=6 => Effort::Balanced,
            _ => Effort::Best,
        })))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

impl Args for ShortEffort {
    fn augment_args(command: Command) -> Command {
        let with_digit = |command: Command, (digit, id): (char, &'static str)| {
            let help = if digit == '1' {
                "The effort as a digit: -1 to -3 fast, -4 to -6 balanced, -7 to -9 best"
            } else {
                ""
            };
            let option = Arg::new(id).short(digit).action(ArgAction::SetTrue).help_heading(SPEED);
            command.arg(option.help(help).hide(digit != '1'))
        };
        let group = ArgGroup::new(GROUP).args(IDS).multiple(false).conflicts_with("effort");
        ('1'..='9').zip(IDS).fold(command, with_digit).group(group)
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}
