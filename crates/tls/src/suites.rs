//! The names of cipher suites as OpenSSL has them, and so mod_ssl and nginx.

use rustls::CipherSuite;

/// By their registered numbers: all that are spoken here.
const NAMES: [(CipherSuite, &str); 9] = [
    (CipherSuite::TLS13_AES_256_GCM_SHA384, "TLS_AES_256_GCM_SHA384"),
    (CipherSuite::TLS13_AES_128_GCM_SHA256, "TLS_AES_128_GCM_SHA256"),
    (CipherSuite::TLS13_CHACHA20_POLY1305_SHA256, "TLS_CHACHA20_POLY1305_SHA256"),
    (CipherSuite::TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384, "ECDHE-ECDSA-AES256-GCM-SHA384"),
    (CipherSuite::TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256, "ECDHE-ECDSA-AES128-GCM-SHA256"),
    (CipherSuite::TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256, "ECDHE-ECDSA-CHACHA20-POLY1305"),
    (CipherSuite::TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384, "ECDHE-RSA-AES256-GCM-SHA384"),
    (CipherSuite::TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256, "ECDHE-RSA-AES128-GCM-SHA256"),
    (CipherSuite::TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256, "ECDHE-RSA-CHACHA20-POLY1305"),
];

/// OpenSSL's name of a suite.
pub(crate) fn name(suite: CipherSuite) -> &'static str {
    NAMES.iter().find(|(known, _)| *known == suite).map_or("unknown", |(_, name)| name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustls::crypto::aws_lc_rs::default_provider;
    use std::process::Command;

    #[test]
    fn every_suite_has_the_name_that_openssl_gives_to_its_number() {
        let listed = Command::new("openssl").args(["ciphers", "-V", "ALL"]).output();
        let listed = listed.map(|output| String::from_utf8(output.stdout).unwrap());
        let suites = default_provider().cipher_suites;
        assert_eq!(suites.len(), NAMES.len());
        for suite in suites {
            let number = u16::from(suite.suite());
            let shown = name(suite.suite());
            assert_ne!(shown, "unknown", "{number:04x}");
            // Where openssl is not installed its list is not looked at.
            let Ok(listed) = &listed else { continue };
            let line = format!("0x{:02X},0x{:02X} - {shown} ", number >> 8, number & 0xff);
            assert!(listed.contains(&line), "{line}");
        }
    }
}
