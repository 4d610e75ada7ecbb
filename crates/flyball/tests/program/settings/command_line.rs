//! What the command line may say, and what comes of it.

use std::path::{Path, PathBuf};

use flyball::cli::{Command, Document, Failure, USAGE_EXIT, parse};
use flyball::settings::{Origin, PORT_TRIES, SETTINGS, SettingError, Typed, resolve};
use flyball_arch::{AcceptLimit, AccessLog, AdminPlace, Events, SandboxMode, Settings};
use flyball_site::hosts::ADDRESSES;
use flyball_sys::net::Endpoint;
use tempfile::TempDir;

const ARCHITECTURES: [&str; 3] = ["n-copy", "sped", "symped"];

fn command(arguments: &[&str]) -> Result<Command, Failure> {
    parse(["flyball"].iter().chain(arguments))
}

fn typed(arguments: &[&str]) -> Typed {
    match command(arguments) {
        Ok(Command::Serve(typed) | Command::Check(typed)) => typed,
        other => panic!("{arguments:?}: {other:?}"),
    }
}

fn resolved(arguments: &[&str]) -> Result<Settings, Vec<SettingError>> {
    resolve(&typed(arguments), &ARCHITECTURES)
}

fn serve(arguments: &[&str]) -> Settings {
    let all: Vec<&str> = ["serve"].iter().chain(arguments).copied().collect();
    resolved(&all).unwrap_or_else(|errors| panic!("{arguments:?}: {errors:?}"))
}

fn errors(arguments: &[&str]) -> Vec<String> {
    let all: Vec<&str> = ["serve"].iter().chain(arguments).copied().collect();
    resolved(&all).unwrap_err().iter().map(ToString::to_string).collect()
}

fn usage(arguments: &[&str]) -> clap::Error {
    match command(arguments) {
        Err(Failure::Usage(error)) => error,
        other => panic!("{arguments:?}: {other:?}"),
    }
}

/// A directory with a configuration file of this text.
fn file(text: &str) -> (TempDir, String) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("flyball.toml");
    std::fs::write(&path, text).unwrap();
    let path = path.to_str().expect("a path in UTF-8").to_owned();
    (directory, path)
}

#[test]
fn a_directory_alone_is_served_on_a_free_port_with_listings() {
    let settings = serve(&["src"]);
    assert_eq!(settings.listen[0].to_string(), "127.0.0.1:8080");
    assert_eq!(settings.running.port_tries, PORT_TRIES);
    let [site] = settings.sites.as_slice() else { panic!("{settings:?}") };
    assert_eq!(site.root, Some(PathBuf::from("src")));
    // What only this machine reaches is named by this machine.
    assert_eq!(site.hosts, ["localhost", ADDRESSES]);
    assert!(site.listing);
    let named = serve(&["src", "--set", "admin-hosts=dev.example"]);
    assert_eq!(named.sites[0].hosts, ["localhost", ADDRESSES, "dev.example"]);
    assert_eq!(serve(&["src", "--listen", "8080"]).sites[0].hosts, ["*"]);
}

#[test]
fn nothing_at_all_serves_the_current_directory() {
    let settings = serve(&[]);
    assert_eq!(settings.sites[0].root, Some(PathBuf::from(".")));
    assert!(settings.sites[0].listing);
}

#[test]
fn a_given_address_is_not_passed_over() {
    for arguments in [["src", "--listen", "127.0.0.1:8080"], ["src", "--set", "listen=8080"]] {
        let settings = serve(&arguments);
        assert_eq!(settings.listen[0].address.tcp().unwrap().port(), 8080);
        assert_eq!(settings.running.port_tries, 0, "{arguments:?}");
    }
    assert_eq!(serve(&["src", "--set", "listen=auto"]).running.port_tries, PORT_TRIES);
}

#[test]
fn each_flag_sets_its_setting() {
    let settings = serve(&[
        "src",
        "--arch=sped",
        "--workers=3",
        "--events=poll",
        "--accept-limit=inf",
        "--max-connections=77",
        "--admin=unix:a.sock",
        "--access-log=-",
        "--user=root",
        "--sandbox=required",
        "--listen=1",
        "--listen=127.0.0.1:2,[::1]:3",
        "--set=drain=5s",
    ]);
    assert_eq!(settings.arch, "sped");
    assert_eq!(settings.workers, Some(3));
    assert_eq!(settings.events, Events::Poll);
    assert_eq!(settings.accept_limit, AcceptLimit::Infinite);
    assert_eq!(settings.max_connections, Some(77));
    assert_eq!(
        settings.admin,
        [AdminPlace::At(Endpoint::Unix(std::env::current_dir().unwrap().join("a.sock")))]
    );
    assert_eq!(settings.access_log, AccessLog::Stdout);
    let ports: Vec<u16> =
        settings.listen.iter().map(|one| one.address.tcp().unwrap().port()).collect();
    assert_eq!(ports, [1, 2, 3]);
    assert_eq!(settings.drain_ms, 5_000);
    assert_eq!(settings.sandbox.user.as_deref(), Some("root"));
    assert_eq!(settings.sandbox.mode, SandboxMode::Required);
    // No flag was left out above.
    assert_eq!(SETTINGS.iter().filter(|setting| setting.flag.is_some()).count(), 10);
}

#[test]
fn the_later_of_flags_and_set_holds() {
    let workers = |arguments: &[&str]| serve(arguments).workers;
    assert_eq!(workers(&["--workers", "2", "--set", "workers=3"]), Some(3));
    assert_eq!(workers(&["--set", "workers=3", "--workers", "2"]), Some(2));
    assert_eq!(workers(&["--set", "workers=3", "--set", "workers=4"]), Some(4));
    assert_eq!(workers(&["--workers", "2", "--workers", "5"]), Some(5));
    assert_eq!(workers(&["--workers", "2", "--set", "workers=auto"]), None);
    let both = ["--set", "workers=3", "--workers", "2", "--set", "pin=on", "--set", "workers=6"];
    assert_eq!(workers(&both), Some(6));
    let ports = |arguments: &[&str]| {
        serve(arguments)
            .listen
            .iter()
            .map(|one| one.address.tcp().unwrap().port())
            .collect::<Vec<_>>()
    };
    assert_eq!(ports(&["--listen", "1", "--set", "listen=2", "--listen", "3"]), [1, 3]);
    assert_eq!(ports(&["--listen", "1", "--listen", "3", "--set", "listen=2"]), [2]);
}

#[test]
fn the_command_line_wins_over_the_file_and_the_file_over_defaults() {
    let text = "workers = 5\ndrain = \"9s\"\nlisten = [1, 2]\n[[site]]\nroot = \".\"\n";
    let (directory, path) = file(text);
    let settings = serve(&["--config", &path, "--set", "workers=6", "--listen", "3"]);
    assert_eq!(settings.workers, Some(6));
    assert_eq!(settings.drain_ms, 9_000);
    assert_eq!(settings.listen[0].to_string(), "[::]:3");
    assert_eq!(settings.helpers, Settings::default().helpers);
    assert_eq!(settings.sites[0].root, Some(directory.path().join(".")));
    assert!(!settings.sites[0].listing);
    let settings = serve(&["--workers", "6", "--config", &path]);
    assert_eq!(settings.workers, Some(6));
    assert_eq!(settings.listen.len(), 2);
    assert_eq!(settings.running.port_tries, 0);
}

#[test]
fn a_file_without_sites_goes_with_a_directory() {
    let (_directory, path) = file("workers = 5\n");
    let settings = serve(&["src", "--config", &path]);
    assert_eq!(settings.workers, Some(5));
    assert_eq!(settings.sites[0].root, Some(PathBuf::from("src")));
    assert_eq!(settings.running.port_tries, PORT_TRIES);
}

#[test]
fn a_directory_and_sites_exclude_each_other() {
    let (_directory, path) = file("\n[[site]]\nroot = \".\"\n");
    assert_eq!(
        errors(&["src", "--config", &path]),
        [format!("DIR: both DIR and a [[site]] table ({path}:2) say what is served; give one")]
    );
}

#[test]
fn errors_name_the_flag_or_the_key_of_set() {
    for (arguments, error) in [
        (
            vec!["--workers", "0"],
            "--workers: expected an integer from 1 to 1024, or auto, found \"0\"",
        ),
        (
            vec!["--accept-limit=banana"],
            "--accept-limit: expected a number from 0.001 to 1000000, inf or auto, found \
             \"banana\"",
        ),
        (vec!["--arch", "spd"], "--arch: there is no architecture \"spd\"; did you mean sped?"),
        (
            vec!["--events=kqueue"],
            "--events: expected select, poll, epoll or epoll-edge, found \"kqueue\"",
        ),
        (
            vec!["--set", "accept.limt=4"],
            "--set accept.limt: unknown key; did you mean accept.limit?",
        ),
        (
            vec!["--set", "limit.head=banana"],
            "--set limit.head: expected a size such as 64KiB, found \"banana\"",
        ),
        (
            vec!["--set", "site.root=/"],
            "--set site.root: the settings of a site are written in its [[site]] table in a file",
        ),
        (
            vec!["--set", "limit=1"],
            "--set limit: is a table with the keys target, head, fields, \
             body, drain, linger, pipeline, connections-per-address, requests-per-address, \
             requests-burst, bandwidth",
        ),
        // The shell expands variables, not the server.
        (
            vec!["--set", "workers=${N:-2}"],
            "--set workers: expected an integer from 1 to 1024, or auto, found \"${N:-2}\"",
        ),
        (vec!["--listen=1", "--listen=1"], "--listen: [::]:1 is listed twice"),
        (
            vec!["src/main.rs"],
            "DIR: src/main.rs is a file: name the directory to serve, or a configuration file as \
             --config src/main.rs",
        ),
    ] {
        assert_eq!(errors(&arguments), [error], "{arguments:?}");
    }
}

#[test]
fn the_errors_of_file_and_command_line_come_together() {
    let (_directory, path) = file("workers = 0\n[[site]]\nroot = \".\"\n");
    let found = errors(&["--config", &path, "--set", "drain=1"]);
    assert_eq!(found.len(), 2, "{found:?}");
    assert!(found[0].starts_with(&format!("{path}:1: workers: ")));
    assert!(found[1].starts_with("--set drain: "));
}

#[test]
fn check_reads_a_file() {
    let (directory, path) = file("workers = 5\n[[site]]\nroot = \".\"\n");
    let Ok(Command::Check(typed)) = command(&["check", "--config", &path]) else { panic!() };
    assert_eq!(typed.file.as_deref(), Some(Path::new(&path)));
    let settings = resolve(&typed, &ARCHITECTURES).unwrap();
    assert_eq!(settings.sites[0].root, Some(directory.path().join(".")));
    assert!(usage(&["check"]).to_string().contains("<FILE>"));
}

#[test]
fn a_configuration_file_is_known_by_its_name() {
    let (_directory, path) = file("workers = 5\n[[site]]\nroot = \".\"\n");
    for words in [&["check", &path][..], &["serve", &path], &["explain", "--config", &path]] {
        let typed = match command(words) {
            Ok(Command::Check(typed) | Command::Serve(typed)) => typed,
            Ok(Command::Explain { typed, .. }) => typed,
            other => panic!("{words:?}: {other:?}"),
        };
        assert_eq!(typed.file.as_deref(), Some(Path::new(&path)), "{words:?}");
        assert_eq!(typed.directory, None, "{words:?}");
    }
    // One that is named otherwise as well is a directory to serve beside it.
    let Ok(Command::Check(typed)) = command(&["check", "--config", &path, "src"]) else { panic!() };
    assert_eq!(typed.directory.as_deref(), Some(Path::new("src")));
}

#[test]
fn a_flag_is_understood_by_its_name_before() {
    assert_eq!(serve(&["--architecture", "sped"]).arch, "sped");
}

#[test]
fn a_port_is_one_of_this_machine_alone() {
    for words in [&["-p", "8000"][..], &["-p8000"], &["--port=8000"]] {
        let listen: Vec<_> = serve(words).listen.iter().map(ToString::to_string).collect();
        assert_eq!(listen, ["127.0.0.1:8000"], "{words:?}");
    }
    let both = usage(&["serve", "-p", "1", "--listen", "2"]).to_string();
    assert!(both.contains("cannot be used with"), "{both}");
    assert_eq!(
        errors(&["-p", "1", "--set", "listen=banana"]).len(),
        1,
        "what is wrong is told all the same"
    );
}

#[test]
fn a_broken_or_missing_file_fails_with_the_code_of_usage() {
    let (directory, path) = file("workers = = 5\n");
    let Err(failure) = command(&["serve", "--config", &path]) else { panic!() };
    assert!(failure.to_string().starts_with(&format!("{path}:1: ")), "{failure}");
    assert_eq!(failure.exit_code(), USAGE_EXIT);
    let missing = directory.path().join("missing.toml");
    let Err(Failure::Settings(errors)) = command(&["check", "--config", missing.to_str().unwrap()])
    else {
        panic!()
    };
    assert_eq!(errors[0].origin, Origin::File { path: missing.as_path().into(), line: None });
}

#[test]
fn other_commands_are_recognised() {
    assert_eq!(command(&["arch"]).unwrap(), Command::Arch { json: false });
    assert_eq!(command(&["arch", "--json"]).unwrap(), Command::Arch { json: true });
    assert_eq!(command(&["docs", "settings"]).unwrap(), Command::Docs(Document::Settings));
}

#[test]
fn wrong_usage_exits_with_two_and_help_with_zero() {
    for arguments in [
        vec![],
        vec!["sreve"],
        vec!["serve", "--bogus"],
        vec!["serve", "a", "b"],
        vec!["serve", "--workers"],
        vec!["serve", "--set", "workers"],
        vec!["arch", "x"],
        vec!["docs"],
    ] {
        let failure = Failure::from(usage(&arguments));
        assert_eq!(failure.exit_code(), USAGE_EXIT, "{arguments:?}");
    }
    for arguments in [vec!["--help"], vec!["-h"], vec!["serve", "--help"], vec!["--version"]] {
        assert_eq!(Failure::from(usage(&arguments)).exit_code(), 0, "{arguments:?}");
    }
    assert_eq!(Failure::from(Vec::new()).exit_code(), USAGE_EXIT);
}

#[test]
fn help_is_made_from_the_table() {
    let short = usage(&["serve", "-h"]).to_string();
    let long = usage(&["serve", "--help"]).to_string();
    // Lines are wrapped for the terminal, so words are compared.
    let words = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    for setting in SETTINGS {
        let default = setting.default.unwrap();
        let listed = words(&format!("{} ({default}) {}", setting.key, setting.doc));
        assert_eq!(words(&long).contains(&listed), !setting.is_experiment(), "{listed}");
        let Some(flag) = &setting.flag else { continue };
        for help in [&short, &long] {
            assert!(help.contains(&format!("--{} <{}>", flag.name, flag.value)), "{}", flag.name);
        }
        assert!(words(&short).contains(&format!("{} [default: {default}]", setting.doc)));
        assert!(words(&long).contains(&words(setting.more)), "{}", setting.key);
    }
    assert!(usage(&["--help"]).to_string().contains("  docs "), "every command is listed");
    assert_eq!(
        usage(&["--version"]).to_string().trim(),
        concat!("flyball ", env!("CARGO_PKG_VERSION"))
    );
}

/// A program that is built for serving alone has none of the others (features of the crate).
#[test]
fn help_of_a_server_names_no_command_that_may_be_missing() {
    let optional = ["cert", "fileset", "lab", "load", "tune"];
    for mut command in flyball::cli::program().get_subcommands().cloned() {
        if optional.contains(&command.get_name()) {
            continue;
        }
        let help = command.render_long_help().to_string();
        for name in optional {
            assert!(!help.contains(&format!("flyball {name}")), "{}: {help}", command.get_name());
        }
    }
}

#[test]
fn an_argument_that_is_not_utf8_is_refused_and_a_directory_is_not() {
    use std::os::unix::ffi::OsStringExt;
    let raw = || std::ffi::OsString::from_vec(b"caf\xe9".to_vec());
    let arguments = |last: &[&str]| {
        let mut all: Vec<std::ffi::OsString> = vec!["flyball".into(), "serve".into()];
        all.extend(last.iter().map(Into::into));
        all.push(raw());
        all
    };
    let Ok(Command::Serve(typed)) = parse(arguments(&[])) else { panic!() };
    assert_eq!(typed.directory, Some(PathBuf::from(raw())));
    assert!(matches!(parse(arguments(&["--arch"])), Err(Failure::Usage(_))));
    assert!(matches!(parse(arguments(&["--set"])), Err(Failure::Usage(_))));
}
