use super::*;
use crate::cli::load::program;

/// What the command line says of a mode, beside where requests come from.
fn mode_words(mode: Mode, source: Source) -> Vec<&'static str> {
    // With one request each, nothing of a session follows anything.
    let longer = matches!(source, Url | List | AccessLog).then_some("--requests-per-connection=2");
    let mut words = match mode {
        Agent => return vec!["--agent=127.0.0.1:1"],
        FindPeak => vec!["--find-peak"],
        PeakKept => vec!["--find-peak", "--connections=1"],
        Rate => vec!["--rate=1"],
        Sessions => vec!["--sessions=1"],
        Replay => return vec!["--replay-times", "http://h/"],
        Requests => vec!["--requests-per-s=1", "--connections=1"],
        Connections => return vec!["--connections=1", "http://h/"],
    };
    words.extend(longer);
    words.push("http://h/");
    words
}

fn source_words(source: Source) -> &'static [&'static str] {
    match source {
        Url => &[],
        List => &["--list=/x"],
        Set => &["--mix=s4"],
        SessionLog => &["--wsesslog=/x"],
        AccessLog => &["--log=/x"],
    }
}

/// The option, with a value if it takes one, and what it cannot be without.
fn sample(option: &str) -> Vec<String> {
    let needs = match option {
        "dynamic-script" | "cgi-script" => Some("--dynamic=30".into()),
        "backoff" => Some("--retries=2".into()),
        _ => None,
    };
    needs.into_iter().chain([word(option)]).collect()
}

fn word(option: &str) -> String {
    let value = match option {
        "url" => return "http://h/".into(),
        "find-peak" | "verify" | "safe" | "strict" | "insecure" | "json" | "quiet" | "tui"
        | "series" | "surge" | "replay-times" | "http1.0" => return format!("--{option}"),
        "agent" => "127.0.0.1:1",
        "arrivals" => "poisson",
        "duration" | "warmup" | "late-after" | "timeout" | "connect-timeout"
        | "first-byte-timeout" | "deadline" | "backoff" | "think" | "client-gap" => "2s",
        "header" => "A: b",
        "conditional" | "tls-resume" => "0.5",
        "mix" => "s4",
        "dynamic" => "30",
        "dynamic-script" | "cgi-script" => "/x",
        "source" => "127.0.0.1",
        "close" => "reset",
        "fail-if" => "p99 > 1s",
        _ => "2",
    };
    format!("--{option}={value}")
}

/// What is told of this command line; `None` is that it stands. An error of clap is told, too.
fn told(words: &[&str]) -> Option<String> {
    let words = ["load"].iter().chain(words);
    match program().try_get_matches_from(words) {
        Ok(given) => check(&given).err(),
        Err(error) => Some(error.to_string()),
    }
}

#[test]
fn every_option_holds_where_its_row_says_and_is_refused_elsewhere() {
    let options: Vec<String> =
        program().get_arguments().map(|argument| argument.get_id().to_string()).collect();
    let rows: Vec<&str> = HOLDS.iter().map(|row| row.option).collect();
    for option in &options {
        assert_eq!(rows.iter().filter(|row| *row == option).count(), 1, "a row of {option}");
    }
    assert_eq!(rows.len(), options.len(), "no row without an option");
    let mut bases = 0;
    let mut held = vec![false; HOLDS.len()];
    for (mode, source) in Mode::ALL.iter().flat_map(|mode| Source::ALL.map(|of| (*mode, of))) {
        let base = [mode_words(mode, source), source_words(source).to_vec()].concat();
        if told(&base).is_some() {
            continue;
        }
        bases += 1;
        for (row, held) in HOLDS.iter().zip(&mut held) {
            let is_there = base.iter().any(|word| {
                word.trim_start_matches('-').split('=').next() == Some(row.option)
                    || row.option == "url" && word.starts_with("http")
            });
            if is_there {
                *held = true;
                continue;
            }
            let options = sample(row.option);
            let with: Vec<&str> =
                base.iter().copied().chain(options.iter().map(String::as_str)).collect();
            let found = told(&with);
            // What makes it another load or other requests is judged as those.
            let given = program().try_get_matches_from(["load"].iter().chain(&with));
            let seen = given.map(|given| (Mode::of(Given(&given)), Source::of(Given(&given))));
            if seen.is_ok_and(|seen| seen != (mode, source)) {
                continue;
            }
            let does = row.modes.contains(&mode) && row.sources.contains(&source);
            // What is added may take the effect of what is there.
            let by_rule =
                found.as_ref().is_some_and(|why| RULES.iter().any(|rule| why.ends_with(rule.why)));
            *held |= does && found.is_none();
            match found {
                None => assert!(does, "{with:?} is taken, and has no effect"),
                Some(why) if does => {
                    let is_conflict = why.contains("cannot be used with");
                    assert!(by_rule || is_conflict, "{with:?}: {why}");
                }
                Some(why) => {
                    let name = |word: &String| word.split('=').next().map(String::from);
                    let mut names = options.iter().filter_map(name);
                    let is_named = names.any(|name| why.contains(&name));
                    assert!(is_named || row.option == "url", "{with:?}: {why}");
                }
            }
        }
    }
    // One for the agent and one for the replay, five for each of the others, and no log of
    // sessions at a rate of requests.
    assert_eq!(bases, 30);
    let never = HOLDS.iter().zip(held).filter(|(_, held)| !held).map(|(row, _)| row.option);
    assert_eq!(never.collect::<Vec<_>>(), [""; 0], "options that hold nowhere");
}

#[test]
fn what_would_be_ignored_is_told_with_the_place_where_it_is_not() {
    for (line, why) in [
        ("--rate=1 --think=1s http://h/", "--think has no effect on sessions of one request"),
        ("--rate=1 --line-rate=9 http://h/", "--line-rate has no effect on sessions of one"),
        ("--rate=1 --pipeline=2 http://h/", "--pipeline has no effect on sessions of one request"),
        ("--connections=1 --arrivals=poisson http://h/", "use --find-peak, --rate"),
        ("--log=/x --think=1s --rate=1 http://h/", "which have the pauses of the log"),
        ("--log=/x --method=PUT http://h/", "it is for the URL alone, --list, --fileset or --mix"),
        ("--log=/x --body=/y http://h/", "--body has no effect where requests come from --log"),
        ("--dynamic=30 http://h/", "--dynamic has no effect where requests come from the URL"),
        ("--connections=1 --surge http://h/", "--surge has no effect with --connections"),
        ("--mix=s4 --think=1s --surge http://h/", "--think has no effect with --surge"),
        ("--mix=s4 --think=1s --pipeline=2 http://h/", "--think has no effect with --pipeline"),
        ("--agent=127.0.0.1:1 --rate=5", "--rate has no effect with --agent"),
        ("--find-peak --csv=/x http://h/", "no effect with --find-peak: leave out --find-peak"),
        (
            "--find-peak --connections=2 --think=1s http://h/",
            "--think has no effect with --find-peak on --connections: leave out --connections",
        ),
        ("--plot=/x http://h/", "--plot has no effect with --connections: use --find-peak"),
        ("--safe http://h/", "it is for --log"),
    ] {
        let found = told(&line.split(' ').collect::<Vec<_>>()).unwrap_or_default();
        assert!(found.contains(why), "{line}: {found}");
    }
    for kept in ["--connections=2", "--connections=2 --requests-per-s=100"] {
        let line = format!("--find-peak {kept} http://h/");
        assert_eq!(told(&line.split(' ').collect::<Vec<_>>()), None, "{line}");
    }
    let pauses = ["--connections=1", "--think=1s", "http://h/"];
    assert_eq!(told(&pauses), None, "between a reply and the next request");
    assert_eq!(told(&[&pauses[..], &["--pipeline=4"]].concat()), None, "between two bursts");
}
