"""Counts which pages of a file the kernel has marked as used after they were read or sent, by
/proc/kpageflags (the superuser alone may read it):

    python3 sendfile-pages.py DIRECTORY_ON_A_DISK
"""

import ctypes
import mmap
import os
import socket
import struct
import sys
import tempfile
import threading

PAGES = 4_096
PAGE = mmap.PAGESIZE
REFERENCED, ACTIVE = 2, 6


def bring_in(file):
    os.posix_fadvise(file, 0, 0, os.POSIX_FADV_WILLNEED)
    os.posix_fadvise(file, 0, 0, os.POSIX_FADV_NORMAL)


def read(file):
    offset = 0
    while offset < PAGES * PAGE:
        offset += len(os.pread(file, 1 << 18, offset))


def send(file):
    """The whole file through a TCP connection, whose other end throws it away."""
    listener = socket.create_server(("127.0.0.1", 0))
    client = socket.create_connection(listener.getsockname())
    server = listener.accept()[0]

    def throw_away():
        while client.recv(1 << 18):
            pass

    reader = threading.Thread(target=throw_away)
    reader.start()
    offset = 0
    while offset < PAGES * PAGE:
        offset += os.sendfile(server.fileno(), file, offset, 1 << 18)
    server.close()
    reader.join()
    client.close()


def flags(file):
    """Of each page its flags. A page that is looked at is marked when it is unmapped, not before;
    MAP_POPULATE would mark it at once."""
    libc = ctypes.CDLL(None, use_errno=True)
    libc.mmap.restype = ctypes.c_void_p
    libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long]
    address = libc.mmap(None, PAGES * PAGE, mmap.PROT_READ, mmap.MAP_SHARED, file, 0)
    for page in range(PAGES):
        ctypes.c_char.from_address(address + page * PAGE).value
    found = []
    with open("/proc/self/pagemap", "rb") as pagemap, open("/proc/kpageflags", "rb") as kernel:
        pagemap.seek(address // PAGE * 8)
        for entry in struct.unpack(f"={PAGES}Q", pagemap.read(PAGES * 8)):
            if entry >> 63:
                kernel.seek((entry & (1 << 55) - 1) * 8)
                found.append(struct.unpack("=Q", kernel.read(8))[0])
    libc.munmap(ctypes.c_void_p(address), ctypes.c_size_t(PAGES * PAGE))
    return found


def marked(use, times):
    """Of a file that was written past the page cache, after so many uses."""
    with tempfile.NamedTemporaryFile(dir=sys.argv[1]) as named:
        content = mmap.mmap(-1, PAGES * PAGE)
        content.write(b"x" * (PAGES * PAGE))
        past = os.open(named.name, os.O_WRONLY | os.O_DIRECT)
        assert os.write(past, content) == PAGES * PAGE
        os.fsync(past)
        os.close(past)
        file = os.open(named.name, os.O_RDONLY)
        for _ in range(times):
            use(file)
        found = flags(file)
        os.close(file)
        return len(found), *(sum(one >> bit & 1 for one in found) for bit in (REFERENCED, ACTIVE))


generations = "/sys/kernel/mm/lru_gen/enabled"
told = open(generations).read().strip() if os.path.exists(generations) else "not there"
print("generations of pages (lru_gen):", told)
for name, use in (("brought in and not read", bring_in), ("read", read), ("sendfile", send)):
    for times in (1, 2, 3):
        pages, referenced, active = marked(use, times)
        print(f"{name}, {times} times: of {pages} pages {referenced} referenced, {active} active",
              flush=True)
