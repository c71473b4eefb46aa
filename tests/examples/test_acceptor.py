#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""The example acceptor under `taut load`: each order is filled, and it ends in order.

usage: test_acceptor.py ACCEPTOR TAUT
"""
import json
import os
import re
import signal
import subprocess
import sys
import tempfile


def main():
    acceptor, taut = sys.argv[1:3]
    server = subprocess.Popen([acceptor, "0"], stdout=subprocess.PIPE, text=True)
    try:
        port = re.fullmatch(r"listening on 127\.0\.0\.1:(\d+)\n", server.stdout.readline()).group(1)
        with tempfile.TemporaryDirectory(prefix="taut-test-") as folder:
            done = subprocess.run(
                [taut, "load", f"fix://127.0.0.1:{port}", "--sessions", "4", "--runs", "1",
                 "--warmup", "10", "--measure", "500", "--json", "--out", os.path.join(folder, "run")],
                stdout=subprocess.PIPE, text=True, timeout=50, check=True)
        delivery = json.loads(done.stdout)["delivery"]
        assert delivery["answered"] == 4 * 510, delivery
        assert delivery["balanced"], delivery
        server.send_signal(signal.SIGTERM)
        assert server.wait(timeout=20) == 0, server.returncode
    finally:
        if server.poll() is None:
            server.kill()
            server.wait()
    print("1 passed, 0 failed, 0 skipped")


if __name__ == "__main__":
    main()
