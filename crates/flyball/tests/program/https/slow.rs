//! Handshakes that take long: by a key of RSA, and with a client that shows a certificate.

use rcgen::PKCS_RSA_SHA256;

use crate::common::architectures;
use crate::common::https::Authority;

#[test]
fn signatures_that_take_long_are_made_on_every_architecture() {
    let authority = Authority::new();
    authority.issue_kind("rsa.pem", &["a.test"], &PKCS_RSA_SHA256, |_| {});
    authority.issue("client.pem", &["someone"]);
    let (ca, client) = (authority.path("ca.pem"), authority.path("client.pem"));
    let client = client.display().to_string();
    let lines = format!("tls.client-ca = {ca:?}\ntls.client-auth = \"optional\"");
    let site = authority.site("\"a.test\"", "rsa.pem", &lines);
    for architecture in architectures() {
        let server = match authority.launch(&format!("arch = \"{architecture}\"\n{site}")) {
            Err(refused) if refused.is_unavailable() => continue,
            started => started.unwrap(),
        };
        for more in [&[][..], &["-E", &client], &["--tls-max", "1.2", "-E", &client]] {
            let (said, output) = authority.curl(&server, "a.test", more);
            assert_eq!(said, "over TLS\n200", "{architecture} {more:?}: {output:?}");
        }
        server.assert_sound();
    }
}
