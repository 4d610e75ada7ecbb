//! Whole servers and Pebble: from nothing to a certificate, and what is left of that afterwards.

use std::fs;
use std::net::SocketAddr;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::PathBuf;
use std::process::{Command, Stdio};

use flyball_testkit::pebble::{self, Ways};
use flyball_testkit::wait::{DEADLINE, until};
use flyball_testkit::{Launch, Server, binary, free_address};

use crate::common::https::Authority;
use crate::common::{self, is_agent, signal};
use crate::supervision::systemd::by_the_unit;

/// Starts where another process takes a port that was free.
const STARTS: usize = 5;

/// Pebble, and what a server needs that gets a certificate from it.
struct Setting {
    pebble: pebble::Authority,
    /// Issues what comes from files.
    own: Authority,
    clear: SocketAddr,
    tls: SocketAddr,
}

impl Setting {
    fn new() -> Option<Setting> {
        Setting::with(Ways::default())
    }

    fn with(ways: Ways) -> Option<Setting> {
        let (clear, tls) = (free_address(), free_address());
        let pebble = pebble::Authority::start((clear, tls), ways)?;
        let own = Authority::new();
        own.issue("file.pem", &["file.test"]);
        Some(Setting { pebble, own, clear, tls })
    }

    fn storage(&self) -> PathBuf {
        self.own.path("state/acme")
    }

    /// A site that gets its certificate, and one that has it from a file.
    fn config(&self, hosts: &str, challenge: &str, more: &str) -> String {
        let (url, roots, storage) = (self.pebble.url(), self.pebble.roots(), self.storage());
        let root = self.own.path("root");
        format!(
            "{more}\nadmin = \"127.0.0.1:0\"\n[tls]\nwatch = \"1h\"\n[acme]\ndirectory = {url:?}\n\
             ca-root = {roots:?}\nstorage = {storage:?}\nchallenge = [{challenge}]\n\
             [[site]]\nhosts = [{hosts}]\nroot = {root:?}\ncertificate = \"acme\"\n\n{}",
            self.own.site("\"file.test\"", "file.pem", "")
        )
    }

    #[track_caller]
    fn start(&self, config: &str) -> Server {
        let launch = || {
            let listen =
                [format!("--listen={}", self.clear), format!("--listen=https://{}", self.tls)];
            let [clear, tls] = listen;
            Launch::config(config).and(clear).and(tls).start()
        };
        let tried = (0..STARTS).find_map(|_| launch().ok());
        tried.unwrap_or_else(|| launch().expect("it starts"))
    }

    /// What a client is shown that asks for this name.
    fn shown(&self, name: &str) -> String {
        let mut client = Command::new("openssl");
        client.args(["s_client", "-servername", name, "-connect", &self.tls.to_string()]);
        let output = client.stdin(Stdio::null()).output().expect("openssl is there");
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    /// Whether that is a certificate of Pebble's.
    fn has_certificate(&self, name: &str) -> bool {
        self.shown(name).contains("Pebble Intermediate")
    }

    /// Waits until clients are shown a certificate of Pebble's for this name.
    #[track_caller]
    fn wait_for_certificate(&self, server: &Server, name: &str) {
        let is_there = || self.has_certificate(name).then_some(());
        let came = until(DEADLINE, is_there);
        assert!(came.is_some(), "{}\n{}", server.status(), server.errors());
    }
}

/// The agents of a server.
fn agents(server: &Server) -> Vec<u32> {
    server.processes().into_iter().filter(|process| is_agent(*process)).collect()
}

/// The one agent of a server, once there is one.
#[track_caller]
fn the_agent(server: &Server) -> u32 {
    let one = || agents(server).first().copied();
    until(DEADLINE, one).unwrap_or_else(|| panic!("no agent:\n{}", server.errors()))
}

/// `/status` once the agent has said of a certificate what it knows: when it is renewed.
#[track_caller]
fn known(server: &Server) -> serde_json::Value {
    let look = || {
        let status: serde_json::Value = serde_json::from_str(&server.status()).ok()?;
        let one = status["certificates"][0].clone();
        one["renews_at"].is_u64().then_some(one)
    };
    until(DEADLINE, look).unwrap_or_else(|| panic!("{}\n{}", server.status(), server.errors()))
}

/// As whom workers run: another user, where that can be.
fn user() -> &'static str {
    if is_root() { "user = \"65534\"" } else { "" }
}

fn is_root() -> bool {
    fs::metadata("/proc/self").is_ok_and(|about| about.uid() == 0)
}

#[test]
fn a_certificate_comes_from_nothing_by_each_challenge_and_a_restart_orders_nothing() {
    for (challenge, arch) in [("tls-alpn-01", "n-copy"), ("http-01", "mp")] {
        let Some(setting) = Setting::new() else { return };
        let lines = format!("arch = \"{arch}\"\n{}", user());
        let config = setting.config("\"a.test\"", &format!("{challenge:?}"), &lines);
        let server = setting.start(&config);
        assert!(server.errors().contains("no certificate for a.test yet"), "{}", server.errors());
        let other = setting.shown("file.test");
        assert!(setting.own.is_in("file.pem", &other), "{other}");
        setting.wait_for_certificate(&server, "a.test");
        let told = known(&server);
        assert_eq!((&told["name"], &told["source"]), (&"a.test".into(), &"acme".into()));
        assert!(told["issuer"].as_str().unwrap().contains("Pebble") && told["error"].is_null());
        let file = setting.storage().join("certificates/a.test.pem");
        assert_eq!(fs::metadata(&file).unwrap().mode() & 0o777, 0o600);
        server.assert_sound();
        server.terminate();
        drop(server);
        let server = setting.start(&config);
        let shown = setting.shown("a.test");
        assert!(shown.contains("Pebble Intermediate"), "at once:\n{shown}");
        known(&server);
        assert_eq!(setting.pebble.issued(), 1, "{challenge}:\n{}", server.errors());
    }
}

#[test]
fn each_host_of_a_directory_gets_its_own_and_one_that_comes_later_too() {
    let Some(setting) = Setting::new() else { return };
    let hosts = setting.own.path("hosts");
    let add = |host: &str| fs::create_dir_all(hosts.join(host)).expect("a directory can be made");
    // The agent asks for no name of this machine.
    ["a.test", "b.test", "localhost"].into_iter().for_each(add);
    let config = setting.config("\"c.test\"", "\"tls-alpn-01\"", user());
    let root = format!("root = \"{}/$host\"\n", hosts.display());
    // So that no host is shown the certificate of another.
    let config = config.replace("[tls]\n", "[tls]\nunknown-name = \"reject\"\n");
    let config = config.replace("certificate = \"acme\"\n", "")
        + &format!("[cache]\nrevalidate = \"100ms\"\n[[site]]\n{root}");
    let server = setting.start(&config);
    assert!(server.errors().contains("vouches for \"localhost\" of"), "{}", server.errors());
    for host in ["a.test", "b.test", "c.test"] {
        setting.wait_for_certificate(&server, host);
    }
    assert_eq!(setting.pebble.issued(), 3);
    add("d.test");
    setting.wait_for_certificate(&server, "d.test");
    for host in ["a.test", "b.test", "c.test"] {
        assert!(setting.shown(host).contains("Pebble Intermediate"), "{host}");
    }
    assert_eq!(setting.pebble.issued(), 4, "{}", server.errors());
    server.assert_sound();
}

#[test]
fn the_agent_has_few_rights_comes_back_when_it_is_killed_and_is_alone() {
    let Some(setting) = Setting::new() else { return };
    let config = setting.config("\"a.test\"", "\"tls-alpn-01\"", user());
    let server = setting.start(&config);
    setting.wait_for_certificate(&server, "a.test");
    let first = the_agent(&server);
    let status = fs::read_to_string(format!("/proc/{first}/status")).unwrap();
    for line in ["NoNewPrivs:\t1", "Seccomp:\t2", "CapEff:\t0000000000000000"] {
        assert!(status.contains(line), "{line} of\n{status}");
    }
    if is_root() {
        assert!(status.contains("Uid:\t65534") && status.contains("Gid:\t0"), "{status}");
        assert_eq!(fs::metadata(setting.storage()).unwrap().uid(), 0);
        let file = setting.storage().join("certificates/a.test.pem");
        let trace = format!("/proc/{first}/environ");
        for path in [file.to_str().unwrap(), &trace] {
            // As programs are that the server starts.
            let mut read = Command::new("setpriv");
            read.args(["--reuid=65534", "--regid=65534", "--clear-groups", "cat", path]);
            let read = read.output().expect("setpriv is there");
            let why = String::from_utf8_lossy(&read.stderr);
            assert!(!read.status.success() && why.contains("Permission denied"), "{path}: {why}");
        }
    }
    signal(first, "KILL");
    let next = until(DEADLINE, || agents(&server).into_iter().find(|agent| *agent != first));
    let next = next.unwrap_or_else(|| panic!("no other agent:\n{}", server.errors()));
    known(&server);
    // What it does is the same after a reload: it goes on.
    server.reload();
    assert_eq!(agents(&server), [next], "{}", server.errors());
    assert_eq!(setting.pebble.issued(), 1);
    let more = setting.config("\"a.test\", \"b.test\"", "\"http-01\"", user());
    server.reload_with(&more);
    let is_one = || (agents(&server).len() == 1).then_some(());
    assert!(until(DEADLINE, is_one).is_some(), "{}", server.errors());
    setting.wait_for_certificate(&server, "b.test");
    let has_both = || setting.pebble.issued() == 2;
    assert!(until(DEADLINE, || has_both().then_some(())).is_some(), "{}", server.errors());
    assert!(setting.has_certificate("a.test"));
    // Nothing is left of it with the server.
    let last = the_agent(&server);
    server.terminate();
    drop(server);
    assert!(until(DEADLINE, || (!is_agent(last)).then_some(())).is_some());
}

#[test]
fn the_rights_that_the_unit_leaves_are_enough_for_the_agent_and_its_storage() {
    let Some(prefix) = by_the_unit() else { return };
    let Some(setting) = Setting::new() else { return };
    let lines = format!("sandbox = \"required\"\nworkers = 1\n{}", user());
    let config = setting.config("\"a.test\"", "\"tls-alpn-01\", \"http-01\"", &lines);
    setting.own.write("flyball.toml", &config, 0o600);
    let start = || {
        let launch = common::Launch::bare(&prefix).arg("--config");
        let listen = [setting.clear.to_string(), format!("https://{}", setting.tls)];
        let launch = launch.arg(setting.own.path("flyball.toml"));
        launch.args(&["--listen", &listen[0], "--listen", &listen[1]]).start()
    };
    let file = setting.storage().join("certificates/a.test.pem");
    // The second is given its storage again, and orders nothing.
    for _ in 0..2 {
        let server = start();
        let is_served = || setting.has_certificate("a.test").then_some(());
        assert!(until(DEADLINE, is_served).is_some(), "{}", server.errors.so_far());
        assert_eq!(setting.pebble.issued(), 1, "{}", server.errors.so_far());
        assert_eq!(fs::metadata(&file).unwrap().mode() & 0o777, 0o600);
        signal(server.master(), "HUP");
        let loaded = |said: &str| said.contains("the configuration is loaded");
        server.errors.wait_for("the reload", loaded);
        assert!(setting.has_certificate("a.test"), "{}", server.errors.so_far());
    }
}

#[test]
fn a_wildcard_comes_by_the_command_of_the_settings_for_an_account_bound_to_another() {
    let Some(setting) = Setting::with(Ways { wants_external: true, ..Ways::default() }) else {
        return;
    };
    let (id, key) = pebble::EXTERNAL;
    let file = setting.own.path("account");
    fs::write(&file, key).unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
    let of_acme = format!(
        "[acme]\nexternal-account = {id:?}\nexternal-key = {file:?}\n\
         dns-hook = [\"sh\", {:?}]\n",
        setting.pebble.hook()
    );
    let config = setting.config("\"b.test\", \"*.b.test\"", "\"dns-01\"", user());
    let server = setting.start(&config.replacen("[acme]\n", &of_acme, 1));
    for name in ["b.test", "any.b.test"] {
        setting.wait_for_certificate(&server, name);
    }
    let calls = setting.pebble.hook_calls();
    let called = |how: &str| calls.matches(how).count();
    assert_eq!(called("set _acme-challenge.b.test "), 2, "{calls}");
    assert_eq!(called("clear _acme-challenge.b.test "), 2, "{calls}");
    assert_eq!(setting.pebble.log_count("Successful newAccount Binding"), 1);
    assert_eq!(setting.pebble.issued(), 1, "{}", server.errors());
}

#[test]
fn an_authority_is_answered_before_the_rules_of_the_site_and_others_are_not() {
    let Some(setting) = Setting::new() else { return };
    let config = setting.config("\"a.test\"", "\"http-01\"", "");
    let of_site = "certificate = \"acme\"\ndeny = [\"127.0.0.0/8\"]\n";
    let server = setting.start(&config.replacen("certificate = \"acme\"\n", of_site, 1));
    setting.wait_for_certificate(&server, "a.test");
    let status = |path: &str| {
        let request = format!("GET {path} HTTP/1.1\r\nHost: a.test\r\nConnection: close\r\n\r\n");
        server.connect().ask(&request).status()
    };
    assert_eq!(status("/"), 308);
    assert_eq!(status("/.well-known/acme-challenge/none"), 403);
}

#[test]
fn an_operator_sees_certificates_and_has_them_renewed_and_revoked() {
    let Some(setting) = Setting::new() else { return };
    let admin = format!("unix:{}", setting.own.path("admin").display());
    let config = setting.config("\"a.test\"", "\"http-01\"", "");
    let server = setting.start(&config.replace("127.0.0.1:0", &admin));
    let shows = || setting.has_certificate("a.test").then_some(());
    assert!(until(DEADLINE, shows).is_some(), "{}", server.errors());
    let cert =
        |arguments: &[&str]| Command::new(binary()).arg("cert").args(arguments).output().unwrap();
    let storage = setting.storage().into_os_string().into_string().unwrap();
    for verb in ["list", "show"] {
        let told = cert(&[verb, "a.test", "--storage", &storage]);
        let told = String::from_utf8(told.stdout).unwrap();
        assert!(told.contains("a.test") && told.contains("Pebble Intermediate"), "{told}");
        assert_eq!(told.contains("serial"), verb == "show", "{told}");
    }
    let file = setting.storage().join("certificates/a.test.pem");
    let issued = |count, before: &[u8]| {
        let is_there = || {
            let is_other = fs::read(&file).is_ok_and(|now| now != before);
            (setting.pebble.issued() == count && is_other).then_some(())
        };
        until(DEADLINE, is_there)
    };
    for (verb, count) in [("renew", 2), ("revoke", 3)] {
        let before = fs::read(&file).unwrap();
        let told = cert(&[verb, "A.Test", "--admin", &admin]);
        assert!(told.status.success(), "{told:?}");
        // The same once more is the same order. One that may be over is not done again, and a
        // script is told so.
        let again = cert(&[verb, "a.test", "--admin", &admin]);
        let said = String::from_utf8_lossy(&again.stdout);
        let is_merged = match again.status.success() {
            true => said.contains("is being renewed already"),
            false => String::from_utf8_lossy(&again.stderr).contains(" s ago"),
        };
        assert!(is_merged, "{again:?}");
        assert!(issued(count, &before).is_some(), "{verb}:\n{}", server.errors());
    }
    assert_eq!(setting.pebble.log_count("/revoke-cert -> calling handler()"), 1);
    assert_eq!(setting.pebble.issued(), 3, "{}", server.errors());
    for name in ["b.test", "a/b"] {
        let refused = cert(&["renew", name, "--admin", &admin]);
        assert!(!refused.status.success() && !refused.stderr.is_empty(), "{refused:?}");
    }
}

/// The agent is held in an order when it is told, and killed by what comes next.
#[test]
fn a_revocation_that_was_promised_is_done_by_the_next_agent() {
    let Some(setting) = Setting::new() else { return };
    let admin = format!("unix:{}", setting.own.path("admin").display());
    let config = setting.config("\"a.test\"", "\"http-01\"", "").replace("127.0.0.1:0", &admin);
    let server = setting.start(&config);
    setting.wait_for_certificate(&server, "a.test");
    let (asleep, hook) = (setting.own.path("asleep"), setting.own.path("hook.sh"));
    fs::write(&hook, format!("#!/bin/sh\necho here > {asleep:?}\nexec sleep 600\n")).unwrap();
    fs::set_permissions(&hook, fs::Permissions::from_mode(0o755)).unwrap();
    // It is called as the user that workers are.
    fs::write(&asleep, "").unwrap();
    fs::set_permissions(&asleep, fs::Permissions::from_mode(0o666)).unwrap();
    let ways = format!("challenge = [\"http-01\", \"dns-01\"]\ndns-hook = [{hook:?}]");
    let root = setting.own.path("root");
    let site =
        format!("[[site]]\nhosts = [\"*.b.test\"]\nroot = {root:?}\ncertificate = \"acme\"\n");
    let held = format!("{}\n{site}", config.replace("challenge = [\"http-01\"]", &ways));
    server.reload_with(&held);
    let is_asleep = || (fs::metadata(&asleep).unwrap().len() > 0).then_some(());
    assert!(until(DEADLINE, is_asleep).is_some(), "{}", server.errors());
    let asked = Command::new(binary())
        .args(["cert", "revoke", "a.test.", "--admin", &admin])
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&asked.stdout);
    assert!(asked.status.success() && said.contains("the agent is told"), "{asked:?}");
    let revoked = || setting.pebble.log_count("/revoke-cert -> calling handler()");
    assert_eq!(revoked(), 0);
    server.reload_with(&config);
    let is_done = || ((revoked(), setting.pebble.issued()) == (1, 2)).then_some(());
    assert!(until(DEADLINE, is_done).is_some(), "{}", server.errors());
}
