//! Real programs behind FastCGI: a wiki in PHP by php-fpm, clicked through in headless Chromium,
//! and cgit by fcgiwrap and as a CGI program.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use crate::common_programs::chromium::Chromium;
use crate::common_programs::served::put;
use crate::common_programs::{have, on_architectures, program, run};
use flyball_testkit::{Launch, Server, as_ourselves, free_address, skip, wait};

/// A program that serves until the test ends.
pub(crate) struct Responder(Child);

impl Responder {
    pub(crate) fn start(command: &mut Command) -> Responder {
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        Responder(command.spawn().expect("it starts"))
    }
}

impl Drop for Responder {
    fn drop(&mut self) {
        // Told to end, it ends its children too.
        let _ = Command::new("kill").arg(self.0.id().to_string()).status();
        let _ = self.0.wait();
    }
}

pub(crate) fn is_root() -> bool {
    fs::metadata("/proc/self").is_ok_and(|own| own.uid() == 0)
}

/// A wiki: where it is installed, and what it writes.
pub(crate) struct Wiki {
    pub(crate) directory: tempfile::TempDir,
    _fpm: Responder,
}

/// The user that php-fpm and the workers are when the superuser runs the tests, by its numbers.
const WWW_DATA: u32 = 33;

const TABLE: &str = "\
[global]
error_log = HERE/fpm.log
daemonize = no
[wiki]
USER
listen = SOCKET
pm = static
pm.max_children = 4
php_admin_value[auto_prepend_file] = HERE/prepend.php
php_admin_value[session.save_path] = HERE/sessions
";

impl Wiki {
    /// Installs DokuWiki anew, and starts php-fpm for it at this address.
    pub(crate) fn start(socket: &str) -> Wiki {
        let directory = tempfile::tempdir().unwrap();
        let here = directory.path();
        let mut copy = program("cp");
        run(copy.args(["-rL", "/usr/share/dokuwiki"]).arg(here.join("root")));
        let data = ["pages", "attic", "media", "media_attic", "media_meta", "meta", "cache"];
        for name in data.iter().chain(&["index", "locks", "tmp", "log"]) {
            fs::create_dir_all(here.join("data").join(name)).unwrap();
        }
        fs::create_dir(here.join("sessions")).unwrap();
        let shown = here.display();
        put(&here.join("prepend.php"), format!("<?php define('DOKU_CONF', '{shown}/conf/');"));
        put(
            &here.join("conf/local.php"),
            format!(
                "<?php $conf['title'] = 'Test'; $conf['useacl'] = 1; $conf['lang'] = 'en';\n\
                 $conf['savedir'] = '{shown}/data'; $conf['updatecheck'] = 0;\n"
            ),
        );
        // Whoever has logged in may write.
        put(&here.join("conf/acl.auth.php"), "* @ALL 1\n* @user 8\n");
        let hash = "echo password_hash('secret', PASSWORD_BCRYPT, ['cost' => 4]);";
        let (hash, _) = run(program("php8.2").args(["-r", hash]));
        put(&here.join("conf/users.auth.php"), format!("ann:{hash}:Ann:a@example.org:user\n"));
        put(&here.join("root/check.html"), CLICKS);
        put(&here.join("root/seen.txt"), "");
        let fpm = start_fpm(here, socket);
        Wiki { directory, _fpm: fpm }
    }

    /// Serves it by the example as it is.
    fn serve(&self, architecture: &str, socket: &str) -> Server {
        let example = concat!(env!("CARGO_MANIFEST_DIR"), "/../examples/php.toml");
        let example = fs::read_to_string(example).unwrap();
        let here = self.directory.path().display().to_string();
        let root = format!("{here}/root");
        let mut config = example.clone();
        for (variable, value) in [
            ("${PHP_ROOT}", &*root),
            ("${PHP_SOCKET:-unix:/run/php/php-fpm.sock}", &socket.replace("HERE", &here)),
            ("${LISTEN:-127.0.0.1:8080}", "127.0.0.1:0"),
        ] {
            assert!(config.contains(variable), "{variable}");
            config = config.replace(variable, value);
        }
        let log = format!("access-log={}", self.log().display());
        let launch = Launch::config(config).and("--arch").and(architecture);
        launch.and("--set").and(log).start().unwrap_or_else(|refused| panic!("{refused}"))
    }

    fn log(&self) -> PathBuf {
        self.directory.path().join("access.log")
    }
}

/// Starts php-fpm at a socket, for what is in a directory, which it may write to.
pub(crate) fn start_fpm(here: &Path, socket: &str) -> Responder {
    let shown = here.display();
    fs::set_permissions(here, fs::Permissions::from_mode(0o755)).unwrap();
    let (owner, user) = match is_root() {
        true => ("www-data:www-data", "user = www-data\ngroup = www-data\nlisten.mode = 0666"),
        false => ("", ""),
    };
    if !owner.is_empty() {
        run(program("chown").args(["-R", owner]).arg(here));
        chown(here, Some(WWW_DATA), Some(WWW_DATA)).unwrap();
    }
    let table = TABLE.replace("HERE", &shown.to_string()).replace("USER", user);
    let path = here.join("fpm.conf");
    put(&path, table.replace("SOCKET", &socket.replace("HERE", &shown.to_string())));
    let fpm = Responder::start(Command::new("php-fpm8.2").arg("-F").arg("-y").arg(&path));
    let log = here.join("fpm.log");
    let ready = || fs::read_to_string(&log).ok().filter(|log| log.contains("ready to handle"));
    let is_ready = wait::until(wait::DEADLINE, ready).is_some();
    assert!(is_ready, "php-fpm is not: {:?}", fs::read_to_string(&log));
    fpm
}

/// Logs in, writes a page and looks at it, and tells by a last request what it saw.
const CLICKS: &str = r##"<!doctype html>
<meta charset="utf-8">
<title>check</title>
<link rel="icon" href="data:,">
<iframe id="page" width="900" height="700"></iframe>
<script>
const frame = document.getElementById("page");
const after = act => new Promise(done => {
  frame.addEventListener("load", () => done(frame.contentDocument), { once: true });
  act();
});
const open = path => after(() => { frame.src = path; });
async function click() {
  let page = await open("/");
  const before = !!page.querySelector("a.action.login, .action.login a");
  page = await open("/doku.php?id=start&do=login");
  const form = page.querySelector("#dw__login");
  form.elements.u.value = "ann";
  form.elements.p.value = "secret";
  page = await after(() => form.querySelector("button[type=submit]").click());
  const user = page.querySelector("#dokuwiki__usertools .user, li.user").textContent;
  page = await open("/doku.php?id=visited&do=edit");
  page.querySelector("#wiki__text").value = "====== Visited ======\nby **bold** hands";
  page = await after(() => page.querySelector("#edbtn__save").click());
  const text = page.querySelector("#dokuwiki__content");
  const style = getComputedStyle(page.querySelector("#dokuwiki__header")).display;
  return [
    "login:" + before,
    "user:" + user.includes("Ann"),
    "title:" + text.querySelector("h1").textContent,
    "bold:" + text.querySelector("strong").textContent,
    "styled:" + (page.styleSheets.length > 0 && style !== ""),
    "logo:" + (page.querySelector("#dokuwiki__header img").naturalWidth > 0),
  ].join("|");
}
click().catch(error => "failed:" + error).then(seen =>
  fetch("seen.txt?seen=" + encodeURIComponent(seen)));
</script>
"##;

const SEEN: &str = "login:true|user:true|title:Visited|bold:bold|styled:true|logo:true";

fn a_wiki_is_clicked_through_in_chromium(architecture: &str) {
    if !have(&["chromium"]) || !has_php() {
        return;
    }
    let wiki = Wiki::start("HERE/php.sock");
    let server = wiki.serve(architecture, "unix:HERE/php.sock");
    let home = tempfile::tempdir().unwrap();
    let console = home.path().join("console");
    let url = format!("http://{}/check.html", server.address());
    let log = wiki.log();
    let told = Chromium::open(&url, home.path(), &console).told(&log, "/seen.txt");
    let asked = fs::read_to_string(&log).unwrap_or_default();
    assert_eq!(told.as_deref(), Some(SEEN), "{}\n{asked}", server.errors());
    let saved = wiki.directory.path().join("data/pages/visited.txt");
    assert!(fs::read_to_string(saved).unwrap().contains("by **bold** hands"));
    assert!(!server.errors().contains("502"), "{}", server.errors());
}

/// The same php-fpm at an address, without a browser: a page, a script below, and no script.
fn a_wiki_answers_over_tcp(architecture: &str) {
    if !has_php() {
        return;
    }
    let free = free_address().to_string();
    let wiki = Wiki::start(&free);
    let server = wiki.serve(architecture, &free);
    let mut client = server.connect();
    let mut ask = |path: &str| {
        client.send(format!("GET {path} HTTP/1.1\r\nHost: a\r\n\r\n"));
        let head = client.response_head();
        let body = match head.content_length() {
            Some(len) => client.take(len),
            None => client.chunks().concat(),
        };
        (head.status(), String::from_utf8_lossy(&body).into_owned())
    };
    assert_eq!(ask("/").0, 302);
    let (status, page) = ask("/doku.php?id=start");
    assert!(status == 200 && page.contains("<title>start [Test]</title>"), "{status}: {page}");
    let (status, style) = ask("/lib/exe/css.php");
    assert!(status == 200 && style.len() > 10_000, "{status}: {} bytes", style.len());
    // The server is not asked for a script that is not there.
    let (status, page) = ask("/none.php");
    assert!(status == 404 && page.contains("nothing at this address"), "{status}: {page}");
    assert!(!ask("/doku.php/x/").1.contains("<?php"));
}

on_architectures! {
    // A browser takes seconds: every other way to wait has the tests with bytes.
    [full n_copy = "n-copy"]
    [a_wiki_is_clicked_through_in_chromium]
}

on_architectures! {
    [fast uring = "uring", full watpipe = "watpipe"]
    [a_wiki_answers_over_tcp]
}

pub(crate) fn has_php() -> bool {
    if !have(&["php-fpm8.2", "php8.2"]) {
        return false;
    }
    let is_there = Path::new("/usr/share/dokuwiki/doku.php").exists();
    if !is_there {
        skip("dokuwiki is not installed");
    }
    is_there
}

/// Repositories as cgit shows them: by fcgiwrap, and as a CGI program, which says the same.
#[test]
fn cgit_shows_a_repository_by_fcgiwrap_and_by_cgi() {
    let cgit = Path::new("/usr/lib/cgit/cgit.cgi");
    if !have(&["git", "fcgiwrap"]) || !cgit.exists() {
        return skip("cgit is not installed");
    }
    let directory = tempfile::tempdir().unwrap();
    let here = directory.path();
    fs::set_permissions(here, fs::Permissions::from_mode(0o755)).unwrap();
    let git = |arguments: &[&str]| {
        let mut git = program("git");
        git.args(["-c", "user.name=a", "-c", "user.email=a@b"]).args(arguments);
        run(git.env("HOME", here).current_dir(here))
    };
    git(&["init", "-q", "-b", "main", "project"]);
    put(&here.join("project/file"), "some text\n");
    git(&["-C", "project", "add", "file"]);
    git(&["-C", "project", "commit", "-q", "-m", "a first commit"]);
    let config = here.join("cgitrc");
    put(
        &config,
        format!(
            "cache-size=0\nvirtual-root=/\nrepo.url=project\nrepo.path={}/project/.git\n",
            here.display()
        ),
    );
    let socket = here.join("wrap.sock");
    let listens = format!("unix:{}", socket.display());
    let _wrap = Responder::start(Command::new("fcgiwrap").arg("-s").arg(listens));
    wait::until(wait::DEADLINE, || socket.exists().then_some(())).expect("fcgiwrap listens");
    fs::set_permissions(&socket, fs::Permissions::from_mode(0o777)).unwrap();
    let user = as_ourselves();
    let site = format!("{user}listen = \"127.0.0.1:0\"\n[[site]]\nroot = \"{}\"\n", here.display());
    let variables = format!("{{ CGIT_CONFIG = \"{}\" }}", config.display());
    let by_wrap = format!(
        "{site}[[site.fastcgi]]\nscript = \"{}\"\nsocket = \"unix:{}\"\nparams = {variables}\n",
        cgit.display(),
        socket.display()
    );
    let by_cgi = format!(
        "{site}[[site.cgi]]\npath = \"/\"\nprogram = \"{}\"\nenvironment = {variables}\n",
        cgit.display()
    );
    for config in [by_wrap, by_cgi] {
        let server = Launch::config(config.as_str()).start().unwrap();
        for (path, shown) in [
            ("/", "project"),
            ("/project/log/", "a first commit"),
            ("/project/plain/file", "some text"),
        ] {
            let mut client = server.connect();
            client.send(format!("GET {path} HTTP/1.0\r\nHost: a\r\n\r\n"));
            let all = String::from_utf8_lossy(&client.rest()).into_owned();
            assert!(all.contains(shown), "{path}: {all}\n{}", server.errors());
        }
    }
}
