//! Tests of the socket calls, over real sockets.

use super::*;
use crate::apart::apart;
use crate::refused;

#[test]
fn newcomers_are_ignored_and_those_who_wait_can_be_accepted() {
    let (listener, address) = listener(8, &ListenOptions::default());
    let _waiting = TcpStream::connect(address).unwrap();
    ignore_newcomers(&listener);
    wait_for_accepts(&[&listener], 5);
    assert_eq!(accept_queue(&listener).unwrap().0, 1);
    let limit = Duration::from_millis(50);
    let late = TcpStream::connect_timeout(&address, limit).unwrap_err();
    assert_eq!(late.kind(), io::ErrorKind::TimedOut);
    accepted(&listener);
    assert!(accept(&listener, true).is_err());
    wait_for_accepts(&[&listener], 60_000);
    admit_newcomers(&listener);
    let _welcome = TcpStream::connect(address).unwrap();
    accepted(&listener);
}
use std::io::{Read, Write};
use std::net::TcpStream;

fn own_group() -> u32 {
    rustix::process::getegid().as_raw()
}

fn listener(backlog: u32, options: &ListenOptions) -> (OwnedFd, Address) {
    let socket = bind("127.0.0.1:0".parse().unwrap(), false).unwrap();
    listen(&socket, backlog, options).unwrap();
    let address = local_address(&socket).unwrap();
    (socket, address)
}

fn accepted(listener: &OwnedFd) -> Owned {
    loop {
        match accept(listener, true) {
            Ok((socket, _)) => return socket,
            Err(error) => assert_eq!(error.kind(), io::ErrorKind::WouldBlock),
        }
    }
}

#[test]
fn a_taken_port_is_seen_although_the_sockets_of_one_server_share_it() {
    let first = bind("127.0.0.1:0".parse().unwrap(), false).unwrap();
    let address = local_address(&first).unwrap();
    share_port(&first).unwrap();
    listen(&first, 8, &ListenOptions::default()).unwrap();
    let taken = bind(address, false).unwrap_err();
    assert_eq!(taken.kind(), io::ErrorKind::AddrInUse);
    let second = bind(address, true).unwrap();
    listen(&second, 8, &ListenOptions::default()).unwrap();
}

#[test]
fn accepted_sockets_inherit_what_the_listener_was_given() {
    let options = ListenOptions {
        congestion: Some("reno".into()),
        timeout: Some(Duration::from_secs(3)),
        ..ListenOptions::default()
    };
    let (listener, address) = listener(8, &options);
    let _client = TcpStream::connect(address).unwrap();
    let socket = accepted(&listener);
    assert!(sockopt::tcp_nodelay(&socket).unwrap());
    assert_eq!(sockopt::tcp_congestion(&socket).unwrap(), "reno");
    let timeout = sockopt::socket_timeout(&socket, sockopt::Timeout::Recv).unwrap();
    assert_eq!(timeout, Some(Duration::from_secs(3)));
}

#[test]
fn accepted_sockets_inherit_the_pace_of_their_listener() {
    const RATE: u64 = 4_000_000;
    const BYTES: usize = 8_000_000;
    let options = ListenOptions { pacing: Some(RATE), ..ListenOptions::default() };
    let (listener, address) = listener(8, &options);
    let mut client = TcpStream::connect(address).unwrap();
    let (socket, _) = accept(&listener, false)
        .or_else(|_| {
            wait_readable(&listener, 10_000)?;
            accept(&listener, false)
        })
        .unwrap();
    let start = std::time::Instant::now();
    let sender = std::thread::spawn(move || {
        let (piece, mut left) = (vec![0; 100_000], BYTES);
        while left > 0 {
            let most = left.min(piece.len());
            left -= send_gather(&socket, &[IoSlice::new(&piece[..most])], false).unwrap();
        }
    });
    let mut received = 0;
    let mut buffer = vec![0; 1 << 20];
    while received < BYTES {
        received += client.read(&mut buffer).unwrap();
    }
    sender.join().unwrap();
    let ideal = Duration::from_millis(BYTES as u64 * 1_000 / RATE);
    assert!(start.elapsed() > ideal * 8 / 10, "{:?} of {ideal:?}", start.elapsed());
}

/// The pace of a socket, the bytes that may wait in it, and the seconds that it waits for a
/// request.
fn pace_of(socket: &OwnedFd) -> (u64, u32, u32) {
    fn option<T: Default>(socket: &OwnedFd, level: i32, name: i32) -> T {
        let (mut value, mut len) = (T::default(), size_of::<T>() as libc::socklen_t);
        // SAFETY: the kernel writes no more than `len` bytes into the value, which lives as long.
        let got = unsafe {
            let value = (&raw mut value).cast();
            libc::getsockopt(socket.as_raw_fd(), level, name, value, &raw mut len)
        };
        assert_eq!((got, len as usize), (0, size_of::<T>()));
        value
    }
    let of_tcp = |name| option(socket, libc::IPPROTO_TCP, name);
    (
        option(socket, libc::SOL_SOCKET, libc::SO_MAX_PACING_RATE),
        of_tcp(libc::TCP_NOTSENT_LOWAT),
        of_tcp(libc::TCP_DEFER_ACCEPT),
    )
}

#[test]
fn a_socket_that_listens_again_has_no_pace_of_before() {
    let options =
        ListenOptions { pacing: Some(100_000), defer_accept_s: 1, ..ListenOptions::default() };
    let (listener, _) = listener(8, &options);
    assert_eq!(pace_of(&listener), (100_000, 100_000, 1));
    listen(&listener, 8, &ListenOptions::default()).unwrap();
    assert_eq!(pace_of(&listener), (u64::MAX, 0, 0));
}

#[test]
fn buffers_and_delay_are_inherited_when_asked_for() {
    let options = ListenOptions {
        delay: true,
        send_buffer: Some(40_000),
        receive_buffer: Some(30_000),
        ..ListenOptions::default()
    };
    let (listener, address) = listener(8, &options);
    let _client = TcpStream::connect(address).unwrap();
    let socket = accepted(&listener);
    assert!(!sockopt::tcp_nodelay(&socket).unwrap());
    // The kernel doubles what it is asked for, to account for its own needs.
    let sent = sockopt::socket_send_buffer_size(&socket).unwrap();
    assert_eq!((sent, sockopt::socket_recv_buffer_size(&socket).unwrap()), (80_000, 60_000));
}

#[test]
fn a_cpu_is_preferred_and_a_cork_is_set_and_pulled() {
    let (listener, address) = listener(8, &ListenOptions::default());
    prefer_cpu(&listener, 1).unwrap();
    assert_eq!(sockopt::socket_incoming_cpu(&listener).unwrap(), 1);
    let mut client = TcpStream::connect(address).unwrap();
    let socket = accepted(&listener);
    set_cork(&socket, true).unwrap();
    assert!(sockopt::tcp_cork(&socket).unwrap());
    send(&socket, b"held", false).unwrap();
    set_cork(&socket, false).unwrap();
    let mut buffer = [0; 4];
    client.read_exact(&mut buffer).unwrap();
    assert_eq!(&buffer, b"held");
}

#[test]
fn a_close_resets_when_told_to() {
    let (listener, address) = listener(8, &ListenOptions::default());
    let mut client = TcpStream::connect(address).unwrap();
    let socket = accepted(&listener);
    reset_on_close(&socket).unwrap();
    drop(socket);
    let error = client.read(&mut [0]).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::ConnectionReset);
}

#[test]
fn a_send_that_must_not_wait_fills_a_blocking_socket_and_returns() {
    let (listener, address) = listener(8, &ListenOptions::default());
    let _client = TcpStream::connect(address).unwrap();
    let (socket, _) = accept(&listener, false).unwrap();
    let piece = vec![0; 1 << 20];
    let slices = [IoSlice::new(&piece), IoSlice::new(&piece)];
    let error = loop {
        if let Err(error) = send_gather_now(&socket, &slices, false) {
            break error;
        }
    };
    assert_eq!(error.kind(), io::ErrorKind::WouldBlock);
}

#[test]
fn the_accept_queue_of_a_listener_is_seen() {
    let (listener, address) = listener(5, &ListenOptions::default());
    assert_eq!(accept_queue(&listener).unwrap(), (0, 5));
    let _clients: Vec<_> = (0..3).map(|_| TcpStream::connect(address).unwrap()).collect();
    assert_eq!(accept_queue(&listener).unwrap(), (3, 5));
}

/// Passes at least so many milliseconds.
fn pass(ms: u64) {
    let (idle, _other) = stream_pair().unwrap();
    let until_ms = clock::monotonic_ms() + ms;
    while let left @ 1.. = until_ms.saturating_sub(clock::monotonic_ms()) {
        assert!(!wait_readable(&idle, left).unwrap());
    }
}

#[test]
fn a_connection_tells_how_long_it_waited_and_since_when_its_client_is_silent() {
    const TICKS_MS: u64 = 8;
    let (listener, address) = listener(8, &ListenOptions::default());
    let _silent = TcpStream::connect(address).unwrap();
    assert!(!age(accepted(&listener)).unwrap().has_said);
    let before_ms = clock::monotonic_ms();
    let mut client = TcpStream::connect(address).unwrap();
    let connected_ms = clock::monotonic_ms();
    pass(50);
    client.write_all(b"x").unwrap();
    let said_ms = clock::monotonic_ms();
    pass(30);
    let socket = accepted(&listener);
    let asked_ms = clock::monotonic_ms();
    let aged = age(&socket).unwrap();
    let told_ms = clock::monotonic_ms();
    let within = |found: u32, from_ms: u64, to_ms: u64| {
        let most = told_ms - from_ms + TICKS_MS;
        let least = (asked_ms - to_ms).saturating_sub(TICKS_MS);
        assert!((least..=most).contains(&u64::from(found)), "{found} in {least}..={most}");
    };
    within(aged.queued_ms, before_ms, connected_ms);
    within(aged.silent_ms, connected_ms + 50, said_ms);
    assert!(aged.has_said && !aged.half_closed);
    client.shutdown(std::net::Shutdown::Write).unwrap();
    assert!(wait_readable(&socket, 60_000).unwrap());
    let mut bytes = [0; 2];
    assert_eq!(recv(&socket, &mut bytes).unwrap(), 1);
    assert!(wait_readable(&socket, 60_000).unwrap());
    assert!(age(&socket).unwrap().half_closed);
    assert_eq!(age(stream_pair().unwrap().0), None);
}

#[test]
fn the_drops_of_a_listener_are_its_own() {
    let (other, _) = listener(1, &ListenOptions::default());
    let (listener, address) = listener(1, &ListenOptions::default());
    assert_eq!(listener_drops(&listener).unwrap(), 0);
    // The queue holds one more than its limit; the rest is dropped and tried again in vain.
    let clients: Vec<_> =
        (0..6).map(|_| TcpStream::connect_timeout(&address, Duration::from_millis(50))).collect();
    let lost = clients.iter().filter(|client| client.is_err()).count();
    assert_eq!(lost, 4);
    assert!(listener_drops(&listener).unwrap() >= 4);
    assert_eq!(listener_drops(&other).unwrap(), 0);
}

#[test]
fn a_listener_that_defers_drops_the_end_of_each_handshake() {
    let options = ListenOptions { defer_accept_s: 1, ..ListenOptions::default() };
    let (listener, address) = listener(64, &options);
    assert!(defers(&listener).unwrap());
    let before = listener_drops(&listener).unwrap();
    for _ in 0..3 {
        let mut client = TcpStream::connect(address).unwrap();
        client.write_all(b"a").unwrap();
        drop(accepted(&listener));
    }
    assert!(listener_drops(&listener).unwrap() > before);
}

#[test]
fn the_length_of_an_accept_queue_changes_while_it_listens_and_revives_none_that_does_not() {
    let (listener, address) = listener(8, &ListenOptions::default());
    set_accept_queue(&listener, 3).unwrap();
    assert_eq!(accept_queue(&listener).unwrap(), (0, 3));
    set_accept_queue(&listener, 100).unwrap();
    assert_eq!(accept_queue(&listener).unwrap(), (0, 100));
    stop_listening(&listener);
    assert!(set_accept_queue(&listener, 3).is_err());
    assert!(TcpStream::connect(address).is_err());
}

#[test]
fn a_socket_that_stopped_listening_refuses_and_can_listen_again() {
    let (listener, address) = listener(8, &ListenOptions::default());
    stop_listening(&listener);
    assert_eq!(TcpStream::connect(address).unwrap_err().kind(), io::ErrorKind::ConnectionRefused);
    listen(&listener, 8, &ListenOptions::default()).unwrap();
    let _client = TcpStream::connect(address).unwrap();
    accepted(&listener);
}

#[test]
fn buffers_are_gathered_and_the_end_is_seen() {
    let (listener, address) = listener(8, &ListenOptions::default());
    let mut client = TcpStream::connect(address).unwrap();
    let socket = accepted(&listener);
    let sent = send_gather(&socket, &[IoSlice::new(b"ab"), IoSlice::new(b"cd")], false);
    assert_eq!(sent.unwrap(), 4);
    while unacknowledged(&socket) > 0 {}
    shutdown_write(&socket).unwrap();
    let mut text = String::new();
    client.read_to_string(&mut text).unwrap();
    assert_eq!(text, "abcd");
    client.write_all(b"x").unwrap();
    drop(client);
    let mut buffer = [0; 8];
    while recv(&socket, &mut buffer).is_err() {}
    assert_eq!(buffer[0], b'x');
}

/// Rounds until the kernel has put an acknowledgement off.
const ROUNDS_MAX: usize = 1_000;

#[test]
fn what_was_received_is_acknowledged_without_being_answered() {
    let (listener, address) = listener(8, &ListenOptions::default());
    let mut client = TcpStream::connect(address).unwrap();
    let socket = accepted(&listener);
    let mut buffer = [0; 8];
    for _ in 0..ROUNDS_MAX {
        client.write_all(b"a").unwrap();
        while recv(&socket, &mut buffer).is_err() {}
        if unacknowledged(&client) > 0 {
            acknowledge(&socket).unwrap();
            return assert_eq!(unacknowledged(&client), 0);
        }
        assert_eq!(send(&socket, b"b", false).unwrap(), 1);
        client.read_exact(&mut buffer[..1]).unwrap();
    }
    panic!("all is acknowledged at once");
}

#[test]
fn what_is_there_is_received_without_waiting_and_its_coming_can_be_waited_for() {
    let (listener, address) = listener(8, &ListenOptions::default());
    assert!(!wait_readable(&listener, 0).unwrap());
    let mut client = TcpStream::connect(address).unwrap();
    assert!(wait_readable(&listener, 10_000).unwrap());
    let socket = accepted(&listener);
    set_nonblocking(&socket, false).unwrap();
    let mut buffer = [0; 8];
    let nothing = recv_now(&socket, &mut buffer).unwrap_err();
    assert_eq!(nothing.kind(), io::ErrorKind::WouldBlock);
    assert!(!wait_readable(&socket, 0).unwrap());
    client.write_all(b"x").unwrap();
    assert!(wait_readable(&socket, 10_000).unwrap());
    assert_eq!(recv_now(&socket, &mut buffer).unwrap(), 1);
}

#[test]
fn a_stale_unix_socket_is_replaced_and_a_live_one_is_not() {
    apart(|| {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("admin.sock");
        let first = listen_unix(&path, 0o600, own_group()).unwrap();
        assert_eq!(
            listen_unix(&path, 0o600, own_group()).unwrap_err().kind(),
            io::ErrorKind::AddrInUse
        );
        drop(first);
        listen_unix(&path, 0o600, own_group()).unwrap();
    });
}

#[test]
fn who_may_connect_to_a_unix_socket_is_changed_by_what_it_is_and_not_by_its_name() {
    use std::os::unix::fs::PermissionsExt;
    apart(|| {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        let mode = |name: &str| std::fs::metadata(at(name)).unwrap().permissions().mode() & 0o777;
        let bound = bind_unix_at(&at("a.sock"), 0o600, own_group()).unwrap();
        assert_eq!(mode("a.sock"), 0o600);
        // It is bound and does not listen: nothing answers, and nothing takes its place.
        assert!(connect_unix(&at("a.sock"), Duration::from_secs(1)).is_err());
        let node = guard_unix(&at("a.sock"), 0o600, own_group(), None).unwrap();
        assert_eq!(guard_unix(&at("a.sock"), 0o660, own_group(), Some(node)).unwrap(), node);
        assert_eq!(mode("a.sock"), 0o660);
        // Another socket that has taken its place keeps its mode.
        let other = bind_unix_at(&at("b.sock"), 0o600, own_group()).unwrap();
        std::fs::rename(at("b.sock"), at("a.sock")).unwrap();
        for known in [None, Some(node)] {
            let error = guard_unix(&at("a.sock"), 0o660, own_group(), known).unwrap_err();
            assert_eq!((error.kind(), mode("a.sock")), (io::ErrorKind::AlreadyExists, 0o600));
        }
        drop(other);
        std::fs::write(at("file"), "").unwrap();
        let before = mode("file");
        let error = guard_unix(&at("file"), 0o666, own_group(), None).unwrap_err();
        assert_eq!((error.kind(), mode("file")), (io::ErrorKind::InvalidInput, before));
        std::os::unix::fs::symlink(at("file"), at("link")).unwrap();
        assert!(guard_unix(&at("link"), 0o666, own_group(), None).is_err());
        assert_eq!(mode("file"), before);
        let error = guard_unix(&at("none"), 0o666, own_group(), None).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::NotFound);
        drop(bound);
    });
}

/// What belongs to TCP is asked of no other socket, and what waits there is seen.
#[test]
fn a_unix_socket_listens_with_all_options_and_tells_that_somebody_waits() {
    apart(|| {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.sock");
        let socket = bind_unix_at(&path, 0o600, own_group()).unwrap();
        let options = ListenOptions {
            defer_accept_s: 5,
            congestion: Some("reno".into()),
            timeout: Some(Duration::from_millis(20)),
            send_buffer: Some(4096),
            pacing: Some(1 << 20),
            ..ListenOptions::default()
        };
        listen(&socket, 8, &options).unwrap();
        assert_eq!(accept_queue(&socket).unwrap(), (0, u32::MAX));
        assert_eq!(accept(&socket, false).unwrap_err().kind(), io::ErrorKind::WouldBlock);
        let client = connect_unix(&path, Duration::from_secs(1)).unwrap();
        assert_eq!(accept_queue(&socket).unwrap(), (1, u32::MAX));
        let (accepted, _) = accept(&socket, false).unwrap();
        set_cork(&accepted, true).unwrap();
        set_cork(&client, false).unwrap();
    });
}

#[test]
fn no_link_of_another_user_leads_a_unix_socket_elsewhere_and_none_of_another_kind_is_replaced() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name);
    let _held = std::os::unix::net::UnixDatagram::bind(at("datagrams")).unwrap();
    let error = listen_unix(&at("datagrams"), 0o600, own_group()).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::AddrInUse);
    assert!(at("datagrams").exists());
    if !crate::process::is_root() {
        return eprintln!("only the superuser makes links of others: not tested");
    }
    std::fs::create_dir(at("elsewhere")).unwrap();
    std::os::unix::fs::symlink(at("elsewhere"), at("run")).unwrap();
    listen_unix(&at("run/own.sock"), 0o600, own_group()).unwrap();
    let own = unix_node(&at("elsewhere/own.sock")).unwrap();
    std::os::unix::fs::lchown(at("run"), Some(61_001), None).unwrap();
    let error = listen_unix(&at("run/admin.sock"), 0o600, own_group()).unwrap_err().to_string();
    assert!(error.contains("run is a symbolic link of another user"), "{error}");
    unlink_unix(&at("run/own.sock"), own);
    assert!(at("elsewhere/own.sock").exists());
    std::fs::write(at("elsewhere/other"), "").unwrap();
    unlink_unix(&at("elsewhere/other"), own);
    assert!(at("elsewhere/other").exists());
    unlink_unix(&at("elsewhere/own.sock"), own);
    assert!(!at("elsewhere/own.sock").exists());
}

#[test]
fn a_path_leads_to_a_socket_to_something_else_or_to_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let at = |name: &str| directory.path().join(name);
    let _listener = std::os::unix::net::UnixListener::bind(at("socket")).unwrap();
    std::fs::write(at("file"), "").unwrap();
    let found = ["socket", "file", "none"].map(|name| is_socket_at(&at(name)));
    assert_eq!(found, [Some(true), Some(false), None]);
}

#[test]
fn who_connects_to_a_unix_socket_is_known() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("admin.sock");
    let socket = listen_unix(&path, 0o600, own_group()).unwrap();
    let _client = connect_unix(&path, Duration::from_secs(10)).unwrap();
    let (accepted, _) = accept(&socket, false).unwrap();
    let user = rustix::process::getuid().as_raw();
    assert_eq!(peer(&accepted).unwrap(), Peer { user, process: crate::process::own_id() });
    let (listener, _) = listener(8, &ListenOptions::default());
    assert_ne!(peer(&listener).map(|peer| peer.process).unwrap_or(0), crate::process::own_id());
}

#[test]
fn a_socket_that_several_have_stopped_listens_again() {
    let options = ListenOptions::default();
    for stops in [0, 1, 2, 3] {
        let listener = bind("127.0.0.1:0".parse().unwrap(), false).unwrap();
        // A port of its own choice would be given back.
        let port = local_address(&listener).unwrap();
        drop(listener);
        let listener = bind(port, false).unwrap();
        listen(&listener, 8, &options).unwrap();
        (0..stops).for_each(|_| stop_listening(&listener));
        listen(&listener, 8, &options).unwrap();
        let mut client = std::net::TcpStream::connect(port).unwrap();
        let (accepted, _) = accept(&listener, false).unwrap();
        std::io::Write::write_all(&mut client, b"x").unwrap();
        let mut byte = [0; 2];
        assert_eq!(recv(&accepted, &mut byte).unwrap(), 1, "{stops}");
        assert_eq!(send(&accepted, b"y", false).unwrap(), 1, "{stops}");
        assert_eq!(std::io::Read::read(&mut client, &mut byte).unwrap(), 1, "{stops}");
    }
}

#[test]
fn all_interfaces_are_those_of_ipv4_where_there_is_no_ipv6() {
    let family = |address: &str| bind(address.parse().unwrap(), false).and_then(local_address);
    without_ipv6(|| {
        let bound = family("[::]:0").unwrap();
        assert!(bound.ip() == Ipv4Addr::UNSPECIFIED && bound.port() != 0, "{bound}");
        // One that is asked for by name is not replaced by another.
        assert!(has_no_family(&family("[::1]:0").unwrap_err()));
        assert!(family("127.0.0.1:0").is_ok());
    });
}

/// On a thread that gets no socket of IPv6, as on a machine that has none.
fn without_ipv6(test: impl FnOnce() + Send) {
    let family = (0, libc::AF_INET6 as u64);
    refused::tests::without_when(libc::SYS_socket, family, libc::EAFNOSUPPORT, test);
}
