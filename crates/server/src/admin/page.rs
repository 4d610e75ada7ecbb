//! The page for people: one file that is part of the program, and asks for `/status` every second.

use flyball_http::{Fields, Name};
use flyball_sys::random;

/// The page. Its script and its style carry a nonce in the place of this word.
const PAGE: &str = include_str!("page.html");
const NONCE: &str = "{{nonce}}";

/// Bytes of randomness in a nonce.
const NONCE_BYTES: usize = 16;

/// The page, and the fields that forbid it everything but itself and `/status`.
///
/// Without randomness the nonce would be known: then nothing of the page runs.
pub(super) fn write() -> (String, Fields) {
    let mut bytes = [0; NONCE_BYTES];
    let known = random::fill(&mut bytes).is_err();
    let nonce: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    let allowed = if known { "'none'".to_string() } else { format!("'nonce-{nonce}'") };
    let mut fields = Fields::default();
    let policy = format_args!(
        "default-src 'none'; script-src {allowed}; style-src {allowed}; connect-src 'self'; \
         img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    );
    fields.add_shown(Name::ContentSecurityPolicy, policy);
    fields.add_named("X-Content-Type-Options", "nosniff");
    fields.add_named("Referrer-Policy", "no-referrer");
    (PAGE.replace(NONCE, &nonce), fields)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_page_has_a_nonce_of_its_own_and_needs_nothing_from_elsewhere() {
        let (page, fields) = write();
        let (_, rest) = page.split_once("<script nonce=\"").unwrap();
        let (nonce, _) = rest.split_once('"').unwrap();
        assert_eq!(nonce.len(), 2 * NONCE_BYTES);
        let policy = fields.lines().value(Name::ContentSecurityPolicy).unwrap();
        let policy = String::from_utf8_lossy(policy);
        assert!(policy.contains(&format!("script-src 'nonce-{nonce}'")), "{policy}");
        assert!(page.contains(&format!("<style nonce=\"{nonce}\"")));
        assert!(!write().0.contains(nonce));
        assert!(!page.contains(NONCE));
        for elsewhere in ["https://", "src=", " style=", "onclick", "@import", "url("] {
            assert!(!page.contains(elsewhere), "{elsewhere}");
        }
    }
}
