"""What sleeping processors cost a server on a virtual machine: latency far below its peak, and
time that the machine beneath takes, with processors that sleep when they idle and with ones that
poll (0 in /dev/cpu_dma_latency), in turn:

    python3 idle-processors.py PATH/TO/flyball
"""

import contextlib
import json
import os
import statistics
import struct
import subprocess
import sys
import tempfile
import time

FLYBALL = sys.argv[1]
ADDRESS = "127.0.0.1:18080"
RATES = (500, 3000)
ROUNDS = 3
SECONDS = 6


@contextlib.contextmanager
def idle(how):
    if how == "sleep":
        yield
        return
    with open("/dev/cpu_dma_latency", "wb", buffering=0) as latency:
        latency.write(struct.pack("i", 0))
        yield


def times():
    return [int(word) for word in open("/proc/stat").readline().split()[1:9]]


def run(how, rate):
    with tempfile.TemporaryDirectory() as root, idle(how):
        os.chmod(root, 0o755)
        with open(os.path.join(root, "index.html"), "wb") as file:
            file.write(b"x" * 1000)
        server = ["taskset", "-c", "0", FLYBALL, "serve", root, "--listen", ADDRESS]
        server = subprocess.Popen(
            server + ["--workers", "1"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        try:
            time.sleep(0.5)
            before = times()
            load = ["taskset", "-c", "1", FLYBALL, "load", f"http://{ADDRESS}/", "--rate", str(rate)]
            load += ["--duration", f"{SECONDS}s", "--warmup", "1s", "--json"]
            said = json.loads(subprocess.run(load, capture_output=True, check=True).stdout)
            after = times()
        finally:
            server.terminate()
            server.wait()
    spent = [b - a for a, b in zip(before, after)]
    latency = said["latency_us"]
    return {
        "p50_us": latency["p50"],
        "p99_us": latency["p99"],
        "stolen_percent": 100 * spent[7] / sum(spent),
    }


for rate in RATES:
    came = {"sleep": [], "poll": []}
    for nth in range(ROUNDS):
        for how in ("sleep", "poll") if nth % 2 == 0 else ("poll", "sleep"):
            came[how].append(run(how, rate))
    for how, runs in came.items():
        print(f"{rate} connections a second, processors {how}:", flush=True)
        for name in runs[0]:
            values = sorted(run[name] for run in runs)
            middle = statistics.median(values)
            print(f"  {name}: {middle:.1f} ({values[0]:.1f} to {values[-1]:.1f})", flush=True)
