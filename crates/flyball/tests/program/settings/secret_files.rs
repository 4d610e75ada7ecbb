//! What the server reads and no client may have lies beneath no root of any site.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use flyball::settings::{Kind, Raw, SETTINGS, SITE_SETTINGS, SITE_TABLES, Setting};
use flyball_arch::Settings;
use flyball_site::SiteSettings;

use super::file::{errors, settings};

/// `ann:secret`, by a hash of the lowest cost.
const USERS: &str = "ann:$2y$04$ViUvEMhOIe9hKRT8ricqau0EnQEXaPe7Rz9cVB8fJof.xyY.s2pPy\n";

/// The keys that are wrong, and the roots that are blamed.
fn wrong(text: &str) -> Vec<(String, String)> {
    let told = errors(text).into_iter().map(|error| {
        let (key, rest) =
            error.split_once(": ").and_then(|(_, rest)| rest.split_once(": ")).unwrap();
        let (_, root) = rest.split_once(" lies beneath ").unwrap();
        let (root, _) = root.split_once(", which is shown: move it out of all roots").unwrap();
        (key.to_owned(), root.to_owned())
    });
    told.collect()
}

#[test]
fn users_beneath_a_root_of_any_site_or_a_directory_of_a_user_are_refused() {
    let directory = tempfile::tempdir().unwrap();
    let here = directory.path().canonicalize().unwrap().display().to_string();
    let at = |name: &str| format!("{here}/{name}");
    for name in ["srv/app", "srv/.kept", "srv/.well-known", "home/bob/public_html", "out"] {
        fs::create_dir_all(at(name)).unwrap();
    }
    let table = format!("bob:x:1001:1001::{here}/home/bob:/bin/sh\n");
    for name in ["srv", "srv/app", "srv/.kept", "srv/.well-known", "home/bob/public_html", "out"] {
        fs::write(at(&format!("{name}/users")), USERS).unwrap();
        fs::write(at(&format!("{name}/table")), &table).unwrap();
    }
    symlink(at("srv"), at("out/link")).unwrap();
    let site = |host: &str, root: &str, more: &str| {
        format!("[[site]]\nhosts = [{host:?}]\nroot = \"{here}/{root}\"\n{more}\n")
    };
    let users = |name: &str| format!("auth.file = \"{here}/{name}/users\"");
    let of_users = |table: &str| {
        format!("user-directories = \"public_html\"\nuser-table = \"{here}/{table}/table\"\n")
    };
    let alias = format!("[[site.alias]]\npath = \"/a\"\nroot = \"{here}/srv\"\n");
    let app = |more: &str| site("app", "srv/app", more);
    for (text, key, root) in [
        (site("*", "srv", &users("srv")), "site.auth.file", "srv"),
        (site("*", "srv", &users("out/link")), "site.auth.file", "srv"),
        (site("*", "out/link", &users("srv")), "site.auth.file", "out/link"),
        (site("*", "srv", "") + &app(&users("srv")), "site.auth.file", "srv"),
        (app(&users("srv")) + &site("*", "srv", ""), "site.auth.file", "srv"),
        (site("*", "home", &alias) + &app(&users("srv")), "site.auth.file", "srv"),
        (site("*", "srv", "hidden = true") + &app(&users("srv/.kept")), "site.auth.file", "srv"),
        // No name that is shown although it begins with a dot is hidden.
        (site("*", "srv", "") + &app(&users("srv/.well-known")), "site.auth.file", "srv"),
        (
            site("*", "srv", &(of_users("out") + &users("home/bob/public_html"))),
            "site.auth.file",
            "home/bob/public_html",
        ),
        (
            site("*", "srv", &of_users("out")) + &app(&users("home/bob/public_html")),
            "site.auth.file",
            "home/bob/public_html",
        ),
        (site("*", "srv/app", &of_users("srv/app")), "site.user-table", "srv/app"),
        (site("*", "srv", "") + &app(&of_users("srv")), "site.user-table", "srv"),
    ] {
        assert_eq!(wrong(&text), [(key.to_owned(), at(root))], "{text}");
    }
    for text in [
        site("*", "srv", &users("out")),
        site("*", "srv", &users("srv/.kept")) + &app(&users("srv/.kept")),
        app(&(of_users("srv") + &users("srv"))),
        // No user directory is shown, so no table is read.
        site("*", "srv", &format!("user-table = \"{here}/srv/table\"")),
    ] {
        settings(&text);
    }
}

/// Settings that name a path with nothing in it that the server alone may know: what is public,
/// what is executed, and what it only writes.
const OPEN: [&str; 17] = [
    "acme.ca-root",
    "pid-file",
    "spool.directory",
    "tls.client-ca",
    "tls.client-crl",
    "site.alias.root",
    "site.cgi.program",
    "site.cgi.root",
    "site.fastcgi.program",
    "site.fastcgi.root",
    "site.fastcgi.script",
    "site.module.library",
    "site.root",
    "site.scgi.root",
    "site.scgi.script",
    "site.tls.client-ca",
    "site.tls.client-crl",
];

/// The keys beneath `above` that name a path, of which nothing is kept from clients.
fn open_keys<T>(
    settings: &'static [Setting<T>],
    above: &str,
    new: impl Fn() -> T,
    kept: impl Fn(&T) -> Vec<PathBuf>,
) -> Vec<String> {
    let is_open = |setting: &&Setting<T>| {
        let mut target = new();
        let path = Path::new("/somewhere").join(setting.key);
        let raw = Raw::Text(path.to_str().unwrap().into());
        setting.apply(&mut target, &raw, Path::new("")).unwrap();
        !kept(&target).contains(&path)
    };
    let paths = settings.iter().filter(|setting| matches!(setting.kind, Kind::Path { .. }));
    paths.filter(is_open).map(|setting| format!("{above}{}", setting.key)).collect()
}

#[test]
fn each_setting_that_names_a_path_is_kept_from_clients_or_known_to_hold_no_secret() {
    let server = || {
        let mut settings = Settings::default();
        settings.tls.acme.is_written = true;
        settings
    };
    let site = || {
        let mut site = SiteSettings::default();
        site.routes.user_directories = Some("public_html".into());
        site
    };
    let of_server = |settings: &Settings| {
        settings.tls.secrets().iter().map(|secret| secret.path.to_owned()).collect()
    };
    let of_site =
        |site: &SiteSettings| site.secrets().map(|secret| secret.path.to_owned()).collect();
    let mut open = open_keys(SETTINGS, "", server, of_server);
    open.extend(open_keys(SITE_SETTINGS, "site.", site, of_site));
    for table in SITE_TABLES {
        let begun = || {
            let mut site = site();
            (table.begin)(&mut site);
            site
        };
        open.extend(open_keys(table.settings, &format!("site.{}.", table.key), begun, of_site));
    }
    let mut known = OPEN.map(str::to_owned);
    open.sort_unstable();
    known.sort_unstable();
    assert_eq!(open, known);
}
