"""Counts what kernel settings change for a server that runs, in a network namespace of its own:

    unshare -n python3 kernel-clients.py PATH/TO/flyball
"""

import os
import re
import socket
import struct
import subprocess
import sys
import tempfile
import time

FLYBALL = sys.argv[1]
HERE, ELSEWHERE = "192.0.2.1", "198.51.100."


def sysctl(key, value):
    with open("/proc/sys/net/" + key.replace(".", "/"), "w") as file:
        file.write(str(value))


def states(port, state):
    """Sockets of a local port in this state, by proc_net_tcp(5)."""
    rows = [line.split() for line in open("/proc/net/tcp").read().split("\n")[1:]]
    rows = [row for row in rows if len(row) > 3]
    return sum(row[3] == state and int(row[1].split(":")[1], 16) == port for row in rows)


class Server:
    """flyball on an address of this namespace, with a small file and a large one."""

    def __enter__(self):
        self.root = tempfile.TemporaryDirectory()
        os.chmod(self.root.name, 0o755)
        for name, size in (("small", 1024), ("large", 100_000_000)):
            with open(os.path.join(self.root.name, name), "wb") as file:
                file.truncate(size)
        command = [FLYBALL, "serve", self.root.name, "--listen", HERE + ":8080", "--workers", "1"]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        for line in self.process.stdout:
            found = re.search(r"http://[0-9.]+:([0-9]+)/", line)
            if found:
                self.port = int(found.group(1))
                return self

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait()
        self.root.cleanup()

    def connect(self, source=None, timeout=1.0):
        return socket.create_connection((HERE, self.port), timeout, source)

    def ask(self, client, name="small", close=False):
        more = "Connection: close\r\n" if close else ""
        client.sendall(f"GET /{name} HTTP/1.1\r\nHost: a\r\n{more}\r\n".encode())
        return client.recv(65536).startswith(b"HTTP/1.1 200")


def checksum(data):
    total = sum(struct.unpack(f"!{len(data) // 2}H", data))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF


def half_open(raw, at, port):
    """A SYN from an address that does not answer."""
    source = ELSEWHERE + str(1 + at % 250)
    ours, theirs = socket.inet_aton(source), socket.inet_aton(HERE)
    tcp = struct.pack("!HHIIBBHHH", 1024 + at // 250, port, at, 0, 5 << 4, 2, 65535, 0, 0)
    pseudo = ours + theirs + struct.pack("!BBH", 0, 6, len(tcp))
    tcp = tcp[:16] + struct.pack("!H", checksum(pseudo + tcp)) + tcp[18:]
    ip = struct.pack("!BBHHHBBH4s4s", 0x45, 0, 20 + len(tcp), 0, 0, 64, 6, 0, ours, theirs)
    raw.sendto(ip + tcp, (HERE, 0))


def flood_of_half_open(backlog, cookies):
    """20,000 of them, and 100 honest clients between: how many are served within a second."""
    sysctl("ipv4.tcp_max_syn_backlog", backlog)
    sysctl("ipv4.tcp_syncookies", cookies)
    raw = socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_RAW)
    with Server() as server:
        served = 0
        for at in range(20_000):
            half_open(raw, at, server.port)
            if at % 200 == 199:
                try:
                    with server.connect() as client:
                        served += server.ask(client)
                except OSError:
                    pass
        return served, states(server.port, "03")


def few_ports(low, high):
    """2,000 connections at once, whose clients have ports of their own choice."""
    sysctl("ipv4.ip_local_port_range", f"{low} {high}")
    with Server() as server:
        first = high - 30_000
        clients = [server.connect((HERE, first + at)) for at in range(2_000)]
        served = sum(server.ask(client) for client in clients)
        for client in clients:
            client.close()
        return served


def clients_that_do_not_close(seconds):
    """2,000 answers with Connection: close: what is left after 8 s, and whether others come in."""
    sysctl("ipv4.tcp_fin_timeout", seconds)
    with Server() as server:
        clients = [server.connect() for _ in range(2_000)]
        for client in clients:
            server.ask(client, close=True)
        at_once = states(server.port, "05")
        time.sleep(8)
        left = states(server.port, "05")
        with server.connect() as client:
            return at_once, left, server.ask(client)


def download(tcp_max):
    """MB in a second, the best of five, where the kernel lets a socket's buffer grow so far."""
    sysctl("ipv4.tcp_wmem", f"4096 16384 {tcp_max}")
    best = 0.0
    with Server() as server:
        buffer = bytearray(1 << 20)
        for _ in range(5):
            with server.connect(timeout=20) as client:
                began, got = time.monotonic(), 0
                client.sendall(b"GET /large HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
                while read := client.recv_into(buffer):
                    got += read
                best = max(best, got / (time.monotonic() - began) / 1e6)
    return round(best)


for command in (
    "ip link set lo mtu 1500 up",
    # Packets sent there reach no host.
    "ip link add out type veth peer name silent",
    "ip link set out arp off",
    f"ip addr add {HERE}/24 dev out",
    "ip link set out up",
    "ip link set silent up",
    f"ip route add {ELSEWHERE}0/24 dev out",
):
    subprocess.run(command.split(), check=True)
for key in ("ipv4.conf.all.rp_filter", "ipv4.conf.lo.rp_filter", "ipv4.conf.default.rp_filter"):
    sysctl(key, 0)

for backlog in (256, 4096):
    for cookies in (0, 1):
        served, waiting = flood_of_half_open(backlog, cookies)
        print(f"half-open: tcp_max_syn_backlog {backlog}, tcp_syncookies {cookies}:",
              f"{served} of 100 served, {waiting} half open at the end", flush=True)
for low, high in ((32_768, 60_999), (32_768, 32_800)):
    print(f"ip_local_port_range {low} {high}: {few_ports(low, high)} of 2000 served", flush=True)
sysctl("ipv4.ip_local_port_range", "32768 60999")
for seconds in (60, 5):
    at_once, left, served = clients_that_do_not_close(seconds)
    print(f"tcp_fin_timeout {seconds}: {at_once} in FIN_WAIT2, {left} after 8 s,",
          f"the next is served: {served}", flush=True)
for tcp_max in (65_536, 4_194_304):
    print(f"tcp_wmem max {tcp_max}: {download(tcp_max)} MB/s", flush=True)
