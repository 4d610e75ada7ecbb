//! The recipes of docs/recipes.md that run PHP, each as it is in examples/: only where the files
//! are and where php-fpm listens is put in. DokuWiki is the real one; WordPress and Laravel are
//! front controllers that go by what theirs go by.

use std::fs;
use std::path::Path;

use crate::common_programs::served::put;
use crate::common_programs::{have, on_architectures};
use crate::dynamic::{Answer, answer};
use crate::responders::{Responder, Wiki, has_php, start_fpm};
use flyball_testkit::{Launch, Server};
use tempfile::TempDir;

const SOCKET: &str = "unix:/run/php/php-fpm.sock";

/// The file of a recipe.
fn recipe(name: &str) -> String {
    let path = format!("{}/../examples/{name}.toml", env!("CARGO_MANIFEST_DIR"));
    fs::read_to_string(path).expect("the recipe is there")
}

/// Serves a recipe whose application is in another directory.
fn serve(architecture: &str, recipe: &str, (place, here): (&str, &Path), socket: &str) -> Server {
    assert!(recipe.contains(place) && recipe.contains(SOCKET), "{recipe}");
    let recipe = recipe.replace(place, &here.display().to_string()).replace(SOCKET, socket);
    let recipe = recipe.replace("${LISTEN:-80}", "127.0.0.1:0");
    let config = format!("arch = \"{architecture}\"\n{recipe}");
    Launch::config(config).start().unwrap_or_else(|refused| panic!("{refused}"))
}

/// An application that stands in for the real one.
struct App {
    server: Server,
    _fpm: Responder,
    _files: TempDir,
}

/// Serves a recipe with these files; `None` without PHP.
fn start(architecture: &str, recipe: &str, place: &str, files: &[(&str, &str)]) -> Option<App> {
    if !have(&["php-fpm8.2"]) {
        return None;
    }
    let here = tempfile::tempdir().unwrap();
    fs::create_dir(here.path().join("sessions")).unwrap();
    put(&here.path().join("prepend.php"), "");
    for (name, text) in files {
        put(&here.path().join("app").join(name), *text);
    }
    let fpm = start_fpm(here.path(), "HERE/php.sock");
    let socket = format!("unix:{}", here.path().join("php.sock").display());
    let server = serve(architecture, recipe, (place, &here.path().join("app")), &socket);
    Some(App { server, _fpm: fpm, _files: here })
}

fn send(server: &Server, method: &str, path: &str) -> Answer {
    let mut client = server.connect();
    client.send(format!("{method} {path} HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n"));
    answer(&mut client)
}

#[track_caller]
fn expect(server: &Server, cases: &[(&str, &str, u16, &str)]) {
    for (method, path, status, text) in cases {
        let answer = send(server, method, path);
        let what = format!("{method} {path}: {}\n{}", answer.text, server.errors());
        assert_eq!(answer.status(), *status, "{what}");
        assert!(answer.text.contains(text), "{what}");
        assert!(!answer.text.contains("<?php") && !answer.text.contains("secret"), "{what}");
    }
}

/// As WordPress does, by what REQUEST_URI says.
const WORDPRESS: &str = r#"<?php
$path = parse_url($_SERVER['REQUEST_URI'], PHP_URL_PATH);
if ($path === '/robots.txt') { header('Content-Type: text/plain'); echo "User-agent: *\n"; }
elseif ($path === '/wp-sitemap.xml') { header('Content-Type: application/xml'); echo '<urlset/>'; }
elseif (preg_match('#^/(\d{4})/(\d\d)/([a-z-]+)/$#', $path, $found)) { echo "post $found[3]"; }
elseif ($path === '/') { echo 'home'; }
else { http_response_code(404); echo "no $path here"; }
"#;

fn wordpress_has_its_links_and_runs_no_upload(architecture: &str) {
    let closed = recipe("wordpress");
    let files = [
        ("index.php", WORDPRESS),
        ("wp-config.php", "<?php $password = 'secret'; echo 'ran';"),
        ("wp-login.php", "<?php echo 'log in: ', $_SERVER['REQUEST_METHOD'];"),
        ("xmlrpc.php", "<?php echo 'call: ', $_SERVER['REQUEST_METHOD'];"),
        ("wp-admin/index.php", "<?php echo 'dashboard';"),
        ("wp-admin/admin.php", "<?php echo 'ran';"),
        ("wp-admin/admin-ajax.php", "<?php echo 'ajax';"),
        ("wp-admin/css/a.css", "a {}"),
        ("wp-includes/x.php", "<?php echo 'part';"),
        ("wp-content/uploads/2026/a.php", "<?php echo 'ran'; // secret"),
        ("wp-content/uploads/2026/a.jpg", "a picture"),
        (".htaccess", "secret"),
    ];
    // Who may come to the administration is the networks that the recipe names.
    let recipe = closed.replace("::1", "127.0.0.1");
    let Some(app) = start(architecture, &recipe, "/srv/wordpress", &files) else { return };
    expect(
        &app.server,
        &[
            ("GET", "/", 200, "home"),
            ("GET", "/2026/11/hello-world/", 200, "post hello-world"),
            ("GET", "/robots.txt", 200, "User-agent"),
            ("GET", "/wp-sitemap.xml", 200, "<urlset/>"),
            ("GET", "/wp-sitemap.xml?a=b", 200, "<urlset/>"),
            ("GET", "/none.jpg", 404, "no /none.jpg here"),
            ("GET", "/wp-admin/", 200, "dashboard"),
            ("GET", "/wp-admin", 301, ""),
            ("GET", "/wp-admin/css/a.css", 200, "a {}"),
            ("GET", "/wp-admin/admin-ajax.php", 200, "ajax"),
            ("POST", "/wp-login.php", 200, "log in: POST"),
            ("POST", "/xmlrpc.php", 200, "call: POST"),
            ("GET", "/wp-content/uploads/2026/a.jpg", 200, "a picture"),
            ("GET", "/wp-content/uploads/2026/a.php", 403, ""),
            ("POST", "/wp-content/uploads/2026/a.php/x", 403, ""),
            ("GET", "/wp-content/uploads/none.php", 403, ""),
            ("GET", "/wp-config.php", 404, "nothing at this address"),
            ("GET", "/.htaccess", 404, "nothing at this address"),
        ],
    );
    let Some(app) = start(architecture, &closed, "/srv/wordpress", &files) else { return };
    expect(
        &app.server,
        &[
            ("GET", "/", 200, "home"),
            ("GET", "/wp-admin/", 403, ""),
            ("GET", "/wp-admin/css/a.css", 403, ""),
            ("GET", "/wp-admin/admin.php", 403, ""),
            ("POST", "/wp-login.php", 403, ""),
            ("POST", "/xmlrpc.php", 403, ""),
            ("POST", "/xmlrpc.php/x", 403, ""),
            ("POST", "/wp-admin/admin-ajax.php", 200, "ajax"),
        ],
    );
}

/// As Laravel routes: by the method, and by the path behind that of the script.
const LARAVEL: &str = r#"<?php
$path = parse_url($_SERVER['REQUEST_URI'], PHP_URL_PATH);
$base = dirname($_SERVER['SCRIPT_NAME']);
echo $_SERVER['REQUEST_METHOD'], ' ', $path, ' from ', $base, ' by ', basename(__FILE__);
"#;

fn laravel_gets_every_path_by_every_method(architecture: &str) {
    let files = [
        ("public/index.php", LARAVEL),
        ("public/build/assets/app-3f2a.js", "app"),
        ("public/.env", "secret"),
        (".env", "secret"),
        ("storage/app/public/a.jpg", "a picture"),
        ("storage/app/public/a.php", "<?php echo 'ran';"),
        ("storage/app/hidden.txt", "secret"),
    ];
    let recipe = &recipe("laravel");
    let Some(app) = start(architecture, recipe, "/srv/laravel", &files) else { return };
    expect(
        &app.server,
        &[
            ("GET", "/", 200, "GET / from / by index.php"),
            ("GET", "/posts/7.json?a=b", 200, "GET /posts/7.json from /"),
            ("POST", "/posts", 200, "POST /posts from /"),
            ("PUT", "/api/posts/7", 200, "PUT /api/posts/7"),
            ("PATCH", "/api/posts/7", 200, "PATCH /api/posts/7"),
            ("DELETE", "/api/posts/7", 200, "DELETE /api/posts/7"),
            ("OPTIONS", "/api/posts/7", 200, "OPTIONS /api/posts/7"),
            ("GET", "/storage/a.jpg", 200, "a picture"),
            ("GET", "/storage/a.php", 403, ""),
            ("GET", "/storage/../.env", 404, "nothing at this address"),
            ("GET", "/.env", 404, "nothing at this address"),
            ("GET", "/hidden.txt", 200, "GET /hidden.txt"),
        ],
    );
    let built = send(&app.server, "GET", "/build/assets/app-3f2a.js");
    let control = built.head.expect("Cache-Control");
    assert_eq!(control, "public, max-age=31536000, immutable");
}

fn dokuwiki_reads_the_path_behind_its_script(architecture: &str) {
    if !has_php() {
        return;
    }
    let wiki = Wiki::start("HERE/php.sock");
    let here = wiki.directory.path();
    let settings = here.join("conf/local.php");
    let more = "$conf['userewrite'] = 2; $conf['useslash'] = 0;\n";
    put(&settings, fs::read_to_string(&settings).unwrap() + more);
    for name in ["data/pages/start.txt", "conf/users.auth.php", "inc/secret.txt"] {
        put(&here.join("root").join(name), "secret");
    }
    let socket = format!("unix:{}", here.join("php.sock").display());
    let recipe = &recipe("dokuwiki");
    let place = ("/srv/dokuwiki", &*here.join("root"));
    let server = serve(architecture, recipe, place, &socket);
    let page = send(&server, "GET", "/doku.php/start");
    assert!(page.status() == 200 && page.text.contains("<title>start [Test]</title>"));
    assert!(page.text.contains("/doku.php/start?"), "{}", page.text);
    let other = send(&server, "GET", "/doku.php/wiki:other");
    assert!(other.text.contains("<title>wiki:other [Test]</title>"), "{}", other.text);
    assert!(send(&server, "GET", "/").text.contains("<title>start [Test]</title>"));
    assert!(send(&server, "GET", "/lib/exe/css.php").text.len() > 10_000);
    assert!(send(&server, "GET", "/lib/exe/js.php?t=dokuwiki").text.len() > 10_000);
    let media = send(&server, "GET", "/lib/exe/fetch.php/wiki:none.png");
    assert!(media.status() == 404 && !media.text.contains("nothing at this address"));
    expect(
        &server,
        &[
            ("GET", "/data/pages/start.txt", 404, "nothing at this address"),
            ("GET", "/data/", 404, "nothing at this address"),
            ("GET", "/conf/users.auth.php", 404, "nothing at this address"),
            ("GET", "/conf", 404, "nothing at this address"),
            ("GET", "/inc/secret.txt", 404, "nothing at this address"),
            ("GET", "/inc/init.php", 404, "nothing at this address"),
            ("GET", "/vendor/autoload.php", 404, "nothing at this address"),
            ("POST", "/install.php", 404, "nothing at this address"),
            ("GET", "/.htaccess", 404, "nothing at this address"),
        ],
    );
}

on_architectures! {
    [fast n_copy = "n-copy", full uring = "uring"]
    [
        dokuwiki_reads_the_path_behind_its_script,
        laravel_gets_every_path_by_every_method,
        wordpress_has_its_links_and_runs_no_upload,
    ]
}
