//! The programs that people use get every byte: curl, aria2c, git and apt.

use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, SystemTime};

use crate::common_programs::served::{Served, put};
use crate::common_programs::{have, noise, on_architectures, on_every_architecture, program, run};
use flyball_testkit::crc32;

/// Length of a file that leaves in pieces.
const LARGE: usize = 3 * 1024 * 1024 + 17;

/// Length of what is fetched in parts at once: 8 parts of more than 1 MiB, aria2c's least.
const PARTED: usize = 20 * 1024 * 1024;

on_every_architecture! {
    [
        curl_gets_whole_files_and_heads,
        curl_gets_ranges_and_resumes,
        curl_asks_only_for_what_it_does_not_have,
        curl_decodes_what_was_compressed,
        curl_speaks_http_1_0,
        curl_keeps_one_connection_for_several_files,
        curl_uploads_with_a_length_and_in_chunks,
        aria2c_fetches_eight_pieces_at_once,
    ]
    full [git_clones_over_the_dumb_protocol, apt_get_updates_and_downloads_with_pipelining]
}

on_architectures! {
    [
        fast n_copy_tls = "n-copy over TLS",
        full amped_tls = "amped over TLS",
        full mt_tls = "mt over TLS",
        full watpipe_tls = "watpipe over TLS",
        full uring_tls = "uring over TLS",
    ]
    [
        curl_gets_whole_files_and_heads,
        curl_gets_ranges_and_resumes,
        curl_keeps_one_connection_for_several_files,
        curl_uploads_with_a_length_and_in_chunks,
        wget_and_openssl_get_whole_files,
        python_gets_files_on_one_connection_and_uploads,
    ]
    full [
        curl_asks_only_for_what_it_does_not_have,
        curl_decodes_what_was_compressed,
        curl_speaks_http_1_0,
        aria2c_fetches_eight_pieces_at_once,
        git_clones_over_the_dumb_protocol,
        apt_get_updates_and_downloads_with_pipelining,
    ]
}

/// A server with some files of every size.
fn served(arch: &str) -> Served {
    let served = Served::start(arch, "digest-path = \"/digest\"", &[]);
    for (name, len) in FILES {
        let path = served.root().join(name);
        put(&path, content(name, *len));
        // The tag of a young file is another later.
        let file = fs::File::options().write(true).open(&path).expect("it is there");
        file.set_modified(SystemTime::now() - AGE).expect("its time can be set");
    }
    served
}

/// How long ago the files were changed.
const AGE: Duration = Duration::from_secs(60);

const FILES: &[(&str, usize)] =
    &[("empty", 0), ("one", 1), ("dir/small.bin", 8_000), ("large.bin", LARGE)];

fn content(name: &str, len: usize) -> Vec<u8> {
    noise(name.len() as u64, len)
}

/// A curl that reads nobody's settings and fails on an error status.
fn curl(served: &Served) -> Command {
    let mut curl = program("curl");
    curl.args(["--disable", "--silent", "--show-error", "--fail", "--noproxy", "*"]);
    curl.arg("--cacert").arg(served.trusted());
    curl
}

/// Runs curl with these arguments; what it wrote to standard output.
fn curl_says(served: &Served, arguments: &[&str]) -> String {
    run(curl(served).args(arguments)).0
}

fn text(path: &Path) -> &str {
    path.to_str().expect("a temporary path is UTF-8")
}

#[track_caller]
fn assert_same(found: &Path, expected: &[u8], what: &str) {
    let found = fs::read(found).unwrap_or_else(|error| panic!("{what}: {error}"));
    assert!(found == expected, "{what}: {} bytes, not {}", found.len(), expected.len());
}

fn curl_gets_whole_files_and_heads(arch: &str) {
    if !have(&["curl"]) {
        return;
    }
    let served = served(arch);
    let out = served.beside("out");
    for (name, len) in FILES {
        let url = served.url(&format!("/{name}"));
        // Once from the disk, once from the cache.
        for round in 0..2 {
            let told = ["-o", text(&out), "-w", "%{http_code} %{size_download}"];
            let code = curl_says(&served, &[&[&*url], &told[..]].concat());
            assert_eq!(code, format!("200 {len}"), "{arch} {name} {round}");
            assert_same(&out, &content(name, *len), &format!("{arch} {name} {round}"));
        }
        let head = curl_says(&served, &[&url, "--head"]);
        assert!(head.starts_with("HTTP/1.1 200 OK\r\n"), "{arch} {name}: {head}");
        assert!(head.contains(&format!("\r\nContent-Length: {len}\r\n")), "{arch} {name}: {head}");
    }
}

fn curl_gets_ranges_and_resumes(arch: &str) {
    if !have(&["curl"]) {
        return;
    }
    let served = served(arch);
    let out = served.beside("out");
    for (name, len) in [("dir/small.bin", 8_000), ("large.bin", LARGE)] {
        let url = served.url(&format!("/{name}"));
        let whole = content(name, len);
        for (range, expected) in [
            ("0-0", &whole[..1]),
            ("100-4099", &whole[100..4_100]),
            ("7000-", &whole[7_000..]),
            ("-500", &whole[len - 500..]),
            ("7990-99999999", &whole[7_990..]),
        ] {
            let told = ["-r", range, "-o", text(&out), "-w", "%{http_code}"];
            let code = curl_says(&served, &[&[&*url], &told[..]].concat());
            assert_eq!(code, "206", "{arch} {name} {range}");
            assert_same(&out, expected, &format!("{arch} {name} {range}"));
        }
        let parts =
            run(curl(&served).args([&url, "-r", "0-9,5000-5999,-10", "-o", text(&out), "-D", "-"]));
        assert!(parts.0.contains("\r\nContent-Type: multipart/byteranges; boundary="), "{parts:?}");
        let body = fs::read(&out).expect("curl has written it");
        for part in [&whole[..10], &whole[5_000..6_000], &whole[len - 10..]] {
            let found = body
                .windows(part.len() + 4)
                .any(|bytes| bytes.starts_with(b"\r\n\r\n") && bytes[4..] == *part);
            assert!(found, "{arch} {name}: a part is missing");
        }

        for have in [0, 1, len / 2, len - 1] {
            put(&out, &whole[..have]);
            curl_says(&served, &[&url, "-C", "-", "-o", text(&out)]);
            assert_same(&out, &whole, &format!("{arch} {name} resumed at {have}"));
        }
    }
}

fn curl_asks_only_for_what_it_does_not_have(arch: &str) {
    if !have(&["curl"]) {
        return;
    }
    let served = served(arch);
    let (out, etag, again) = (served.beside("out"), served.beside("etag"), served.beside("again"));
    for (name, len) in [("dir/small.bin", 8_000), ("large.bin", LARGE)] {
        let url = served.url(&format!("/{name}"));
        let first = ["-R", "-o", text(&out), "--etag-save", text(&etag)];
        curl_says(&served, &[&[&*url], &first[..]].concat());
        let code = ["-o", text(&again), "-w", "%{http_code} %{size_download}"];
        let conditional =
            |condition: &[&str]| curl_says(&served, &[&[&*url], condition, &code[..]].concat());
        // By the time of the file that it has, and by the tag of the answer that it had.
        assert_eq!(conditional(&["-z", text(&out)]), "304 0", "{arch} {name}");
        assert_eq!(conditional(&["--etag-compare", text(&etag)]), "304 0", "{arch} {name}");

        let whole = format!("200 {len}");
        assert_eq!(conditional(&["-z", "1 Jan 2000"]), whole, "{arch} {name}");
        assert_same(&again, &content(name, len), name);
        put(&etag, "\"another\"\n");
        assert_eq!(conditional(&["--etag-compare", text(&etag)]), whole, "{arch} {name}");
        assert_same(&again, &content(name, len), name);
    }
}

fn curl_decodes_what_was_compressed(arch: &str) {
    if !have(&["curl"]) {
        return;
    }
    let served = served(arch);
    let out = served.beside("out");
    let line = |n: usize| format!("<p>line {n} of a page that says little</p>\n");
    let page: String = (0..5_000).map(line).collect();
    put(&served.root().join("page.html"), &page);
    let url = served.url("/page.html");
    for round in 0..2 {
        let coded = ["-o", text(&out), "-w", "%{size_download}"];
        let sent = curl_says(&served, &[&[url.as_str(), "--compressed"][..], &coded].concat());
        assert_same(&out, page.as_bytes(), &format!("{arch} {round}"));
        let sent: usize = sent.parse().expect("a number");
        assert!(sent < page.len() / 4, "{arch}: {sent} bytes of {}", page.len());
        curl_says(&served, &[&url, "-o", text(&out)]);
        assert_same(&out, page.as_bytes(), &format!("{arch} {round}, plain"));
    }
}

fn curl_speaks_http_1_0(arch: &str) {
    if !have(&["curl"]) {
        return;
    }
    let served = served(arch);
    let out = served.beside("out");
    for (name, len) in FILES {
        let url = served.url(&format!("/{name}"));
        let code = curl_says(&served, &["-0", &url, "-o", text(&out), "-w", "%{http_code}"]);
        assert_eq!(code, "200", "{arch} {name}");
        assert_same(&out, &content(name, *len), &format!("{arch} {name}"));
    }
    let (one, small) = (served.url("/one"), served.url("/dir/small.bin"));
    for (field, connections) in [("Connection: keep-alive", "1\n0\n"), ("X-Other: none", "1\n1\n")]
    {
        let write = ["-w", "%{num_connects}\\n", "-o", text(&out), "-o", text(&out)];
        let says = curl_says(&served, &[&["-0", "-H", field, &*one, &*small], &write[..]].concat());
        assert_eq!(says, connections, "{arch}: {field}");
    }
}

fn curl_keeps_one_connection_for_several_files(arch: &str) {
    if !have(&["curl"]) {
        return;
    }
    let served = served(arch);
    let mut curl = curl(&served);
    curl.args(["-w", "%{http_code} %{num_connects}\\n"]);
    for (at, (name, _)) in FILES.iter().cycle().take(12).enumerate() {
        curl.arg(served.url(&format!("/{name}"))).arg("-o").arg(served.beside(&at.to_string()));
    }
    let (says, _) = run(&mut curl);
    assert_eq!(says, format!("200 1\n{}", "200 0\n".repeat(11)), "{arch}");
    for (at, (name, len)) in FILES.iter().cycle().take(12).enumerate() {
        assert_same(&served.beside(&at.to_string()), &content(name, *len), name);
    }
}

fn curl_uploads_with_a_length_and_in_chunks(arch: &str) {
    if !have(&["curl"]) {
        return;
    }
    let served = served(arch);
    let (url, file) = (served.url("/digest"), served.beside("upload"));
    for len in [0, 1, 70_000, LARGE] {
        let bytes = noise(len as u64, len);
        put(&file, &bytes);
        let expected = format!("bytes {len} crc32 {:08x}\n", crc32(&bytes));
        let put = ["-T", text(&file)];
        let posted = format!("@{}", file.display());
        let ways: [&[&str]; 5] = [
            &put,
            &["-T", text(&file), "-H", "Expect: 100-continue"],
            &["-T", text(&file), "-H", "Transfer-Encoding: chunked"],
            &["-T", text(&file), "-H", "Transfer-Encoding: chunked", "-H", "Expect: 100-continue"],
            &["--data-binary", &posted],
        ];
        for way in ways {
            // curl does not end an empty body that it was told to send in chunks.
            if len == 0 && way.contains(&"Transfer-Encoding: chunked") {
                continue;
            }
            // A wait for 100 that is not answered would show as a time-out.
            let patient = ["--verbose", "--expect100-timeout", "240", "--max-time", "120"];
            let (says, told) = run(curl(&served).arg(&url).args(way).args(patient));
            assert_eq!(says, expected, "{arch} {way:?}\n{told}");
            // Nobody needs to be told to send nothing (RFC 9110, section 10.1.1).
            let waits = told.contains("> Expect: 100-continue") && len > 0;
            assert_eq!(waits, told.contains("< HTTP/1.1 100 Continue"), "{arch} {way:?}\n{told}");
        }
    }
}

fn aria2c_fetches_eight_pieces_at_once(arch: &str) {
    if !have(&["aria2c"]) {
        return;
    }
    let log = tempfile::tempdir().expect("a temporary directory");
    let log = log.path().join("access.log");
    let served = Served::start(arch, "", &[&format!("access-log={}", log.display())]);
    let whole = noise(20, PARTED);
    put(&served.root().join("parted.bin"), &whole);
    let mut aria2c = program("aria2c");
    aria2c.args(["--no-conf", "--no-netrc", "--quiet", "--file-allocation=none"]);
    aria2c.args(["-x8", "-s8", "-k1M", "--min-split-size=1M", "--max-tries=1", "-o", "parted"]);
    aria2c.arg(format!("--ca-certificate={}", served.trusted().display()));
    run(aria2c.arg("-d").arg(served.around()).arg(served.url("/parted.bin")));
    assert_same(&served.beside("parted"), &whole, arch);
    let _directory = served.stop();
    let log = fs::read_to_string(log).expect("the log was written");
    let parts = log.lines().filter(|line| line.contains("\" 206 ")).count();
    assert!(parts >= 7, "{arch}: only {parts} of the requests were for parts:\n{log}");
}

fn wget_and_openssl_get_whole_files(arch: &str) {
    if !have(&["wget", "openssl"]) {
        return;
    }
    let served = served(arch);
    let (out, trusted) = (served.beside("out"), served.trusted());
    for (name, len) in FILES {
        let (url, expected) = (served.url(&format!("/{name}")), content(name, *len));
        let mut wget = program("wget");
        wget.args(["--no-config", "--quiet", "--no-proxy", "--tries=1", "-O", text(&out)]);
        run(wget.arg("--ca-certificate").arg(&trusted).arg(url));
        assert_same(&out, &expected, &format!("{arch} {name}"));
        for version in ["-tls1_3", "-tls1_2"] {
            let mut openssl = program("openssl");
            openssl.args(["s_client", "-quiet", "-verify_return_error", version, "-connect"]);
            openssl.arg(served.address().to_string()).arg("-CAfile").arg(&trusted);
            openssl.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
            let mut asked = openssl.spawn().expect("timeout starts");
            let request = format!("GET /{name} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
            let input = asked.stdin.as_mut().expect("it is piped");
            input.write_all(request.as_bytes()).expect("it listens");
            let found = asked.wait_with_output().expect("it ends");
            let told = String::from_utf8_lossy(&found.stderr).into_owned();
            let head = found.stdout.windows(4).position(|four| four == b"\r\n\r\n");
            let head = head.unwrap_or_else(|| panic!("{arch} {name} {version}: {told}"));
            assert!(found.stdout[head + 4..] == expected, "{arch} {name} {version}: {told}");
        }
    }
}

/// Asks for files one after the other, and sends one with a length and in chunks.
const ASKS: &str = "
import http.client, ssl, sys
host, port, trusted, root, upload = sys.argv[1:6]
context = ssl.create_default_context(cafile=trusted)
connection = http.client.HTTPSConnection(host, int(port), context=context)
for name in sys.argv[6:]:
    connection.request('GET', '/' + name)
    answer = connection.getresponse()
    whole = open(root + '/' + name, 'rb').read()
    assert (answer.status, answer.read() == whole) == (200, True), (name, answer.status)
socket = connection.sock
sent = open(upload, 'rb').read()
pieces = [sent[at:at + 70001] for at in range(0, len(sent), 70001)]
for body, chunked in [(sent, False), (iter(pieces), True)]:
    connection.request('PUT', '/digest', body=body, encode_chunked=chunked,
                       headers={'Transfer-Encoding': 'chunked'} if chunked else {})
    answer = connection.getresponse()
    print(answer.status, answer.read().decode().strip())
assert connection.sock is socket, 'one connection'
";

fn python_gets_files_on_one_connection_and_uploads(arch: &str) {
    if !have(&["python3"]) {
        return;
    }
    let served = served(arch);
    let (sent, upload) = (noise(5, LARGE), served.beside("upload"));
    put(&upload, &sent);
    let address = served.address();
    let mut python = program("python3");
    python.args(["-c", ASKS, &address.ip().to_string(), &address.port().to_string()]);
    python.args([text(&served.trusted()), text(&served.root()), text(&upload)]);
    python.args(FILES.iter().map(|(name, _)| *name));
    let (says, _) = run(&mut python);
    let told = format!("200 bytes {LARGE} crc32 {:08x}\n", crc32(&sent));
    assert_eq!(says, told.repeat(2), "{arch}");
}

/// A git that reads nobody's settings and asks nobody.
fn git(at: &Path) -> Command {
    let mut git = program("git");
    git.arg("-C").arg(at).env("HOME", at).env("GIT_CONFIG_NOSYSTEM", "1");
    git.env("GIT_CONFIG_GLOBAL", "/dev/null").env("GIT_TERMINAL_PROMPT", "0");
    for role in ["AUTHOR", "COMMITTER"] {
        git.env(format!("GIT_{role}_NAME"), "Nobody");
        git.env(format!("GIT_{role}_EMAIL"), "nobody@localhost");
        git.env(format!("GIT_{role}_DATE"), "2001-02-03T04:05:06Z");
    }
    git
}

fn git_clones_over_the_dumb_protocol(arch: &str) {
    if !have(&["git"]) {
        return;
    }
    let served = Served::start(arch, "", &[]);
    let (origin, around) = (served.beside("origin"), served.around());
    run(git(around).args(["init", "--quiet", "--initial-branch=main", "origin"]));
    for commit in 0..6 {
        for file in 0..8 {
            let bytes = noise(commit * 8 + file, 100 + 4_000 * file as usize);
            put(&origin.join(format!("dir-{file}/file-{commit}")), bytes);
        }
        run(git(&origin).args(["add", "."]));
        run(git(&origin).args(["commit", "--quiet", "-m", "more"]));
        if commit == 3 {
            // What came so far is in a pack, the rest in loose objects.
            run(git(&origin).args(["gc", "--quiet"]));
        }
    }
    run(git(&origin).args(["tag", "-a", "-m", "a tag", "v1"]));
    let bare = served.root().join("project.git");
    run(git(around).args(["clone", "--quiet", "--bare", "--local", "origin", text(&bare)]));
    run(git(&bare).args(["update-server-info"]));

    let url = served.url("/project.git");
    let mut clone = git(around);
    clone.env("GIT_SSL_CAINFO", served.trusted()).args(["clone", "--quiet", &url, "clone"]);
    run(&mut clone);
    let clone = served.beside("clone");
    run(git(&clone).args(["fsck", "--full", "--strict"]));
    let state = |at: &Path| run(git(at).args(["rev-parse", "HEAD", "HEAD^{tree}", "v1"])).0;
    assert_eq!(state(&clone), state(&origin), "{arch}");
    assert_eq!(run(git(&clone).args(["status", "--porcelain"])).0, "", "{arch}");
    for file in 0..8 {
        let bytes = noise(5 * 8 + file, 100 + 4_000 * file as usize);
        assert_same(&clone.join(format!("dir-{file}/file-5")), &bytes, arch);
    }
}

/// Packages of the repository, and the length of what each holds.
const PACKAGES: [(&str, usize); 10] = [
    ("alpha", 10),
    ("beta", 100_000),
    ("gamma", 1_000),
    ("delta", 700_000),
    ("epsilon", 5_000),
    ("zeta", 60),
    ("eta", 30_000),
    ("theta", 300_000),
    ("iota", 1),
    ("kappa", 65_000),
];

fn apt_get_updates_and_downloads_with_pipelining(arch: &str) {
    if !have(&["apt-get", "apt-ftparchive", "dpkg-deb"]) {
        return;
    }
    let served = Served::start(arch, "", &[]);
    let repository = served.root().join("debian");
    build_repository(&repository, &served.beside("build"));
    let config = apt_config(&served);
    let out = served.beside("downloaded");
    fs::create_dir(&out).expect("a directory can be made");
    let apt_get = || {
        let mut apt_get = program("apt-get");
        apt_get.env("APT_CONFIG", &config).current_dir(&out);
        apt_get
    };
    let (first, _) = run(apt_get().arg("update"));
    assert!(first.contains("Get:") && first.contains(" ./ Packages ["), "{arch}: {first}");
    // What it has is the newest: the server says 304.
    let (second, _) = run(apt_get().arg("update"));
    assert!(second.contains("Hit:") && !second.contains("Get:"), "{arch}: {second}");

    let names = PACKAGES.map(|(name, _)| name);
    let (_, told) = run(apt_get()
        .args(["-o", "Debug::Acquire::http=true", "-o", "Debug::Acquire::https=true"])
        .arg("download")
        .args(names));
    for name in names {
        let file = format!("{name}_1.0_all.deb");
        let expected = fs::read(repository.join(&file)).expect("it was built");
        assert_same(&out.join(&file), &expected, &format!("{arch} {file}"));
    }
    // After the first answer, several requests went out before the next one came.
    let asked = told.split("Answer for").map(|text| text.matches("GET /debian/").count()).max();
    assert!(asked > Some(1), "{arch}: apt did not pipeline:\n{told}");
}

/// A flat repository: packages, and the indexes that apt reads.
fn build_repository(repository: &Path, build: &Path) {
    fs::create_dir_all(repository).expect("a directory can be made");
    for (name, len) in PACKAGES {
        let tree = build.join(name);
        put(&tree.join("usr/share").join(name), noise(len as u64, len));
        let control = format!(
            "Package: {name}\nVersion: 1.0\nArchitecture: all\nMaintainer: Nobody <n@localhost>\n\
             Description: nothing\n"
        );
        put(&tree.join("DEBIAN/control"), control);
        let file = repository.join(format!("{name}_1.0_all.deb"));
        run(program("dpkg-deb").args(["--root-owner-group", "--build"]).arg(&tree).arg(&file));
    }
    let index =
        |kind: &str| run(program("apt-ftparchive").args([kind, "."]).current_dir(repository)).0;
    put(&repository.join("Packages"), index("packages"));
    put(&repository.join("Release"), index("release"));
}

/// An apt that knows only this repository, and keeps everything beside it.
fn apt_config(served: &Served) -> std::path::PathBuf {
    let apt = served.beside("apt");
    for directory in ["state/lists/partial", "cache/archives/partial", "log", "parts"] {
        fs::create_dir_all(apt.join(directory)).expect("a directory can be made");
    }
    put(&apt.join("state/status"), "");
    let source = format!("deb [trusted=yes] {} ./\n", served.url("/debian/"));
    put(&apt.join("sources.list"), source);
    let path = |name: &str| apt.join(name).display().to_string();
    let settings = [
        ("Dir::State", path("state")),
        ("Dir::State::status", path("state/status")),
        ("Dir::Cache", path("cache")),
        ("Dir::Log", path("log")),
        ("Dir::Etc::main", "/dev/null".into()),
        ("Dir::Etc::parts", path("parts")),
        ("Dir::Etc::sourcelist", path("sources.list")),
        ("Dir::Etc::sourceparts", "-".into()),
        ("Dir::Etc::preferencesparts", path("parts")),
        ("APT::Architecture", "amd64".into()),
        ("APT::Architectures", "amd64".into()),
        ("APT::Sandbox::User", "root".into()),
        ("Acquire::AllowInsecureRepositories", "true".into()),
        ("Acquire::Languages", "none".into()),
        ("Acquire::Retries", "0".into()),
        ("Acquire::http::Proxy", "DIRECT".into()),
        ("Acquire::https::Proxy", "DIRECT".into()),
        ("Acquire::https::CAInfo", served.trusted().display().to_string()),
        ("Acquire::http::Pipeline-Depth", "10".into()),
        ("Acquire::http::Timeout", "20".into()),
    ];
    let text: String =
        settings.iter().map(|(key, value)| format!("{key} \"{value}\";\n")).collect();
    let config = apt.join("apt.conf");
    put(&config, text);
    config
}
