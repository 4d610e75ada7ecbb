//! `flyball serve DIR --https` and `--domain`, and `flyball trust`.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use flyball_testkit::pebble::{self, Ways};
use flyball_testkit::wait::{DEADLINE, until};
use flyball_testkit::{Launch, Server, binary, free_address};
use tempfile::TempDir;

use crate::common::https::Authority;
use crate::common::write_script;

/// A directory with a page and one without, which others may read.
fn site() -> TempDir {
    let directory = tempfile::tempdir().unwrap();
    fs::set_permissions(directory.path(), fs::Permissions::from_mode(0o755)).unwrap();
    fs::create_dir_all(directory.path().join("root/empty")).unwrap();
    fs::write(directory.path().join("root/index.html"), "in one line\n").unwrap();
    directory
}

fn text(path: PathBuf) -> String {
    path.into_os_string().into_string().unwrap()
}

/// What curl says that trusts this certificate: the body, then the status.
fn curl(root: &Path, url: &str) -> String {
    let output = Command::new("curl")
        .args(["-sS", "--max-time", "60", "-w", "%{http_code}", "--cacert"])
        .arg(root)
        .arg(url)
        .output()
        .unwrap();
    String::from_utf8(output.stdout).unwrap() + &String::from_utf8_lossy(&output.stderr)
}

#[test]
fn a_directory_is_served_by_https_with_a_certificate_of_this_machines_own_authority() {
    let (site, state) = (site(), tempfile::tempdir().unwrap());
    let root = state.path().join("internal/root.pem");
    let start = || {
        let arguments = [text(site.path().join("root")), "--https".into()];
        Launch::arguments(arguments).secure().in_state(state.path()).start().expect("it starts")
    };
    let server = start();
    let port = server.address().port();
    for host in ["localhost", "127.0.0.1"] {
        assert_eq!(curl(&root, &format!("https://{host}:{port}/")), "in one line\n200", "{host}");
    }
    server.assert_sound();
    drop(server);
    let before = fs::read_to_string(&root).unwrap();
    let key = fs::metadata(state.path().join("internal/authority.pem")).unwrap();
    assert_eq!(key.mode() & 0o777, 0o600);
    let server = start();
    assert_eq!(fs::read_to_string(&root).unwrap(), before);
    let url = format!("https://localhost:{}/empty/", server.address().port());
    assert!(curl(&root, &url).ends_with("200"), "it lists directories");
    let shown =
        Command::new("openssl").args(["x509", "-noout", "-text", "-in"]).arg(&root).output();
    let shown = String::from_utf8(shown.unwrap().stdout).unwrap();
    assert!(shown.contains("X509v3 Name Constraints: critical"), "{shown}");
    assert!(shown.contains("DNS:localhost") && shown.contains("IP:10.0.0.0"), "{shown}");
}

/// Runs `flyball trust` where this directory stands for `/`.
fn trust(under: &Path, arguments: &[&str]) -> Output {
    let mut command = Command::new(binary());
    command.arg("trust").args(arguments).arg("--under").arg(under).output().unwrap()
}

#[test]
fn an_authority_is_trusted_and_no_longer_as_debian_and_fedora_do() {
    let own = Authority::new();
    own.issue("leaf.pem", &["a.test"]);
    let root = fs::read_to_string(own.path("ca.pem")).unwrap();
    let leaf = fs::read_to_string(own.path("leaf.pem")).unwrap();
    let leaf = leaf.split("-----BEGIN PRIVATE KEY").next().unwrap();
    let said = |output: &Output| String::from_utf8_lossy(&output.stdout).into_owned();
    for (program, directory) in [
        ("usr/sbin/update-ca-certificates", "usr/local/share/ca-certificates"),
        ("usr/bin/update-ca-trust", "etc/pki/ca-trust/source/anchors"),
    ] {
        let machine = tempfile::tempdir().unwrap();
        let under = machine.path();
        let file = under.join("root.pem");
        fs::write(&file, &root).unwrap();
        let file = file.to_str().unwrap();
        let refused = trust(under, &[file]);
        assert!(!refused.status.success(), "neither is here");
        let program = under.join(program);
        fs::create_dir_all(program.parent().unwrap()).unwrap();
        write_script(&program, &format!("echo \"$@\" >> {}", under.join("called").display()));
        let done = trust(under, &[file]);
        assert!(done.status.success() && said(&done).contains(" trust it now."), "{done:?}");
        let place = under.join(directory).join("flyball-of-this-machine.crt");
        assert_eq!(fs::read_to_string(&place).unwrap(), root);
        assert_eq!(fs::metadata(&place).unwrap().mode() & 0o777, 0o644);
        let other = Authority::new();
        let second = other.path("ca.pem").display().to_string();
        let replaced = trust(under, &[&second]);
        assert!(said(&replaced).contains(" was there, which is trusted no longer"), "{replaced:?}");
        let kept = trust(under, &["--remove", file]);
        assert!(!kept.status.success() && place.exists(), "{kept:?}");
        let why = said_wrong(&kept);
        assert!(why.contains(&format!("is another certificate than {file}")), "{why}");
        let removed = trust(under, &["--remove", &second]);
        assert!(removed.status.success() && !place.exists(), "{removed:?}");
        assert!(said(&removed).contains(" trust it no longer."), "{removed:?}");
        let none = trust(under, &["--remove"]);
        assert!(none.status.success(), "{none:?}");
        assert!(said(&none).ends_with("is not there: nothing is changed\n"), "{none:?}");
        let missing = said_wrong(&trust(under, &[&format!("{file}.none")]));
        assert!(missing.contains("root.pem.none: ") && !missing.contains("makes it"), "{missing}");
        let called = fs::read_to_string(under.join("called")).unwrap();
        assert_eq!(called.lines().count(), 3, "{called}");
        for (text, why) in
            [("-----BEGIN PRIVATE KEY-----\n", "or holds more"), (leaf, "no authority")]
        {
            fs::write(file, text).unwrap();
            let refused = trust(under, &[file]);
            assert!(!refused.status.success() && !place.exists());
            assert!(said_wrong(&refused).contains(why), "{refused:?}");
        }
    }
}

fn said_wrong(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// A server of `--domain`, which gets its certificate from this authority.
fn of_domain(site: &TempDir, pebble: &pebble::Authority, more: [String; 2]) -> Server {
    let set = |key: &str, value: String| format!("--set={key}={value}");
    let mut arguments = vec![text(site.path().join("root")), "--domain=a.test".into()];
    arguments.extend(more);
    arguments.push(set("acme.directory", pebble.url()));
    arguments.push(set("acme.ca-root", text(pebble.roots())));
    Launch::arguments(arguments).in_state(&site.path().join("state")).start().expect("it starts")
}

#[test]
fn a_domain_is_served_in_one_line_with_a_certificate_for_this_host_alone() {
    let (site, own) = (site(), Authority::new());
    let (clear, tls) = (free_address(), free_address());
    let Some(pebble) = pebble::Authority::start((clear, tls), Ways::default()) else { return };
    let listen = [format!("--listen={clear}"), format!("--listen=https://{tls}")];
    let server = of_domain(&site, &pebble, listen);
    let came = || own.openssl(&server, "a.test", &[]).contains("Pebble Intermediate").then_some(());
    assert!(until(DEADLINE, came).is_some(), "{}", server.errors());
    assert!(server.errors().contains("which agrees to its terms"), "{}", server.errors());
    let status = |url: &str| {
        let resolve = format!("a.test:{}:{}", tls.port(), tls.ip());
        let output = Command::new("curl")
            .args(["-sSk", "--max-time", "60", "-o", "/dev/null", "-w", "%{http_code}"])
            .args(["--resolve", &resolve, url])
            .output();
        String::from_utf8(output.unwrap().stdout).unwrap()
    };
    assert_eq!(status(&format!("https://a.test:{}/", tls.port())), "200");
    assert_ne!(status(&format!("https://a.test:{}/empty/", tls.port())), "200", "no listing");
    assert_eq!(status(&format!("https://{tls}/")), "421");
    server.assert_sound();
}

#[test]
fn what_cannot_be_served_in_one_line_is_told() {
    let site = site();
    let root = text(site.path().join("root"));
    for (arguments, why) in [
        (["--domain=a_b"], "not a name"),
        (["--domain=*.a.test"], "dns-01"),
        (["--domain=a.example.org"], "speaks TLS"),
        (
            ["--domain=printer.local --listen=https://127.0.0.1:0"],
            "acme.directory=URL names one of your own",
        ),
        (
            ["--https --set=admin-hosts=box.test"],
            "--set admin-hosts: --https serves these hosts too: the authority of this machine \
             vouches for localhost and private addresses alone, and box.test is none",
        ),
    ] {
        let arguments = arguments.into_iter().flat_map(|line| line.split(' '));
        let launch = Launch::arguments(std::iter::once(root.as_str()).chain(arguments));
        let refused = launch.in_state(site.path()).start().expect_err(why);
        assert!(refused.errors.contains(why), "{}", refused.errors);
        let told = refused.errors.lines().filter(|line| line.contains("--")).count();
        assert_eq!(told, 1, "{}", refused.errors);
    }
    // What is served holds the key of this machine's own authority.
    let launch = Launch::arguments([root.as_str(), "--https"]).in_state(&site.path().join("root"));
    let refused = launch.start().expect_err("the key is beneath the root").errors;
    assert!(refused.contains("name another by XDG_STATE_HOME"), "{refused}");
}

/// An example, with what it takes from the environment set so.
fn example(name: &str, variables: &[(&str, &str, String)]) -> String {
    let path = format!("{}/../../examples/{name}.toml", env!("CARGO_MANIFEST_DIR"));
    let mut text = fs::read_to_string(path).unwrap();
    for (name, default, value) in variables {
        let variable = format!("${{{name}:-{default}}}");
        assert!(text.contains(&variable), "{variable}");
        text = text.replace(&variable, value);
    }
    text
}

#[test]
fn the_example_with_a_certificate_from_files_serves() {
    let (site, own) = (site(), Authority::new());
    own.issue("site.pem", &["localhost"]);
    let file = || text(own.path("site.pem"));
    let config = example(
        "https",
        &[
            ("LISTEN", ":443", "127.0.0.1:0".into()),
            ("ROOT", "/srv/www", text(site.path().join("root"))),
            ("CERT", "/etc/ssl/site.pem", file()),
            ("KEY", "/etc/ssl/site.key", file()),
        ],
    );
    let server = own.start(&config);
    let url = format!("https://localhost:{}/", server.secure().port());
    assert_eq!(curl(&own.path("ca.pem"), &url), "in one line\n200");
}

#[test]
fn the_example_with_a_certificate_by_acme_serves() {
    let (site, own) = (site(), Authority::new());
    let (clear, tls) = (free_address(), free_address());
    let Some(pebble) = pebble::Authority::start((clear, tls), Ways::default()) else { return };
    let config = example(
        "acme",
        &[
            ("HTTP", ":80", clear.to_string()),
            ("HTTPS", ":443", tls.to_string()),
            ("DIRECTORY", "letsencrypt", pebble.url()),
            ("CA_ROOT", "system", text(pebble.roots())),
            ("STORAGE", "auto", text(site.path().join("state"))),
            ("DOMAIN", "example.org", "a.test".into()),
            ("ROOT", "/srv/www", text(site.path().join("root"))),
        ],
    );
    let listen = [format!("--listen={clear}"), format!("--listen=https://{tls}")];
    let [clear, tls] = listen;
    let server = Launch::config(config).and(clear).and(tls).start().expect("it starts");
    let came = || own.openssl(&server, "a.test", &[]).contains("Pebble Intermediate").then_some(());
    assert!(until(DEADLINE, came).is_some(), "{}", server.errors());
}
