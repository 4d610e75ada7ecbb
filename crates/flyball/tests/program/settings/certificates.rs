//! `flyball cert`: what a storage has, and pairs from elsewhere.
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Output};

use flyball_sys::process::is_root;
use flyball_testkit::{binary, skip};

fn cert(arguments: &[&str]) -> (Option<i32>, String) {
    let output = Command::new(binary()).arg("cert").args(arguments).output().expect("it runs");
    let Output { status, stdout, stderr } = output;
    (status.code(), String::from_utf8([stdout, stderr].concat()).expect("text"))
}

/// A key and a certificate as openssl writes them; false where it is not installed.
fn make(directory: &Path, names: &str) -> bool {
    let made = Command::new("openssl")
        .args(["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"])
        .args(["-subj", "/O=Tests/CN=\u{1b}[2J", "-addext", &format!("subjectAltName={names}")])
        .args(["-days", "9", "-keyout", "key.pem", "-out", "chain.pem"])
        .current_dir(directory)
        .output();
    if made.is_err() {
        skip("openssl is not installed");
    }
    made.is_ok_and(|output| output.status.success())
}

#[test]
fn a_certificate_from_elsewhere_is_imported_and_listed() {
    let directory = tempfile::tempdir().unwrap();
    if !make(directory.path(), "DNS:a.test,DNS:*.a.test,IP:192.0.2.7") {
        return;
    }
    let path = |name: &str| directory.path().join(name).display().to_string();
    let (storage, chain, key) = (path("storage"), path("chain.pem"), path("key.pem"));
    let (code, told) = cert(&["list", "--storage", &storage]);
    let none = format!("no certificate is in {storage}; --storage names another");
    assert!(code == Some(0) && told.starts_with(&none), "{told}");
    let (code, told) = cert(&["list", "--json", "--storage", &storage]);
    assert_eq!((code, &*told), (Some(0), "[]\n"));
    let (code, told) = cert(&["list", "a.test", "--storage", &storage]);
    assert_eq!(code, Some(1));
    assert!(told.contains("is for a.test; there is none at all"), "{told}");
    let import = |name: &str| {
        cert(&["import", name, "--storage", &storage, "--chain", &chain, "--key", &key])
    };
    let (code, told) = import("b.test");
    assert_eq!(code, Some(1));
    assert!(told.contains("not for b.test"), "{told}");
    let swapped =
        cert(&["import", "a.test", "--storage", &storage, "--chain", &key, "--key", &chain]);
    assert_eq!(swapped.0, Some(1));
    assert!(swapped.1.contains("swapped"), "{swapped:?}");
    fs::set_permissions(&key, fs::Permissions::from_mode(0o644)).unwrap();
    let (code, told) = import("a.test");
    assert_eq!(code, Some(1));
    assert!(told.contains("key.pem: is open to all users (mode 0644): chmod 600"), "{told}");
    fs::set_permissions(&key, fs::Permissions::from_mode(0o600)).unwrap();
    // The wildcard covers it.
    assert_eq!(import("c.a.test").0, Some(0));
    fs::remove_file(Path::new(&storage).join("certificates/c.a.test.pem")).unwrap();
    let (code, told) = import("a.test");
    assert_eq!(code, Some(0), "{told}");
    let (kept, said) = told.split_once('\n').unwrap();
    assert!(said.starts_with("The site whose first host is a.test uses it"), "{said}");
    let kept = Path::new(kept);
    assert_eq!(fs::metadata(kept).unwrap().permissions().mode() & 0o777, 0o600);
    let (code, told) = cert(&["list", "--storage", &storage]);
    assert_eq!(code, Some(0));
    assert!(told.contains("a.test *.a.test 192.0.2.7"), "{told}");
    assert!(told.contains(" days left") && !told.contains('\u{1b}'), "{told}");
    let (code, told) = cert(&["list", "*.a.test", "--json", "--storage", &storage]);
    assert_eq!(code, Some(0));
    let told: serde_json::Value = serde_json::from_str(&told).unwrap();
    assert_eq!(told[0]["names"][2], "192.0.2.7");
    let (code, told) = cert(&["show", "B.test", "--storage", &storage]);
    assert_eq!(code, Some(1));
    let why = "is for B.test; there are those for *.a.test, 192.0.2.7, a.test\n";
    assert!(told.ends_with(why), "{told}");
}

#[test]
fn a_certificate_is_shown_with_its_renewal_and_with_what_failed_last() {
    let directory = tempfile::tempdir().unwrap();
    if !make(directory.path(), "DNS:a.test") {
        return;
    }
    let path = |name: &str| directory.path().join(name).display().to_string();
    let (storage, chain, key) = (path("storage"), path("chain.pem"), path("key.pem"));
    let (code, told) =
        cert(&["import", "a.test", "--storage", &storage, "--chain", &chain, "--key", &key]);
    assert_eq!(code, Some(0), "{told}");
    let (_, told) = cert(&["show", "A.Test", "--storage", &storage]);
    let imported = "    imported; another is ordered in its place from ";
    assert!(told.contains(imported) && !told.contains("failed"), "{told}");
    for name in ["a.test", "new.test"] {
        let failure = r#"{"count": 1, "first": 1, "last": 1, "not_before": 0,
            "is_refused": false, "why": "no answer"}"#;
        fs::write(path(&format!("storage/failures/{name}.json")), failure).unwrap();
        let (code, told) = cert(&["show", name, "--storage", &storage]);
        assert_eq!(code, Some(0), "{told}");
        assert!(told.contains("    what failed last: no answer\n"), "{told}");
        assert_eq!(told.contains("    is still to come\n"), name == "new.test", "{told}");
    }
    let (_, told) = cert(&["list", "--json", "--storage", &storage]);
    let told: serde_json::Value = serde_json::from_str(&told).unwrap();
    let (a, new) = (&told[0], &told[1]);
    assert!(a["not_before"].as_u64() < a["renews_at"].as_u64(), "{told}");
    assert!(a["renews_at"].as_u64() < a["not_after"].as_u64(), "{told}");
    assert_eq!(a["imported"], true);
    assert_eq!((&a["error"], &new["error"]), (&"no answer".into(), &"no answer".into()));
    assert_eq!(new["names"][0], "new.test");
}

#[test]
fn an_import_says_which_site_uses_it_and_makes_no_file_for_none() {
    let directory = tempfile::tempdir().unwrap();
    if !make(directory.path(), "DNS:a.test,DNS:www.a.test,DNS:c.test") {
        return;
    }
    let path = |name: &str| directory.path().join(name).display().to_string();
    let (config, chain, key) = (path("flyball.toml"), path("chain.pem"), path("key.pem"));
    let site = |hosts: &str, certificate: &str| {
        format!("[[site]]\nroot = \"root\"\nhosts = [{hosts}]\ncertificate = \"{certificate}\"\n")
    };
    let text = "listen = \"https://127.0.0.1:0\"\n[acme]\nstorage = \"storage\"\n".to_owned()
        + &site("\"a.test\", \"www.a.test\", \"b.a.test\"", "acme")
        + &site("\"c.test\"", "none");
    fs::create_dir(path("root")).unwrap();
    fs::write(&config, text).unwrap();
    let import =
        |name: &str| cert(&["import", name, "--config", &config, "--chain", &chain, "--key", &key]);
    let stored = || fs::read_dir(path("storage/certificates")).map_or(0, Iterator::count);
    let none = "no site with a certificate by ACME has";
    for (name, why) in [
        ("www.a.test", "www.a.test as its first host: import it as a.test, the first host of its"),
        ("c.test", "c.test as its first host\n"),
    ] {
        let (code, told) = import(name);
        assert!(code == Some(1) && told.contains(&format!("{none} {why}")), "{told}");
        assert_eq!(stored(), 0);
    }
    let (code, told) = import("a.test");
    let said = told.split_once('\n').unwrap().1;
    assert_eq!(
        (code, said),
        (
            Some(0),
            "The site a.test uses it for a.test, www.a.test, within a minute.\n\
             It does not name b.a.test: a server that runs orders another then.\n"
        )
    );
    assert_eq!(stored(), 1);
}

/// What `flyball check` says of a configuration, where the state lies in `state`.
fn check(state: &Path, config: &Path, lines: &str) -> (bool, String) {
    fs::write(config, lines).unwrap();
    let mut command = Command::new(binary());
    command.env("STATE_DIRECTORY", state).args(["check", "--config"]).arg(config);
    let Output { status, stdout, stderr } = command.output().expect("it runs");
    (status.success(), String::from_utf8([stdout, stderr].concat()).expect("text"))
}

/// The statuses by which `flyball check` ends for these configurations.
fn statuses(config: &Path, texts: &[&str]) -> Vec<i32> {
    let status = |text: &&str| {
        fs::write(config, text).unwrap();
        let ended = Command::new(binary()).args(["check", "--config"]).arg(config).output();
        ended.expect("it runs").status.code().expect("it ends by itself")
    };
    texts.iter().map(status).collect()
}

#[test]
fn a_check_writes_nothing_and_says_where_what_is_wrong_is_written() {
    let directory = tempfile::tempdir().unwrap();
    let (state, config) = (directory.path().join("state"), directory.path().join("flyball.toml"));
    fs::create_dir(directory.path().join("root")).unwrap();
    let head = "listen = \"https://127.0.0.1:0\"\n";
    let internal =
        "[[site]]\nroot = \"root\"\nhosts = [\"localhost\"]\ncertificate = \"internal\"\n";
    let (is_right, told) = check(&state, &config, &format!("{head}{internal}"));
    // What would be issued is by an authority that is not made yet.
    assert!(is_right && told.contains("certificate localhost: still to come (internal)"), "{told}");
    assert!(!state.exists(), "nothing is made");
    let ca = format!("{head}{internal}tls.client-ca = \"/nope\"\n");
    assert_eq!(statuses(&config, &[internal, "x = 1", &ca]), [0, 2, 2]);
    let (is_right, told) = check(&state, &config, &ca);
    let place = format!("{}:6: site.tls.client-ca: /nope cannot be read", config.display());
    assert!(!is_right && told.contains(&place), "{told}");
    let acme = "[[site]]\nroot = \"root\"\nhosts = [\"a.example.org\"]\ncertificate = \"acme\"\n";
    for (lines, place, why) in [
        ("storage = \"/etc\"", ":3: acme.storage: ", "it must be a directory for this alone"),
        ("storage = \"/etc/passwd\"", ":3: acme.storage: ", "but a link or a file"),
        ("directory = \"zerossl\"", ":3: acme.directory: ", "acme.external-account and"),
    ] {
        let (is_right, told) = check(&state, &config, &format!("{head}[acme]\n{lines}\n{acme}"));
        assert!(!is_right && told.contains(place) && told.contains(why), "{told}");
    }
}

/// The agent is no superuser.
#[test]
fn an_authority_that_the_agent_cannot_read_is_told_with_who_it_is() {
    let directory = tempfile::tempdir().unwrap();
    if !is_root() || !make(directory.path(), "DNS:a.test") {
        return skip("it needs the superuser, and openssl");
    }
    let (state, config) = (directory.path().join("state"), directory.path().join("flyball.toml"));
    let (root, roots) = (directory.path().join("root"), directory.path().join("a/roots.pem"));
    let set_mode = |path: &Path, mode| {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    };
    for path in [&root, roots.parent().unwrap()] {
        fs::create_dir(path).unwrap();
    }
    set_mode(directory.path(), 0o755);
    fs::copy(directory.path().join("chain.pem"), &roots).unwrap();
    let lines = format!(
        "user = \"65534\"\nlisten = \"https://127.0.0.1:0\"\nacme.ca-root = {roots:?}\n\
         [[site]]\nroot = {root:?}\nhosts = [\"a.example.org\"]\ncertificate = \"acme\"\n"
    );
    for (above, file, is_readable) in
        [(0o755, 0o644, true), (0o700, 0o644, false), (0o755, 0o600, false)]
    {
        set_mode(roots.parent().unwrap(), above);
        set_mode(&roots, file);
        let (is_right, told) = check(&state, &config, &lines);
        assert_eq!(is_right, is_readable, "{told}");
        let why = "cannot be read by the agent that gets certificates, which is the user ";
        assert_eq!(told.contains(why), !is_readable, "{told}");
    }
}

#[test]
fn an_import_takes_no_endless_file_and_no_directory_that_is_served() {
    let directory = tempfile::tempdir().unwrap();
    if !make(directory.path(), "DNS:a.test") {
        return;
    }
    let path = |name: &str| directory.path().join(name).display().to_string();
    let (root, chain, key) = (path("root"), path("chain.pem"), path("key.pem"));
    fs::create_dir(&root).unwrap();
    fs::write(path("root/index.html"), "x").unwrap();
    let import = |chain: &str| {
        cert(&["import", "a.test.", "--storage", &root, "--chain", chain, "--key", &key])
    };
    let (code, told) = import("/dev/zero");
    assert_eq!((code, &*told), (Some(1), "flyball: /dev/zero: is not a file\n"));
    let (code, told) = import(&chain);
    let why = format!(
        "flyball: {root}: it holds index.html too: it must be a directory for this alone\n"
    );
    assert_eq!((code, told), (Some(1), why));
    assert_eq!(fs::read_dir(&root).unwrap().count(), 1);
}
