//! Slow clients hold no backend: what is too long for memory waits in files, on its way to the
//! backend until it is whole, and on its way back until the client takes it.

use std::fs::{Permissions, set_permissions};
use std::io::Read;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use crate::backend_faults::{children, processes};
use crate::common_programs::served::put;
use crate::common_programs::{have, noise, on_every_architecture};
use crate::fastcgi::{Front, Link, answer, chunked, end, get, record, start, start_workers, value};
use crate::links::{expect_given, nobody_connects};
use crate::responders::{Responder, is_root};
use flyball_testkit::{Client, Launch, Server, free_address, wait};

/// Clients that are slow at the same time.
const SLOW: usize = 8;

/// Processes of `mp` have one connection each.
const WORKERS_OF_MP: usize = SLOW + 2;

/// A server with one child: the test, which takes a link when it is ready for one.
const TABLE: &str = "[[site.fastcgi]]\npath = \"/one\"\nSOCKET\nhold = \"64KiB\"\n\
                     buffer = \"128KiB\"\n";

fn one_child(architecture: &str, more: &str) -> Option<Front> {
    let workers = if architecture == "mp" { WORKERS_OF_MP } else { 1 };
    start_workers(architecture, workers, &format!("{TABLE}{more}"))
}

/// An upload without its last bytes, and these.
fn upload(number: usize, body: &[u8]) -> (Vec<u8>, Vec<u8>) {
    upload_to("/one/slow", number, body)
}

fn upload_to(path: &str, number: usize, body: &[u8]) -> (Vec<u8>, Vec<u8>) {
    let (framing, mut all) = match number % 2 {
        0 => (format!("Content-Length: {}", body.len()), body.to_vec()),
        _ => ("Transfer-Encoding: chunked".to_string(), chunked(body)),
    };
    let last = all.split_off(all.len() - 7);
    let head = format!("POST {path} HTTP/1.1\r\nHost: a\r\n{framing}\r\n\r\n");
    ([head.into_bytes(), all].concat(), last)
}

/// Eight of them are under way, and an honest request is answered; then each arrives whole.
fn upload_slowly(front: &Front, body: &[u8]) {
    let mut slow: Vec<(Client, Vec<u8>)> = Vec::new();
    for number in 0..SLOW {
        let (first, last) = upload(number, body);
        let mut client = front.server.connect();
        client.send(first);
        slow.push((client, last));
    }
    expect_given(front, SLOW as u64);
    nobody_connects(front);
    let mut honest = front.server.connect();
    honest.send(get("/one/honest"));
    let mut link = front.accept();
    assert_eq!(value(&link.params(0), "PATH_INFO"), Some("/honest"));
    assert_eq!(link.stream(5), b"");
    link.answer("A: b\r\n\r\nhonest");
    assert_eq!(answer(&mut honest).1, "honest");
    nobody_connects(front);
    for (client, last) in &mut slow {
        client.send(last);
        let mut link = front.accept();
        let params = link.params(0);
        assert_eq!(value(&params, "CONTENT_LENGTH"), Some(&*body.len().to_string()));
        assert_eq!(value(&params, "HTTP_TRANSFER_ENCODING"), None);
        assert!(link.stream(5) == body, "another body came");
        link.answer("A: b\r\n\r\nslow");
        assert_eq!(answer(client).1, "slow");
    }
}

fn slow_uploads_keep_the_only_child_from_nobody(architecture: &str) {
    let Some(front) = one_child(architecture, "") else { return };
    upload_slowly(&front, &noise(1, 700_001));
}

#[test]
#[ignore = "full tier"]
fn slow_uploads_of_60_mb_keep_the_only_child_from_nobody() {
    let Some(front) = start("n-copy", "[[site.fastcgi]]\npath = \"/one\"\nSOCKET\n") else {
        return;
    };
    upload_slowly(&front, &noise(2, 60_000_000));
}

/// Waits until this counter has this value.
fn expect_counted(front: &Front, name: &str, count: u64) {
    let counted = || (front.counted(name) == count).then_some(());
    assert!(wait::until(wait::DEADLINE, counted).is_some(), "{name}: {}", front.server.status());
}

/// A client whose request is passed on, unless it is refused.
fn served(front: &Front, request: &[u8]) -> Option<(Client, Link)> {
    let mut client = Client::try_connect(front.server.address())?;
    client.try_send(request);
    let refused = |client: &mut Client| client.arrived().then_some(None);
    let outcome = || front.try_accept().map(Some).or_else(|| refused(&mut client));
    wait::until(wait::DEADLINE, outcome)?.map(|link| (client, link))
}

/// Waits until there is room for this request, whose body reaches the backend whole.
fn expect_room(front: &Front, request: &[u8], body: &[u8]) {
    let (mut client, mut link) =
        wait::until(wait::DEADLINE, || served(front, request)).expect("room");
    link.params(0);
    assert!(link.stream(5) == body, "another body came");
    link.answer("A: b\r\n\r\nnext");
    assert_eq!(answer(&mut client).1, "next");
}

/// Waits until a file without a name holds so much of a body.
fn expect_stored(front: &Front, least: u64) {
    let holds = |pid: &u32| {
        let open = std::fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
        let mut files = open.filter_map(|fd| std::fs::metadata(fd.path()).ok());
        files.any(|file| file.is_file() && file.nlink() == 0 && file.len() >= least)
    };
    let stored = || processes(&front.server).keys().any(holds).then_some(());
    assert!(wait::until(wait::DEADLINE, stored).is_some(), "never {least} bytes");
}

fn a_full_spool_is_503_and_counted_until_there_is_room(architecture: &str) {
    let Some(front) = one_child(architecture, "[spool]\nmax = \"1MiB\"\n") else { return };
    let body = noise(3, 900_000);
    let (first, last) = upload(0, &body);
    let mut slow = front.server.connect();
    slow.send(&first);
    expect_given(&front, 1);
    // All but what is in memory, and less than what is written at a time.
    expect_stored(&front, 768 * 1024);
    for number in 0..2 {
        let mut refused = front.server.connect();
        let (first, _) = upload(number, &body);
        // It is answered before its body has ended.
        refused.try_send(first);
        let head = refused.response_head();
        assert_eq!((head.status(), head.expect("Connection")), (503, "close"));
        expect_counted(&front, "spool_full", number as u64 + 1);
    }
    front.expect_logged("the place for request bodies is full");
    nobody_connects(&front);
    assert_eq!(front.counted("backend_failures_503"), 0);
    slow.reset();
    expect_room(&front, &[first, last].concat(), &body);
}

/// What a worker had there is free when it has died.
fn a_worker_that_dies_gives_its_room_back(architecture: &str) {
    let Some(front) = one_child(architecture, "[spool]\nmax = \"1MiB\"\n") else { return };
    let body = noise(12, 900_000);
    let (first, last) = upload(0, &body);
    let mut slow = front.server.connect();
    slow.send(&first);
    expect_given(&front, 1);
    for process in children(&front.server) {
        let _ = Command::new("kill").args(["-9", &process.to_string()]).status();
    }
    expect_room(&front, &[first, last].concat(), &body);
}

/// Without a place that can be written nothing is run for a body that memory does not hold.
fn expect_memory_alone(front: &Front) {
    let body = noise(4, 100_000);
    for (number, status) in [(0, 413), (1, 411)] {
        let mut client = front.server.connect();
        client.try_send(upload(number, &body).0);
        assert_eq!(client.response_head().status(), status);
    }
    nobody_connects(front);
    let mut client = front.server.connect();
    let (first, last) = upload(1, &body[..60_000]);
    client.send([first, last].concat());
    let mut link = front.accept();
    assert_eq!(value(&link.params(0), "CONTENT_LENGTH"), Some("60000"));
    assert!(link.stream(5) == body[..60_000], "another body came");
    link.answer("A: b\r\n\r\nheld");
    assert_eq!(answer(&mut client).1, "held");
}

fn without_a_place_that_can_be_written_a_long_body_is_refused(architecture: &str) {
    let place = tempfile::tempdir().unwrap();
    set_permissions(place.path(), Permissions::from_mode(0o555)).unwrap();
    let more = format!("[spool]\ndirectory = \"{}\"\n", place.path().display());
    let Some(front) = one_child(architecture, &more) else { return };
    front.expect_logged("workers cannot write in");
    expect_memory_alone(&front);
}

#[test]
fn without_files_a_long_body_is_refused() {
    let Some(front) = one_child("sped", "[spool]\nmax = \"off\"\n") else { return };
    expect_memory_alone(&front);
    let nowhere = "[spool]\ndirectory = \"/no/such/directory\"\n";
    let Some(front) = one_child("sped", nowhere) else { return };
    expect_memory_alone(&front);
}

/// What the kernel holds of an answer to a slow client.
const IN_SOCKETS: usize = 64 * 1024;

/// How often a client pauses: two plans meet by chance.
const PAUSES: usize = 2;

/// Sockets that hold little, in a file for all of them.
const NARROW: &str = "[send]\nbuffer = \"64KiB\"\n";

/// An answer in records.
fn say(link: &mut Link, head: &str, body: &[u8]) {
    let mut all = record(6, head.as_bytes());
    body.chunks(60_000).for_each(|part| all.extend_from_slice(&record(6, part)));
    all.extend_from_slice(&end(0));
    link.say(&all);
}

fn read(client: &mut Client) -> Vec<u8> {
    match client.response_head().content_length() {
        Some(len) => client.take(len),
        None => client.chunks().concat(),
    }
}

/// A client that asks and does not read.
fn ask(front: &Front, path: &str) -> Client {
    let mut client = Client::connect_narrow(front.server.address(), IN_SOCKETS);
    client.send(get(path));
    client
}

/// The child answers a request, all of it before it goes on.
fn serve_next(front: &Front, body: &[u8], tells_length: bool) {
    let mut link = front.accept();
    link.params(0);
    assert_eq!(link.stream(5), b"");
    let length = match tells_length {
        true => format!("Content-Length: {}\r\n", body.len()),
        false => String::new(),
    };
    say(&mut link, &format!("Content-Type: a/b\r\n{length}\r\n"), body);
    link.expect_end();
}

/// Eight that do not read are under way, and an honest request is answered; then all read.
fn read_slowly(front: &Front, body: &[u8]) {
    let mut slow: Vec<Client> = Vec::new();
    for number in 0..SLOW {
        slow.push(ask(front, "/one/slow"));
        serve_next(front, body, number % 2 == 0);
    }
    let mut honest = front.server.connect();
    honest.send(get("/one/honest"));
    serve_next(front, b"honest", true);
    assert_eq!(answer(&mut honest).1, "honest");
    for client in &mut slow {
        assert!(read(client) == body, "another body came");
    }
}

fn slow_readers_keep_the_only_child_from_nobody(architecture: &str) {
    let Some(front) = one_child(architecture, NARROW) else { return };
    read_slowly(&front, &noise(5, 2_500_001));
}

/// A client that begins to read a coded answer of this text, and does not go on; and the link.
fn ask_for_coded(front: &Front) -> (Client, Link) {
    let mut client = Client::connect_narrow(front.server.address(), IN_SOCKETS);
    client.send("GET /one/a HTTP/1.1\r\nHost: a\r\nAccept-Encoding: gzip\r\n\r\n");
    let mut link = front.accept();
    link.params(0);
    assert_eq!(link.stream(5), b"");
    (client, link)
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Reads a coded answer to its end.
fn expect_coded(client: &mut Client, text: &str) {
    assert_eq!(client.response_head().field("Content-Encoding"), Some("gzip"));
    let mut plain = String::new();
    let coded = client.chunks().concat();
    flate2::read::GzDecoder::new(&*coded).read_to_string(&mut plain).unwrap();
    assert!(plain == text, "another body came");
}

/// What is coded on the way is coded when the client takes it.
fn a_slow_reader_of_a_coded_answer_holds_no_child_and_gets_all(architecture: &str) {
    let Some(front) = one_child(architecture, NARROW) else { return };
    let text = hex(&noise(11, 1_500_000));
    let (mut client, mut link) = ask_for_coded(&front);
    say(&mut link, "Content-Type: text/html\r\n\r\n", text.as_bytes());
    link.expect_end();
    expect_coded(&mut client, &text);
}

/// The encoder wants bytes from a file that the program is still writing to.
fn a_coded_answer_is_whole_for_a_client_that_pauses_while_its_program_writes(architecture: &str) {
    let Some(front) = one_child(architecture, "") else { return };
    let text = hex(&noise(12, 4_000_000));
    for _ in 0..PAUSES {
        let (mut client, mut link) = ask_for_coded(&front);
        let written = AtomicUsize::new(0);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                link.say(&record(6, b"Content-Type: text/html\r\n\r\n"));
                for part in text.as_bytes().chunks(60_000) {
                    link.say(&record(6, part));
                    written.fetch_add(part.len(), Relaxed);
                }
                link.say(&end(0));
            });
            let is_ahead = || (written.load(Relaxed) > text.len() / 4).then_some(());
            wait::until(wait::DEADLINE, is_ahead)
                .expect("what the client does not take is spooled");
            expect_coded(&mut client, &text);
        });
    }
}

#[test]
#[ignore = "full tier"]
fn slow_readers_of_20_mb_keep_the_only_child_from_nobody() {
    let Some(front) = start("n-copy", "[[site.fastcgi]]\npath = \"/one\"\nSOCKET\n") else {
        return;
    };
    read_slowly(&front, &noise(6, 20_000_000));
}

/// Where there is no room its program waits for the client, and nothing is lost.
fn an_answer_for_which_there_is_no_room_waits_for_its_client(architecture: &str) {
    let body = noise(7, 2_500_001);
    for more in ["[spool]\nmax = \"1MiB\"\n", "[spool]\nmax = \"off\"\n"] {
        let Some(front) = one_child(architecture, &format!("{NARROW}{more}")) else { return };
        let mut client = ask(&front, "/one/slow");
        std::thread::scope(|scope| {
            let child = scope.spawn(|| serve_next(&front, &body, false));
            let took = || (front.counted("bytes_sent") > 0).then_some(());
            assert!(wait::until(wait::DEADLINE, took).is_some(), "{}", front.server.status());
            assert!(read(&mut client) == body, "another body came");
            child.join().unwrap();
        });
    }
}

/// Bytes leave as they come, whatever may be held.
fn the_first_bytes_do_not_wait_for_others(architecture: &str) {
    let Some(front) = one_child(architecture, "") else { return };
    let mut client = front.server.connect();
    client.send(get("/one/a"));
    let mut link = front.accept();
    link.params(0);
    assert_eq!(link.stream(5), b"");
    link.say(&record(6, b"Content-Length: 400000\r\n\r\nfirst"));
    client.response_head();
    assert_eq!(client.take(5), b"first");
    let rest = noise(8, 399_995);
    say(&mut link, "", &rest);
    assert!(client.take(rest.len()) == rest, "another body came");
}

/// What came before an answer was broken off is passed on, and then that is told.
fn an_answer_that_breaks_off_behind_a_slow_client_breaks_off_there(architecture: &str) {
    let Some(front) = one_child(architecture, NARROW) else { return };
    let mut client = ask(&front, "/one/a");
    let mut link = front.accept();
    link.params(0);
    assert_eq!(link.stream(5), b"");
    let body = noise(9, 1_000_000);
    let mut all = record(6, b"Content-Length: 2000000\r\n\r\n");
    body.chunks(60_000).for_each(|part| all.extend_from_slice(&record(6, part)));
    link.say(&all);
    drop(link);
    front.expect_logged("backend: ");
    client.response_head();
    assert!(client.take(body.len()) == body, "another body came");
    assert_eq!(client.rest_before_end(), b"");
}

const FPM: &str = "\
[global]
error_log = HERE/fpm.log
daemonize = no
[one]
USER
listen = SOCKET
pm = static
pm.max_children = 1
php_admin_value[post_max_size] = 100M
";

const SUM: &str =
    "<?php $sum = hash_init('md5'); hash_update_stream($sum, fopen('php://input', 'r'));
echo $_SERVER['CONTENT_LENGTH'] ?? 'none', ' ', hash_final($sum);";

const LONG: &str = "<?php for ($n = 0; $n < 200; $n++) echo str_repeat(chr(65 + $n % 26), 100000);";

/// php-fpm with one child, and a server before it.
fn php(here: &Path) -> (Responder, Server) {
    for (name, text) in
        [("sum.php", SUM), ("long.php", LONG), ("index.php", "<?php echo 'honest';")]
    {
        put(&here.join("root").join(name), text);
    }
    set_permissions(here, Permissions::from_mode(0o755)).unwrap();
    let (socket, shown) = (free_address().to_string(), here.display().to_string());
    let user = if is_root() { "user = www-data\ngroup = www-data" } else { "" };
    let table = FPM.replace("HERE", &shown).replace("USER", user).replace("SOCKET", &socket);
    put(&here.join("fpm.conf"), table);
    let mut command = Command::new("php-fpm8.2");
    let fpm = Responder::start(command.arg("-F").arg("-y").arg(here.join("fpm.conf")));
    let log = || std::fs::read_to_string(here.join("fpm.log")).ok();
    let ready = || log().filter(|log| log.contains("ready to handle"));
    assert!(wait::until(wait::DEADLINE, ready).is_some(), "php-fpm is not ready: {:?}", log());
    let config = format!(
        "listen = \"127.0.0.1:0\"\nadmin = \"127.0.0.1:0\"\n[[site]]\nroot = \"{shown}/root\"\n\
         index = [\"index.php\"]\n[[site.fastcgi]]\nextensions = [\"php\"]\nsocket = \"{socket}\"\n\
         queue-timeout = \"5min\"\n"
    );
    let server = Launch::config(config).start().unwrap_or_else(|refused| panic!("{refused}"));
    (fpm, server)
}

/// Eight uploads of 60 MB and eight downloads of 20 MB are under way, and php-fpm has one child.
#[test]
#[ignore = "full tier"]
fn an_honest_request_to_php_ends_while_slow_ones_are_under_way() {
    if !have(&["php-fpm8.2", "php8.2"]) {
        return;
    }
    let here = tempfile::tempdir().unwrap();
    let (_fpm, server) = php(here.path());
    let body = noise(10, 60_000_000);
    let mut uploads: Vec<(Client, Vec<u8>)> = Vec::new();
    let mut downloads: Vec<Client> = Vec::new();
    for number in 0..SLOW {
        let (first, last) = upload_to("/sum.php", number, &body);
        let mut client = server.connect();
        client.send(first);
        uploads.push((client, last));
        let mut client = Client::connect_narrow(server.address(), IN_SOCKETS);
        client.send(get("/long.php"));
        downloads.push(client);
    }
    let mut honest = server.connect();
    honest.send(get("/"));
    assert_eq!(answer(&mut honest).1, "honest");
    let sum = crate::common_programs::run(
        Command::new("php8.2").args(["-r", "echo md5_file($argv[1]);"]).arg({
            let path = here.path().join("body");
            put(&path, &body);
            path
        }),
    );
    for (client, last) in &mut uploads {
        client.send(last);
        assert_eq!(answer(client).1, format!("{} {}", body.len(), sum.0.trim()));
    }
    let long: Vec<u8> = (0..200).flat_map(|n| vec![65 + n % 26; 100_000]).collect();
    for client in &mut downloads {
        assert!(read(client) == long, "another body came");
    }
}

on_every_architecture! {
    [
        slow_uploads_keep_the_only_child_from_nobody,
        slow_readers_keep_the_only_child_from_nobody,
        a_slow_reader_of_a_coded_answer_holds_no_child_and_gets_all,
        a_coded_answer_is_whole_for_a_client_that_pauses_while_its_program_writes,
        a_full_spool_is_503_and_counted_until_there_is_room,
        a_worker_that_dies_gives_its_room_back,
        without_a_place_that_can_be_written_a_long_body_is_refused,
        an_answer_for_which_there_is_no_room_waits_for_its_client,
        the_first_bytes_do_not_wait_for_others,
        an_answer_that_breaks_off_behind_a_slow_client_breaks_off_there,
    ]
}
