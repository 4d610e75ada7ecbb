//! Rules about certificates of clients, and other settings of TLS, that would have no effect.

use flyball_testkit::Launch;

use crate::common::https::Authority;

#[test]
fn a_rule_about_certificates_that_asks_no_client_for_one_is_refused() {
    let authority = Authority::new();
    authority.issue("a.pem", &["a.test"]);
    authority.revoke("crl.pem", &[], 4000);
    let (ca, crl) = (authority.path("ca.pem"), authority.path("crl.pem"));
    let (of_ca, of_crl) = (format!("client-ca = {ca:?}"), format!("client-crl = {crl:?}"));
    let own = |line: &str| authority.site("\"a.test\"", "a.pem", line);
    let none = |line: &str| {
        let root = authority.path("root");
        format!("[[site]]\nroot = {root:?}\ncertificate = \"none\"\n{line}\n")
    };
    let lone = "asks no client for a certificate without";
    let never = "speaks TLS, so no client shows a certificate";
    for (is_secure, text, key, why) in [
        (true, own("tls.client-auth = \"required\""), "site.tls.client-auth", lone),
        (true, own(&format!("tls.{of_crl}")), "site.tls.client-crl", lone),
        (true, format!("[tls]\n{of_crl}\n{}", own("")), "tls.client-crl", lone),
        (true, format!("[tls]\nclient-auth = \"optional\"\n{}", own("")), "tls.client-auth", lone),
        (false, own(&format!("tls.{of_ca}")), "site.tls.client-ca", never),
        (false, format!("[tls]\n{of_ca}\n{}", own("")), "tls.client-ca", never),
        (
            true,
            own("") + &none(&format!("tls.{of_ca}")),
            "site.tls.client-ca",
            "served in the clear to all",
        ),
        (
            true,
            format!("[tls]\n{of_ca}\n{}{}", own(""), none("")),
            "site.certificate",
            "which they cannot in the clear",
        ),
    ] {
        let started = match is_secure {
            true => authority.launch(&text),
            false => Launch::config(&text).start(),
        };
        let Err(refused) = started else { panic!("it starts:\n{text}") };
        let errors = &refused.errors;
        assert!(errors.contains(&format!(" {key}: ")) && errors.contains(why), "{errors}\n{text}");
    }
    let off = none("tls.client-ca = \"off\"");
    let server = authority.start(&format!("[tls]\n{of_ca}\n{of_crl}\n{}{off}", own("")));
    server.assert_sound();
}

#[test]
fn settings_of_tls_without_an_address_that_speaks_it_are_warnings() {
    let authority = Authority::new();
    authority.issue("a.pem", &["a.test"]);
    let lines = "minimum = \"1.3\"\nunknown-name = \"reject\"\nhsts = \"1h\"\ntickets = \"off\"\n\
                 watch = \"1s\"\n";
    let text = format!("[acme]\nemail = \"a@example.org\"\n[tls]\n{lines}");
    let text = text + &authority.site("\"a.test\"", "a.pem", "");
    let server = Launch::config(text).start().expect("it starts");
    let keys = ["tls.minimum", "tls.unknown-name", "tls.hsts", "tls.tickets", "tls.watch"];
    for key in keys.into_iter().chain(["[acme]"]) {
        let told = format!("`{key}` has a meaning only with an address in `listen`");
        assert!(server.errors().contains(&told), "{key}: {}", server.errors());
    }
    assert!(server.errors().contains("`site.certificate` has a meaning only with"));
    assert!(server.errors().contains("or a `[[listener]]` with tls = true"));
    server.assert_sound();
}
