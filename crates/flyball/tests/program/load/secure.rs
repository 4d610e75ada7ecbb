//! `flyball load` over TLS, against the server itself.

use std::process::Output;

use serde_json::Value;

use crate::common::generator::{load, report};
use crate::common::https::Authority;

/// A server of one site, at whose address the generator asks with these arguments.
fn loaded(arguments: &[&str]) -> (Authority, Output) {
    let authority = Authority::new();
    authority.issue("a.pem", &["localhost"]);
    let sites = authority.site("\"localhost\"", "a.pem", "");
    let server = authority.start(&format!("workers = 2\n{sites}"));
    let url = format!("https://localhost:{}/", server.secure().port());
    let ca = format!("--ca={}", authority.path("ca.pem").display());
    let arguments: Vec<&str> =
        arguments.iter().map(|text| if *text == "--ca" { &ca[..] } else { text }).collect();
    let output = load(&[&arguments[..], &[&url]].concat());
    server.assert_sound();
    (authority, output)
}

/// Full, resumed and failed handshakes.
fn handshakes(report: &Value) -> [u64; 3] {
    ["full", "resumed", "failed"].map(|key| report["handshakes"][key].as_u64().unwrap())
}

const FEW: [&str; 4] =
    ["--connections=1", "--requests=40", "--requests-per-connection=2", "--json"];

#[test]
fn a_server_that_speaks_tls_is_loaded_and_handshakes_are_told() {
    let (_authority, output) = loaded(&[&FEW[..], &["--ca"]].concat());
    let found = report(&output);
    assert_eq!((&found["replies"], &found["error_count"]), (&40.into(), &0.into()), "{found}");
    assert_eq!(handshakes(&found), [20, 0, 0], "{found}");
    assert!(found["handshakes"]["full_us"]["p50"].as_f64() > Some(0.0), "{found}");
    let agreed = found["handshakes"]["agreed"].as_str().unwrap();
    assert!(agreed.ends_with(" X25519MLKEM768"), "{agreed}");
    let group = ["--insecure", "--tls-group=x25519", "--tls-resume=on"];
    let (_authority, output) = loaded(&[&FEW[..], &group].concat());
    let found = report(&output);
    assert_eq!(handshakes(&found), [1, 19, 0], "{found}");
    assert!(found["handshakes"]["agreed"].as_str().unwrap().ends_with(" X25519"), "{found}");
    let (_authority, output) = loaded(&["--connections=1", "--requests=4", "--ca"]);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(text.contains("  1 full, 0 resumed, 0 failed\n"), "{text}");
    assert!(text.contains("  agreed on TLSv1.3 ") && text.contains("  handshake, full "), "{text}");
}

#[test]
fn bodies_are_compared_over_tls_as_in_the_clear() {
    let authority = Authority::new();
    authority.issue("a.pem", &["localhost"]);
    let sites = authority.site("\"localhost\"", "a.pem", "");
    let server = authority.start(&sites);
    let root = authority.path("root").display().to_string();
    let list = authority.path("list");
    std::fs::write(&list, "/index.html\n").unwrap();
    let url = format!("https://localhost:{}", server.secure().port());
    let list = list.display().to_string();
    let verified =
        ["--insecure", "--json", "--requests=10", "--verify-with", &root, "--list", &list, &url];
    let output = load(&verified);
    let found = report(&output);
    assert_eq!((&found["replies"], &found["error_count"]), (&10.into(), &0.into()), "{found}");
    assert_eq!(output.status.code(), Some(0));
    std::fs::write(authority.path("list"), "/other.html\n").unwrap();
    std::fs::write(authority.path("root/other.html"), "it is").unwrap();
    let other = tempfile::tempdir().unwrap();
    std::fs::write(other.path().join("other.html"), "it was").unwrap();
    let other = other.path().display().to_string();
    let output =
        load(&[&verified[..3], &["--verify-with", &other, "--list", &list, &url]].concat());
    assert_eq!(report(&output)["errors"]["wrong_body"], 10);
    assert_eq!(output.status.code(), Some(3));
}

#[test]
fn a_server_that_is_not_trusted_fails_every_handshake_and_says_why() {
    let (_authority, output) = loaded(&["--rate=10", "--duration=300ms", "--json"]);
    let found = report(&output);
    assert_eq!(handshakes(&found), [0, 0, 3], "{found}");
    assert_eq!(found["errors"]["handshake"], 3, "{found}");
    let failure = found["handshakes"]["failure"].as_str().unwrap();
    assert!(failure.contains("UnknownIssuer"), "{failure}");
    let output = load(&["--ca=/dev/null", "https://localhost:1/"]);
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(errors.contains("--ca /dev/null: no certificate in PEM"), "{errors}");
    assert_eq!(output.status.code(), Some(1));
    let output = load(&["--insecure", "http://localhost:1/"]);
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(errors.contains("has no effect on http:"), "{errors}");
}
