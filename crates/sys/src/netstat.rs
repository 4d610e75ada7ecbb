//! What the kernel counts of connections that it dropped, in this network namespace.

/// The counters of /proc/net/netstat that S0's classes of queue drops map to today.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Drops {
    /// `ListenDrops`: every connection dropped by a listening socket. It already contains
    /// `ListenOverflows`: the two are never added.
    pub listen_drops: u64,
    /// `ListenOverflows`: those dropped because the accept queue was full.
    pub listen_overflows: u64,
    /// `TCPReqQFullDrop`: first packets dropped because the queue of half-open connections was
    /// full.
    pub request_queue_drops: u64,
    /// `TCPReqQFullDoCookies`: first packets answered by a cookie instead.
    pub request_queue_cookies: u64,
}

impl Drops {
    /// Reads them; zeros where the file cannot be read.
    pub fn read() -> Drops {
        parse(&std::fs::read_to_string("/proc/net/netstat").unwrap_or_default())
    }
}

/// The file holds pairs of lines with the same first word: names, then values.
fn parse(text: &str) -> Drops {
    let mut drops = Drops::default();
    let lines: Vec<&str> = text.lines().collect();
    for pair in lines.chunks(2) {
        let [names, values] = pair else { break };
        for (name, value) in names.split_whitespace().zip(values.split_whitespace()) {
            let field = match name {
                "ListenDrops" => &mut drops.listen_drops,
                "ListenOverflows" => &mut drops.listen_overflows,
                "TCPReqQFullDrop" => &mut drops.request_queue_drops,
                "TCPReqQFullDoCookies" => &mut drops.request_queue_cookies,
                _ => continue,
            };
            *field = value.parse().unwrap_or(0);
        }
    }
    drops
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::net::{self, ListenOptions};
    use std::net::TcpStream;
    use std::time::Duration;

    #[test]
    fn the_counters_are_found_by_name() {
        let text = "TcpExt: A ListenOverflows ListenDrops TCPReqQFullDrop\nTcpExt: 9 1 2 3\n\
                    IpExt: ListenX\nIpExt: 7\n";
        let expected = Drops {
            listen_drops: 2,
            listen_overflows: 1,
            request_queue_drops: 3,
            request_queue_cookies: 0,
        };
        assert_eq!(parse(text), expected);
        assert_eq!(parse("TcpExt: ListenDrops"), Drops::default());
    }

    #[test]
    fn an_overflowing_accept_queue_is_counted() {
        let listener = net::bind("127.0.0.1:0".parse().unwrap(), false).unwrap();
        net::listen(&listener, 1, &ListenOptions::default()).unwrap();
        let address = net::local_address(&listener).unwrap();
        let before = Drops::read();
        // The queue holds one more than its limit; the rest is dropped and tried again in vain.
        let clients: Vec<_> = (0..4)
            .map(|_| TcpStream::connect_timeout(&address, Duration::from_millis(200)))
            .collect();
        assert!(clients.iter().any(Result::is_err));
        let after = Drops::read();
        assert!(after.listen_drops > before.listen_drops);
        assert!(after.listen_overflows > before.listen_overflows);
    }
}
