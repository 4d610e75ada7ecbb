//! `flyball lab`: hands the command line on, and shows how it goes.

use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use flyball::cli::{Lab, LabKind};
use flyball::experiments::refusal;
use flyball_lab::campaign::{Options, Progress};
use flyball_lab::laboratory::{self, Laboratory};
use flyball_lab::outcome::Said;

use super::progress::{self, spoken};

pub(crate) fn run(asked: &Lab) -> ExitCode {
    super::finish_said(outcome(asked))
}

fn outcome(asked: &Lab) -> Result<Said, String> {
    let text = match asked {
        Lab::List => laboratory::list(),
        Lab::Show(name) => laboratory::show(name),
        Lab::Report(directories) => laboratory::report(directories),
        Lab::Compare(left, right) => laboratory::compare(left, right),
        Lab::Rank(directories) => laboratory::rank(directories),
        Lab::Keep(directory, record) => laboratory::keep(directory, record),
        Lab::Table(records) => laboratory::table(records),
        Lab::Clear => laboratory::clear(),
        Lab::Run {
            names,
            kind,
            out,
            files,
            resume,
            seed,
            blocks,
            seconds,
            unjudged,
            stolen_percent_max,
            white_box,
        } => {
            let options = Options {
                quick: *kind == LabKind::Quick,
                seed: *seed,
                resume: *resume,
                blocks: *blocks,
                seconds: *seconds,
                unjudged: *unjudged,
                stolen_percent_max: *stolen_percent_max,
            };
            let flyball = std::env::current_exe().map_err(|error| error.to_string())?;
            let laboratory =
                Laboratory { flyball, out: out.clone(), files: files.clone(), refusal };
            let stop = Arc::new(AtomicBool::new(false));
            laboratory::on_interrupt(&stop)?;
            let stop = || stop.load(Relaxed);
            if !white_box {
                return laboratory.run(names, &options, &mut Lines, &stop);
            }
            laboratory.look_into(names, &options, &mut Lines, &stop)
        }
    };
    text.map(|text| Said { text, has_result: true })
}

/// Says on standard error how it goes.
struct Lines;

impl Progress for Lines {
    fn experiment(&mut self, nth: usize, all: usize, name: &str, left: Duration) {
        progress::tell(&format!(
            "== {name} ({nth} of {all}; about {} left for all)\n",
            spoken(left)
        ));
    }

    fn begins(&mut self, nth: usize, all: usize, what: &str, left: Duration) {
        progress::tell(&format!("[{nth}/{all}, {} left] {what}\n", spoken(left)));
    }

    fn note(&mut self, what: &str) {
        progress::tell(&format!("{what}\n"));
    }
}
