//! What a scanner says of the server's TLS.

use std::process::Command;
use std::time::{Duration, SystemTime};

use crate::common::has;
use crate::common::https::Authority;

/// As long as certificates of public authorities hold.
const HOLDS: Duration = Duration::from_secs(90 * 86_400);

#[test]
#[ignore = "full tier"]
fn a_scanner_finds_the_intermediate_configuration_of_mozilla() {
    if !has("sslyze") {
        return;
    }
    let authority = Authority::new();
    authority.issue_by("a.pem", &["localhost"], |params| {
        let now = SystemTime::now();
        (params.not_before, params.not_after) = (now.into(), (now + HOLDS).into());
    });
    let server = authority.start(&authority.site("\"localhost\"", "a.pem", ""));
    let target = format!("localhost:{}", server.secure().port());
    let mut sslyze = Command::new("sslyze");
    sslyze.arg("--certinfo_ca_file").arg(authority.path("ca.pem"));
    let output = sslyze.args(["--mozilla_config", "intermediate", &target]).output();
    let output = output.expect("sslyze is there");
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(said.contains(&format!("{target}: OK - Compliant.")), "{said}");
    assert!(output.status.success(), "{said}");
    server.assert_sound();
}
