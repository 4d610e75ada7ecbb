//! Who may come from which network.

use flyball_http::{Network, Remote};

/// Who may come: nobody from a network of `deny`, and when `allow` names any network, only those
/// from one of these. The order within a list does not matter.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Admission {
    /// Those who may come; when it is empty, all may who are not denied.
    pub allow: Vec<Network>,
    /// Those who may not.
    pub deny: Vec<Network>,
}

impl Admission {
    /// True when all may come.
    pub fn is_open(&self) -> bool {
        self.allow.is_empty() && self.deny.is_empty()
    }

    /// Whether this client may come.
    pub fn admits(&self, client: Remote) -> bool {
        let among = |networks: &[Network]| networks.iter().any(|net| net.contains(client));
        !among(&self.deny) && (self.allow.is_empty() || among(&self.allow))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn those_who_are_denied_do_not_come_and_others_only_if_all_or_they_are_allowed() {
        let networks = |texts: &[&str]| texts.iter().map(|text| text.parse().unwrap()).collect();
        let admission = |allow: &[&str], deny: &[&str]| Admission {
            allow: networks(allow),
            deny: networks(deny),
        };
        let address = |text: &str| Remote::Ip(text.parse().unwrap());
        let open = admission(&[], &[]);
        assert!(open.is_open() && open.admits(address("::1")));
        let denying = admission(&[], &["10.0.0.0/8"]);
        assert!(denying.admits(address("192.0.2.1")) && !denying.admits(address("10.0.0.1")));
        let both = admission(&["10.0.0.0/8", "::1"], &["10.9.0.0/16"]);
        assert!(both.admits(address("10.8.0.1")) && both.admits(address("::1")));
        assert!(!both.admits(address("10.9.0.1")) && !both.admits(address("192.0.2.1")));
        assert!(open.admits(Remote::Unix) && denying.admits(Remote::Unix));
        assert!(!both.admits(Remote::Unix) && !admission(&[], &["unix"]).admits(Remote::Unix));
        let unix = admission(&["unix"], &["0.0.0.0/0", "::/0"]);
        assert!(unix.admits(Remote::Unix) && !unix.admits(address("127.0.0.1")));
    }
}
