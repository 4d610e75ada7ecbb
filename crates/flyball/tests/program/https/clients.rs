//! Certificates of clients: whose are let in, and which are revoked.

use std::fs;
use std::process::Command;
use std::time::Duration;

use flyball_testkit::wait::until;
use flyball_testkit::{Server, skip};

use crate::common::https::Authority;

const AT_MOST: Duration = Duration::from_secs(60);

/// The number of the certificate of a client.
const NUMBER: u64 = 77;

/// An authority that has issued a certificate for a.test, and one for a client.
fn authority() -> Authority {
    let authority = Authority::new();
    authority.issue("a.pem", &["a.test"]);
    client_of(&authority);
    authority
}

fn client_of(authority: &Authority) {
    let number = |params: &mut rcgen::CertificateParams| params.serial_number = Some(NUMBER.into());
    authority.issue_by("client.pem", &["someone"], number);
}

/// A site that lets in clients with certificates, without those of a list.
fn site(authority: &Authority) -> String {
    let (ca, crl) = (authority.path("ca.pem"), authority.path("crl.pem"));
    let lines = format!("tls.client-ca = {ca:?}\ntls.client-crl = {crl:?}");
    authority.site("\"a.test\"", "a.pem", &lines)
}

/// Whether the client of an authority is let in.
fn lets_in(authority: &Authority, server: &Server) -> bool {
    let client = authority.path("client.pem").display().to_string();
    let (said, output) = authority.curl(server, "a.test", &["-E", &client]);
    assert!(said == "over TLS\n200" || !output.status.success(), "{said}: {output:?}");
    output.status.success()
}

/// As the handbooks of years ago have it: without extensions openssl makes version 1.
#[test]
fn a_client_whose_certificate_has_no_extensions_is_refused() {
    let authority = Authority::new();
    authority.issue("a.pem", &["a.test"]);
    let at = |name: &str| authority.path(name).display().to_string();
    let openssl = |arguments: &[&str]| {
        let output = Command::new("openssl").args(arguments).output().unwrap();
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).unwrap()
    };
    let key = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"];
    let (own, own_key) = (at("own.pem"), at("own.key"));
    let made = ["req", "-x509", "-subj", "/CN=ours", "-keyout", &own_key, "-out", &own];
    openssl(&[&made[..], &key].concat());
    let (client, client_key, request) = (at("client.pem"), at("client.key"), at("client.csr"));
    let asked = ["req", "-new", "-subj", "/CN=someone", "-keyout", &client_key, "-out", &request];
    openssl(&[&asked[..], &key].concat());
    authority.write("extensions", "extendedKeyUsage = clientAuth\n", 0o600);
    let server = authority.start(&authority.site(
        "\"a.test\"",
        "a.pem",
        &format!("tls.client-ca = {own:?}"),
    ));
    let extensions = at("extensions");
    for (more, version) in [(vec![], "Version: 1"), (vec!["-extfile", &extensions], "Version: 3")] {
        let sign = ["x509", "-req", "-in", &request, "-CA", &own, "-CAkey", &own_key];
        let out = ["-CAcreateserial", "-out", &client];
        openssl(&[&sign[..], &out, &more].concat());
        if !openssl(&["x509", "-noout", "-text", "-in", &client]).contains(version) {
            return skip("this openssl makes no certificate of version 1");
        }
        let shown = ["-E", &client, "--key", &client_key];
        let (said, output) = authority.curl(&server, "a.test", &shown);
        assert_eq!(output.status.success(), version == "Version: 3", "{said}: {output:?}");
    }
    server.assert_sound();
}

#[test]
fn a_list_of_revoked_clients_that_holds_none_is_refused_at_the_start() {
    let authority = authority();
    authority.revoke("list.pem", &[NUMBER], 4000);
    let list = fs::read_to_string(authority.path("list.pem")).unwrap();
    for text in [String::new(), fs::read_to_string(authority.path("ca.pem")).unwrap()] {
        authority.write("crl.pem", &text, 0o644);
        let refused = authority.launch(&site(&authority)).expect_err("no list").errors;
        let why = "crl.pem holds no list of revoked certificates in PEM";
        assert!(refused.contains(why) && refused.contains("tls.client-crl: "), "{refused}");
    }
    authority.write("crl.pem", &list.replace("CRL-----\nMI", "CRL-----\nMA"), 0o644);
    let refused = authority.launch(&site(&authority)).expect_err("a broken list").errors;
    assert!(refused.contains("crl.pem holds a list that is cut off or damaged\n"), "{refused}");
    authority.write("crl.pem", &list, 0o644);
    let server = authority.start(&site(&authority));
    assert!(!lets_in(&authority, &server), "{}", server.errors());
    server.assert_sound();
}

#[test]
fn a_list_that_is_over_lets_no_client_in_and_is_told_at_the_start() {
    let authority = authority();
    authority.revoke("crl.pem", &[], 2021);
    let server = authority.start(&site(&authority));
    assert!(!lets_in(&authority, &server));
    let told = "crl.pem holds a list whose time ended ";
    assert_eq!(server.errors().matches(told).count(), 1, "{}", server.errors());
    authority.revoke("crl.pem", &[], 4000);
    server.reload();
    assert!(lets_in(&authority, &server), "{}", server.errors());
    server.assert_sound();
}

#[test]
fn a_list_that_is_older_than_the_one_in_use_lets_no_client_in_again() {
    let authority = authority();
    authority.revoke_by(7, "crl.pem", &[NUMBER], 4000);
    let config = format!("[tls]\nwatch = \"100ms\"\n{}", site(&authority));
    let server = authority.start(&config);
    assert!(!lets_in(&authority, &server));
    let older = "crl.pem holds a list of CN=the authority of a test that is older than the one in \
                 use, which stays";
    let told = |times: usize| {
        let all = || server.errors().matches(older).count();
        assert!(until(AT_MOST, || (all() >= times).then_some(())).is_some(), "{times}");
        assert_eq!(all(), times, "{}", server.errors());
    };
    authority.revoke_by(6, "crl.pem", &[], 4000);
    told(1);
    assert!(!lets_in(&authority, &server), "{}", server.errors());
    server.reload();
    told(2);
    assert!(!lets_in(&authority, &server), "{}", server.errors());
    authority.revoke_by(8, "crl.pem", &[], 4000);
    let is_let_in = || lets_in(&authority, &server).then_some(());
    assert!(until(AT_MOST, is_let_in).is_some(), "{}", server.errors());
    told(2);
    server.assert_sound();
}

/// `openssl verify -purpose sslclient` refuses it as well.
#[test]
fn a_client_whose_key_is_not_for_signatures_is_refused() {
    use rcgen::KeyUsagePurpose::{DigitalSignature, KeyAgreement, KeyEncipherment};
    let authority = authority();
    let ca = authority.path("ca.pem");
    let site = authority.site("\"a.test\"", "a.pem", &format!("tls.client-ca = {ca:?}"));
    let server = authority.start(&format!("admin = \"127.0.0.1:0\"\n{site}"));
    for (usages, is_let_in) in [
        (vec![], true),
        (vec![DigitalSignature], true),
        (vec![DigitalSignature, KeyEncipherment], true),
        (vec![KeyEncipherment], false),
        (vec![KeyAgreement], false),
    ] {
        authority.issue_by("client.pem", &["someone"], |params| params.key_usages = usages.clone());
        assert_eq!(lets_in(&authority, &server), is_let_in, "{usages:?}");
    }
    // Those that failed count as that alone.
    let counted = || {
        let status = server.status();
        let has = |count: &str| status.contains(count);
        (has("\"tls_full\": 3,") && has("\"tls_failed_client\": 2,")).then_some(())
    };
    assert!(until(AT_MOST, counted).is_some(), "{}", server.status());
    server.assert_sound();
}

#[test]
fn a_new_list_and_a_new_authority_hold_without_a_reload_and_a_broken_one_changes_nothing() {
    let authority = authority();
    let is_let_in = |server: &Server, wanted: bool| {
        until(AT_MOST, || (lets_in(&authority, server) == wanted).then_some(()))
            .unwrap_or_else(|| panic!("let in: {}\n{}", !wanted, server.errors()));
    };
    let other = self::authority();
    let own = fs::read_to_string(authority.path("ca.pem")).unwrap();
    for arch in ["n-copy", "mp", "mt", "shared-symped", "uring"] {
        authority.write("ca.pem", &own, 0o644);
        authority.revoke("crl.pem", &[1], 4000);
        let config = format!("arch = \"{arch}\"\n[tls]\nwatch = \"100ms\"\n{}", site(&authority));
        let server = match authority.launch(&config) {
            Err(refused) if refused.is_unavailable() => continue,
            started => started.expect("it starts"),
        };
        assert!(lets_in(&authority, &server), "{arch}");
        for (text, why) in [("", "holds no list"), ("-----BEGIN X509 CRL-----\nAAAA", "holds what")]
        {
            authority.write("crl.pem", text, 0o644);
            let told = || server.errors().contains(why).then_some(());
            assert!(until(AT_MOST, told).is_some(), "{arch}:\n{}", server.errors());
            assert!(lets_in(&authority, &server), "{arch}");
        }
        authority.revoke("crl.pem", &[], 2021);
        let told = || server.errors().contains("whose time ended").then_some(());
        assert!(until(AT_MOST, told).is_some(), "{arch}:\n{}", server.errors());
        assert!(lets_in(&authority, &server), "{arch}: the list in use is not over");
        authority.revoke("crl.pem", &[NUMBER], 4000);
        is_let_in(&server, false);
        authority.revoke("crl.pem", &[1], 4000);
        is_let_in(&server, true);
        let of_other = fs::read_to_string(other.path("ca.pem")).unwrap();
        authority.write("ca.pem", &of_other, 0o644);
        is_let_in(&server, false);
        assert_eq!(
            server.errors().matches("what clients are let in by stays").count(),
            3,
            "{arch}"
        );
        assert!(!server.errors().contains("the configuration is loaded"));
        server.assert_sound();
    }
}
