//! Where the certificate of a site comes from that names no file, and what is said where it cannot.

use flyball_site::CertificateSource;

use super::file::{errors, settings};

const LISTEN: &str = "listen = \"https://127.0.0.1:0\"\n";
const LETSENCRYPT: &str = "[acme]\n";
const OWN: &str = "[acme]\ndirectory = \"https://ca.internal/directory\"\n";

fn file(acme: &str, host: &str, more: &str) -> String {
    format!("{LISTEN}{acme}[[site]]\nroot = \"src\"\nhosts = [{host:?}]\n{more}")
}

#[test]
fn names_of_one_network_are_ordered_from_an_authority_of_ones_own_alone() {
    let source = |acme: &str, host: &str, more: &str| {
        settings(&file(acme, host, more)).sites[0].tls.source.clone()
    };
    assert_eq!(source(LETSENCRYPT, "example.org", ""), CertificateSource::Acme);
    assert_eq!(source(LETSENCRYPT, "a.localhost", ""), CertificateSource::Internal);
    for host in ["printer.local", "nas.home.arpa", "db.internal", "a.lan", "*.a.test", "router"] {
        let said =
            format!("certificate = {:?}\n", if host == "*.a.test" { "none" } else { "acme" });
        assert_eq!(
            errors(&file(LETSENCRYPT, host, "")),
            [format!(
                "flyball.toml:3: site.certificate: is missing: no authority on the internet \
                 issues a certificate for {host}; name a file with a certificate and its key, say \
                 acme if acme.directory is an authority of your own, or none"
            )]
        );
        settings(&file(LETSENCRYPT, host, &said));
        if host != "*.a.test" {
            assert_eq!(source(OWN, host, ""), CertificateSource::Acme, "{host}");
        }
    }
}

#[test]
fn no_terms_are_agreed_to_that_are_not_written() {
    for (host, more) in
        [("example.org", "certificate = \"acme\"\n"), ("*", "certificate = \"acme\"\n")]
    {
        assert_eq!(
            errors(&file("", host, more)),
            ["flyball.toml:5: site.certificate: needs [acme], which agrees to the terms of the \
              authority: add it, if without a key"]
        );
    }
    settings(&file(LETSENCRYPT, "example.org", "certificate = \"acme\"\n"));
}
