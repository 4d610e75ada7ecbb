//! The experiments that there are: the files of `lab/experiments`, which the program carries.

use std::fs;

use crate::contestant;
use crate::definition::{Claim, DefinitionError, Experiment};
use crate::generator;
use crate::nearest::nearest;

macro_rules! definitions {
    ($($name:literal,)*) => {
        /// Names and texts, in the order of the papers.
        const DEFINITIONS: &[(&str, &str)] = &[
            $(($name, include_str!(concat!("../experiments/", $name, ".toml"))),)*
        ];
    };
}

definitions![
    "s0-fig2",
    "s0-fig3",
    "s0-fig4",
    "s0-fig5",
    "s0-fig6",
    "s0-fig7",
    "s0-fig8",
    "s0-fig8-select",
    "s0-fig8-turns",
    "s0-fig9",
    "s0-fig10",
    "s0-fig11",
    "s0-fig12",
    "s0-fig13",
    "s0-fig14",
    "s0-fig15",
    "s0-fig16",
    "s0-fig17",
    "s0-sec42",
    "s0-sec5",
    "s0-sec63",
    "s0-sec7",
    "s1-fig2",
    "s1-fig3",
    "s1-fig4",
    "s1-fig5",
    "s1-fig6",
    "s1-sec42",
    "s1-sec5",
    "s1-crossover",
    "s2-fig6",
    "s2-fig8",
    "s2-fig8-small",
    "s2-fig9",
    "s2-fig10",
    "s2-fig11",
    "s2-fig12",
    "s2-headlines",
    "s3-fig2",
    "s3-fig6",
    "s3-fig12",
    "s3-fig13",
    "s3-fig14",
    "s3-fig15",
    "s3-fig17",
    "s3-antipatterns",
    "s3-sec24",
    "s3-sec224",
    "s3-sec323",
    "s4-fig1",
    "s4-fig2",
    "s4-fig3",
    "s4-fig4",
    "s4-fig5",
    "s4-sec5",
    "s4-sec8",
    "s4-sec10",
    "s4-sec10-disk",
    "s4-table1",
    "s4-table2",
    "s4-table3",
    "s4-tuning",
    "s4-verification",
    "g-refuse",
    "g-overload",
    "g-overload-php",
    "g-mixed",
    "g-spike",
    "g-metastable",
];

/// The names of all experiments.
pub fn names() -> impl Iterator<Item = &'static str> {
    DEFINITIONS.iter().map(|(name, _)| *name)
}

/// All experiments, each with the runs that it shares with another.
///
/// # Errors
/// When a definition is wrong, which a test keeps from happening.
pub fn all() -> Result<Vec<Experiment>, DefinitionError> {
    let file = |name: &str| format!("lab/experiments/{name}.toml");
    let mut experiments: Vec<Experiment> = Vec::with_capacity(DEFINITIONS.len());
    for (name, text) in DEFINITIONS {
        let experiment = Experiment::parse(&file(name), text)?;
        if experiment.name != *name {
            let why = format!("it calls itself {:?}", experiment.name);
            return Err(DefinitionError { file: file(name), why });
        }
        if experiment.rows.is_empty() || experiment.source.is_empty() {
            let why = "no row of the papers is named".into();
            return Err(DefinitionError { file: file(name), why });
        }
        experiments.push(experiment);
    }
    let whole = |experiment: &Experiment| -> Result<Experiment, DefinitionError> {
        let Some(shared) = &experiment.shares_runs_of else { return Ok(experiment.clone()) };
        let file = file(&experiment.name);
        let base = experiments.iter().find(|base| base.name == *shared);
        let base = base.filter(|base| base.shares_runs_of.is_none());
        let why = format!("there is no experiment {shared:?} with runs of its own");
        let base = base.ok_or_else(|| DefinitionError { file: file.clone(), why })?;
        experiment.clone().with_runs_of(base, &file)
    };
    experiments.iter().map(whole).collect()
}

/// What an experiment is asked for by: its name, or the file that it was read from.
pub fn asked_for(experiment: &Experiment) -> &str {
    experiment.file.as_deref().unwrap_or(&experiment.name)
}

/// The ending of a name that is a file with a definition, beside those that there are.
pub const FILE_END: &str = ".toml";

/// The experiment of this name, or of the definition in this file, with what that says. Blocks.
///
/// # Errors
/// As [`find`], and when a file cannot be read or is wrong.
pub fn named(experiments: &[Experiment], name: &str) -> Result<Experiment, String> {
    if !name.ends_with(FILE_END) {
        return find(experiments, name).cloned();
    }
    let text = fs::read_to_string(name).map_err(|error| format!("{name}: {error}"))?;
    let experiment = Experiment::parse(name, &text).map_err(|error| error.to_string())?;
    let experiment = match &experiment.shares_runs_of {
        Some(base) => {
            let base = find(experiments, base)?;
            experiment.clone().with_runs_of(base, name).map_err(|error| error.to_string())?
        }
        None => experiment,
    };
    if experiments.iter().any(|other| other.name == experiment.name) {
        return Err(format!("{name}: there is an experiment {} already", experiment.name));
    }
    for series in &experiment.series {
        contestant::check_series(series, &experiment.axis)
            .map_err(|why| format!("{name}: series {:?}: {why}", series.name))?;
    }
    if experiment.not_testable.is_none() {
        generator::check(&experiment.workload).map_err(|why| format!("{name}: {why}"))?;
    }
    let experiment = Experiment { file: Some(name.to_owned()), ..experiment };
    Ok(experiment)
}

/// The experiment of this name.
///
/// # Errors
/// Which there is of a similar name, if there is one.
pub fn find<'a>(experiments: &'a [Experiment], name: &str) -> Result<&'a Experiment, String> {
    let found = experiments.iter().find(|experiment| experiment.name == name);
    found.ok_or_else(|| {
        let names = experiments.iter().map(|experiment| experiment.name.as_str());
        match nearest(name, names) {
            Some(near) => format!("there is no experiment {name:?}; did you mean {near}?"),
            None => format!("there is no experiment {name:?}; `flyball lab list` has them all"),
        }
    })
}

/// The claims that are judged by the runs of an experiment: its own, and those of the experiments
/// that share its runs.
///
/// # Errors
/// As [`all`].
pub fn claims_on(experiment: &Experiment) -> Result<Vec<Claim>, DefinitionError> {
    let base = experiment.shares_runs_of.as_ref().unwrap_or(&experiment.name);
    let mut claims = experiment.claims.clone();
    for other in all()? {
        let shares = other.shares_runs_of.as_ref() == Some(base) || other.name == *base;
        if shares && other.name != experiment.name {
            claims.extend(other.claims);
        }
    }
    Ok(claims)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    #[test]
    fn a_definition_of_ones_own_needs_no_paper_and_brings_its_own_server() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("mine.toml");
        let text = "name = \"mine\"\ntitle = \"x\"\n[workload]\nname = \"one-packet\"\n\
                    [axis]\nconnections = 4\n\
                    [[series]]\nname = \"a\"\ncontestant = \"flyball\"\n\
                    [[series]]\nname = \"b\"\ncommand = [\"sh\", \"{address}\", \"{root}\"]\n\
                    [[claims]]\nsays = \"x\"\nmeasure = \"goodput_per_s\"\nleft = \"a\"\n\
                    right = \"b\"\nat = \"last\"\nis = \"greater\"\nreproduced = 2\n";
        let read = |from: &str, to: &str| {
            std::fs::write(&file, text.replace(from, to)).unwrap();
            named(&all().unwrap(), file.to_str().unwrap())
        };
        let whole = read("", "").unwrap();
        assert_eq!((whole.rows.len(), whole.series[1].command.len()), (0, 3));
        for (from, to, why) in [
            ("{address}", "{addres}", "did you mean {address}?"),
            ("connections = 4", "", "neither what it `varies` nor how many `connections`"),
            ("\"sh\", ", "\"no-such\", ", "no program no-such on the search path"),
            ("contestant = \"flyball\"\n", "", "needs a `contestant` or a `command`"),
            ("command = [", "set = { a = 1 }\ncommand = [", "stands in it: without"),
        ] {
            let told = read(from, to).unwrap_err();
            assert!(told.contains(why), "{to}: {told}");
        }
    }

    use super::*;

    #[test]
    fn every_definition_is_right_and_carried() {
        let experiments = all().unwrap_or_else(|error| panic!("{error}"));
        let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../lab/experiments");
        let mut files: Vec<String> = std::fs::read_dir(directory)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        let mut carried: Vec<String> =
            experiments.iter().map(|experiment| format!("{}.toml", experiment.name)).collect();
        files.sort_unstable();
        carried.sort_unstable();
        assert_eq!(carried, files);
    }

    #[test]
    fn every_row_of_an_experiment_has_a_definition() {
        let experiments = all().unwrap();
        let rows = [24..=43, 70..=81, 97..=106, 127..=138, 152..=171].into_iter().flatten();
        let missing: Vec<String> = rows
            .map(|row| format!("M{row}"))
            .filter(|row| !experiments.iter().any(|experiment| experiment.rows.contains(row)))
            .collect();
        assert_eq!(missing, Vec::<String>::new());
    }

    #[test]
    fn what_cannot_be_tested_takes_more_cores_or_network_cards() {
        for experiment in all().unwrap() {
            let why = experiment.not_testable.unwrap_or("cores".into());
            assert!(why.contains("cores"), "{}: {why}", experiment.name);
        }
    }

    #[test]
    fn ablations_switch_one_thing_each_and_the_caches_in_every_combination() {
        let experiments = all().unwrap();
        let caches = &find(&experiments, "s2-fig11").unwrap().series;
        let sets: Vec<_> = caches.iter().map(|series| &series.set).collect();
        assert!(sets.iter().all(|set| set.keys().all(|key| key.starts_with("cache."))));
        let different = (0..sets.len()).all(|at| !sets[..at].contains(&sets[at]));
        assert!(sets.len() == 8 && different);
        let controls = &find(&experiments, "s3-antipatterns").unwrap().series;
        let (plain, switched) = controls.split_first().unwrap();
        assert!(plain.set.is_empty());
        for series in switched {
            assert!(!series.set.is_empty(), "{}", series.name);
            assert_eq!(series.architecture, plain.architecture);
        }
    }

    #[test]
    fn the_example_of_the_documentation_is_a_definition() {
        let text = include_str!("../../../docs/lab.md");
        let example = text.split("```toml\n").nth(1).unwrap().split("```").next().unwrap();
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("python.toml");
        let read = |program: &str| {
            std::fs::write(&file, example.replace("\"python3\"", program)).unwrap();
            named(&all().unwrap(), file.to_str().unwrap())
        };
        // Python need not be here, and what is not here is told before anything runs.
        assert_eq!(read("\"sh\"").unwrap().series[1].command[0], "sh");
        let why = read("\"no-python\"").unwrap_err();
        assert!(
            why.ends_with("series \"python\": no program no-python on the search path"),
            "{why}"
        );
    }

    #[test]
    fn an_unknown_name_is_answered_with_the_nearest() {
        let experiments = all().unwrap();
        assert!(find(&experiments, "s0-fig8").is_ok());
        let why = find(&experiments, "s0-fg8").unwrap_err();
        assert_eq!(why, "there is no experiment \"s0-fg8\"; did you mean s0-fig8?");
        assert!(find(&experiments, "nothing like any").unwrap_err().contains("lab list"));
    }

    #[test]
    fn a_definition_of_ones_own_is_read_from_a_file_and_wrong_names_get_the_nearest() {
        let experiments = all().unwrap();
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("mine.toml");
        let name = file.to_str().unwrap();
        let path =
            Path::new(env!("CARGO_MANIFEST_DIR")).join("../../lab/experiments/s3-fig17.toml");
        let text = std::fs::read_to_string(path).unwrap().replace("\"s3-fig17\"", "\"mine\"");
        let read = |from: &str, to: &str| {
            std::fs::write(&file, text.replace(from, to)).unwrap();
            named(&experiments, name)
        };
        assert_eq!(read("", "").unwrap().name, "mine");
        for (from, to, near) in [
            ("contestant = \"nginx\"", "contestant = \"ngnix\"", "did you mean nginx?"),
            ("name = \"webstone\"", "name = \"webston\"", "did you mean webstone?"),
            ("varies = \"connections\"", "varies = \"conections\"", "did you mean connections?"),
            (
                "contestant = \"nginx\"",
                "contestant = \"nginx\"\nset = { sendfil = \"off\" }",
                "did you mean sendfile?",
            ),
            ("right = \"pool of threads\"", "right = \"pool of thread\"", "\"pool of threads\"?"),
            ("\"mine\"", "\"s3-fig17\"", "already"),
        ] {
            let why = read(from, to).unwrap_err();
            assert!(why.contains(near), "{to}: {why}");
        }
        std::fs::remove_file(&file).unwrap();
        assert!(named(&experiments, name).unwrap_err().contains("mine.toml"));
    }
}
