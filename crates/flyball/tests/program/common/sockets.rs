//! The kernel's table of TCP sockets (proc_net_tcp(5)).

use super::wait_for;

/// A socket of a server.
pub struct Socket {
    pub listens: bool,
    /// Bytes that came and that nobody has received.
    pub unread: u64,
    pub inode: String,
}

/// Waits until so many connections have bytes that nobody has received: segments of different
/// connections may overtake one another on the way.
#[track_caller]
pub fn wait_for_unread(port: u16, count: usize) {
    wait_for("requests that wait to be received", || {
        let sockets = sockets_at(port);
        let unread = sockets.iter().filter(|socket| !socket.listens && socket.unread > 0);
        (unread.count() == count).then_some(())
    });
}

/// Those of this port of 127.0.0.1, the listening ones and the accepted ones.
pub fn sockets_at(port: u16) -> Vec<Socket> {
    let table = std::fs::read_to_string("/proc/net/tcp").expect("the table of sockets");
    let local = format!("0100007F:{port:04X}");
    let socket = |line: &str| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let unread = fields[4].split_once(':').expect("both queues").1;
        (fields[1] == local).then(|| Socket {
            listens: fields[3] == "0A",
            unread: u64::from_str_radix(unread, 16).expect("hexadecimal"),
            inode: fields[9].to_owned(),
        })
    };
    table.lines().skip(1).filter_map(socket).collect()
}
