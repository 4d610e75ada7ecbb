//! What the lab cannot know by itself: whether our server takes what an experiment sets.

use std::ffi::OsString;

use flyball_lab::definition::{Experiment, Series, Varies};

use crate::cli;
use crate::configuration::CommandLine;

/// Why the server would not take the settings of a series of ours, or those along the axis; nothing
/// when it does.
pub fn refusal(experiment: &Experiment, series: &Series) -> Option<String> {
    let mut words: Vec<String> = ["flyball", "serve", "/"].map(str::to_owned).into();
    if let Some(architecture) = &series.architecture {
        words.extend(["--arch".into(), architecture.clone()]);
    }
    for (key, value) in &series.set {
        words.extend(["--set".into(), format!("{key}={value}")]);
    }
    if let (Varies::Setting, Some(key)) = (experiment.axis.varies, &experiment.axis.setting) {
        let points = experiment.axis.points.iter();
        words.extend(points.flat_map(|point| ["--set".into(), format!("{key}={point}")]));
    }
    let arguments: Vec<OsString> = words.iter().map(Into::into).collect();
    let typed = match cli::parse(&arguments) {
        Ok(cli::Command::Serve(typed)) => typed,
        Ok(other) => return Some(format!("{other:?}")),
        Err(failure) => return Some(failure.to_string()),
    };
    CommandLine::new(arguments, typed).settings().err().map(|failure| failure.to_string())
}
