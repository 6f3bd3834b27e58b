//! Runs fuzz targets with random inputs: `cargo xtask fuzz SECONDS`.

use std::panic::catch_unwind;
use std::process::ExitCode;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use clap::Parser;
use syncline_fuzz::{Rng, TARGETS, Target};

/// Runs fuzz targets with random inputs. Each input has a seed, which reproduces it.
#[derive(Parser)]
struct Arguments {
    /// How long to run, in seconds; with 0, each target runs once
    seconds: u64,
    /// Seed of the first input; later inputs have the numbers after it [default: by the time]
    #[arg(long)]
    seed: Option<u64>,
    /// Run only the target with this name
    #[arg(long)]
    target: Option<String>,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let wanted = |target: &&Target| arguments.target.as_ref().is_none_or(|name| name == target.name);
    let targets: Vec<_> = TARGETS.iter().filter(wanted).collect();
    if targets.is_empty() {
        let names: Vec<_> = TARGETS.iter().map(|target| target.name).collect();
        eprintln!("error: no such target; the targets are {}", names.join(", "));
        return ExitCode::from(2);
    }
    let first = arguments
        .seed
        .unwrap_or_else(|| SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_nanos() as u64));
    println!("first seed: {first}");
    let deadline = Instant::now() + Duration::from_secs(arguments.seconds);
    let (next, failures) = (AtomicU64::new(0), AtomicU64::new(0));
    let work = || {
        loop {
            let number = next.fetch_add(1, Ordering::Relaxed);
            if number > 0 && Instant::now() >= deadline || failures.load(Ordering::Relaxed) > 0 {
                return;
            }
            let seed = first.wrapping_add(number);
            for target in &targets {
                if catch_unwind(|| (target.run)(&(target.generate)(&mut Rng(seed)))).is_err() {
                    failures.fetch_add(1, Ordering::Relaxed);
                    println!("FAILED: reproduce with `cargo xtask fuzz 0 --target {} --seed {seed}`", target.name);
                }
            }
        }
    };
    std::thread::scope(|scope| {
        let threads = std::thread::available_parallelism().map_or(1, usize::from);
        (0..threads).for_each(|_| drop(scope.spawn(work)));
    });
    if failures.into_inner() > 0 {
        return ExitCode::FAILURE;
    }
    println!("{} inputs for each of {} targets: no failure", next.into_inner(), targets.len());
    ExitCode::SUCCESS
}
