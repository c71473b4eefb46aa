#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""The two examples face to face: an order is filled, the fields are printed, both log out; and what
the initiator says when its peer is not there or is no FIX engine.

usage: test_initiator.py ACCEPTOR INITIATOR
"""
import re
import signal
import socket
import subprocess
import sys
import threading
import unittest

ACCEPTOR = INITIATOR = None


def initiate(*arguments):
    return subprocess.run([INITIATOR, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          text=True, timeout=30)


class Together(unittest.TestCase):
    def setUp(self):
        self.server = subprocess.Popen([ACCEPTOR, "0"], stdout=subprocess.PIPE, text=True)
        self.addCleanup(self.end_server)
        line = self.server.stdout.readline()
        self.port = re.fullmatch(r"listening on 127\.0\.0\.1:(\d+)\n", line).group(1)

    def end_server(self):
        if self.server.poll() is None:
            self.server.kill()
        self.server.wait()
        self.server.stdout.close()

    def test_order_and_answer(self):
        for _ in range(3):  # numbers begin at 1 each time
            done = initiate("127.0.0.1", self.port)
            self.assertEqual((done.returncode, done.stderr), (0, ""))
            lines = done.stdout.splitlines()
            self.assertEqual((lines[0], lines[-1]), ("logged on", "logged out"))
            fields = dict(line.split("=", 1) for line in lines[1:-1])
            self.assertEqual(len(fields), len(lines) - 2)
            self.assertEqual([line.split("=")[0] for line in lines[1:4]], ["8", "9", "35"])
            wanted = {"8": "FIX.4.4", "35": "8", "34": "2", "49": "TAUT", "56": "INITIATOR",
                      "11": "order-1", "55": "TAUT", "54": "1", "38": "100", "39": "2", "150": "F",
                      "14": "100", "151": "0", "6": "12.50"}
            self.assertEqual({tag: fields.get(tag) for tag in wanted}, wanted)
            self.assertRegex(fields["10"], r"^\d{3}$")

    def test_ctrl_c_ends_the_acceptor(self):
        self.assertEqual(initiate("127.0.0.1", self.port).returncode, 0)
        self.server.send_signal(signal.SIGINT)
        self.assertEqual(self.server.wait(timeout=20), 0)


class Alone(unittest.TestCase):
    def serve_once(self, function):
        """A peer that does `function` with the first connection."""
        listener = socket.create_server(("127.0.0.1", 0))
        listener.settimeout(20)

        def serve():
            with listener, listener.accept()[0] as peer:
                peer.settimeout(20)
                function(peer)

        thread = threading.Thread(target=serve)
        thread.start()
        self.addCleanup(thread.join)
        return str(listener.getsockname()[1])

    def fails(self, done, text):
        self.assertEqual(done.returncode, 1)
        self.assertEqual(done.stdout, "")
        self.assertRegex(done.stderr, r"\Ainitiator: [^\n]*" + text + r"[^\n]*\n\Z")

    def test_nobody_listens(self):
        with socket.socket() as unused:
            unused.bind(("127.0.0.1", 0))
            self.fails(initiate("127.0.0.1", str(unused.getsockname()[1])), "refused")

    def test_usage(self):
        self.fails(initiate(), "usage")
        self.fails(initiate("127.0.0.1"), "usage")

    def test_peer_that_closes(self):
        first = []
        port = self.serve_once(lambda peer: first.append(peer.recv(4096)))
        self.fails(initiate("127.0.0.1", port), "the connection ended")
        self.assertRegex(first[0], rb"\A8=FIX\.4\.4\x019=\d+\x0135=A\x0134=1\x01")
        self.assertIn(b"\x01141=Y\x01", first[0])

    def test_peer_that_speaks_no_fix(self):
        def babble(peer):
            peer.recv(4096)
            peer.sendall(b"220 mail.example ESMTP\r\n" * 100)
            while peer.recv(4096):
                pass

        port = self.serve_once(babble)
        self.fails(initiate("127.0.0.1", port), "bad Logon")


if __name__ == "__main__":
    ACCEPTOR, INITIATOR = sys.argv[1:3]
    del sys.argv[1:3]
    unittest.main()
