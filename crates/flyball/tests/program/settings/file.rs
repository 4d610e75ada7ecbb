//! What a configuration file may say, and what is said about a wrong one.

use std::path::{Path, PathBuf};

use flyball::settings::{ERRORS_MAX, Origin, SettingError};
use flyball::settings::{parse, read, resolve_in};
use flyball_arch::{AcceptLimit, AccessLog, AdminPlace, Events, SendMode, Settings};
use flyball_site::Symlinks;
use flyball_site::routes::{RedirectSettings, RouteSettings};
use flyball_sys::net::Endpoint;

const ARCHITECTURES: [&str; 3] = ["n-copy", "sped", "symped"];

/// A site that is right, whose root is a directory of this crate.
pub(crate) const SITE: &str = "\n[[site]]\nroot = \"src\"\n";

fn environment(name: &str) -> Option<String> {
    match name {
        "LIMIT" => Some("0.5".into()),
        "ON" => Some("true".into()),
        "ROOT" => Some("src".into()),
        _ => None,
    }
}

pub(crate) fn resolve(text: &str) -> Result<Settings, Vec<SettingError>> {
    let typed = parse(Path::new("flyball.toml").into(), text)?;
    resolve_in(&typed, &ARCHITECTURES, &environment)
}

/// The settings of a file that is right.
pub(crate) fn settings(text: &str) -> Settings {
    resolve(text).unwrap_or_else(|errors| panic!("{text}\n{errors:#?}"))
}

/// The errors of a file, as they are printed, but for the current directory in front of paths.
pub(crate) fn errors(text: &str) -> Vec<String> {
    let errors = resolve(text).expect_err(text);
    let here = format!("{}/", here("").display().to_string().trim_end_matches('/'));
    errors.iter().map(|error| error.to_string().replace(&here, "")).collect()
}

/// The errors of one line, followed by a site that is right.
pub(crate) fn line_errors(line: &str) -> Vec<String> {
    errors(&format!("{line}{SITE}"))
}

/// A name that the file says, as a path: absolute, since programs are told of it too.
fn here(name: &str) -> PathBuf {
    std::env::current_dir().unwrap().join(name)
}

#[test]
fn every_kind_of_value_is_stored() {
    let text = r#"
arch = "sped"
workers = 0x4
pin = true
listen = [8080, ":8081", "127.0.0.1:80", "[::1]:80", "localhost:81"]
events = "epoll-edge"
drain = "1min"
admin = "unix:admin.sock"
access-log = "access.log"
accept.limit = inf
accept.eager-read = false
tcp.congestion = "reno"
[send]
mode = "sendfile"
piece = 4096
[limit]
head = "32KiB"
[connections]
max = "1000"
"#;
    let settings = settings(&format!("{text}{SITE}"));
    assert_eq!(settings.arch, "sped");
    assert_eq!(settings.workers, Some(4));
    assert!(settings.pin && !settings.eager_read);
    let listen: Vec<String> = settings.listen.iter().map(ToString::to_string).collect();
    let expected = ["[::]:8080", "[::]:8081", "127.0.0.1:80", "[::1]:80", "127.0.0.1:81"];
    assert_eq!(listen, expected);
    assert_eq!(settings.running.port_tries, 0);
    assert_eq!(settings.events, Events::EpollEdge);
    assert_eq!(settings.drain_ms, 60_000);
    assert_eq!(settings.admin, [AdminPlace::At(Endpoint::Unix(here("admin.sock")))]);
    assert_eq!(settings.access_log, AccessLog::File(here("access.log")));
    assert_eq!(settings.accept_limit, AcceptLimit::Infinite);
    assert_eq!(settings.congestion.as_deref(), Some("reno"));
    assert_eq!(settings.send, SendMode::Sendfile);
    assert_eq!(settings.piece_bytes, 4096);
    assert_eq!(settings.limits.head_bytes_max, 32 * 1024);
    assert_eq!(settings.max_connections, Some(1000));
}

#[test]
fn a_site_has_settings_of_its_own() {
    let settings = settings(
        r#"
[[site]]
hosts = ["Example.org", "*.example.org", "[::1]"]
root = "src"
index = ["a.html", "b.html"]
listing = true
hidden = true
symlinks = "follow"
charset = "none"
digest-path = "/digest"
[site.types]
MD = "text/markdown"
log = "text/plain; charset=utf-8"
[[site]]
root = "tests"
index = []
symlinks = "deny"
"#,
    );
    let [first, second] = settings.sites.as_slice() else { panic!("{settings:?}") };
    assert_eq!(first.hosts, ["example.org", "*.example.org", "[::1]"]);
    assert_eq!(first.root, Some(here("src")));
    assert_eq!(first.index, ["a.html", "b.html"]);
    assert!(first.listing && first.hidden);
    assert_eq!(first.symlinks, Symlinks::Follow);
    assert_eq!(first.charset, "");
    assert_eq!(first.digest_path.as_deref(), Some("/digest"));
    let types = [("md", "text/markdown"), ("log", "text/plain; charset=utf-8")];
    assert_eq!(first.types, types.map(|(e, t)| (e.to_owned(), t.to_owned())));
    assert_eq!(second.hosts, ["*"]);
    assert!(second.index.is_empty() && !second.listing);
    assert_eq!(second.symlinks, Symlinks::Deny);
}

#[test]
fn an_error_names_file_line_key_and_the_nearest_key() {
    assert_eq!(
        errors(&format!("# a comment\n\n[accept]\nlimt = 4\n{SITE}")),
        ["flyball.toml:4: accept.limt: unknown key; did you mean accept.limit?"]
    );
    for (line, error) in [
        ("eager-read = true", "eager-read: unknown key; did you mean accept.eager-read?"),
        ("worker = 2", "worker: unknown key; did you mean workers?"),
        ("[limits]\nhead = 1", "limits.head: unknown key; did you mean limit.head?"),
        ("[[sites]]\nroot = \"src\"", "sites: unknown key; did you mean site?"),
        ("[acept]", "acept: unknown key; did you mean accept?"),
        ("banana = 1", "banana: unknown key"),
        ("workers.count = 1", "workers.count: unknown key"),
        ("\"a\\nb\" = 1", "\"a\\nb\": unknown key"),
        ("\"accept.limit\" = 1", "\"accept.limit\": unknown key; did you mean accept.limit?"),
        (
            "send = 1",
            "send: is a table with the keys mode, quiet, piece, blocking, no-delay, buffer",
        ),
    ] {
        let found = line_errors(line);
        assert_eq!(found.len(), 1, "{line}: {found:?}");
        let (place, rest) = found[0].split_once(": ").unwrap();
        assert!(place == "flyball.toml:1" || place == "flyball.toml:2", "{place}");
        assert_eq!(rest, error);
    }
}

#[test]
fn an_error_tells_what_was_expected_and_what_was_found() {
    let workers = "an integer from 1 to 1024, or auto";
    let limit = "a number from 0.001 to 1000000, inf or auto";
    let congestion = "the name of a congestion control such as cubic, or system";
    for (line, expected, found) in [
        ("limit.head = \"banana\"", "a size such as 64KiB", "\"banana\""),
        ("limit.head = true", "a size such as 64KiB", "true"),
        ("limit.head = -1", "a size such as 64KiB", "-1"),
        ("limit.head = \"2MiB\"", "a size from 256B to 1MiB", "\"2MiB\""),
        ("send.piece = 0", "a size from 1B to 1GiB", "0"),
        ("limit.pipeline = 0", "an integer from 1 to 1024", "0"),
        ("limit.fields = 1.5", "an integer from 1 to 128", "1.5"),
        ("limit.fields = 129", "an integer from 1 to 128", "129"),
        ("workers = \"many\"", workers, "\"many\""),
        ("workers = []", workers, "an empty list"),
        ("drain = 30", "a duration such as 250ms, 10s, 5min, 1h or 365d", "30"),
        ("timeout.idle = 0", "a duration from 1ms to 168h", "0"),
        ("pin = 1", "true or false", "1"),
        ("pin = \"maybe\"", "true or false", "\"maybe\""),
        ("events = \"kqueue\"", "select, poll, epoll or epoll-edge", "\"kqueue\""),
        ("accept.limit = 0", limit, "0"),
        ("accept.limit = nan", limit, "nan"),
        ("tcp.congestion = \"a b\"", congestion, "\"a b\""),
        ("access-log = \"\"", "a path, or -, or off", "\"\""),
        ("arch = 1979-05-27", "the name of an architecture", "1979-05-27"),
    ] {
        let key = line.split(' ').next().unwrap();
        let error = format!("flyball.toml:1: {key}: expected {expected}, found {found}");
        assert_eq!(line_errors(line), [error], "{line}");
    }
}

#[test]
fn a_field_that_there_is_none_of_is_told_with_the_nearest() {
    let form = "common, combined, json, or a text with fields such as $remote_addr and \
                $http_referer";
    for (format, expected, found) in [
        ("$reqest $status", "a field such as $request", "$reqest"),
        ("$remoteaddr!", "a field such as $remote_addr", "$remoteaddr"),
        ("$duration", "a field such as $duration_us", "$duration"),
        ("$status $xyzzy", form, "$xyzzy"),
        ("combine", form, "\"combine\""),
        ("$status\\n", form, "\"$status\\n\""),
    ] {
        let error = format!("flyball.toml:1: log.format: expected {expected}, found {found}");
        assert_eq!(line_errors(&format!("log.format = \"{format}\"")), [error], "{format}");
    }
    let form = "a list, each item an address, a network such as 10.0.0.0/8 or fd00::/8, or unix, \
                or nobody";
    for (line, found) in [
        ("client.trusted = [\"10.0.0.0/8\", \"10.0.0.1/8\"]", "\"10.0.0.1/8\""),
        ("client.trusted = \"proxy.test\"", "\"proxy.test\""),
    ] {
        let error = format!("flyball.toml:1: client.trusted: expected {form}, found {found}");
        assert_eq!(line_errors(line), [error]);
    }
}

#[test]
fn an_error_in_a_list_shows_the_item() {
    let expected = "expected an address such as 8080, :8080, 127.0.0.1:80, [::1]:80 or \
                    localhost:80";
    for (line, rest) in [
        (
            "listen = [80, \"x\"]",
            ", or unix:PATH, perhaps with https:// before it, or a list of them, or auto, found \"x\"",
        ),
        (
            "listen = \"80, 70000\"",
            ", or unix:PATH, perhaps with https:// before it, or a list of them, or auto, found \"70000\"",
        ),
        (
            "listen = []",
            ", or unix:PATH, perhaps with https:// before it, or a list of them, or auto, found an empty list",
        ),
        (
            "admin = \"unix:\"",
            ", or unix:PATH, or auto, or a list of them, or off, found \"unix:\"",
        ),
    ] {
        let key = line.split(' ').next().unwrap();
        assert_eq!(line_errors(line), [format!("flyball.toml:1: {key}: {expected}{rest}")]);
    }
}

#[test]
fn a_wrong_value_of_a_site_names_its_key() {
    let hosts = "a list, each item a host such as example.org, *.example.org, [::1] or *";
    let types = "a table of media types by extension such as { md = \"text/markdown\" }, or none";
    for (line, expected, found) in [
        ("hosts = []", hosts, "an empty list"),
        ("hosts = [\"a\", \"b:80\"]", hosts, "\"b:80\""),
        ("index = [\"../x\"]", "a list, each item a file name", "\"../x\""),
        ("symlinks = \"none\"", "deny, beneath or follow", "\"none\""),
        ("charset = \"a\\r\\nb\"", "the name of a charset, or none", "\"a\\r\\nb\""),
        ("digest-path = \"d\"", "an absolute path such as /digest, or off", "\"d\""),
        ("types = { md = 1 }", types, "\"md\" = 1"),
        ("types = 1", types, "1"),
    ] {
        let key = line.split(' ').next().unwrap();
        let error = format!("flyball.toml:4: site.{key}: expected {expected}, found {found}");
        assert_eq!(errors(&format!("{SITE}{line}")), [error], "{line}");
    }
}

#[test]
fn an_old_key_of_an_experiment_is_an_error_that_names_the_new_one() {
    for (line, why) in [
        ("lab.path-cache = false", "is gone; write cache.paths = 0, where it was false"),
        (
            "lab.copy-loop = true",
            "is gone; write cache.content = 0 and send.mode = \"copy\", where",
        ),
        ("lab.gather = false", "is experiment.gather now"),
        ("lab.head-align = 32", "is experiment.head-align now"),
        ("accept.on-close = true", "is experiment.accept-on-close now"),
    ] {
        let key = line.split(' ').next().unwrap();
        let [found] = line_errors(line).try_into().expect("one error");
        assert!(found.starts_with(&format!("flyball.toml:1: {key}: {why}")), "{found}");
    }
    for (lines, error) in [
        ("[send]\ncork = true", "flyball.toml:2: send.cork: is experiment.cork now"),
        ("[work]\norder = \"up\"", "flyball.toml:2: work.order: is experiment.work-order now"),
    ] {
        assert_eq!(line_errors(lines), [error]);
    }
}

#[test]
fn an_unknown_key_of_a_site_gets_the_nearest_or_its_place() {
    let elsewhere =
        |key: &str| format!("unknown key of a site; {key} belongs above the first [[site]] table");
    for (line, why) in [
        ("rot = 1", "unknown key; did you mean site.root?".to_owned()),
        (
            "listn = 1",
            "unknown key; did you mean site.listing, or listen above the first [[site]] table?"
                .to_owned(),
        ),
        ("workers = 1", elsewhere("workers")),
        ("accept = { limit = 1 }", elsewhere("accept")),
    ] {
        let key = line.split(' ').next().unwrap();
        let error = format!("flyball.toml:4: site.{key}: {why}");
        assert_eq!(errors(&format!("{SITE}{line}")), [error], "{line}");
    }
}

#[test]
fn tables_below_a_site_are_read_in_their_order() {
    let settings = settings(
        r#"
[[site]]
root = "src"
languages = ["de", "pt-BR"]
fallback = "/lib.rs"
[[site.redirect]]
from = "/old/*"
to = "/new/$1"
[[site.redirect]]
from = '~^/user/(\d+)$'
to = "https://people.test/$1"
status = 308
[site.error-page]
404 = "Cargo.toml"
500 = "Cargo.toml"
[[site.header]]
path = "/a/*"
type = "image/*"
set = { X = "1", Y = "${ON}" }
remove = ["X-Powered-By"]
[site.header.add]
Z = "3"
[[site.alias]]
path = "/tests"
root = "tests"
[[site]]
root = "tests"
hosts = "b"
redirect = [{ from = "/a", to = "/b", status = 301 }]
"#,
    );
    let [first, second] = settings.sites.as_slice() else { panic!("{settings:?}") };
    let redirects = |routes: &RouteSettings| -> Vec<(String, String, u16)> {
        let rule = |r: &RedirectSettings| (r.from.clone(), r.to.clone(), r.status);
        routes.redirects.iter().map(rule).collect()
    };
    let rule = |from: &str, to: &str, status| (from.to_owned(), to.to_owned(), status);
    let expected =
        [rule("/old/*", "/new/$1", 302), rule(r"~^/user/(\d+)$", "https://people.test/$1", 308)];
    assert_eq!(redirects(&first.routes), expected);
    assert_eq!(redirects(&second.routes), [rule("/a", "/b", 301)]);
    let pages = [(404, here("Cargo.toml")), (500, here("Cargo.toml"))];
    assert_eq!(first.routes.error_pages, pages);
    let [header] = first.routes.headers.as_slice() else { panic!("{first:?}") };
    assert_eq!((&*header.path, header.media_type.as_deref()), ("/a/*", Some("image/*")));
    let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
    assert_eq!(header.set, [pair("X", "1"), pair("Y", "true")]);
    assert_eq!(header.add, [pair("Z", "3")]);
    assert_eq!(header.remove, ["X-Powered-By"]);
    assert_eq!(first.routes.aliases[0].root, here("tests"));
    assert_eq!(first.routes.languages, ["de", "pt-BR"]);
    assert_eq!(first.routes.fallback.as_deref(), Some("/lib.rs"));
}

/// Each of these lines below a site that is right has this one error, with its line.
#[track_caller]
pub(crate) fn told_of_a_site(table: &[(&str, &str)]) {
    for (lines, error) in table {
        let expected = format!("flyball.toml:{error}");
        assert_eq!(errors(&format!("{SITE}{lines}\n")), [expected], "{lines}");
    }
}

#[test]
fn an_unknown_key_of_a_table_below_a_site_names_the_nearest() {
    told_of_a_site(&[
        (
            "[[site.redirect]]\nform = \"/a\"\nfrom = \"/a\"\nto = \"/b\"",
            "5: site.redirect.form: unknown key; did you mean site.redirect.from?",
        ),
        (
            "[[site.redirects]]\nfrom = \"/a\"",
            "4: site.redirects: unknown key; did you mean site.redirect?",
        ),
        (
            "[[site.redirect]]\nfrom = \"/a\"\nto = \"/b\"\nlisting = true",
            "7: site.redirect.listing: unknown key of a redirect; listing belongs to the site, \
             above its first [[site.redirect]] table",
        ),
        (
            "[[site.redirect]]\nfrom = \"/a\"\nto = \"/b\"\nbanana = 1",
            "7: site.redirect.banana: unknown key; a redirect has the keys from, to, status",
        ),
        (
            "[[site.redirect]]\nfrom = \"/a\"",
            "4: site.redirect.to: is missing: target; `$1` is what the star or the first group \
             matched",
        ),
        (
            "[site.redirect]\nfrom = \"/a\"",
            "4: site.redirect: is written as [[site.redirect]] \
          tables",
        ),
        ("redirect = 1", "4: site.redirect: is written as [[site.redirect]] tables"),
        ("pretty-url = true", "4: site.pretty-url: unknown key; did you mean site.pretty-urls?"),
    ]);
}

#[test]
fn a_wrong_redirect_or_rewrite_names_its_line_and_key() {
    told_of_a_site(&[
        (
            "[[site.redirect]]\nfrom = \"/a\"\nto = \"/b\"\nstatus = 304",
            "7: site.redirect.status: expected 301, 302, 303, 307 or 308, found 304",
        ),
        (
            "[[site.redirect]]\nfrom = \"a\"\nto = \"/b\"",
            "5: site.redirect.from: expected a path such as /old, /old/* or ~^/old/(\\d+)$, found \
             \"a\"",
        ),
        (
            "[[site.redirect]]\nfrom = \"~(\"\nto = \"/b\"",
            "5: site.redirect.from: the regular expression is wrong: unclosed group",
        ),
        (
            "[[site.redirect]]\nfrom = \"/a\"\nto = \"//evil.test\"",
            "6: site.redirect.to: expected a path or URL such as /new/$1 or \
             https://example.org/$1, found \"//evil.test\"",
        ),
        (
            "[[site.redirect]]\nfrom = \"/a/*\"\nto = \"/a/b/$1\"",
            "6: site.redirect.to: leads round in a circle: /a/* would have no end",
        ),
        (
            "[[site.rewrite]]\nfrom = \"/a\"\nto = \"/#\"",
            "6: site.rewrite.to: expected a path such as /new/$1 or /index.php?id=$1, found \"/#\"",
        ),
    ]);
}

#[test]
fn a_wrong_rule_for_fields_names_its_line_and_key() {
    told_of_a_site(&[
        (
            "[[site.header]]\n[site.header.set]\nX = \"1\"\nContent-Length = \"3\"",
            "7: site.header.set: expected another field than Content-Length, which tells where \
             the body ends, or none, found \"Content-Length\" = \"3\"",
        ),
        (
            "[[site.header]]\nset = { X = 1 }",
            "5: site.header.set: expected a table of fields such as { X-Frame-Options = \"DENY\" \
             }, or none, found \"X\" = 1",
        ),
        (
            "[[site.header]]\nset = { X = \"a\\r\\nb\" }",
            "5: site.header.set: expected a value in one line, without control characters, or \
             none, found \"X\" = \"a\\r\\nb\"",
        ),
        (
            "[[site.header]]\nremove = [\"Date\"]",
            "5: site.header.remove: expected another field than Date, which is the time of the \
             answer",
        ),
        (
            "[[site.header]]\npath = \"/x\"",
            "5: site.header.path: says nothing: a header needs set, add or remove",
        ),
        (
            "[[site.header]]\ntype = \"html\"\nset.X = \"1\"",
            "5: site.header.type: expected a media type such as text/html or image/*, or any, \
             found \"html\"",
        ),
    ]);
}

#[test]
fn wrong_pages_languages_and_aliases_name_their_line_and_key() {
    told_of_a_site(&[
        (
            "[site.error-page]\n404 = \"Cargo.toml\"\n500 = \"src\"",
            "6: site.error-page: src is not a file",
        ),
        (
            "[site.error-page]\nmissing = \"x\"",
            "5: site.error-page: expected a table of files by status from 400 to 599 such as { \
             404 = \"404.html\" }, or none, found \"missing\" = \"x\"",
        ),
        (
            "languages = [\"de\", \"../x\"]",
            "4: site.languages: expected a list, each item a \
          language tag such as de or pt-BR, or off, found \"../x\"",
        ),
        ("languages = [\"de\", \"De\"]", "4: site.languages: De is listed twice"),
        (
            "[[site.alias]]\npath = \"/x\"\nroot = \"Cargo.toml\"",
            "6: site.alias.root: Cargo.toml is not a directory",
        ),
    ]);
    let missing = errors(&format!("{SITE}[site.error-page]\n404 = \"none.html\"\n"));
    let begins = "flyball.toml:5: site.error-page: none.html cannot be found: ";
    assert!(missing[0].starts_with(begins), "{missing:?}");
}

#[test]
fn variables_come_from_the_environment() {
    let settings = settings(
        r#"
accept.limit = "${LIMIT}"
pin = "${ON}"
workers = "${WORKERS:-3}"
access-log = "$${x}"
[[site]]
root = "${ROOT}"
hosts = ["${HOST:-a}"]
types = { md = "text/${KIND:-markdown}" }
"#,
    );
    assert_eq!(settings.accept_limit, AcceptLimit::At(0.5));
    assert!(settings.pin);
    assert_eq!(settings.workers, Some(3));
    assert_eq!(settings.access_log, AccessLog::File(here("${x}")));
    assert_eq!(settings.sites[0].root, Some(here("src")));
    assert_eq!(settings.sites[0].hosts, ["a"]);
    assert_eq!(settings.sites[0].types, [("md".to_owned(), "text/markdown".to_owned())]);
}

#[test]
fn a_missing_variable_is_named() {
    assert_eq!(
        line_errors("workers = \"${WORKERS}\""),
        ["flyball.toml:1: workers: the environment variable WORKERS is not set and has no default"]
    );
    assert_eq!(
        line_errors("listen = [\"80\", \"${PORT\"]"),
        ["flyball.toml:1: listen: `${` is not closed by `}`"]
    );
    // What a variable brought in is wrong in the same words as if it stood there.
    assert_eq!(
        line_errors("workers = \"${LIMIT}\""),
        ["flyball.toml:1: workers: expected an integer from 1 to 1024, or auto, found \"0.5\""]
    );
}

#[test]
fn an_unknown_architecture_gets_the_nearest_name() {
    assert_eq!(
        line_errors("arch = \"spd\""),
        ["flyball.toml:1: arch: there is no architecture \"spd\"; did you mean sped?"]
    );
    assert_eq!(
        line_errors("arch = \"apache\""),
        ["flyball.toml:1: arch: there is no architecture \"apache\""]
    );
}

#[test]
fn an_address_is_listed_once() {
    assert_eq!(
        line_errors("listen = [\"[::1]:80\", \"8080\", \"[::]:8080\"]"),
        ["flyball.toml:1: listen: [::]:8080 is listed twice"]
    );
    assert_eq!(
        line_errors("listen = 8080\nadmin = \":8080\""),
        ["flyball.toml:2: admin: [::]:8080 is an address of `listen` too"]
    );
    assert_eq!(settings(&format!("listen = [0, 0]{SITE}")).listen.len(), 2);
}

#[test]
fn a_host_belongs_to_one_site() {
    let site = |hosts: &str| format!("[[site]]\nroot = \"src\"\nhosts = {hosts}\n");
    assert_eq!(
        errors(&format!("{}{}", site("[\"a\", \"b\"]"), site("[\"c\", \"B.\"]"))),
        ["flyball.toml:6: site.hosts: b. is claimed already, at flyball.toml:3"]
    );
    assert_eq!(
        errors(&format!("{SITE}{}", site("\"*\""))),
        ["flyball.toml:6: site.hosts: there is a default site (hosts `*`) already, at \
          flyball.toml:2"]
    );
    assert_eq!(settings(&format!("{}{SITE}", site("[\"a\", \"*.a\"]"))).sites.len(), 2);
}

#[test]
fn a_root_is_a_directory_that_is_there() {
    let root = |root: &str| errors(&format!("[[site]]\nroot = {root}\n"));
    let missing = root("\"no-such-directory\"");
    assert_eq!(missing.len(), 1);
    assert!(
        missing[0].starts_with("flyball.toml:2: site.root: no-such-directory cannot be found: "),
        "{missing:?}"
    );
    assert_eq!(
        root("\"Cargo.toml\""),
        ["flyball.toml:2: site.root: Cargo.toml is not a directory"]
    );
    assert_eq!(root("3"), ["flyball.toml:2: site.root: expected a path, or none, found 3"]);
    assert_eq!(errors("\n[[site]]\nlisting = true"), [format!("flyball.toml:2: {MISSING}")]);
}

const MISSING: &str = "site.root: is missing: the directory that is served; only a site of nothing \
                       but redirects and returns may leave it out";

#[test]
fn a_site_of_redirects_and_returns_alone_needs_no_root() {
    let redirect = "[[site]]\nhosts = \"a\"\nredirect = [{ from = \"/*\", to = \"/b/$1\" }]\n";
    let redirect = redirect.replace("/b/$1", "https://b.example/$1");
    let gone = "[[site]]\nroot = \"none\"\nreturn = [{ match = \"/*\", status = 410 }]\n";
    let found = settings(&format!("{redirect}{gone}")).sites;
    assert!(found.iter().all(|site| site.root.is_none()) && found.len() == 2);
    for more in [
        "listing = true",
        "fallback = \"/x\"",
        "rewrite = [{ from = \"/a\", to = \"/b\" }]",
        "alias = [{ path = \"/a\", root = \"src\" }]",
        "module = [{ path = \"/a\", name = \"hello\" }]",
        "cgi = [{ path = \"/a\", program = \"/bin/true\" }]",
        "user-directories = \"public_html\"",
    ] {
        let errors = errors(&format!("{redirect}{more}\n"));
        assert_eq!(errors, [format!("flyball.toml:1: {MISSING}")], "{more}");
    }
    assert_eq!(errors("[[site]]\nroot = \"none\"\n"), [format!("flyball.toml:2: {MISSING}")]);
}

/// Errors of a site that has these lines; `USERS` in them is a file of users with this text.
fn access_errors(users: &str, lines: &str) -> Vec<String> {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(&file, users).unwrap();
    let path = file.path().display().to_string();
    let text = format!("{SITE}{}\n", lines.replace("USERS", &path));
    errors(&text).into_iter().map(|error| error.replace(&path, "USERS")).collect()
}

#[test]
fn a_wrong_file_of_users_is_told_with_its_line_and_with_what_to_run() {
    assert_eq!(
        access_errors("# users\nann:{SHA}x=\nbob:secret\n", "auth.file = \"USERS\""),
        [
            "USERS:2: site.auth.file: user \"ann\": the password is hashed by SHA-1, which is not \
             accepted; run: htpasswd -B USERS ann",
            "USERS:3: site.auth.file: user \"bob\": the password is plain text, which is not \
             accepted; run: htpasswd -B USERS bob",
        ]
    );
    assert_eq!(
        access_errors("", "auth.file = \"USERS\""),
        ["flyball.toml:4: site.auth.file: USERS names no user; run: htpasswd -B USERS USER"]
    );
    let missing = access_errors("", "auth.file = \"/nowhere/users\"");
    assert!(
        missing[0].starts_with("flyball.toml:4: site.auth.file: /nowhere/users cannot be read: ")
    );
    assert_eq!(
        access_errors("", "auth.paths = [\"/in\"]"),
        ["flyball.toml:4: site.auth.paths: does nothing without auth.file, which says who may \
          log in"]
    );
}

#[test]
fn access_that_would_protect_something_else_is_refused() {
    for (line, expected) in [
        ("allow = [\"10.0.0.1/8\"]", "found \"10.0.0.1/8\""),
        ("deny = \"localhost\"", "found \"localhost\""),
        ("auth.paths = [\"/a/../..\"]", "found \"/a/../..\""),
        ("auth.paths = [\"in\"]", "found \"in\""),
        ("auth.paths = []", "found"),
        ("auth.realm = 'a \"b\"'", "expected text without quotes"),
        ("auth.fle = \"x\"", "did you mean site.auth.file?"),
        ("[[site.access]]\nallow = \"::1\"", "site.access.path: is missing"),
        ("[[site.access]]\nmatch = \"~(\"", "site.access.match: the regular expression is wrong"),
        ("[[site.access]]\nmatch = \"/a/*/b\"", "site.access.match: a star can only be the last"),
        (
            "[[site.access]]\npath = \"/a\"\nmatch = \"/a\"",
            "flyball.toml:6: site.access.match: stands beside `path`: only one says what",
        ),
        ("[[site.return]]\nstatus = 404", "flyball.toml:4: site.return.path: is missing"),
        ("[[site.return]]\nmatch = \"~(\"", "flyball.toml:5: site.return.match: the regular"),
        ("[[site.return]]\npath = \"/a\"\nstatus = 301", "expected 403, 404 or 410, found 301"),
        ("[[site.access]]\npath = \"/a\"\nalow = \"::1\"", "did you mean site.access.allow?"),
    ] {
        let errors = errors(&format!("{SITE}{line}\n"));
        assert!(errors[0].starts_with("flyball.toml:"), "{errors:?}");
        assert!(errors[0].contains(expected), "{line}: {errors:?}");
    }
}

#[test]
fn access_is_read_with_its_paths() {
    let text = format!(
        "{SITE}allow = [\"10.0.0.0/8\", \"::1\"]\n[[site.access]]\npath = \"/a\"\n\
         [[site.access]]\npath = \"/b\"\ndeny = \"192.0.2.1\"\n"
    );
    let access = settings(&text).sites.remove(0).access;
    assert_eq!((access.admission.allow.len(), access.admission.deny.len()), (2, 0));
    assert!(access.rules.iter().map(|rule| rule.path.as_deref()).eq([Some("/a"), Some("/b")]));
    assert!(access.rules[0].admission.is_open() && !access.rules[1].admission.is_open());
    for (table, path) in [("access", "/a "), ("access", "/a\u{a0}"), ("return", "/a\\t")] {
        let found = errors(&format!("{SITE}[[site.{table}]]\npath = \"{path}\"\n"));
        assert!(found[0].contains("an absolute path"), "{found:?}");
    }
}

#[test]
fn sites_are_an_array_of_tables() {
    let expected = ": site: sites are written as [[site]] tables in a file";
    for text in ["[site]\nroot = \"src\"", "site = 1", "site = [1, { root = \"src\" }]"] {
        let found = errors(&format!("{text}\n"));
        assert!(found.contains(&format!("flyball.toml:1{expected}")), "{found:?}");
    }
    assert_eq!(settings("site = [{ root = \"src\" }]").sites.len(), 1);
    assert_eq!(
        errors("workers = 2"),
        ["flyball.toml: site: there is no [[site]] table, and no DIR is given to be served"]
    );
}

#[test]
fn an_empty_table_of_a_known_name_is_no_error() {
    assert_eq!(settings(&format!("[accept]\n[limit]\n{SITE}")).sites.len(), 1);
}

#[test]
fn syntax_errors_carry_their_line() {
    for (text, line) in [
        ("a = 1\nb = = 2\n", 2),
        ("workers = 2\n\n[accept\nlimit = 3\n", 3),
        ("a = 1\na = 2\n", 2),
        ("x = \"open\n", 1),
        ("[accept]\nlimit = 1\n[accept]\n", 3),
        ("workers = 01\n", 1),
    ] {
        let found = errors(text);
        assert!(found[0].starts_with(&format!("flyball.toml:{line}: ")), "{text:?}: {found:?}");
        assert!(found.iter().all(|error| !error.contains('\n')), "{found:?}");
    }
    // One error for each broken line.
    assert_eq!(errors("a = = 1\nb = 2\nc = = 3\n").len(), 2);
}

#[test]
fn errors_come_together_in_the_order_of_lines() {
    let found = errors("[limit]\nhead = 1\n[[site]]\nroot = \"src\"\nx = 1\n[accept]\nlimit = 0\n");
    let lines: Vec<&str> = found.iter().map(|error| &error[..15]).collect();
    assert_eq!(lines, ["flyball.toml:2:", "flyball.toml:5:", "flyball.toml:7:"]);
}

#[test]
fn at_most_twenty_errors_are_reported() {
    let unknown: String = (0..100).map(|n| format!("unknown-{n} = 1\n")).collect();
    let found = errors(&format!("{unknown}{SITE}"));
    assert_eq!(found.len(), ERRORS_MAX);
    assert!(found[0].starts_with("flyball.toml:1: ") && found[19].starts_with("flyball.toml:20: "));
    let broken: String = (0..100).map(|_| "a = = 1\n").collect();
    assert_eq!(errors(&broken).len(), ERRORS_MAX);
}

#[test]
fn relative_paths_start_from_the_file() {
    let directory = tempfile::tempdir().unwrap();
    std::fs::create_dir(directory.path().join("www")).unwrap();
    let path = directory.path().join("flyball.toml");
    let text = "access-log = \"access.log\"\nadmin = \"unix:a\"\n[[site]]\nroot = \"www\"\n";
    std::fs::write(&path, text).unwrap();
    let settings = resolve_in(&read(&path).unwrap(), &ARCHITECTURES, &environment).unwrap();
    assert_eq!(settings.sites[0].root, Some(directory.path().join("www")));
    assert_eq!(settings.access_log, AccessLog::File(directory.path().join("access.log")));
    assert_eq!(settings.admin, [AdminPlace::At(Endpoint::Unix(directory.path().join("a")))]);
}

#[test]
fn an_error_carries_key_value_and_origin_apart() {
    let errors = resolve(&format!("limit.head = \"banana\"{SITE}")).unwrap_err();
    let expected = SettingError {
        key: "limit.head".into(),
        value: Some("banana".into()),
        why: "expected a size such as 64KiB, found \"banana\"".into(),
        origin: Origin::File { path: Path::new("flyball.toml").into(), line: Some(1) },
    };
    assert_eq!(errors, [expected]);
}
