//! Another program takes a running server's place, with its listening sockets; when it fails, the
//! one that runs goes on.
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use crate::common::load::under_load;
use crate::common::{
    Launch, Server, Site, architectures, children, copy_program, end_successor, get, is_agent,
    is_running, last_get, refused, signal, text, told, wait_for, within, write_script,
};
use flyball_testkit::{Identity, Visitor};
use tempfile::TempDir;

/// Architectures whose workers wait in ways of their own: ready sockets of their own, threads that
/// block, a ring, processes.
const KINDS: [&str; 4] = ["n-copy", "mt", "uring", "mp"];

/// Length of a file that is more than sockets hold.
const LARGE: usize = 12 << 20;

/// A server that was started from a program of its own, which can be replaced.
struct Installed {
    directory: TempDir,
    server: Server,
    _site: Site,
}

impl Installed {
    fn start(arch: &str) -> Installed {
        Installed::with(arch, &[], |_| (String::new(), String::new()))
    }

    /// The same with further arguments, and settings of the server and of its site, told where its
    /// files are.
    fn with(
        arch: &str,
        arguments: &[&str],
        more: impl FnOnce(&TempDir) -> (String, String),
    ) -> Installed {
        let site = Site::with(&[("small.txt", &[b'x'; 1024]), ("large.bin", &[b'y'; LARGE])]);
        let directory = tempfile::tempdir().expect("a temporary directory");
        let (server, of_site) = more(&directory);
        let program = within(&directory, "flyball");
        copy_program(&program);
        let config = within(&directory, "flyball.toml");
        let lines = format!(
            "arch = \"{arch}\"\nworkers = 2\ndrain = \"5s\"\nadmin = \"unix:{}\"\n\
             pid-file = \"{}\"\n{server}\n[[site]]\nroot = {:?}\n{of_site}\n",
            text(&within(&directory, "admin")),
            text(&within(&directory, "pid")),
            text(site.path())
        );
        std::fs::write(&config, lines).expect("the file is written");
        let launch = Launch::program(&[program.into()]).asked();
        let launch = launch.args(&["--config", text(&config), "--listen", "127.0.0.1:0"]);
        let server = launch.args(arguments).start();
        Installed { directory, server, _site: site }
    }

    /// One that speaks TLS, too.
    fn secure(arch: &str) -> Installed {
        Installed::secure_by(arch, |_| String::new())
    }

    /// The same with settings of the server, told where its files are.
    fn secure_by(arch: &str, more: impl FnOnce(&TempDir) -> String) -> Installed {
        Installed::with(arch, &["--listen", "https://127.0.0.1:0"], |directory| {
            let file = within(directory, "certificate.pem");
            let Identity { chain, key, .. } = Identity::shared();
            write_hidden(&file, &format!("{chain}{key}"));
            (more(directory), format!("certificate = {file:?}\n"))
        })
    }

    fn socket(&self) -> PathBuf {
        within(&self.directory, "admin")
    }

    fn program(&self) -> PathBuf {
        within(&self.directory, "flyball")
    }

    /// Puts another program in the place of the running one, as a package does.
    fn install(&self, make: impl FnOnce(&Path)) {
        let new = within(&self.directory, "flyball.new");
        make(&new);
        std::fs::rename(&new, self.program()).expect("it is renamed");
    }

    fn install_itself(&self) {
        self.install(copy_program);
    }

    fn install_script(&self, script: &str) {
        self.install(|new| write_script(new, script));
    }

    /// The process id in the PID file.
    #[track_caller]
    fn pid(&self) -> u32 {
        wait_for("the PID file", || {
            std::fs::read_to_string(within(&self.directory, "pid")).ok()?.trim().parse().ok()
        })
    }
}

/// Ends the server of the PID file with the test.
impl Drop for Installed {
    fn drop(&mut self) {
        end_successor(&self.directory, &self.server);
    }
}

#[test]
fn an_upgrade_under_load_fails_no_request() {
    for arch in KINDS {
        let mut installed = Installed::start(arch);
        let old = installed.pid();
        assert_eq!(old, installed.server.master());
        installed.install_itself();
        under_load(&installed.server, |done| {
            done.wait_for_more();
            let said = told(&installed.socket(), &["upgrade"]);
            assert!(said.ends_with(" has taken over\n"), "{arch}: {said}");
            done.wait_for_more();
            assert_ne!(installed.pid(), old, "{arch}");
        });
        let new = installed.pid();
        assert!(installed.server.ended().success(), "{arch}");
        // The file is of the new master: the old one did not remove it.
        assert_eq!(installed.pid(), new);
        let exe = std::fs::read_link(format!("/proc/{new}/exe")).expect("it runs");
        assert_eq!(exe, installed.program(), "{arch}");
        let status: serde_json::Value =
            serde_json::from_str(&told(&installed.socket(), &["status"])).expect("JSON");
        assert_eq!(status["generation"], 1, "{arch}");
        assert_eq!(installed.server.connect().ask(get("/small.txt")).status(), 200);
        signal(new, "TERM");
        wait_for("the new master ends", || (!is_running(new)).then_some(()));
        assert!(!within(&installed.directory, "pid").exists(), "{arch}");
        let said = installed.server.errors.so_far();
        assert!(!said.contains("panicked") && !said.contains("is killed"), "{said}");
    }
}

/// A connection that was kept, and the rest of a download, are served; and those who come again
/// resume their sessions with the new program.
#[test]
fn an_upgrade_over_tls_ends_no_connection_and_sessions_are_resumed_afterwards() {
    // Workers of the last take from one socket, each with a memory of its own.
    let kinds = KINDS.into_iter().chain(["symped"]);
    for arch in kinds.filter(|kind| architectures().contains(kind)) {
        let mut installed = Installed::secure(arch);
        let port = installed.server.secure.expect("it speaks TLS");
        let visitor = Visitor::new();
        let connect = || visitor.connect(([127, 0, 0, 1], port).into());
        // As many as a visitor keeps tickets of.
        let mut first: Vec<_> = (0..8).map(|_| connect()).collect();
        for client in &mut first {
            assert_eq!(client.ask(last_get("/small.txt")).status(), 200);
        }
        let (mut kept, mut download) = (connect(), connect());
        assert_eq!(kept.ask(get("/small.txt")).status(), 200);
        download.send(last_get("/large.bin"));
        assert_eq!(download.response_head().status(), 200);
        let begun = download.take(100_000).len();
        installed.install_itself();
        let said = told(&installed.socket(), &["upgrade"]);
        assert!(said.ends_with(" has taken over\n"), "{arch}: {said}");
        let answer = kept.ask(get("/small.txt"));
        assert_eq!((answer.status(), answer.body.len()), (200, 1024), "{arch}");
        assert_eq!(begun + download.rest().len(), LARGE, "{arch}");
        // At once at first, so that every ticket is one of the program before.
        let mut again: Vec<_> = (0..8).map(|_| connect()).collect();
        again.extend((8..100).map(|_| {
            let mut client = connect();
            assert_eq!(client.ask(last_get("/small.txt")).status(), 200);
            client
        }));
        let resumed = again.iter().filter(|client| client.is_resumed()).count();
        assert!(resumed >= 99, "{arch}: {resumed} of {}", again.len());
        let new = installed.pid();
        drop((first, kept, again));
        assert!(installed.server.ended().success(), "{arch}");
        signal(new, "TERM");
        wait_for("the new master ends", || (!is_running(new)).then_some(()));
        let said = installed.server.errors.so_far();
        assert!(!said.contains("panicked") && !said.contains("is killed"), "{said}");
    }
}

/// The first upgrade hands on what is in use, and the second what the first was handed.
#[test]
fn an_upgrade_keeps_a_certificate_that_holds_from_one_that_does_not() {
    let installed = Installed::secure("n-copy");
    let address = ([127, 0, 0, 1], installed.server.secure.expect("it speaks TLS")).into();
    let mut params = rcgen::CertificateParams::new(["localhost".to_owned()]).unwrap();
    params.not_after = rcgen::date_time_ymd(2020, 1, 1);
    let key = rcgen::KeyPair::generate().unwrap();
    let text = params.self_signed(&key).unwrap().pem() + &key.serialize_pem();
    std::fs::write(within(&installed.directory, "certificate.pem"), text).unwrap();
    for upgrades in 1..3 {
        let before = installed.pid();
        installed.install_itself();
        let said = told(&installed.socket(), &["upgrade"]);
        assert!(said.ends_with(" has taken over\n"), "{said}");
        wait_for("another PID", || Some(installed.pid()).filter(|pid| *pid != before));
        // One who trusts the certificate that was there alone.
        let mut client = Visitor::new().connect(address);
        assert_eq!(client.ask(get("/small.txt")).status(), 200);
        let status = told(&installed.socket(), &["status"]);
        assert!(status.contains("the certificate in use stays: "), "{upgrades}: {status}");
        let said = installed.server.errors.so_far();
        let warned = said.matches("certificate.pem holds a certificate that expired ").count();
        assert!(warned >= upgrades, "{upgrades}:\n{said}");
    }
}

#[test]
fn tickets_by_a_file_that_was_replaced_are_resumed_after_an_upgrade() {
    let mut installed = Installed::secure_by("n-copy", |directory| {
        let file = within(directory, "tickets");
        write_hidden(&file, &text_of("one"));
        format!("[tls]\nwatch = \"100ms\"\ntickets = {file:?}\n")
    });
    let address = ([127, 0, 0, 1], installed.server.secure.expect("it speaks TLS")).into();
    let visitor = Visitor::new();
    let resumes = || {
        let mut client = visitor.connect(address);
        assert_eq!(client.ask(get("/small.txt")).status(), 200);
        client.is_resumed()
    };
    assert!(!resumes());
    let next = within(&installed.directory, "next");
    write_hidden(&next, &text_of("two"));
    std::fs::rename(next, within(&installed.directory, "tickets")).unwrap();
    wait_for("the next keys", || {
        installed.server.errors.so_far().contains("tickets is in use").then_some(())
    });
    installed.install_itself();
    let said = told(&installed.socket(), &["upgrade"]);
    assert!(said.ends_with(" has taken over\n"), "{said}");
    assert!(resumes(), "by a ticket from before");
    assert!(installed.server.ended().success());
}

/// A text that no part is repeated in.
fn text_of(word: &str) -> String {
    (0..20).map(|at| format!("{word}{at}")).collect()
}

fn write_hidden(path: &Path, text: &str) {
    std::fs::write(path, text).expect("the file is written");
    let mode = std::fs::Permissions::from_mode(0o600);
    std::fs::set_permissions(path, mode).expect("and hidden");
}

/// Tries them beside one another: each spends its time waiting.
fn on_each_kind(test: fn(&str)) {
    std::thread::scope(|scope| {
        for arch in architectures().into_iter().filter(|arch| KINDS.contains(arch)) {
            scope.spawn(move || test(arch));
        }
    });
}

#[test]
fn a_program_that_fails_leaves_the_running_one_in_its_place() {
    on_each_kind(fails_and_leaves_the_running_one);
}

fn fails_and_leaves_the_running_one(arch: &str) {
    let installed = Installed::start(arch);
    let (socket, old) = (installed.socket(), installed.pid());
    under_load(&installed.server, |done| {
        installed.install_script("exit 7");
        let said = refused(&socket, &["upgrade"]);
        assert!(said.contains("the upgrade failed, and this server goes on"), "{said}");
        done.wait_for_more();
        // What is no program at all.
        installed.install(|new| std::fs::write(new, "nonsense").expect("it is written"));
        signal(old, "USR2");
        installed.server.errors.wait_for("that it cannot run", |said| {
            said.contains("cannot run ") && said.matches("the upgrade failed").count() == 2
        });
        done.wait_for_more();
        // A program that is right, with a configuration that is not.
        installed.install_itself();
        let config = within(&installed.directory, "flyball.toml");
        let before = std::fs::read_to_string(&config).expect("it is there");
        std::fs::write(&config, "arch = \"none\"").expect("it is written");
        let said = refused(&socket, &["upgrade"]);
        assert!(said.contains("this server goes on"), "{said}");
        installed.server.errors.wait_for("why", |said| said.contains("no architecture \"none\""));
        std::fs::write(&config, before).expect("it is written");
        done.wait_for_more();
    });
    assert_eq!(installed.pid(), old);
    assert!(is_running(old));
}

/// It has said that it is prepared, and so the workers have left their sockets.
#[test]
fn a_program_that_fails_after_the_workers_have_left_brings_them_back() {
    if crate::common::has("python3") {
        on_each_kind(fails_when_the_workers_have_left);
    }
}

fn fails_when_the_workers_have_left(arch: &str) {
    let installed = Installed::start(arch);
    installed.install_script(&says_prepared_and("s.close()"));
    under_load(&installed.server, |done| {
        let said = refused(&installed.socket(), &["upgrade"]);
        assert!(said.contains("this server goes on"), "{said}");
        done.wait_for_more();
    });
    let said = told(&installed.socket(), &["status"]);
    assert!(said.contains("\"generation\": 2"), "{arch}: {said}");
    assert!(said.contains(&format!("\"arch\": {arch:?}")), "{arch}: {said}");
}

/// What a master says to the one before, in Python, with its half of the pair as `s`.
fn says_prepared_and(then: &str) -> String {
    format!(
        "fd=${{FLYBALL_HANDOVER#*ready=}}; fd=${{fd%% *}}\n\
         exec python3 -c \"import socket, time; s = socket.socket(fileno=$fd); \
         s.send(b'prepared'); assert s.recv(64) == b'go'; {then}\""
    )
}

/// By a signal, whether the workers have left for the new program or not; and no other's names go.
#[test]
fn a_stop_during_an_upgrade_holds_for_both() {
    if !crate::common::has("python3") {
        return;
    }
    for script in ["exec sleep 600".to_owned(), says_prepared_and("time.sleep(600)")] {
        let mut installed = Installed::start("n-copy");
        installed.install_script(&script);
        signal(installed.server.master(), "USR2");
        let started = "is started as process ";
        let said = installed.server.errors.wait_for(started, |said| said.contains(started));
        let number = said.split(started).nth(1).and_then(|rest| rest.split_whitespace().next());
        let new: u32 = number.and_then(|number| number.parse().ok()).expect("a process");
        signal(installed.server.master(), "TERM");
        assert!(installed.server.ended().success());
        wait_for("that the new program is ended", || (!is_running(new)).then_some(()));
        assert!(!installed.socket().exists());
    }
}

#[test]
fn a_program_that_is_not_ready_in_time_is_ended_and_the_running_one_goes_on() {
    if !crate::common::has("python3") {
        return;
    }
    let limit = |_: &TempDir| ("upgrade-timeout = \"700ms\"".to_owned(), String::new());
    let installed = Installed::with("n-copy", &[], limit);
    let (socket, old) = (installed.socket(), installed.pid());
    under_load(&installed.server, |done| {
        let mut tried = 0;
        let mut try_in_vain = |script: &str| {
            installed.install_script(script);
            let said = refused(&socket, &["upgrade"]);
            assert!(said.contains("not ready within 700 ms (upgrade-timeout)"), "{said}");
            tried += 1;
            done.wait_for_more();
            let said = installed.server.errors.so_far();
            let started = said.lines().filter_map(|line| line.split("started as process ").nth(1));
            let ids: Vec<u32> = started.filter_map(|id| id.parse().ok()).collect();
            assert_eq!(ids.len(), tried, "{said}");
            wait_for("its end", || (!is_running(ids[tried - 1])).then_some(()));
        };
        try_in_vain("exec sleep 600");
        // It had not left its sockets for that.
        assert_eq!(generation(&socket), 1);
        // On a busy machine another may not even come as far as to say that it is prepared.
        let went = within(&installed.directory, "went");
        let then = format!("open({:?}, 'w'); time.sleep(600)", text(&went)).replace('"', "'");
        wait_for("a program that was let go on", || {
            try_in_vain(&says_prepared_and(&then));
            went.exists().then_some(())
        });
    });
    assert_eq!(installed.pid(), old);
    // Workers that leave for one that is not ready in time come back as another generation; on a
    // busy machine they may have done so before.
    assert!(generation(&socket) >= 2);
}

/// The number of the generation that accepts.
fn generation(socket: &Path) -> u64 {
    let status: serde_json::Value = serde_json::from_str(&told(socket, &["status"])).expect("JSON");
    status["generation"].as_u64().expect("a number")
}

/// All processes that a master has started.
fn family(master: u32) -> Vec<u32> {
    let mut all = crate::common::children(master);
    let mut at = 0;
    while at < all.len() {
        all.extend(crate::common::children(all[at]));
        at += 1;
    }
    all
}

#[test]
fn the_log_and_the_programs_of_an_upgraded_server_go_on_and_the_old_ones_end() {
    let user = if flyball_sys::process::is_root() { "user = \"root\"\n" } else { "" };
    let mut installed = Installed::with("symped", &[], |directory| {
        let program = within(directory, "hello");
        let head = "echo Content-Type: text/plain; echo Content-Length: 6; echo";
        write_script(&program, &format!("{head}; echo hello"));
        let (log, program) = (within(directory, "access.log"), text(&program).to_owned());
        let server = format!("{user}access-log = {:?}\nlog.format = \"$path\"", text(&log));
        (server, format!("[[site.cgi]]\npath = \"/run\"\nprogram = {program:?}"))
    });
    let (socket, log) = (installed.socket(), within(&installed.directory, "access.log"));
    let ask = |server: &Server, at: usize| {
        let mut client = server.connect();
        assert_eq!(client.ask(get(&format!("/none{at}"))).status(), 404);
        assert_eq!(client.ask(get("/run")).text(), "hello\n");
    };
    let mut masters = vec![installed.pid()];
    let mut families = Vec::new();
    for round in 0..3 {
        ask(&installed.server, round);
        if round == 2 {
            break;
        }
        let old = masters[round];
        // Two workers, the log, who starts programs, and the admin process; no program any more.
        families.push(wait_for("the programs' end", || {
            Some(family(old)).filter(|family| family.len() == 5)
        }));
        told(&socket, &["upgrade"]);
        let new = wait_for("the new PID", || Some(installed.pid()).filter(|pid| *pid != old));
        masters.push(new);
        wait_for("the old master and all of its processes end", || {
            let mut all = families[round].iter().chain([&old]);
            (!all.any(|process| is_running(*process))).then_some(())
        });
    }
    assert!(installed.server.ended().success());
    let lines = |path: &Path| std::fs::read_to_string(path).unwrap_or_default();
    let expected = "/none0\n/run\n/none1\n/run\n/none2\n/run\n";
    wait_for("all lines", || (lines(&log) == expected).then_some(()));
    // A signal to the newest master opens the log again.
    let aside = within(&installed.directory, "access.log.old");
    std::fs::rename(&log, &aside).expect("it is renamed");
    signal(masters[2], "USR1");
    wait_for("another file", || log.exists().then_some(()));
    ask(&installed.server, 3);
    wait_for("its lines", || (lines(&log) == "/none3\n/run\n").then_some(()));
    assert_eq!(lines(&aside), expected);
}

#[test]
fn an_upgraded_server_can_be_upgraded_and_reloaded() {
    let mut installed = Installed::start("symped");
    let socket = installed.socket();
    let first = installed.pid();
    told(&socket, &["upgrade"]);
    let second = wait_for("the new PID", || Some(installed.pid()).filter(|pid| *pid != first));
    assert!(installed.server.ended().success());
    let said = told(&socket, &["reload"]);
    assert!(said.contains("generation 2, symped"), "{said}");
    told(&socket, &["upgrade"]);
    wait_for("another PID", || Some(installed.pid()).filter(|pid| *pid != second));
    wait_for("the second master ends", || (!is_running(second)).then_some(()));
    assert_eq!(installed.server.connect().ask(get("/small.txt")).status(), 200);
}

#[test]
fn one_agent_gets_certificates_before_during_and_after_an_upgrade() {
    let listen = format!("https://{}", flyball_testkit::free_address());
    let mut installed = Installed::with("n-copy", &["--listen", &listen], |directory| {
        let storage = within(directory, "acme");
        let server = flyball_testkit::as_ourselves().to_owned()
            + &format!(
                "[acme]\ndirectory = \"https://127.0.0.1:1/dir\"\nstorage = {:?}\n",
                text(&storage)
            );
        (server, "hosts = [\"a.test\"]\ncertificate = \"acme\"\n".to_owned())
    });
    let old = installed.pid();
    let agents_of = |master: u32| children(master).into_iter().filter(|child| is_agent(*child));
    let all = |masters: &[u32]| masters.iter().flat_map(|one| agents_of(*one)).collect::<Vec<_>>();
    let first = wait_for("the agent", || all(&[old]).first().copied());
    installed.install_itself();
    let (socket, done) = (installed.socket(), std::sync::atomic::AtomicBool::new(false));
    let most = std::thread::scope(|scope| {
        let asked = scope.spawn(|| {
            let said = told(&socket, &["upgrade"]);
            done.store(true, std::sync::atomic::Ordering::Relaxed);
            said
        });
        let mut most = 0;
        while !done.load(std::sync::atomic::Ordering::Relaxed) {
            let masters: Vec<u32> = children(old).into_iter().chain([old]).collect();
            most = all(&masters).len().max(most);
            std::thread::yield_now();
        }
        assert!(asked.join().unwrap().ends_with(" has taken over\n"));
        most
    });
    let new = installed.pid();
    assert_ne!(new, old);
    let next = wait_for("the agent of the new master", || all(&[new]).first().copied());
    assert_ne!(next, first);
    assert_eq!((most, all(&[old, new])), (1, vec![next]));
    assert!(installed.server.ended().success());
    assert_eq!(all(&[new]), [next]);
}
