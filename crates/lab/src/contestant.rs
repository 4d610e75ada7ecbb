//! Who takes part: our server with one of its architectures, and its peers, each started as its own
//! documentation advises by a template of `lab/peers`.
//!
//! A peer gets what ours gets: the same files, CPUs, memory and descriptors, and the same accept
//! queue where it has a setting for it.

mod outsider;
mod peers;

use std::env;
use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{self, Command};

use crate::definition::{Axis, Machine, Series, Value, Varies, WORK_PATH};
use crate::host::{Missing, PREFIX, Place, SetupError, find, first_line, is_root};
use crate::nearest::nearest;
use crate::space::{Knob, Space};
use peers::{APACHE_MODULES, PEERS, Peer, VARIED_BY_CPUS, Variable};

/// The name of our own server in definitions.
pub const OURS: &str = "flyball";

/// What all contestants of a run have in common.
#[derive(Clone, Debug)]
pub struct Conditions {
    /// Our binary.
    pub flyball: PathBuf,
    /// The directory that is served.
    pub site: PathBuf,
    /// Our server's configuration file, instead of the directory alone.
    pub config: Option<PathBuf>,
    /// The one file that is asked for, where the workload is that.
    pub file: Option<PathBuf>,
    /// An empty directory for configuration and logs.
    pub scratch: PathBuf,
    /// Where to listen.
    pub address: SocketAddr,
    /// The length of the accept queue.
    pub backlog: u32,
    /// How many CPUs there are to use.
    pub cpus: u32,
}

/// Why a contestant does not take part.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Absent {
    /// Its program is not installed.
    Missing(Missing),
    /// It cannot do what the workload asks for.
    Unable(String),
}

/// All names that a definition may use.
pub fn names() -> impl Iterator<Item = &'static str> {
    [OURS].into_iter().chain(PEERS.iter().map(|peer| peer.name))
}

/// Checks that a name is one of a contestant.
///
/// # Errors
/// Which there is of a similar name.
pub fn check(name: &str) -> Result<(), String> {
    if names().any(|known| known == name) {
        return Ok(());
    }
    let near = nearest(name, names()).map(|near| format!("; did you mean {near}?"));
    Err(format!("there is no contestant {name:?}{}", near.unwrap_or_default()))
}

/// Checks who a series is, and what it says of it.
///
/// # Errors
/// Which contestant, name or setting there is of a similar name, or what does not belong together.
pub fn check_series(series: &Series, axis: &Axis) -> Result<(), String> {
    if !series.command.is_empty() {
        if axis.varies == Varies::Setting {
            return Err("an axis of a setting is not of a command".into());
        }
        outsider::check(series)?;
        return outsider::program(series).map(|_| ());
    }
    if series.contestant.is_empty() {
        return Err("it needs a `contestant` or a `command`".into());
    }
    check(&series.contestant).and_then(|()| check_settings(series))
}

/// Checks what a series sets of a peer; what it sets of ours is the server's business.
///
/// # Errors
/// Which setting, or value, there is of a similar name.
fn check_settings(series: &Series) -> Result<(), String> {
    let Some(peer) = peer(&series.contestant) else { return Ok(()) };
    for (key, value) in &series.set {
        let keys = peer.variables.iter().map(|variable| variable.key);
        let Some(variable) = peer.variables.iter().find(|variable| variable.key == key) else {
            let near = nearest(key, keys).map(|near| format!("; did you mean {near}?"));
            let near = near.unwrap_or_default();
            return Err(format!("{} has no setting {key:?}{near}", peer.name));
        };
        let values: Vec<&str> = variable.values.iter().map(|(value, _)| *value).collect();
        if !values.contains(&value.to_string().as_str()) {
            let values = values.join(", ");
            return Err(format!("{}: {key}={value} is none of {values}", peer.name));
        }
    }
    Ok(())
}

/// What `flyball tune` may set of a peer; nothing for ours, whose settings are the server's
/// business, and for who is no contestant.
pub fn space(name: &str) -> Option<Space> {
    let knob = |variable: &Variable| Knob {
        key: variable.key.to_owned(),
        values: variable.values.iter().map(|(value, _)| Value::Text((*value).into())).collect(),
        default: 0,
        ordered: false,
        only: None,
    };
    Some(Space { knobs: peer(name)?.variables.iter().map(knob).collect() })
}

/// Whether the contestant of a series can take part.
///
/// # Errors
/// Why it cannot.
pub fn takes_part(series: &Series, one_file: bool) -> Result<(), Absent> {
    match series.command.is_empty() {
        true => is_there(&series.contestant, one_file),
        false => outsider::is_there(series),
    }
}

/// Whether a contestant can take part.
///
/// # Errors
/// Why it cannot.
pub fn is_there(contestant: &str, one_file: bool) -> Result<(), Absent> {
    let Some(peer) = peer(contestant) else { return Ok(()) };
    find(peer.program).map_err(Absent::Missing)?;
    if peer.one_file && !one_file {
        return Err(Absent::Unable(format!("{} serves one file only", peer.name)));
    }
    Ok(())
}

/// What a contestant says of its version; nothing of a command of one's own. Blocks.
pub fn version(series: &Series, flyball: &Path) -> Option<String> {
    if !series.command.is_empty() {
        return None;
    }
    match peer(&series.contestant) {
        None => first_line(Command::new(flyball).arg("--version")),
        Some(peer) => first_line(Command::new(find(peer.program).ok()?).arg(peer.version)),
    }
}

/// The command that starts a contestant in its place. Writes its configuration.
///
/// # Errors
/// When its program is missing or its configuration cannot be written.
pub fn command(
    series: &Series,
    conditions: &Conditions,
    place: &Place,
) -> Result<Command, SetupError> {
    match peer(&series.contestant) {
        _ if !series.command.is_empty() => outsider::command(series, conditions, place),
        Some(peer) => peer.command(series, conditions, place),
        None => our_command(series, conditions, place),
    }
}

fn peer(name: &str) -> Option<&'static Peer> {
    PEERS.iter().find(|peer| peer.name == name)
}

fn our_command(
    series: &Series,
    conditions: &Conditions,
    place: &Place,
) -> Result<Command, SetupError> {
    let mut command = place.command(&conditions.flyball)?;
    match &conditions.config {
        Some(config) => command.args(["serve", "--config"]).arg(config),
        None => command.arg("serve").arg(&conditions.site).args(["--access-log", "off"]),
    };
    command.args(["--listen", &conditions.address.to_string()]);
    command.args(["--admin", &format!("unix:{}", admin_socket(conditions).display())]);
    if let Some(architecture) = &series.architecture {
        command.args(["--arch", architecture]);
    }
    // A configuration says for itself what is not varied.
    if conditions.config.is_none() {
        command.args(["--set", &format!("accept.backlog={}", conditions.backlog)]);
        if !series.set.contains_key("workers") {
            command.args(["--workers", &conditions.cpus.to_string()]);
        }
    }
    for (key, value) in &series.set {
        command.args(["--set", &format!("{key}={value}")]);
    }
    Ok(command)
}

/// The part of a configuration by which our server answers the dynamic requests of SPECweb99 for
/// the files of a set.
pub fn dynamic(series: &Series, files: &Path) -> String {
    let root = toml::Value::String(files.display().to_string());
    let blocking = if series.calls_in_place { "blocking = false\n" } else { "" };
    format!(
        "[[site.module]]\npath = \"/specweb99-dynamic\"\nname = \"specweb99\"\n\
         options = {{ root = {root} }}\n{blocking}"
    )
}

/// The part by which it takes a known time for a request: in the loop that is asked, as S1's
/// servers called modules, or where it does what may block.
pub fn work(series: &Series) -> String {
    let blocking = !series.calls_in_place;
    format!("[[site.module]]\npath = \"{WORK_PATH}\"\nname = \"lab-work\"\nblocking = {blocking}\n")
}

/// Writes a configuration with a module, for the files of a set; where.
///
/// # Errors
/// When it cannot be written.
pub fn with_module(
    module: &str,
    files: &Path,
    scratch: &Path,
    machine: &Machine,
) -> Result<PathBuf, SetupError> {
    let root = toml::Value::String(files.display().to_string());
    let Machine { backlog, cpus, .. } = machine;
    let text = format!(
        "access-log = \"off\"\naccept.backlog = {backlog}\nworkers = {cpus}\n\n\
         [[site]]\nroot = {root}\n\n{module}"
    );
    let file = scratch.join("module.toml");
    fs::write(&file, text).map_err(|error| SetupError(format!("{}: {error}", file.display())))?;
    Ok(file)
}

/// Longest path of a socket that the server can bind, with what it is called before it is there
/// (the kernel has 108 bytes for it, and a 0 at the end).
const SOCKET_PATH_MAX: usize = 100;

/// Where our server answers about itself: beside the rest of what it has, unless that is too far
/// from the root for a socket.
pub fn admin_socket(conditions: &Conditions) -> PathBuf {
    let beside = conditions.scratch.join("admin");
    match beside.as_os_str().len() <= SOCKET_PATH_MAX {
        true => beside,
        false => env::temp_dir().join(format!("{PREFIX}{}-admin", process::id())),
    }
}

impl Peer {
    fn command(
        &self,
        series: &Series,
        conditions: &Conditions,
        place: &Place,
    ) -> Result<Command, SetupError> {
        check_settings(series).map_err(SetupError)?;
        let file = conditions.scratch.join(self.file);
        let values = self.values(series, conditions, &file);
        let fill = |text: &str| {
            values.iter().fold(text.to_owned(), |text, (name, value)| text.replace(name, value))
        };
        fs::write(&file, fill(self.template))
            .map_err(|error| SetupError(format!("{}: {error}", file.display())))?;
        let mut command = place.command(&find(self.program)?)?;
        command.args(self.arguments.iter().map(|argument| fill(argument)));
        // Caddy keeps what it was configured with, and has no option against it before 2.7.
        command.env("XDG_CONFIG_HOME", &conditions.scratch);
        Ok(command)
    }

    fn values(
        &self,
        series: &Series,
        conditions: &Conditions,
        file: &Path,
    ) -> Vec<(&'static str, String)> {
        let (account, account_group) = account();
        let one_file = conditions.file.as_ref().map(|file| file.display().to_string());
        let mut values = vec![
            ("@host@", conditions.address.ip().to_string()),
            ("@port@", conditions.address.port().to_string()),
            ("@site@", conditions.site.display().to_string()),
            ("@file@", one_file.unwrap_or_default()),
            ("@dir@", conditions.scratch.display().to_string()),
            ("@conf@", file.display().to_string()),
            ("@backlog@", conditions.backlog.to_string()),
            ("@cpus@", conditions.cpus.to_string()),
            ("@mpm@", self.mpm.to_owned()),
            ("@modules@", APACHE_MODULES.to_owned()),
            ("@user@", if is_root() { "user root;" } else { "" }.to_owned()),
            ("@account@", account),
            ("@account_group@", account_group),
        ];
        let cpus = conditions.cpus.to_string();
        // Apache's two have one template, with what the other may vary in it.
        let others = PEERS.iter().filter(|other| other.program == self.program);
        values.extend(others.flat_map(|other| other.variables).map(|variable| {
            let text = variable.text(series.set.get(variable.key));
            let text = if text == VARIED_BY_CPUS { cpus.clone() } else { text.to_owned() };
            (variable.name, text)
        }));
        values
    }
}

/// The account that a peer's children get when it is started as root: one that can read nothing but
/// what all can.
fn account() -> (String, String) {
    if is_root() {
        return ("nobody".into(), "nogroup".into());
    }
    let id = |flag: &str| first_line(Command::new("id").arg(flag)).unwrap_or_default();
    (id("-un"), id("-gn"))
}

#[cfg(test)]
mod tests {
    use std::fs::Permissions;
    use std::io::{Read, Write};
    use std::net::TcpStream;
    use std::os::unix::fs::PermissionsExt;
    use std::time::Duration;

    use flyball_testkit::free_address;

    use super::*;
    use crate::host::{Running, until};

    fn series(contestant: &str) -> Series {
        let set = match contestant {
            OURS => "{ \"accept.limit\" = \"inf\", \"accept.defer\" = false }",
            _ => "{}",
        };
        let text = format!(
            "name = \"x\"\ncontestant = \"{contestant}\"\narchitecture = \"sped\"\nset = {set}"
        );
        toml::from_str(&text).unwrap()
    }

    fn conditions(scratch: &Path) -> Conditions {
        Conditions {
            flyball: "/bin/flyball".into(),
            site: "/site".into(),
            config: None,
            file: Some("/site/file".into()),
            scratch: scratch.into(),
            address: "198.18.0.1:80".parse().unwrap(),
            backlog: 128,
            cpus: 1,
        }
    }

    #[test]
    fn every_name_of_every_template_is_filled_in() {
        let directory = tempfile::tempdir().unwrap();
        for peer in PEERS.iter().filter(|peer| find(peer.program).is_ok()) {
            let command =
                command(&series(peer.name), &conditions(directory.path()), &Place::default());
            let command = command.unwrap();
            let text = fs::read_to_string(directory.path().join(peer.file)).unwrap();
            let settings = text.lines().filter(|line| !line.starts_with('#'));
            assert!(settings.clone().all(|line| !line.contains('@')), "{text}");
            assert!(settings.clone().any(|line| line.contains("198.18.0.1")), "{text}");
            let arguments: Vec<_> = command.get_args().map(|a| a.to_string_lossy()).collect();
            assert!(arguments.iter().all(|argument| !argument.contains('@')), "{arguments:?}");
        }
    }

    #[test]
    fn our_settings_stand_on_the_command_line_without_quotes() {
        let directory = tempfile::tempdir().unwrap();
        let command =
            command(&series(OURS), &conditions(directory.path()), &Place::default()).unwrap();
        let words: Vec<_> = command.get_args().map(|a| a.to_string_lossy().into_owned()).collect();
        for word in ["accept.limit=inf", "accept.defer=false", "accept.backlog=128", "sped"] {
            assert!(words.iter().any(|other| other == word), "{word}: {words:?}");
        }
    }

    #[test]
    fn an_unknown_contestant_is_answered_with_the_nearest() {
        assert!(check("nginx").is_ok());
        assert!(check("ngnix").unwrap_err().ends_with("did you mean nginx?"));
    }

    #[test]
    fn who_knows_one_file_stays_away_from_many() {
        if find("haproxy").is_ok() {
            assert!(matches!(is_there("haproxy", false), Err(Absent::Unable(_))));
            assert_eq!(is_there("haproxy", true), Ok(()));
        }
    }

    #[test]
    fn every_definition_names_contestants_that_there_are() {
        for experiment in crate::catalogue::all().unwrap() {
            for series in &experiment.series {
                check_series(series, &experiment.axis)
                    .unwrap_or_else(|why| panic!("{}: {why}", experiment.name));
            }
        }
    }

    #[test]
    fn a_setting_that_a_peer_has_not_is_answered_with_the_nearest() {
        let with = |key: &str, value: &str| {
            let mut series = series("nginx");
            series.set.insert(key.into(), Value::Text(value.into()));
            check_settings(&series)
        };
        assert_eq!(with("sendfile", "off"), Ok(()));
        let why = with("sendfil", "off").unwrap_err();
        assert_eq!(why, "nginx has no setting \"sendfil\"; did you mean sendfile?");
        assert_eq!(with("sendfile", "no").unwrap_err(), "nginx: sendfile=no is none of on, off");
    }

    /// How a peer looks at its configuration without serving by it.
    fn looks(peer: &Peer) -> Option<&'static str> {
        match peer.program {
            "nginx" | "apache2" | "h2o" => Some("-t"),
            "lighttpd" => Some("-tt"),
            "haproxy" => Some("-c"),
            _ => None,
        }
    }

    #[test]
    fn every_value_of_every_variable_is_one_that_its_server_takes() {
        let directory = tempfile::tempdir().unwrap();
        let free = free_address();
        fs::write(directory.path().join("file"), "x").unwrap();
        let conditions = Conditions {
            address: free,
            site: directory.path().into(),
            file: Some(directory.path().join("file")),
            ..conditions(directory.path())
        };
        for peer in PEERS.iter().filter(|peer| find(peer.program).is_ok()) {
            let Some(look) = looks(peer) else { continue };
            // Every value comes up once, and the first of each together.
            let most = peer.variables.iter().map(|variable| variable.values.len()).max();
            for nth in 0..most.unwrap_or(1) {
                let mut series = series(peer.name);
                for Variable { key, values, .. } in peer.variables {
                    let (value, _) = values[nth.min(values.len() - 1)];
                    series.set.insert((*key).into(), Value::Text(value.into()));
                }
                let mut command = command(&series, &conditions, &Place::default()).unwrap();
                let output = command.arg(look).output().unwrap();
                let said = String::from_utf8_lossy(&output.stderr).into_owned();
                assert!(output.status.success(), "{}: {:?}: {said}", peer.name, series.set);
            }
        }
    }

    /// All of the answer to a request for a file of one byte, or as much of it as came.
    fn answer(address: SocketAddr) -> Vec<u8> {
        let mut bytes = Vec::new();
        let asked = TcpStream::connect(address).and_then(|mut socket| {
            socket.set_read_timeout(Some(Duration::from_secs(10)))?;
            socket.write_all(b"GET /file.txt HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")?;
            socket.read_to_end(&mut bytes)
        });
        // Not there yet, or gone: the one who waits asks again.
        let _ = asked;
        bytes
    }

    #[test]
    fn h2o_and_caddy_did_not_start_as_every_peer_does() {
        let directory = tempfile::tempdir().unwrap();
        let site = directory.path().join("site");
        fs::create_dir(&site).unwrap();
        fs::write(site.join("file.txt"), "x").unwrap();
        // Some read files by an account of their own.
        fs::set_permissions(directory.path(), Permissions::from_mode(0o755)).unwrap();
        for peer in PEERS {
            if let Err(missing) = find(peer.program) {
                eprintln!("skipped: {missing}");
                continue;
            }
            let scratch = directory.path().join(peer.name);
            fs::create_dir(&scratch).unwrap();
            let free = free_address();
            let conditions = Conditions {
                address: free,
                site: site.clone(),
                file: Some(site.join("file.txt")),
                ..conditions(&scratch)
            };
            let place = Place { descriptors: Some(20_000), ..Place::default() };
            let mut command = command(&series(peer.name), &conditions, &place).unwrap();
            let log = scratch.join("output.log");
            let mut running = Running::start(&mut command, &log).unwrap();
            let answer =
                until(Duration::from_secs(20), Duration::from_millis(10), &|| false, || {
                    let answer = answer(free);
                    let over = running.ended().is_some() || answer.ends_with(b"\r\n\r\nx");
                    over.then_some(answer)
                })
                .unwrap_or_default();
            let text = String::from_utf8_lossy(&answer).into_owned();
            let said = fs::read_to_string(&log).unwrap();
            assert!(text.starts_with("HTTP/1.1 200 "), "{}: {text}: {said}", peer.name);
            assert!(text.ends_with("\r\n\r\nx"), "{}: {text}: {said}", peer.name);
        }
    }
}
