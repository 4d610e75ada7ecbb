//! The kernel's table of TCP sockets (proc_net_tcp(5)).

use flyball_testkit::Client;

use super::{get, signal, stop_at_rest, wait_for};

/// A socket of a server.
pub struct Socket {
    pub listens: bool,
    /// Bytes that came and were not received yet.
    pub unread: u64,
    pub inode: String,
}

/// Waits until so many connections have bytes that were not received yet: segments of different
/// connections may overtake one another on the way.
#[track_caller]
pub fn wait_for_unread(port: u16, count: usize) {
    wait_for("requests that wait to be received", || {
        let sockets = sockets_at(port);
        let unread = sockets.iter().filter(|socket| !socket.listens && socket.unread > 0);
        (unread.count() == count).then_some(())
    });
}

/// Has a worker find a request of each client at once: it is stopped while they are sent.
#[track_caller]
pub fn answered_at_once(worker: u32, port: u16, clients: &mut [Client]) {
    stop_at_rest(worker);
    for client in &mut *clients {
        client.send(get("/small.txt"));
    }
    wait_for_unread(port, clients.len());
    signal(worker, "CONT");
    for client in clients {
        assert_eq!(client.response().status(), 200);
    }
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
