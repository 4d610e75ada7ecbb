"""Counts what limits and buffers of the kernel change for a server that runs, in a network
namespace of its own:

    unshare -n python3 kernel-limits.py PATH/TO/flyball
"""

import os
import re
import resource
import socket
import subprocess
import sys
import tempfile
import time

FLYBALL = sys.argv[1]
HERE = "127.0.0.1"
CONNECTIONS = 1_000


def value(key):
    with open("/proc/sys/" + key.replace(".", "/")) as file:
        return file.read().strip().replace("\t", " ")


def sysctl(key, to):
    with open("/proc/sys/" + key.replace(".", "/"), "w") as file:
        file.write(str(to))


def queues(local, remote):
    """Bytes that wait to be acknowledged and to be read, of a socket of these two ports."""
    for line in open("/proc/net/tcp").read().split("\n")[1:]:
        row = line.split()
        if len(row) > 4 and [int(at.split(":")[1], 16) for at in row[1:3]] == [local, remote]:
            return [int(half, 16) for half in row[4].split(":")]
    return [0, 0]


def settled(count):
    """What a count is once it has been the same for half a second."""
    last, since = count(), time.monotonic()
    while time.monotonic() - since < 0.5:
        time.sleep(0.02)
        now = count()
        if now != last:
            last, since = now, time.monotonic()
    return last


class Server:
    """flyball with a small file and a large one."""

    def __init__(self, *words):
        self.words = words

    def __enter__(self):
        self.root = tempfile.TemporaryDirectory()
        os.chmod(self.root.name, 0o755)
        for name, size in (("small", 1024), ("large", 100_000_000)):
            with open(os.path.join(self.root.name, name), "wb") as file:
                file.truncate(size)
        command = [FLYBALL, "serve", self.root.name, "--listen", HERE + ":8080", "--workers", "1"]
        self.process = subprocess.Popen(
            [*command, *self.words], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        for line in self.process.stdout:
            found = re.search(r"http://[0-9.]+:([0-9]+)/", line)
            if found:
                self.port = int(found.group(1))
                return self

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait()
        self.root.cleanup()

    def connect(self):
        return socket.create_connection((HERE, self.port), 5)

    def worker(self):
        pid = self.process.pid
        return int(open(f"/proc/{pid}/task/{pid}/children").read().split()[0])


def ask(client, name="small"):
    client.sendall(f"GET /{name} HTTP/1.1\r\nHost: a\r\n\r\n".encode())


def waits_in_the_server(*words):
    """Bytes of a large body that wait in the server's socket for a client that reads nothing."""
    with Server(*words) as server, server.connect() as client:
        ask(client, "large")
        return settled(lambda: queues(server.port, client.getsockname()[1])[0])


def pipelined(count):
    """So many requests at once: how many are answered."""
    with Server("--set", "limit.pipeline=1024") as server, server.connect() as client:
        client.setblocking(False)
        left = b"GET /small HTTP/1.1\r\nHost: a\r\n\r\n" * count
        answers, tail, until = 0, b"", time.monotonic() + 20
        while answers < count and time.monotonic() < until:
            try:
                left = left[client.send(left[:65536]):] if left else left
            except BlockingIOError:
                pass
            try:
                tail += client.recv(65536)
            except BlockingIOError:
                continue
            answers += tail.count(b"HTTP/1.1 200")
            tail = tail[-11:] if len(tail) > 11 else tail
        return answers


def mappings(architecture):
    """Mappings of memory that each idle connection costs its worker."""
    count = CONNECTIONS
    with Server("--arch", architecture, "--set", f"connections.max={2 * count}") as server:
        def lines():
            return sum(1 for _ in open(f"/proc/{server.worker()}/maps"))

        def connected(many):
            clients = [server.connect() for _ in range(many)]
            for client in clients:
                ask(client)
                client.recv(65536)
            return clients

        first = connected(10)
        before = settled(lines)
        more = connected(count)
        after = settled(lines)
        for client in first + more:
            client.close()
        return (after - before) / count


def explained(setting, *words):
    """What `flyball explain` says that a setting is."""
    command = [FLYBALL, "explain", setting, *words]
    told = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    return " ".join(told.split())


subprocess.run("ip link set lo mtu 1500 up".split(), check=True)
hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))

wmem_max = value("net.core.wmem_max") if os.path.exists("/proc/sys/net/core/wmem_max") else "-"
for most in (65_536, 4_194_304):
    sysctl("net.ipv4.tcp_wmem", f"4096 16384 {most}")
    print(f"tcp_wmem max {most}, send.buffer auto, wmem_max {wmem_max}:",
          f"{waits_in_the_server()} bytes wait in the socket", flush=True)
asked = ("--set", "send.buffer=1MiB")
print(f"tcp_wmem max 4194304, send.buffer 1MiB, wmem_max {wmem_max}:",
      f"{waits_in_the_server(*asked)} bytes wait in the socket", flush=True)
print("explained:", explained("send.buffer", "--set", "send.buffer=16MiB"), flush=True)

for most in (8_192, 6_291_456):
    sysctl("net.ipv4.tcp_rmem", f"4096 {min(most, 131_072)} {most}")
    print(f"tcp_rmem max {most}: {pipelined(10_000)} of 10000 pipelined requests answered",
          flush=True)

for architecture in ("sped", "thread-per-connection", "knot-a"):
    print(f"mappings for a connection, {architecture}: {mappings(architecture)}", flush=True)
print(f"vm.max_map_count {value('vm.max_map_count')}, explained:",
      explained("connections.max", "--arch", "knot-a", "--set", "connections.max=1000000"),
      flush=True)

with Server() as server:
    def files():
        return int(value("fs.file-nr").split()[0])

    before = settled(files)
    clients = [server.connect() for _ in range(CONNECTIONS)]
    for client in clients:
        ask(client)
        client.recv(65536)
    print(f"{CONNECTIONS} connections are {settled(files) - before} files, both ends counted")
print(f"fs.file-max {value('fs.file-max')}, fs.nr_open {value('fs.nr_open')},",
      f"RLIMIT_NOFILE {hard}")
