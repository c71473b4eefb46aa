#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""`taut serve` from outside: what it says, its exit codes, and how it ends.

usage: test_serve.py PATH-OF-TAUT
"""
import datetime
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import unittest

TAUT = os.path.abspath(sys.argv.pop(1))
LIMIT_S = 20

SESSION = "[SESSION]\nBeginString=FIX.4.4\nSenderCompID=GATE\nTargetCompID=PEER\n"


def serve(*arguments, **keywords):
    return subprocess.run([TAUT, "serve", *arguments], capture_output=True, text=True,
                          timeout=LIMIT_S, check=False, **keywords)


def fix(kind, number, body="", sender="PEER", target="GATE"):
    now = datetime.datetime.now(datetime.timezone.utc).strftime("%Y%m%d-%H:%M:%S.%f")[:-3]
    text = f"35={kind}|34={number}|49={sender}|52={now}|56={target}|{body}".replace("|", "\x01")
    text = f"8=FIX.4.4\x019={len(text)}\x01{text}"
    return (text + f"10={sum(text.encode()) % 256:03}\x01").encode()


class Running:
    """A server; `with` ends it for certain."""

    def __init__(self, *arguments):
        self.process = subprocess.Popen([TAUT, "serve", "--port", "0", *arguments],
                                        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.first = self.process.stdout.readline()
        self.port = int(self.first.rsplit(":", 1)[1]) if ":" in self.first else None

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.kill()
        self.process.communicate()

    def end(self, number=signal.SIGTERM):
        self.process.send_signal(number)
        out, err = self.process.communicate(timeout=LIMIT_S)
        return self.process.returncode, out, err

    def connect(self):
        link = socket.create_connection(("127.0.0.1", self.port), timeout=LIMIT_S)
        link.settimeout(LIMIT_S)
        return link


class BadInput(unittest.TestCase):
    def refused(self, code, words, *arguments):
        """Exit code, and exactly one line that has the words."""
        result = serve(*arguments)
        self.assertEqual(result.returncode, code, result.stderr)
        self.assertEqual(result.stderr.count("\n"), 1, result.stderr)
        self.assertTrue(result.stderr.startswith("taut serve: "), result.stderr)
        self.assertIn(words, result.stderr)
        self.assertEqual(result.stdout, "")

    def with_file(self, code, words, text, *arguments):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "gateway.cfg")
            with open(path, "wb") as file:
                file.write(text if isinstance(text, bytes) else text.encode())
            self.refused(code, words, "-c", path, "--check", *arguments)

    def test_options(self):
        self.refused(2, "--nonsense", "--nonsense")
        self.refused(2, "--port", "--port")
        self.refused(2, "twice", "--port", "1", "--port", "2")
        self.refused(2, "unexpected", "argument")
        self.refused(2, "exclude", "--config", "x", "--sessions", "4")
        self.refused(3, "'abc'", "--port", "abc")
        self.refused(3, "70000", "--port", "70000")
        self.refused(3, "shared", "--shape", "shared")
        self.refused(3, "sing", "--shape", "sing")
        self.refused(3, "uring", "--port-kind", "uring")
        self.refused(3, "filll", "--handler", "filll")
        self.refused(3, "0-", "--cpus", "0-")
        self.refused(3, "'5'", "--logon-timeout", "5")
        self.refused(3, "100", "--max-message", "100")
        self.refused(3, "send_queue_bytes 65536 is below", "--send-queue", "65536")
        self.refused(3, "one worker", "--shape", "single", "--workers", "2")
        self.refused(3, "CompID", "--sender", "x" * 64)

    def test_files_that_cannot_be_read(self):
        self.refused(4, "No such file", "-c", "/nonexistent/gateway.cfg")
        self.refused(4, "no file", "-c", "/")
        self.refused(4, "no file", "-c", "/dev/null")
        if os.geteuid() != 0:
            with tempfile.NamedTemporaryFile() as file:
                os.chmod(file.name, 0)
                self.refused(4, "Permission", "-c", file.name)

    def test_settings(self):
        self.with_file(5, ":5: 'nonsense'", SESSION + "nonsense\n")
        self.with_file(5, ":5: '=x'", SESSION + "=x\n")
        self.with_file(5, "unknown section", "[SESION]\n")
        self.with_file(5, "']'", "[SESSION\n")
        self.with_file(5, "before any", "BeginString=FIX.4.4\n")
        self.with_file(5, "no acceptor session", "")
        self.with_file(5, "no acceptor session", "[DEFAULT]\nSenderCompID=A\n")
        self.with_file(5, ":1: the session has no BeginString", "[SESSION]\n")
        self.with_file(5, "no TargetCompID", "[SESSION]\nBeginString=FIX.4.4\nSenderCompID=A\n")
        self.with_file(5, "'FIX.9.9'", SESSION.replace("4.4", "9.9"))
        self.with_file(5, "not supported", SESSION.replace("4.4", "4.0"))
        self.with_file(5, ":5: SocketAcceptPort: '99999'", SESSION + "SocketAcceptPort=99999\n")
        self.with_file(5, "'5x'", SESSION + "SocketAcceptPort=5x\n")
        self.with_file(5, "'-1'", SESSION + "LogonTimeout=-1\n")
        self.with_file(5, "ResetOnLogon: 'maybe'", SESSION + "ResetOnLogon=maybe\n")
        self.with_file(5, ":5: TimestampPrecision: '4'", SESSION + "TimestampPrecision=4\n")
        self.with_file(5, "there twice", SESSION + SESSION)
        self.with_file(5, "NUL", SESSION.encode() + b"\0")
        self.with_file(5, "second port", SESSION + "SocketAcceptPort=1\n"
                       + SESSION.replace("PEER", "P2") + "SocketAcceptPort=2\n")
        self.with_file(5, ":5: unknown key 'Shoesize'", SESSION + "Shoesize=44\n", "--strict")

    def test_addresses(self):
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            taken.listen()
            port = str(taken.getsockname()[1])
            self.refused(6, port, "--port", port)
            self.refused(6, port, "--port", port, "--shape", "owned", "--workers", "2")
        self.refused(6, "192.0.2.1", "--host", "192.0.2.1", "--port", "0")
        self.refused(6, "no.such.host.invalid", "--host", "no.such.host.invalid", "--port", "0")

    def test_output_that_is_full(self):
        with open("/dev/full", "w", encoding="ascii") as full:
            result = subprocess.run([TAUT, "serve", "--port", "0"], stdout=full,
                                    stderr=subprocess.PIPE, text=True, timeout=LIMIT_S,
                                    check=False)
        self.assertEqual(result.returncode, 17)
        self.assertIn("No space left", result.stderr)


class Settings(unittest.TestCase):
    def check(self, text, *arguments):
        with tempfile.NamedTemporaryFile("w", suffix=".cfg") as file:
            file.write(text)
            file.flush()
            return serve("-c", file.name, "--check", *arguments)

    def test_a_usual_file(self):
        result = self.check(
            "# a usual file\r\n[default]\r\nConnectionType=acceptor\r\nSocketAcceptPort = 5001\r\n"
            "StartTime=00:00:00\r\nEndTime=23:59:59\r\nFileStorePath=store\r\nHeartBtInt=30\r\n"
            "BeginString=FIX.4.4\r\nSenderCompID=GATE\r\n\r\n"
            "[SESSION]\r\nTargetCompID=A\r\nresetonlogon=Y\r\n"
            "[Session]\r\nTargetCompID=B\r\nBeginString=FIX.4.2\r\n"
            "[SESSION]\r\nConnectionType=initiator\r\nTargetCompID=C\r\n")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(result.stdout, "2 sessions, 127.0.0.1:5001\n")
        lines = result.stderr.splitlines()
        self.assertEqual(len(lines), 2, result.stderr)
        self.assertIn(":18: an initiator session", lines[0])
        self.assertIn("without effect in this version: StartTime, EndTime, FileStorePath", lines[1])

    def test_unknown_key_is_a_warning(self):
        result = self.check(SESSION + "Shoesize=44\n")
        self.assertEqual(result.returncode, 0)
        self.assertRegex(result.stderr, r"^taut serve: warning: .*cfg:5: unknown key 'Shoesize'")

    def test_key_given_twice_is_a_warning(self):
        result = self.check(SESSION + "SocketAcceptPort=1\nSocketAcceptPort=2\n")
        self.assertEqual(result.returncode, 0)
        self.assertIn("set in line 5 already", result.stderr)
        self.assertIn(":2\n", result.stdout)

    def test_options_win(self):
        result = self.check(SESSION + "SocketAcceptPort=1\n", "--port", "7", "--host", "127.0.0.2")
        self.assertEqual(result.stdout, "1 session, 127.0.0.2:7\n")

    def test_sessions_of_the_file_are_served(self):
        with tempfile.NamedTemporaryFile("w", suffix=".cfg") as file:
            file.write(SESSION)
            file.flush()
            with Running("-c", file.name, "--handler", "echo") as server, server.connect() as link:
                link.sendall(fix("A", 1, "98=0|108=30|"))
                self.assertIn(b"\x0135=A\x01", link.recv(4096))
                link.sendall(fix("B", 2, "148=x|"))
                self.assertIn(b"\x01148=x\x01", link.recv(4096))
                with server.connect() as stranger:
                    stranger.sendall(fix("A", 1, "98=0|108=30|", sender="OTHER"))
                    self.assertEqual(stranger.recv(4096), b"")


class Life(unittest.TestCase):
    def test_signals_end_it_in_order(self):
        for number in signal.SIGTERM, signal.SIGINT:
            for shape in ["single"], ["owned", "--workers", "2"]:
                with Running("--shape", *shape) as server:
                    self.assertRegex(server.first, r"^listening on 127\.0\.0\.1:\d+\n$")
                    code, out, err = server.end(number)
                    self.assertEqual((code, err), (0, ""))
                    self.assertRegex(out, r"^worker +connections")

    def test_stop_timeout_and_second_signal(self):
        """A peer that answers nothing holds the end up for as long as was said, or until a second
        signal: counted by who closes the connection, not by a clock."""
        with Running("--stop-timeout", "60s", "--json", "--any-target") as server:
            with server.connect() as link:
                link.sendall(fix("A", 1, "98=0|108=0|", target="TAUT"))
                self.assertIn(b"\x0135=A\x01", link.recv(4096))
                server.process.send_signal(signal.SIGTERM)
                self.assertIn(b"\x0135=5\x01", link.recv(4096))
                link.settimeout(3)  # above the 2 s after which a session gives up by default
                with self.assertRaises(socket.timeout):
                    link.recv(4096)
                self.assertIsNone(server.process.poll())
                link.settimeout(LIMIT_S)
                code, out, err = server.end(signal.SIGINT)
        self.assertEqual(code, 0)
        self.assertIn("1 sessions did not answer", err)
        self.assertEqual(json.loads(out)["total"]["cut"], 1)

    def test_live_session_is_logged_out(self):
        with Running("--stop-timeout", "200ms", "--json", "--any-target") as server:
            with server.connect() as link:
                link.sendall(fix("A", 1, "98=0|108=30|", target="TAUT"))
                self.assertIn(b"\x0135=A\x01", link.recv(4096))
                code, out, err = server.end()
                self.assertIn(b"\x0135=5\x01", link.recv(4096))
        self.assertEqual(code, 0)
        self.assertIn("1 sessions did not answer", err)
        summary = json.loads(out)
        self.assertEqual(summary["total"]["cut"], 1)
        self.assertEqual(summary["total"]["logons"], 1)
        self.assertEqual(summary["port"], server.port)
        self.assertEqual(len(summary["workers"]), 1)
        self.assertEqual(summary["workers"][0]["messages_in"], 1)

    def test_quiet_says_nothing_but_where(self):
        with Running("--quiet") as server:
            self.assertEqual(server.end(), (0, "", ""))

    def test_peer_that_speaks_no_fix_gives_one_line(self):
        with Running("--quiet") as server:
            for _ in range(50):
                with server.connect() as link:
                    link.sendall(b"GET / HTTP/1.1\r\n\r\n")
                    try:
                        self.assertEqual(link.recv(4096), b"")
                    except ConnectionResetError:
                        pass
            code, _, err = server.end()
        self.assertEqual(code, 0)
        self.assertLessEqual(err.count("\n"), 15, err)
        self.assertIn("closed", err)

    def test_help(self):
        result = serve("--help")
        self.assertEqual(result.returncode, 0)
        for option in "--config", "--shape", "--busy-poll", "--strict", "--json":
            self.assertIn(option, result.stdout)


if __name__ == "__main__":
    unittest.main(verbosity=1)
