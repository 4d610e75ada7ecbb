//! What a `[[listener]]` table may say, and what is said about a wrong one.

use flyball_testkit::binary;
use std::process::Command;

use super::file::{SITE, errors, settings};

/// The addresses of these lines, with what is spoken there.
fn listens(lines: &str) -> Vec<String> {
    let settings = settings(&format!("{lines}{SITE}certificate = \"none\"\n"));
    settings.listen.iter().map(ToString::to_string).collect()
}

fn listener(lines: &str) -> String {
    format!("\n[[listener]]\n{lines}\n")
}

#[test]
fn listeners_stand_beside_the_addresses_in_short() {
    let tables = listener("address = 81") + &listener("address = \"https://127.0.0.1:443\"");
    assert_eq!(listens(&tables), ["[::]:81", "https://127.0.0.1:443"]);
    let both = format!("listen = [80, \"https://:443\"]{tables}");
    let all = ["[::]:80", "https://[::]:443", "[::]:81", "https://127.0.0.1:443"];
    assert_eq!(listens(&both), all);
    // Nothing is listened on that is not written.
    assert_eq!(listens(&format!("listen = \"auto\"{}", listener("address = 81"))), ["[::]:81"]);
    assert_eq!(listens("listen = \"auto\""), ["127.0.0.1:8080"]);
}

#[test]
fn what_is_spoken_is_said_by_the_scheme_or_by_tls_in_any_order() {
    for (lines, shown) in [
        ("address = \":1\"\ntls = true", "https://[::]:1"),
        ("tls = true\naddress = \":1\"", "https://[::]:1"),
        ("tls = \"auto\"\naddress = \"https://:1\"", "https://[::]:1"),
        ("tls = true\naddress = \"https://:1\"", "https://[::]:1"),
        ("tls = false\naddress = \"http://:1\"", "[::]:1"),
        ("address = \":1\"\ntls = false", "[::]:1"),
    ] {
        assert_eq!(listens(&listener(lines)), [shown], "{lines}");
    }
    for (said, scheme) in [(true, "http"), (false, "https")] {
        let lines = listener(&format!("address = \"{scheme}://:1\"\ntls = {said}"));
        let why = format!(
            "flyball.toml:4: listener.tls: is {said}, but the address has {scheme}:// before it"
        );
        assert_eq!(errors(&format!("{lines}{SITE}")), [why]);
    }
}

#[test]
fn an_address_that_is_written_twice_names_both_places() {
    let all = |lines: &str| errors(&format!("{lines}{SITE}certificate = \"none\"\n"));
    let table = listener("address = \"127.0.0.1:80\"");
    assert_eq!(
        all(&format!("listen = [\"127.0.0.1:80\"]\n{table}")),
        ["flyball.toml:4: listener.address: 127.0.0.1:80 is listened on already, by listen at \
          flyball.toml:1"]
    );
    assert_eq!(
        all(&format!("{table}{}", listener("tls = true\naddress = \"127.0.0.1:80\""))),
        ["flyball.toml:7: listener.address: 127.0.0.1:80 is listened on already, by \
          listener.address at flyball.toml:3"]
    );
    assert_eq!(
        all(&format!("admin = \"127.0.0.1:80\"\n{table}")),
        ["flyball.toml:1: admin: 127.0.0.1:80 is an address of `listener.address` too"]
    );
    assert_eq!(listens(&(listener("address = 0") + &listener("address = 0"))).len(), 2);
}

#[test]
fn a_table_has_an_address_and_no_other_keys() {
    let all = |lines: &str| errors(&format!("{lines}{SITE}"));
    assert_eq!(
        all(&listener("tls = true")),
        ["flyball.toml:2: listener.address: is missing: the address, in the forms of `listen`"]
    );
    for (lines, why) in [
        ("adress = 80", "listener.adress: unknown key; did you mean listener.address?"),
        (
            "drain = \"5s\"",
            "listener.drain: unknown key of a listener; drain belongs above the first \
             [[listener]] table",
        ),
        ("tls = 3", "listener.tls: expected true or false, or auto, found 3"),
    ] {
        let found = all(&listener(&format!("address = 81\n{lines}")));
        assert_eq!(found, [format!("flyball.toml:4: {why}")], "{lines}");
    }
    let found = all(&listener("address = [80, 81]"));
    assert!(found[0].starts_with("flyball.toml:3: listener.address: expected an address such as"));
}

#[test]
fn a_socket_in_the_file_system_has_a_mode_and_a_group_and_an_address_has_not() {
    let here = std::env::current_dir().expect("a directory");
    let path = |name: &str| format!("unix:{}", here.join(name).display());
    assert_eq!(listens("listen = [\"unix:a.sock\"]"), [path("a.sock")]);
    let table = listener("address = \"https://unix:a.sock\"\nmode = \"0600\"\ngroup = \"0\"");
    assert_eq!(listens(&table), [format!("https://{}", path("a.sock"))]);
    let settings = settings(&format!("{table}{SITE}certificate = \"none\"\n"));
    assert_eq!((settings.listen[0].mode, settings.listen[0].group.as_deref()), (0o600, Some("0")));
    let all = |lines: &str| errors(&format!("{lines}{SITE}"));
    for (key, value) in [("mode", "0600"), ("group", "0")] {
        let why = format!(
            "flyball.toml:4: listener.{key}: is that of a socket in the file system, which \
             127.0.0.1:80 is not"
        );
        let table = listener(&format!("address = \"127.0.0.1:80\"\n{key} = \"{value}\""));
        assert_eq!(all(&table), [why]);
    }
    let twice = "listen = \"unix:a.sock\"\n".to_owned() + &listener("address = \"unix:./a.sock\"");
    assert!(all(&twice)[0].contains("a.sock is listened on already, by listen"), "{twice}");
    let admin = format!("admin = \"unix:a.sock\"\n{}", listener("address = \"unix:a.sock\""));
    assert!(all(&admin)[0].contains("is an address of `listener.address` too"));
    let other = listener("address = \"unix:no/such/a.sock\"");
    let gone = all(&format!("listen = [80]\n{other}"));
    let at = "flyball.toml:4: listener.address: ";
    assert!(gone[0].starts_with(at) && gone[0].contains("there is no directory"), "{gone:?}");
    let none = all(&listener("address = \"unix:a.sock\"\ngroup = \"no-such-group\""));
    let why = "flyball.toml:4: listener.group: there is no group \"no-such-group\"";
    assert_eq!(none, [why]);
}

#[test]
fn what_is_wrong_with_the_mode_or_the_path_of_a_socket_is_told() {
    let long = format!("unix:/{}", "a".repeat(107));
    for (lines, why) in [
        ("address = \"unix:a.sock\"\nmode = 0660", "a mode such as \"0660\" is in quotes"),
        (
            "address = \"unix:a.sock\"\nmode = 660",
            "such as \"0660\", without rights to execute, found 660",
        ),
        ("address = \"unix:@a\"", "all users can connect to an abstract one"),
        (&*format!("address = {long:?}"), "at most 107 bytes in the whole path"),
    ] {
        let told = errors(&format!("{}{SITE}", listener(lines)));
        assert!(told[0].contains(why), "{told:?}");
    }
    let admin = errors(&format!("admin = {long:?}\n{SITE}"));
    assert!(admin[0].contains("at most 107 bytes in the whole path"), "{admin:?}");
}

#[test]
fn a_site_that_no_listener_serves_is_warned_of() {
    let directory = tempfile::tempdir().expect("a directory");
    let config = directory.path().join("flyball.toml");
    let site = |host: &str| format!("[[site]]\nhosts = [{host:?}]\nroot = \".\"\n");
    let sites = site("a.test") + &site("b.test");
    let check = |listeners: &str| {
        std::fs::write(&config, format!("{listeners}{sites}")).expect("it is written");
        let output = Command::new(binary()).args(["check", "--config"]).arg(&config).output();
        String::from_utf8(output.expect("it runs").stderr).expect("text")
    };
    let one = listener("address = \"127.0.0.1:0\"\nhosts = \"a.test\"");
    let told = check(&one);
    assert!(told.contains("no listener serves the site of b.test"), "{told}");
    assert!(!told.contains("of a.test"), "{told}");
    for more in ["hosts = \"*.test\"", ""] {
        let told = check(&format!("{one}{}", listener(&format!("address = \"[::1]:0\"\n{more}"))));
        assert!(!told.contains("no listener serves"), "{told}");
    }
}

#[test]
fn where_a_certificate_comes_from_is_told_where_it_cannot_be_told_from_the_hosts() {
    let site = |hosts: &str, more: &str| {
        let lines = format!("[[site]]\nroot = \".\"\n{hosts}\n{more}");
        errors(&format!("listen = \"https://127.0.0.1:0\"\n[acme]\n{lines}"))
    };
    for (hosts, more, why) in [
        ("", "", "the site has none: give it `hosts`"),
        (
            "hosts = [\"localhost\", \"example.org\"]",
            "",
            "no authority of [acme] vouches for localhost, and that of this machine not for \
             example.org",
        ),
        ("hosts = \"a.example\"", "certificate = \"interal\"", "did you mean internal?"),
        ("hosts = \"a.example\"", "certificate = \"acem\"", "did you mean acme?"),
    ] {
        let told = site(hosts, more);
        assert!(told[0].contains(why), "{hosts} {more}: {told:?}");
    }
}

#[test]
fn listeners_are_written_as_tables_of_a_file() {
    let all = |lines: &str| errors(&format!("{lines}{SITE}"));
    assert_eq!(
        all("listener = 80"),
        ["flyball.toml:1: listener: listeners are written as [[listener]] tables in a file"]
    );
    assert_eq!(
        all("[listener]\naddress = 80"),
        ["flyball.toml:1: listener: listeners are written as [[listener]] tables in a file"]
    );
    assert_eq!(
        all("[[listners]]\naddress = 80"),
        ["flyball.toml:1: listners: unknown key; did you mean listener?"]
    );
}

#[test]
fn a_listener_is_explained_with_its_place() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let path = directory.path().join("flyball.toml");
    let site = "[[site]]\nroot = \".\"\ncertificate = \"none\"\n";
    std::fs::write(&path, format!("\n[[listener]]\naddress = \"https://:443\"\n{site}"))
        .expect("it is written");
    let explain = |words: &[&str]| {
        let mut command = Command::new(binary());
        let output = command.args(["explain", "--config"]).arg(&path).args(words).output();
        let output = output.expect("it runs");
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).expect("UTF-8")
    };
    let file = path.display();
    let text = explain(&["listener"]);
    assert!(text.contains(&format!("[[listener]], {file}:2\n")), "{text}");
    assert!(text.contains("https://:443") && text.contains(&format!("{file}:3")), "{text}");
    assert!(!text.contains("site"), "{text}");
    let text = explain(&["listener.tls"]);
    assert!(text.contains("tls") && !text.contains("address"), "{text}");
}
