"""Counts what three kernel settings change, in a network namespace of its own:

    unshare -n sh -c 'ip link set lo up; python3 kernel-queues.py'
"""

import socket
import time


def sysctl(key, value):
    with open("/proc/sys/" + key.replace(".", "/"), "w") as file:
        file.write(str(value))


def drops():
    """ListenDrops, ListenOverflows, TCPReqQFullDoCookies and TCPReqQFullDrop."""
    lines = open("/proc/net/netstat").read().split("\n")
    for names, values in zip(lines[::2], lines[1::2]):
        if names.startswith("TcpExt:"):
            found = dict(zip(names.split(), values.split()))
            keys = ["ListenDrops", "ListenOverflows", "TCPReqQFullDoCookies", "TCPReqQFullDrop"]
            return [int(found[key]) for key in keys]


def burst(count):
    """So many connections to a listener that accepts only afterwards: how many it gets."""
    listener = socket.socket()
    listener.bind(("127.0.0.1", 0))
    listener.listen(4096)
    before, clients = drops(), []
    for _ in range(count):
        client = socket.socket()
        client.setblocking(False)
        client.connect_ex(listener.getsockname())
        clients.append(client)
    time.sleep(0.4)
    listener.setblocking(False)
    accepted = 0
    try:
        while True:
            listener.accept()[0].close()
            accepted += 1
    except BlockingIOError:
        pass
    changes = [after - first for first, after in zip(before, drops())]
    for client in clients:
        client.close()
    listener.close()
    return accepted, changes


def waiting(port):
    """Sockets in TIME_WAIT on a local port."""
    rows = [line.split() for line in open("/proc/net/tcp").read().split("\n")[1:]]
    rows = [row for row in rows if len(row) > 3]
    return sum(row[3] == "06" and int(row[1].split(":")[1], 16) == port for row in rows)


def closing(first):
    """3,000 connections, one after the other, closed first by the client or the server."""
    listener = socket.socket()
    listener.bind(("127.0.0.1", 0))
    listener.listen(128)
    failed = 0
    for _ in range(3000):
        try:
            client = socket.create_connection(listener.getsockname(), timeout=1)
            server = listener.accept()[0]
            one, other = (client, server) if first == "client" else (server, client)
            one.close()
            other.recv(1)
            other.close()
        except OSError:
            failed += 1
    left = waiting(listener.getsockname()[1])
    listener.close()
    return failed, left


for limit in (128, 4096):
    sysctl("net.core.somaxconn", limit)
    print("somaxconn", limit, *burst(1000))
for limit in (64, 4096):
    sysctl("net.ipv4.tcp_max_syn_backlog", limit)
    print("tcp_max_syn_backlog", limit, *burst(1000))
for first in ("client", "server"):
    for reuse in (0, 1):
        sysctl("net.ipv4.tcp_tw_reuse", reuse)
        print("closed first by the", first, "tcp_tw_reuse", reuse, *closing(first))
