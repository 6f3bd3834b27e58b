//! Arguments of `report`.

use std::path::PathBuf;

use clap::Args;
use syncline::{ElementType, Shape};

use super::{INPUT, OUTPUT, Resources, parse};

/// Arguments of `report`.
#[derive(Debug, Args)]
pub struct ReportArgs {
    /// Original array: a raw or .npy file.
    #[arg(value_name = "ORIGINAL")]
    pub original: PathBuf,
    /// Stream of this array, or an array to compare with it.
    #[arg(value_name = "OTHER")]
    pub other: PathBuf,
    /// Element type of raw files if OTHER is an array [default: from the name of ORIGINAL].
    #[arg(long, value_name = "TYPE", value_parser = parse::element_type(), help_heading = INPUT)]
    pub dtype: Option<ElementType>,
    /// Extents of raw files if OTHER is an array, slowest axis first, such as 100x500x500.
    #[arg(long, visible_alias = "dims", value_name = "SHAPE", help_heading = INPUT)]
    pub shape: Option<Shape>,
    /// Page to write.
    #[arg(short, long, value_name = "OUT", default_value = "report.html", help_heading = OUTPUT)]
    pub output: PathBuf,
    /// Replace an existing page.
    #[arg(short, long, help_heading = OUTPUT)]
    pub force: bool,
    /// Processor, threads, and memory.
    #[command(flatten)]
    pub resources: Resources,
}
