//! What becomes of a path before files are looked for, and what is said of what is found.

use flyball_testkit::{Client, Response, Server, Site};

use crate::mount::Mount;
use crate::requests::{get, request};

/// A server whose one site has these keys and tables.
fn start(mount: &Mount, settings: &str, keys: &str) -> Server {
    let root = Site::shared().path("routed").display().to_string();
    let site = format!("[[site]]\nhosts = [\"*\"]\nroot = \"{root}\"\n{keys}\n");
    mount.start_with_sites(settings, &site)
}

fn path(name: &str) -> String {
    Site::shared().path(name).display().to_string()
}

/// Asks twice, so that the second answer comes from the caches, and expects the same.
#[track_caller]
fn ask_twice(client: &mut Client, asked: &str) -> Response {
    let first = client.ask(asked);
    let second = client.ask(asked);
    let undated = |answer: &Response| {
        let fields = answer.fields.iter().filter(|(name, _)| name != "Date");
        (answer.line.clone(), fields.cloned().collect::<Vec<_>>(), answer.body.clone())
    };
    assert_eq!(undated(&first), undated(&second), "{asked}");
    second
}

const REDIRECTS: &str = r#"
[[site.redirect]]
from = "/old.txt"
to = "/new.txt"
status = 301
[[site.redirect]]
from = "/old/*"
to = "/new/$1"
status = 308
[[site.redirect]]
from = "/old/deep/*"
to = "https://other.test/deep/$1?kept=no"
status = 307
[[site.redirect]]
from = '~^/user/(\d+)$'
to = "/people/$1#top"
status = 303
[[site.redirect]]
from = '~^/go(/.*)$'
to = "/$1"
"#;

pub(crate) fn redirects_lead_where_their_rules_say(mount: &Mount) {
    for settings in ["", "cache.paths = 0"] {
        let server = start(mount, settings, REDIRECTS);
        let mut client = server.connect();
        for (target, status, location) in [
            ("/old.txt", 301, "/new.txt"),
            ("/old.txt?a=b&c", 301, "/new.txt?a=b&c"),
            ("/x/../%6fld.txt", 301, "/new.txt"),
            ("/old/", 308, "/new/"),
            ("/old/a%20b/%C3%BC?q", 308, "/new/a%20b/%C3%BC?q"),
            ("/old/deep/x?a=b", 307, "https://other.test/deep/x?kept=no"),
            ("/user/42?a=b", 303, "/people/42?a=b#top"),
            ("/go/evil.test", 302, "/evil.test"),
            ("/go//evil.test/x", 302, "/evil.test/x"),
            ("/go/%2e/evil.test", 302, "/evil.test"),
            ("/go/http:/evil.test", 302, "/http%3A/evil.test"),
        ] {
            let answer = ask_twice(&mut client, &get(target));
            let found = (answer.status(), answer.expect("Location"));
            assert_eq!(found, (status, location), "{target}");
            client.send(request("HEAD", target, &[]));
            let head = client.response_head();
            assert_eq!((head.status(), head.expect("Location")), (status, location), "{target}");
        }
        for target in ["/old", "/user/42x", "/user/", "/go"] {
            assert_eq!(client.ask(get(target)).status(), 404, "{target}");
        }
        assert_eq!(client.ask(get("/go/..%2fx")).status(), 400);
        assert_eq!(client.ask(request("DELETE", "/old.txt", &[])).status(), 405);
        assert_eq!(client.ask(get("/new.txt")).text(), "new\n");
    }
}

pub(crate) fn a_redirect_may_lead_to_the_host_that_was_asked_for(mount: &Mount) {
    let keys = "hosts = [\"*\"]\nredirect = [\n\
                { from = '~^/(x.*)$', to = \"https://www.$host/$1\" },\n\
                { from = \"/port\", to = \"https://$host:8443/\", status = 301 },\n]\n";
    let server = mount.start_with_sites("", &format!("[[site]]\n{keys}"));
    let mut client = server.connect();
    let asked = |target: &str, host: &str| format!("GET {target} HTTP/1.1\r\nHost: {host}\r\n\r\n");
    for (target, host, location) in [
        ("/x?a=b", "a.test", "https://www.a.test/x?a=b"),
        ("/x", "other.test:81", "https://www.other.test/x"),
        ("/port", "[::1]:9", "https://[::1]:8443/"),
        ("http://in.target/xy", "a.test", "https://www.in.target/xy"),
    ] {
        let answer = ask_twice(&mut client, &asked(target, host));
        assert_eq!(answer.expect("Location"), location);
    }
    for host in ["", "a%2f.test", "a,b"] {
        let answer = client.ask(asked("/x", host));
        assert_eq!((answer.status(), answer.field("Location")), (400, None), "{host}");
    }
    let mut client = server.connect();
    client.send("GET /x HTTP/1.0\r\n\r\n");
    assert_eq!(client.response().status(), 400);
}

pub(crate) fn a_path_may_say_the_type_of_its_files(mount: &Mount) {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let long = "text ".repeat(1_000);
    for (name, text) in [
        ("LICENSE", "free\n"),
        ("page.html", "page\n"),
        ("raw/page.html", "raw\n"),
        ("raw/data", "data\n"),
        ("long", long.as_str()),
        ("unknown.zzz", "?\n"),
        ("word.txt.de", "Wort\n"),
        ("closed/page.html", "SECRET\n"),
    ] {
        let path = directory.path().join(name);
        std::fs::create_dir_all(path.parent().expect("it has one")).expect("it can be made");
        std::fs::write(path, text).expect("the file can be written");
    }
    let keys = format!(
        "[[site]]\nroot = \"{}\"\nlanguages = [\"de\"]\n\
         rewrite = [{{ from = \"/led\", to = \"/raw/page.html\" }}]\n\
         type = [\n  {{ path = '~/[^./]+$', type = \"text/plain\" }},\n  \
         {{ path = \"/raw/*\", type = \"application/x-raw\" }},\n  \
         {{ path = \"/word.txt\", type = \"text/x-word\" }},\n  \
         {{ path = \"/closed/*\", type = \"text/plain\" }},\n]\n\
         [[site.return]]\npath = \"/closed\"\nstatus = 403\n\
         [[site.header]]\ntype = \"application/x-raw\"\nset = {{ X-Raw = \"yes\" }}\n",
        directory.path().display()
    );
    let server = mount.start_with_sites("", &keys);
    let mut client = server.connect();
    for (target, media_type, is_raw) in [
        ("/LICENSE", "text/plain; charset=utf-8", None),
        ("/page.html", "text/html; charset=utf-8", None),
        ("/raw/page.html", "application/x-raw", Some("yes")),
        ("/raw/data", "application/x-raw", Some("yes")),
        ("/led", "application/x-raw", Some("yes")),
        ("/unknown.zzz", "application/octet-stream", None),
        ("/word.txt", "text/x-word; charset=utf-8", None),
    ] {
        let answer = ask_twice(&mut client, &get(target));
        assert_eq!(answer.expect("Content-Type"), media_type, "{target}");
        assert_eq!(answer.field("X-Raw"), is_raw, "{target}");
    }
    let coded = client.ask(request("GET", "/long", &["Accept-Encoding: gzip"]));
    assert_eq!(coded.expect("Content-Encoding"), "gzip");
    assert_eq!(client.ask(get("/closed/page.html")).status(), 403);
}

pub(crate) fn rewrites_are_answered_in_place(mount: &Mount) {
    let keys = r#"
[[site.rewrite]]
from = '~^/article/(\d+)$'
to = "/articles/$1.html"
[[site.rewrite]]
from = "/first"
to = "/second"
[[site.rewrite]]
from = "/second"
to = "/new.txt"
[[site.rewrite]]
from = "/hidden/*"
to = "/.$1"
[[site.rewrite]]
from = '~^/round/(.*)$'
to = "/round/x$1"
[[site.rewrite]]
from = '~^/up(.)(.)/(.*)$'
to = "/articles/$1$2/$3"
"#;
    let server = start(mount, "", keys);
    let mut client = server.connect();
    for (target, status, text) in [
        ("/article/7", 200, "seven\n"),
        ("/article/7?x", 200, "seven\n"),
        ("/first", 200, "new\n"),
        ("/second", 200, "new\n"),
        ("/new.txt", 200, "new\n"),
        ("/up../new.txt", 200, "new\n"),
    ] {
        let answer = ask_twice(&mut client, &get(target));
        assert_eq!((answer.status(), answer.text()), (status, text), "{target}");
        assert_eq!(answer.field("Location"), None);
    }
    for (target, status) in [
        ("/article/8", 404),
        ("/article/x", 404),
        ("/hidden/secret", 404),
        ("/round/a", 500),
        ("/up../../../etc/passwd", 400),
    ] {
        let answer = client.ask(get(target));
        assert_eq!(answer.status(), status, "{target}");
        assert!(!answer.text().contains("SECRET"), "{target}");
    }
    assert_eq!(client.ask(get("/new.txt")).text(), "new\n");
}

const FIELDS: &str = r#"
[[site.redirect]]
from = "/moved"
to = "/new.txt"
[[site.header]]
set = { X-Everywhere = "1", Cache-Control = "max-age=7" }
[[site.header]]
type = "text/html"
set = { X-Page = "yes" }
[[site.header]]
path = "/articles/*"
add = { X-Everywhere = "2" }
[[site.header]]
path = "/plain.css"
remove = ["cache-control", "x-everywhere"]
"#;

pub(crate) fn fields_are_set_added_and_removed_by_path_and_type(mount: &Mount) {
    for settings in ["", "cache.heads = false", "cache.content = 0\ncache.files = 0"] {
        let server = start(mount, settings, FIELDS);
        let mut client = server.connect();
        let file = ask_twice(&mut client, &get("/new.txt"));
        assert_eq!(file.expect("X-Everywhere"), "1");
        assert_eq!(file.expect("Cache-Control"), "max-age=7");
        assert_eq!(file.field("X-Page"), None);
        client.send(request("HEAD", "/new.txt", &[]));
        assert_eq!(client.response_head().expect("X-Everywhere"), "1");

        let tag = format!("If-None-Match: {}", file.expect("ETag"));
        let unchanged = client.ask(request("GET", "/new.txt", &[&tag]));
        assert_eq!((unchanged.status(), unchanged.expect("X-Everywhere")), (304, "1"));
        assert_eq!(unchanged.expect("Cache-Control"), "max-age=7");
        let part = client.ask(request("GET", "/new.txt", &["Range: bytes=0-0"]));
        assert_eq!((part.status(), part.expect("X-Everywhere")), (206, "1"));
        let parts = client.ask(request("GET", "/new.txt", &["Range: bytes=0-0,2-2"]));
        assert_eq!((parts.status(), parts.expect("X-Everywhere")), (206, "1"));
        let beyond = client.ask(request("GET", "/new.txt", &["Range: bytes=99-"]));
        assert_eq!((beyond.status(), beyond.expect("X-Everywhere")), (416, "1"));
        let failed = client.ask(request("GET", "/new.txt", &["If-Match: \"x\""]));
        assert_eq!((failed.status(), failed.expect("X-Everywhere")), (412, "1"));

        let missing = ask_twice(&mut client, &get("/missing"));
        assert_eq!((missing.status(), missing.expect("X-Everywhere")), (404, "1"));
        // The page of a refusal is HTML, and is not kept as long as what it stands for.
        assert_eq!((missing.expect("X-Page"), missing.field("Cache-Control")), ("yes", None));
        let moved = ask_twice(&mut client, &get("/moved"));
        assert_eq!((moved.status(), moved.expect("X-Everywhere")), (302, "1"));
        let to_slash = client.ask(get("/articles"));
        assert_eq!((to_slash.status(), to_slash.expect("X-Everywhere")), (301, "1"));
        let refused = client.ask(request("DELETE", "/new.txt", &[]));
        assert_eq!((refused.status(), refused.expect("X-Everywhere")), (405, "1"));
        assert!(refused.expect("Allow").contains("GET"));

        let article = ask_twice(&mut client, &get("/articles/7.html"));
        let everywhere = article.fields.iter().filter(|(name, _)| name == "X-Everywhere");
        let values: Vec<&str> = everywhere.map(|(_, value)| value.as_str()).collect();
        assert_eq!((values, article.expect("X-Page")), (vec!["1", "2"], "yes"));
        let plain = ask_twice(&mut client, &get("/plain.css"));
        assert_eq!((plain.field("X-Everywhere"), plain.field("Cache-Control")), (None, None));
    }
}

pub(crate) fn answers_say_how_long_they_may_be_kept(mount: &Mount) {
    let hashed = "public, max-age=31536000, immutable";
    let set = format!("set = {{ Cache-Control = \"{hashed}\" }}");
    let rule = format!("[[site.header]]\npath = \"/app.*\"\ntype = \"any\"\n{set}");
    // A name that looks like a fingerprint is none until a rule says so.
    for (keys, expected) in [
        ("", [Some("no-cache"); 3]),
        ("cache-control = \"auto\"", [Some("max-age=300"), Some("no-cache"), Some("max-age=300")]),
        ("cache-control = \"off\"", [None; 3]),
        (&rule, [Some(hashed), Some("no-cache"), Some("no-cache")]),
    ] {
        let server = start(mount, "", keys);
        let mut client = server.connect();
        for (target, expected) in ["/app.3f2a91bc.js", "/", "/plain.css"].iter().zip(expected) {
            let answer = ask_twice(&mut client, &get(target));
            assert_eq!(answer.field("Cache-Control"), expected, "{keys}: {target}");
            assert!(answer.field("ETag").is_some(), "{keys}: {target}");
        }
        assert_eq!(client.ask(get("/missing")).field("Cache-Control"), None);
    }
}

pub(crate) fn error_pages_are_the_sites_own(mount: &Mount) {
    let keys = format!(
        "hidden = false\n[site.error-page]\n404 = \"{}\"\n403 = \"{}\"\n413 = \"{}\"\n",
        path("pages/404.html"),
        path("pages/403.txt"),
        path("pages/403.txt")
    );
    let server = start(mount, "", &keys);
    let mut client = server.connect();
    let page = "<!doctype html>\n<title>Lost</title>\n";
    for target in ["/missing", "/.secret", "/index.html/x"] {
        let answer = ask_twice(&mut client, &get(target));
        assert_eq!((answer.status(), answer.text()), (404, page), "{target}");
        assert_eq!(answer.expect("Content-Type"), "text/html; charset=utf-8");
        client.send(request("HEAD", target, &[]));
        let head = client.response_head();
        assert_eq!((head.status(), head.content_length()), (404, Some(page.len())), "{target}");
    }
    // A directory without an index, of a site that does not list.
    let closed = ask_twice(&mut client, &get("/closed/"));
    assert_eq!((closed.status(), closed.text()), (403, "closed\n"));
    assert_eq!(closed.expect("Content-Type"), "text/plain; charset=utf-8");
    let other = client.ask(request("DELETE", "/new.txt", &[]));
    assert!(other.status() == 405 && other.text().contains("Method not allowed"));
    assert_eq!(client.ask(get("/new.txt")).text(), "new\n");
    let long = client.ask(request("POST", "/new.txt", &["Content-Length: 100000000"]));
    assert_eq!((long.status(), long.text()), (413, "closed\n"));
    client.expect_closed();
}

pub(crate) fn aliases_have_roots_of_their_own(mount: &Mount) {
    let keys = format!(
        "listing = true\n[[site.alias]]\npath = \"/other\"\nroot = \"{}\"\n\
         [[site.alias]]\npath = \"/other/new\"\nroot = \"{}\"\n",
        path("aliased"),
        path("routed")
    );
    let server = start(mount, "", &keys);
    let mut client = server.connect();
    for (target, status, text) in [
        ("/other/", 200, "aliased\n"),
        ("/other/index.html", 200, "aliased\n"),
        ("/other/below/file.txt", 200, "below\n"),
        ("/other/x/../below/file.txt", 200, "below\n"),
        ("/other/new/new.txt", 200, "new\n"),
        ("/new.txt", 200, "new\n"),
    ] {
        let answer = ask_twice(&mut client, &get(target));
        assert_eq!((answer.status(), answer.text()), (status, text), "{target}");
    }
    for (target, location) in [("/other", "/other/"), ("/other/below?q", "/other/below/?q")] {
        let answer = ask_twice(&mut client, &get(target));
        assert_eq!((answer.status(), answer.expect("Location")), (301, location));
    }
    for target in
        ["/other/escape.txt", "/other/.secret", "/others/index.html", "/other/new.txt", "/below/"]
    {
        let answer = client.ask(get(target));
        assert_eq!(answer.status(), 404, "{target}");
        assert!(!answer.text().contains("SECRET"), "{target}");
    }
    // A listing names the path that was asked for.
    let listing = client.ask(get("/other/below/"));
    assert!(listing.text().contains("file.txt") && listing.text().contains("/other/"));
}

pub(crate) fn what_is_not_there_falls_back_when_asked(mount: &Mount) {
    let routed = "<!doctype html>\n<title>Routed</title>\n";
    let server = start(mount, "", "fallback = \"/index.html\"\npretty-urls = true");
    let mut client = server.connect();
    for (target, text) in [
        ("/about", "about\n"),
        ("/about.html", "about\n"),
        ("/articles/7", "seven\n"),
        ("/articles/", "articles\n"),
        ("/new.txt", "new\n"),
        ("/app/users/7", routed),
        ("/app/", routed),
        ("/app/users/7?tab=x", routed),
        ("/closed/", routed),
        ("/about/x", routed),
    ] {
        let answer = ask_twice(&mut client, &get(target));
        assert_eq!((answer.status(), answer.text()), (200, text), "{target}");
    }
    assert_eq!(client.ask(get("/articles")).status(), 301);
    for target in ["/missing.js", "/app/missing.css", "/.secret"] {
        assert_eq!(ask_twice(&mut client, &get(target)).status(), 404, "{target}");
    }
    let page = client.ask(get("/app/users/7"));
    assert_eq!(page.expect("Content-Type"), "text/html; charset=utf-8");

    let neither = start(mount, "", "");
    let mut client = neither.connect();
    for target in ["/about", "/articles/7", "/app/users/7"] {
        assert_eq!(client.ask(get(target)).status(), 404, "{target}");
    }
}

/// A rule for the URL of a directory answers for the same path without the slash: a redirect would
/// tell that it is there.
pub(crate) fn a_directory_that_is_refused_is_not_told_by_its_slash(mount: &Mount) {
    let access = |who: &str| format!("[[site.access]]\nmatch = '~^/articles/'\nallow = [{who}]\n");
    let returned =
        |status: u16| format!("[[site.return]]\nmatch = '~^/articles/'\nstatus = {status}\n");
    for (rules, status) in [
        (returned(404), 404),
        (returned(410), 410),
        (returned(403), 403),
        (access("\"192.0.2.1\""), 403),
        (access("\"192.0.2.1\", \"127.0.0.0/8\", \"::1\""), 301),
        ("[[site.return]]\nmatch = '~^/articles/.'\nstatus = 404\n".to_owned(), 301),
    ] {
        let server = start(mount, "", &rules);
        let mut client = server.connect();
        let answer = ask_twice(&mut client, &get("/articles"));
        assert_eq!(answer.status(), status, "{rules}");
        if status != 301 {
            let of_url = ask_twice(&mut client, &get("/articles/"));
            assert_eq!((of_url.status(), of_url.body), (status, answer.body), "{rules}");
        }
    }
}

pub(crate) fn no_route_leads_around_a_login(mount: &Mount) {
    let users = path("users");
    let ann = "ann:$2y$04$ViUvEMhOIe9hKRT8ricqau0EnQEXaPe7Rz9cVB8fJof.xyY.s2pPy\n";
    std::fs::write(&users, ann).expect("the file of users can be written");
    let keys = format!(
        "pretty-urls = true\nfallback = \"/closed/inner.html\"\nauth.file = \"{users}\"\n\
         auth.paths = [\"/closed\", \"/about.html\"]\n\
         [[site.rewrite]]\nfrom = \"/open/*\"\nto = \"/closed/$1\"\n"
    );
    let server = start(mount, "", &keys);
    let mut client = server.connect();
    for (target, status) in [
        ("/closed/inner.html", 401),
        ("/about.html", 401),
        ("/open/inner.html", 403),
        ("/open/inner", 403),
        ("/about", 403),
        ("/missing", 403),
        ("/new.txt", 200),
    ] {
        for _ in 0..2 {
            assert_eq!(client.ask(get(target)).status(), status, "{target}");
        }
    }
}

pub(crate) fn languages_are_negotiated_by_neighbours(mount: &Mount) {
    for settings in ["", "cache.paths = 0", "cache.heads = false"] {
        let server = start(mount, settings, "languages = [\"en\", \"de\", \"fr\"]");
        let mut client = server.connect();
        let mut ask = |target: &str, accept: &str| {
            let field = format!("Accept-Language: {accept}");
            ask_twice(&mut client, &request("GET", target, &[&field]))
        };
        for (target, accept, text, language) in [
            ("/tongues/", "de", "deutsch\n", Some("de")),
            ("/tongues/", "de-AT, en;q=0.5", "deutsch\n", Some("de")),
            ("/tongues/", "de;q=0.4, en;q=0.5", "english\n", Some("en")),
            ("/tongues/", "fr, de;q=0.1", "deutsch\n", Some("de")),
            // Nothing is preferred: the first language of the site.
            ("/tongues/", "es", "english\n", Some("en")),
            ("/tongues/", "", "english\n", Some("en")),
            ("/tongues/index.html", "de", "deutsch\n", Some("de")),
            ("/tongues/mixed.txt", "de", "gemischt\n", Some("de")),
            ("/tongues/mixed.txt", "en", "plain\n", None),
        ] {
            let answer = ask(target, accept);
            assert_eq!((answer.status(), answer.text()), (200, text), "{target} {accept}");
            assert_eq!(answer.field("Content-Language"), language, "{target} {accept}");
            assert_eq!(answer.expect("Vary"), "Accept-Language", "{target} {accept}");
        }
        assert_eq!(ask("/tongues/", "de").expect("Content-Type"), "text/html; charset=utf-8");
        // Nothing to choose from, or chosen already.
        for (target, text) in
            [("/tongues/alone.txt", "alone\n"), ("/tongues/index.html.de", "deutsch\n")]
        {
            let answer = ask(target, "en");
            assert_eq!((answer.text(), answer.field("Vary")), (text, None), "{target}");
        }
        let german = ask("/tongues/", "de");
        let fields = ["Accept-Language: de", &format!("If-None-Match: {}", german.expect("ETag"))];
        let unchanged = client.ask(request("GET", "/tongues/", &fields));
        assert_eq!((unchanged.status(), unchanged.expect("Vary")), (304, "Accept-Language"));
        let english = ["Accept-Language: en", fields[1]];
        assert_eq!(client.ask(request("GET", "/tongues/", &english)).text(), "english\n");
    }
}

pub(crate) fn a_neighbour_in_another_language_is_coded_too(mount: &Mount) {
    let directory = tempfile::tempdir().expect("a temporary directory");
    for (name, word) in [("long.txt.de", "Wort "), ("long.txt.en", "word ")] {
        let written = std::fs::write(directory.path().join(name), word.repeat(2_000));
        written.expect("the file can be written");
    }
    let keys = format!(
        "languages = [\"en\", \"de\"]\n[[site.alias]]\npath = \"/long\"\nroot = \"{}\"\n\
         [[site.header]]\npath = \"/long/*\"\nset = {{ X-Long = \"yes\" }}\n",
        directory.path().display()
    );
    let server = start(mount, "", &keys);
    let mut client = server.connect();
    for (language, word) in [("de", "Wort "), ("en", "word "), ("de", "Wort ")] {
        let accept = format!("Accept-Language: {language}");
        for coding in ["gzip", "identity"] {
            let fields = [accept.as_str(), &format!("Accept-Encoding: {coding}")];
            let answer = client.ask(request("GET", "/long/long.txt", &fields));
            assert_eq!((answer.status(), answer.expect("X-Long")), (200, "yes"));
            assert_eq!(answer.expect("Content-Language"), language);
            assert_eq!(answer.expect("Content-Type"), "text/plain; charset=utf-8");
            let vary = answer.expect("Vary");
            assert!(vary.contains("Accept-Encoding") && vary.contains("Accept-Language"), "{vary}");
            match coding {
                "gzip" => {
                    assert_eq!(answer.field("Content-Encoding"), Some("gzip"));
                    assert!(answer.body.len() < 1_000, "{}", answer.body.len());
                }
                _ => assert_eq!(answer.text(), word.repeat(2_000)),
            }
        }
    }
}

pub(crate) fn newer_images_answer_where_they_are_taken(mount: &Mount) {
    let server = start(mount, "", "image-neighbours = true");
    let mut client = server.connect();
    let mut ask = |target: &str, accept: &str| {
        ask_twice(&mut client, &request("GET", target, &[&format!("Accept: {accept}")]))
    };
    for (target, accept, text, kind, vary) in [
        ("/picture.png", "image/avif,image/webp,*/*", "webp\n", "image/webp", Some("Accept")),
        ("/picture.png", "image/*,*/*;q=0.8", "png\n", "image/png", Some("Accept")),
        ("/picture.png", "image/webp;q=0", "png\n", "image/png", Some("Accept")),
        ("/picture.webp", "image/png", "webp\n", "image/webp", None),
        ("/lonely.png", "image/webp", "png alone\n", "image/png", None),
    ] {
        let answer = ask(target, accept);
        assert_eq!((answer.status(), answer.text()), (200, text), "{target} {accept}");
        assert_eq!(answer.expect("Content-Type"), kind, "{target} {accept}");
        assert_eq!(answer.field("Vary"), vary, "{target} {accept}");
    }
    let off = start(mount, "", "");
    let answer = off.connect().ask(request("GET", "/picture.png", &["Accept: image/webp"]));
    assert_eq!((answer.text(), answer.field("Vary")), ("png\n", None));
}

pub(crate) fn directories_of_users_are_shown(mount: &Mount) {
    let home = |name: &str| path(&format!("homes/{name}"));
    let directory = tempfile::tempdir().expect("a temporary directory");
    let table = directory.path().join("passwd");
    let lines = format!(
        "root:x:0:0::{}:/bin/sh\nbob:x:1000:1000::{}:/bin/sh\nann:x:1001:1001::{}:/bin/sh\n\
         mal:x:1002:1002::{}:/bin/sh\n",
        home("sys"),
        home("bob"),
        home("ann"),
        home("mal"),
    );
    std::fs::write(&table, lines).expect("the table can be written");
    let keys = format!("user-directories = \"public_html\"\nuser-table = \"{}\"", table.display());
    let server = start(mount, "", &keys);
    let mut client = server.connect();
    for (target, text) in [
        ("/~bob/", "bob\n"),
        ("/~bob/index.html", "bob\n"),
        ("/%7Ebob/notes/a.txt", "note\n"),
        ("/~bob/inside.txt", "note\n"),
        ("/x/../~bob/", "bob\n"),
        ("/new.txt", "new\n"),
    ] {
        let answer = ask_twice(&mut client, &get(target));
        assert_eq!((answer.status(), answer.text()), (200, text), "{target}");
    }
    for (target, location) in [("/~bob", "/~bob/"), ("/~bob/notes", "/~bob/notes/")] {
        let answer = client.ask(get(target));
        assert_eq!((answer.status(), answer.expect("Location")), (301, location));
    }
    for target in [
        "/~bob/escape.txt",
        "/~bob/../secret.txt",
        "/~bob/secret.txt",
        "/~ann/other.txt",
        "/~ann/",
        "/~mal/etc/passwd",
        "/~root/",
        "/~nobody/",
        "/~/",
        "/~bobx/",
    ] {
        let answer = client.ask(get(target));
        assert_eq!(answer.status(), 404, "{target}");
        assert!(!answer.text().contains("SECRET") && !answer.text().contains("root:"), "{target}");
    }
}
