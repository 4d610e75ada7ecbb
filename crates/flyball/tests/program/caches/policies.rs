//! Caching policies in a running server: what is brought in before anybody asks, what goes first,
//! and what is said where a policy has no meaning.
use crate::common::{Launch, Server, Site, get, wait_for};
use flyball_arch::ALL;
use flyball_testkit::skip;

const PAGE: &str = "<!doctype html><link rel=stylesheet href=style.css>\
    <img src=a.png><img src='b.png'><script src=/app.js></script><img src=absent.png>";

const SHEET: &str = "body { background: url(c.png) }";

/// Files that the page leads to, the style sheet's image included.
const OBJECTS: [&str; 5] = ["/style.css", "/a.png", "/b.png", "/app.js", "/c.png"];

/// Those that hold what they cache for good, and those that share a table of their own.
const WITHOUT_POLICY: [&str; 2] = ["tux", "shared-symped"];

fn site() -> Site {
    Site::with(&[
        ("index.html", PAGE.as_bytes()),
        ("style.css", SHEET.as_bytes()),
        ("a.png", &[b'a'; 700]),
        ("b.png", &[b'b'; 700]),
        ("c.png", &[b'c'; 700]),
        ("app.js", &[b'j'; 700]),
        ("other.txt", &[b'o'; 700]),
    ])
}

fn launch(site: &Site, arch: &str) -> Launch {
    let launch = Launch::new(site, arch).args(&["--admin", "127.0.0.1:0"]);
    let launch = if arch == "mp" { launch.set("mp.processes=1") } else { launch };
    let launch = launch.set("cache.revalidate=1h");
    match arch {
        "sped" | "tux" | "mp" => launch,
        _ => launch.args(&["--workers", "1"]),
    }
}

fn wait_for_counter(server: &Server, name: &str, least: u64) {
    wait_for(name, || (server.counter(name) >= least).then_some(()));
}

fn architectures() -> impl Iterator<Item = &'static str> {
    let runs = |arch: &str| {
        let found = flyball_arch::find(arch).expect("it is there").probe().is_ok();
        if !found {
            skip(&format!("{arch} cannot run here"));
        }
        found
    };
    let names = ALL.iter().map(|arch| arch.name());
    names.filter(|name| !WITHOUT_POLICY.contains(name)).filter(move |name| runs(name))
}

#[test]
#[ignore = "full tier"]
fn the_objects_of_a_page_are_there_before_they_are_asked_for() {
    let site = site();
    for arch in architectures() {
        let server = launch(&site, arch).set("cache.policy=structured").start();
        let mut client = server.connect();
        assert_eq!(client.ask(get("/")).body, PAGE.as_bytes(), "{arch}");
        wait_for_counter(&server, "cache_prefetches", OBJECTS.len() as u64);
        // The connection is as before.
        for object in OBJECTS {
            assert_eq!(client.ask(get(object)).status(), 200, "{arch}, {object}");
        }
        assert_eq!(client.ask(get("/absent.png")).status(), 404, "{arch}");
        drop(client);
        wait_for_counter(&server, "requests", 7);
        let counters = &server.status()["counters"];
        // Only the page had to be waited for; that an object is absent was found out ahead.
        for (name, expected) in [
            ("content_cache_misses", 1),
            ("path_cache_misses", 1),
            ("content_cache_hits", 5),
            ("path_cache_hits", 6),
            ("cache_prefetches", 5),
        ] {
            assert_eq!(counters[name], expected, "{arch}, {name}: {counters:#}");
        }
    }
}

#[test]
fn a_page_asked_for_on_a_connection_that_closes_is_followed_by_its_objects_on_the_next() {
    let site = site();
    let server = launch(&site, "sped").set("cache.policy=structured").start();
    let mut first = server.connect();
    first.ask(crate::common::last_get("/"));
    first.expect_closed();
    let mut second = server.connect();
    assert_eq!(second.ask(get("/other.txt")).status(), 200);
    wait_for_counter(&server, "cache_prefetches", OBJECTS.len() as u64);
}

#[test]
#[ignore = "full tier"]
fn what_is_pinned_by_its_name_is_brought_in_and_what_is_never_held_is_not() {
    let site = site();
    let hints = ["cache.pin=/a.png,*.js", "cache.never=/b.png", "cache.policy=hinted"];
    for arch in architectures() {
        let server = hints.iter().fold(launch(&site, arch), |l, hint| l.set(hint)).start();
        let mut client = server.connect();
        assert_eq!(client.ask(get("/other.txt")).status(), 200, "{arch}");
        wait_for_counter(&server, "cache_prefetches", 1);
        for name in ["/a.png", "/b.png", "/b.png", "/app.js", "/app.js"] {
            assert_eq!(client.ask(get(name)).status(), 200, "{arch}, {name}");
        }
        drop(client);
        wait_for_counter(&server, "requests", 6);
        let counters = &server.status()["counters"];
        assert_eq!(counters["content_cache_hits"], 2, "{arch}: {counters:#}");
        assert_eq!(counters["content_cache_misses"], 4, "{arch}: {counters:#}");
    }
}

#[test]
fn every_policy_serves_more_than_the_cache_holds() {
    let site = site();
    for policy in ["lru", "lfu", "hinted", "structured"] {
        for arch in ["sped", "mt"] {
            let launch = launch(&site, arch).set("cache.content=4KiB");
            let server = launch.set(&format!("cache.policy={policy}")).start();
            let mut client = server.connect();
            for _ in 0..20 {
                for object in OBJECTS {
                    assert_eq!(client.ask(get(object)).status(), 200, "{policy}, {arch}");
                }
                assert_eq!(client.ask(get("/")).body, PAGE.as_bytes(), "{policy}, {arch}");
            }
            drop(client);
            wait_for_counter(&server, "requests", 120);
            assert!(server.counter("content_cache_evictions") > 0, "{policy}, {arch}");
        }
    }
}

#[test]
fn where_a_policy_has_no_meaning_that_is_said_at_start() {
    let site = site();
    let without_use = [
        ("tux", &["cache.policy=lfu", "cache.lock=false"][..]),
        ("shared-symped", &["cache.policy=lfu", "cache.lock=true", "cache.small=1KiB"]),
    ];
    for (arch, settings) in without_use {
        if flyball_arch::find(arch).expect("it is there").probe().is_err() {
            skip(&format!("{arch} cannot run here"));
            continue;
        }
        let given = |launch: Launch, setting: &&str| launch.set(setting);
        let server = settings.iter().fold(launch(&site, arch), given).start();
        for setting in settings {
            let key = setting.split('=').next().unwrap_or_default();
            let said = format!("`{key}` has no meaning for {arch} and is ignored");
            server.errors.wait_for("the warning", |text| text.contains(&said));
        }
    }
    let server = launch(&site, "sped").set("cache.pin=*.css").start();
    let said = "`cache.pin` has a meaning only with cache.policy = \"hinted\"";
    server.errors.wait_for("the warning", |text| text.contains(said));
}
