//! Settings that are right each by itself, and not together, or not on this machine: told with
//! their line before anything serves, by `flyball check` as by a start.

use std::path::Path;
use std::process::Command;

use flyball_testkit::{Launch, binary};

use crate::settings::file::{SITE, errors, line_errors, settings, told_of_a_site};

/// Each of these lines, above a site that is right, has this one error.
#[track_caller]
fn told(table: &[(&str, &str)]) {
    for (lines, error) in table {
        assert_eq!(line_errors(lines), [format!("flyball.toml:{error}")], "{lines}");
    }
}

/// Each of these lines has no error.
#[track_caller]
fn accepted(above: &[&str]) {
    for lines in above {
        settings(&format!("{lines}{SITE}"));
    }
}

#[test]
fn settings_of_clients_and_the_log_must_fit_each_other() {
    told(&[
        (
            "client.address = \"forwarded\"",
            "1: client.address: no proxy would be trusted; list them in client.trusted",
        ),
        (
            "access-log = \"-\"\nlog.rotate-size = \"1MiB\"",
            "2: log.rotate-size: there is no file to put aside: neither access-log nor slow-log \
             is a path",
        ),
        (
            "log.rotate-age = \"24h\"",
            "1: log.rotate-age: there is no file to put aside: neither access-log nor slow-log is \
             a path",
        ),
    ]);
    let fits = "access-log = \"a.log\"\nlog.rotate-age = \"24h\"\nclient.trusted = [\"::1\"]\n\
                client.address = \"proxy-protocol\"";
    let settings = settings(&format!("{fits}{SITE}"));
    assert_eq!(settings.clients.trusted, ["::1".parse().unwrap()]);
}

#[test]
fn values_that_contradict_each_other_are_refused() {
    told(&[
        (
            "cache.most = \"1KiB\"\ncache.least = \"2KiB\"",
            "2: cache.least: 2KiB is more than cache.most, which is 1KiB: no file would be held",
        ),
        (
            "limit.head = \"4KiB\"\nlimit.target = \"5KiB\"",
            "2: limit.target: 5KiB is more than limit.head, which is 4KiB",
        ),
        (
            "[amped]\nhelpers = 2\nreserve = 3",
            "3: amped.reserve: 3 is more than amped.helpers, which is 2",
        ),
        (
            "limit.requests-burst = 3",
            "1: limit.requests-burst: limits nothing without limit.requests-per-address; set that \
             too",
        ),
        (
            "[cache]\npin = [\"*.css\", \"/a\"]\nnever = [\"/b\", \"/a\"]",
            "3: cache.never: /a is in cache.pin too; take one away",
        ),
        (
            "cache.never = \"*.js\"\ncache.keep = \"*.js\"",
            "1: cache.never: *.js is in cache.keep too; take one away",
        ),
    ]);
    // A default gives way, and what is merely without effect is no error.
    accepted(&[
        "limit.head = \"4KiB\"",
        "amped.helpers = 1",
        "cache.least = \"1KiB\"\ncache.most = \"1KiB\"",
        "log.keep = 3\nlog.slow-threshold = \"1s\"\ncache.pin = \"/a\"\npin-cpus = 0",
    ]);
    let few = "is more than compress.max-size, which is 1KiB: no body would be compressed";
    told_of_a_site(&[(
        "compress.min-size = \"2KiB\"\ncompress.max-size = \"1KiB\"\n\
         compress.stream-max-size = \"off\"",
        &format!("4: site.compress.min-size: 2KiB {few}"),
    )]);
    settings(&format!("{SITE}compress.min-size = \"2KiB\"\ncompress.max-size = \"1KiB\"\n"));
    settings(&format!("{SITE}compress.max-size = 0\ncompress.stream-max-size = \"off\"\n"));
}

#[test]
fn what_settings_need_of_the_machine_must_be_there() {
    let place = "there is no directory no-such-directory; make it, or name another place";
    let mut table = Vec::new();
    for (key, value, shown) in [
        ("access-log", "no-such-directory/a", "no-such-directory/a"),
        ("slow-log", "no-such-directory/a", "no-such-directory/a"),
        ("pid-file", "no-such-directory/a", "no-such-directory/a"),
        ("admin", "unix:no-such-directory/a", "no-such-directory/a"),
    ] {
        table.push((format!("{key} = \"{value}\""), format!("1: {key}: {shown}: {place}")));
    }
    for (line, error) in [
        ("access-log = \"Cargo.toml/a\"", "access-log: Cargo.toml is not a directory"),
        ("slow-log = \"src\"", "slow-log: src is a directory; name a file in it"),
        ("pid-file = \"src\"", "pid-file: src is there and is no file; name another place"),
        (
            "admin = \"unix:Cargo.toml\"",
            "admin: Cargo.toml is there and is no socket; remove it, or name another place",
        ),
        (
            "admin-group = \"no group of mine\"",
            "admin-group: expected the name or the number of a group, or own, found \"no group of \
             mine\"",
        ),
        ("admin-group = \"nobodyhere\"", "admin-group: there is no group \"nobodyhere\""),
    ] {
        table.push((line.to_owned(), format!("1: {error}")));
    }
    let allowed = flyball_sys::process::allowed_cpus();
    table.push((
        "pin = true\npin-cpus = [60000]".to_owned(),
        format!("2: pin-cpus: CPU 60000 is not one of those allowed: {allowed:?}"),
    ));
    if flyball_sys::process::is_root() {
        let known = "/proc/sys/net/ipv4/tcp_available_congestion_control";
        let known = std::fs::read_to_string(known).expect("the kernel tells");
        let known = known.trim().replace(' ', ", ");
        table.push((
            "tcp.congestion = \"nonesuch\"".to_owned(),
            format!(
                "1: tcp.congestion: this kernel has no congestion control \"nonesuch\"; it has \
                 {known}"
            ),
        ));
    }
    let table: Vec<_> = table.iter().map(|(line, error)| (&**line, &**error)).collect();
    told(&table);
    // What is made when the server starts is looked at then.
    accepted(&["access-log = \"/run/no-such/a\"", "pin-cpus = [60000]"]);
}

#[test]
fn addresses_that_overlap_are_told_where_a_port_is_listened_on_once() {
    let (one, two) = ("127.0.0.1:8080", "[::]:8080");
    let why = |arch: &str| {
        format!(
            "1: listen: {two} overlaps with {one} of `listen`: {arch} has one socket for each, \
             and only one can have the port"
        )
    };
    let lines = |arch: &str| format!("listen = [\"{one}\", \":8080\"]\narch = \"{arch}\"");
    told(&[
        (&lines("sped"), &why("sped")),
        (&format!("{}\nworkers = 1", lines("n-copy")), &why("n-copy")),
        (&lines("symped"), &why("symped")),
        (
            "admin = \":8080\"\nlisten = \"127.0.0.1:8080\"",
            "1: admin: [::]:8080 and 127.0.0.1:8080 of `listen` overlap",
        ),
        (
            "listen = \":1\"\narch = \"sped\"\n[[listener]]\naddress = \"0.0.0.0:1\"",
            "4: listener.address: 0.0.0.0:1 overlaps with [::]:1 of `listen`: sped has one socket \
             for each, and only one can have the port",
        ),
    ]);
    accepted(&[
        &format!("{}\nworkers = 2", lines("n-copy")),
        "listen = [\"[::1]:80\", \"0.0.0.0:80\"]\narch = \"sped\"",
        "listen = [\"127.0.0.1:0\", \":0\"]\narch = \"sped\"",
    ]);
}

#[test]
fn a_path_of_a_rule_that_is_hardly_meant_is_told() {
    let told = |table: &str, key: &str, path: &str| {
        let lines = format!("{SITE}[[site.{table}]]\n{key} = \"{path}\"\n");
        let errors = errors(&lines);
        assert_eq!(errors.len(), 1, "{lines}: {errors:?}");
        assert!(errors[0].contains(&format!(": site.{table}.{key}: ")), "{errors:?}");
        errors[0].clone()
    };
    for table in ["access", "return"] {
        for key in ["path", "match"] {
            let why = told(table, key, "/admin\\u200b");
            assert!(why.contains("U+200B, which cannot be seen"), "{why}");
            let why = told(table, key, "/admin, /private");
            assert!(why.contains("looks like a list"), "{why}");
        }
        let why = told(table, "match", "~^/admin\\ufeff");
        assert!(why.contains("U+FEFF, which cannot be seen"), "{why}");
    }
    let alias = "[[site.alias]]\nroot = \"/srv\"\npath = \"/a,/b\"\n";
    assert!(errors(&format!("{SITE}{alias}"))[0].contains("looks like a list"));
    settings(&format!("{SITE}[[site.access]]\npath = \"/a,b\"\nmatch = \"none\"\n"));
}

#[test]
fn a_path_has_one_table_of_a_kind() {
    let access = "[[site.access]]\npath = \"/a\"\n";
    let again = |what: &str, table: &str, line: usize| {
        format!(
            "{what} has a [[site.{table}]] already, at flyball.toml:{line}; only one can count: \
             join them, or give this one another path"
        )
    };
    let returned = "[[site.return]]\npath = \"/a\"\n";
    let cgi = "[[site.cgi]]\npath = \"/a\"\nprogram = \"/bin/true\"\n";
    let scgi = "[[site.scgi]]\npath = \"/a\"\nsocket = 1\n";
    let php = "[[site.fastcgi]]\nsocket = 1\nextensions = [\"php\", \"phtml\"]\n";
    let module = "[[site.module]]\npath = \"/a\"\nname = \"hello\"\n";
    told_of_a_site(&[
        (
            &format!("{access}[[site.access]]\npath = \"/%61/\"\ndeny = \"::/0\""),
            &format!("7: site.access.path: {}", again("/%61/", "access", 4)),
        ),
        (
            &format!("{returned}{returned}status = 404"),
            &format!("7: site.return.path: {}", again("/a", "return", 4)),
        ),
        (&format!("{cgi}{cgi}"), &format!("8: site.cgi.path: {}", again("/a", "cgi", 4))),
        (&format!("{scgi}{cgi}"), &format!("8: site.cgi.path: {}", again("/a", "scgi", 4))),
        (
            &format!("{php}[[site.fastcgi]]\nextensions = \"php\"\nsocket = 2"),
            &format!("7: site.fastcgi.path: {}", again("/ with .php", "fastcgi", 4)),
        ),
        (
            &format!("{module}{module}"),
            &format!("8: site.module.path: {}", again("/a", "module", 4)),
        ),
        (
            &format!("{scgi}extensions = \"x\"\n{module}"),
            &format!("9: site.module.path: {}", again("/a", "scgi", 4)),
        ),
    ]);
    for lines in [
        format!("{access}{returned}{cgi}[[site.access]]\npath = \"/a/b\"\n"),
        format!("{php}[[site.fastcgi]]\nsocket = 2\n"),
        format!("{php}[[site.scgi]]\nsocket = 2\nextensions = \"py\"\n"),
        format!("{access}{module}{module}exact = true\n"),
        // Another site has paths of its own.
        format!("{access}\n[[site]]\nhosts = \"b\"\nroot = \"src\"\n{access}"),
    ] {
        settings(&format!("{SITE}{lines}"));
    }
}

/// No script has such a name, and all would be sent as files.
#[test]
fn an_extension_that_was_meant_as_a_list_or_a_pattern_is_refused() {
    for text in ["*", "php,phtml", "(php|phtml)", " php", "php$", "ph[p]", "php;", ".php", "%70hp"]
    {
        told_of_a_site(&[(
            &format!("[[site.fastcgi]]\nsocket = 1\nextensions = [\"{text}\"]"),
            &format!(
                "6: site.fastcgi.extensions: expected a list, each item an extension without its \
                 dot, such as php, or none, found \"{text}\""
            ),
        )]);
    }
}

#[test]
fn no_two_tables_start_programs_on_one_socket() {
    let table = |path: &str, keys: &str| {
        format!("[[site.fastcgi]]\npath = \"{path}\"\nprogram = \"/bin/true\"\n{keys}")
    };
    let named = "socket = \"unix:/run/a.sock\"\n";
    let site = "[[site]]\nhosts = \"b\"\nroot = \"src\"\n";
    let why = "site.fastcgi.socket: the program of another table listens there already (see \
               flyball.toml:7); name another socket, or none";
    told_of_a_site(&[
        (&format!("{}{}", table("/a", named), table("/b", named)), &format!("11: {why}")),
        (&format!("{}{site}{}", table("/a", named), table("/a", named)), &format!("14: {why}")),
    ]);
    let shared = "[[site.fastcgi]]\npath = \"/b\"\nsocket = \"unix:/run/a.sock\"\n";
    for lines in [
        format!("{}{}", table("/a", ""), table("/b", "")),
        // Another table may ask the programs of the first.
        format!("{}{shared}", table("/a", named)),
    ] {
        settings(&format!("{SITE}{lines}"));
    }
}

#[test]
fn a_rule_that_would_never_count_names_the_one_that_does() {
    let rule =
        |table: &str, from: &str| format!("[[site.{table}]]\nfrom = \"{from}\"\nto = \"/x\"\n");
    for (first, second) in [("/ab", "/a%62"), ("/a/*", "/./a/*"), ("~a", "~a")] {
        for table in ["redirect", "rewrite"] {
            told_of_a_site(&[(
                &format!("{}{}", rule(table, first), rule(table, second)),
                &format!(
                    "8: site.{table}.from: {second} has a {table} already, and this one would \
                     never count; the first is at flyball.toml:4"
                ),
            )]);
        }
    }
    let both = format!("{}{}", rule("redirect", "/a"), rule("redirect", "/a/*"));
    settings(&format!("{SITE}{both}"));
    let alias = "[[site.alias]]\npath = \"/a\"\nroot = \"src\"\n";
    told_of_a_site(&[(
        &format!("{alias}{alias}"),
        "8: site.alias.path: /a is an alias already; the first is at flyball.toml:4",
    )]);
}

#[test]
fn a_limit_that_would_never_count_names_the_one_that_does() {
    let limit = |paths: &str| format!("[[site.limit]]\n{paths}\nconnections = 1\n");
    let both = |first: &str, second: &str| format!("{}{}", limit(first), limit(second));
    let (all, below, small) = ("path = \"/\"", "path = \"/a%62\"", "path = \"/ab/c\"");
    let why = |key, first, second| {
        format!(
            "8: site.limit.{key}: {first} is limited before, and all of {second} with it: this \
             one would never count; put it first; the first is at flyball.toml:4"
        )
    };
    told_of_a_site(&[
        (&both(all, below), &why("path", "/", "/a%62")),
        (&both(all, "match = '~x$'"), &why("match", "/", "~x$")),
        (&both(below, small), &why("path", "/a%62", "/ab/c")),
        (
            &both(below, below),
            "8: site.limit.path: /a%62 has a limit already, and this one would never count; the \
             first is at flyball.toml:4",
        ),
    ]);
    for lines in [both(small, all), both(below, "match = '~x$'"), both("match = '~x$'", all)] {
        settings(&format!("{SITE}{lines}"));
    }
}

#[test]
fn a_fallback_is_a_file_that_is_there() {
    told_of_a_site(&[
        ("fallback = \"/nope.html\"", "4: site.fallback: there is no file src/nope.html"),
        ("fallback = \"/settings\"", "4: site.fallback: there is no file src/settings"),
    ]);
    settings(&format!("{SITE}fallback = \"/lib.rs\"\n"));
    // One of a language will do.
    settings(&format!("{SITE}fallback = \"/lib\"\nlanguages = [\"de\", \"rs\"]\n"));
}

/// A configuration beside its site, with these lines above.
fn configured(directory: &Path, lines: &str) -> String {
    format!("{lines}\n[[site]]\nroot = {:?}\nuser-id-min = 7\n", directory.display().to_string())
}

/// What `flyball check` says of a configuration on standard error, and whether that is right.
fn check(directory: &Path, text: &str) -> (String, bool) {
    let path = directory.join("flyball.toml");
    std::fs::write(&path, text).expect("the configuration can be written");
    let output = Command::new(binary()).arg("check").arg("--config").arg(&path).output();
    let output = output.expect("it runs");
    (String::from_utf8_lossy(&output.stderr).into_owned(), output.status.success())
}

#[test]
fn check_gives_the_warnings_that_a_start_gives() {
    let directory = tempfile::tempdir().expect("a directory");
    let text = configured(
        directory.path(),
        "arch = \"sped\"\nmt.threads = 3\ncache.pin = \"*.css\"\nlog.keep = 3\n\
         log.slow-threshold = \"1s\"\nsend.buffer = \"512MiB\"\naccept.backlog = 65535",
    );
    // The file itself is beneath no root, as with a start.
    let beside = tempfile::tempdir().expect("a directory");
    let (said, is_right) = check(beside.path(), &text);
    assert!(is_right, "{said}");
    for warning in [
        "`mt.threads` has no meaning for sped and is ignored",
        "`cache.pin` has a meaning only with cache.policy = \"hinted\"",
        "`log.keep` has a meaning only with log.rotate-size or log.rotate-age",
        "`log.slow-threshold` has a meaning only with slow-log",
        "`site.user-id-min` has a meaning only with site.user-directories",
        "send.buffer is 536870912B, but net.core.wmem_max cuts it to ",
    ] {
        assert!(said.contains(warning), "{warning}: {said}");
    }
    let server = Launch::config(&*text).start().expect("it starts");
    let warnings = |said: &str| {
        let warnings = said.lines().filter(|line| line.starts_with("flyball: warning: "));
        warnings.map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(warnings(&said), warnings(&server.errors()));
}

#[test]
fn what_a_start_finds_wrong_has_its_line() {
    let directory = tempfile::tempdir().expect("a directory");
    for (line, error) in [
        (
            "access-log = \"/run/no-such-directory/access.log\"",
            "access-log: /run/no-such-directory/access.log: there is no directory \
             /run/no-such-directory; make it, or name another place",
        ),
        (
            "admin = \"unix:/run/no-such-directory/admin.sock\"",
            "admin: /run/no-such-directory/admin.sock: there is no directory \
             /run/no-such-directory; make it, or name another place",
        ),
    ] {
        let text = configured(directory.path(), &format!("arch = \"sped\"\n{line}"));
        let (said, is_right) = check(directory.path(), &text);
        assert!(is_right && said.contains(&format!("flyball.toml:2: {error}\n")), "{said}");
        let refused = Launch::config(text).start().expect_err("there is no such directory");
        assert_eq!(refused.code, Some(1), "{refused}");
        let expected = format!("flyball.toml:2: {error}\n");
        assert!(refused.errors.contains(&expected), "{refused}");
    }
}
