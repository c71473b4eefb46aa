#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Holds a conversation, written down as text, with a real server process.

    wire.py TAUT FILE.wire

starts `TAUT serve --port 0 --any-target --sender ISLD ...`, waits for its line "listening on
HOST:PORT", and performs the file's lines one after the other. The first one that does not come out
as written ends the run with its line number and exit code 1.

A line is a verb and its operands; "2: verb" means connection 2 (1 otherwise). '|' stands for SOH.

    serve ARGUMENTS...      further arguments of the server; before the first other line
    setting KEY=VALUE       the server runs from a settings file with the session ISLD->TW44 and
                            these lines, and thus keeps its numbers between connections
    connect                 open a connection
    send TEXT               a message: 8, 9 and 10 are added to the body given
    raw TEXT                bytes as they are; \\xHH for any byte
    each-byte TEXT          as send, in as many segments as it has bytes
    dribble SECONDS TEXT    as send, a byte each SECONDS, until all is sent or the peer closes
    together / apart        what is sent between them goes out in one write
    fill COUNT TEXT         raw TEXT, repeated until COUNT bytes are sent or the peer closes
    expect TEXT             the next message, its body compared field by field, in order
    silence SECONDS         nothing may come, and the connection stays
    closed [SECONDS]        the peer closes within SECONDS (5); anything that comes before is wrong
    wait SECONDS
    close                   close the connection
    reset                   close it with RST

In texts: {now}, {now-121}, {now+10}: UTC time in milliseconds, so many seconds away; {to}: the
client's 49, 52, 56; {from}: the server's, any time. In expectations {time} is any time in
milliseconds and {any} any value. {sum} in a raw text is the checksum of what precedes its field.
"""

import datetime
import os
import re
import select
import shlex
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time

LISTEN_SECONDS = 20.0
EXPECT_SECONDS = 10.0
STOP_SECONDS = 10.0
SESSION = [
    "[SESSION]",
    "ConnectionType=acceptor",
    "BeginString=FIX.4.4",
    "SenderCompID=ISLD",
    "TargetCompID=TW44",
]
TIME_PATTERN = r"\d{8}-\d\d:\d\d:\d\d\.\d{3}"


class Mismatch(Exception):
    """What came is not what the file says."""


def utc_text(offset):
    now = datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(seconds=offset)
    return now.strftime("%Y%m%d-%H:%M:%S.") + "%03d" % (now.microsecond // 1000)


def readable(data):
    return data.replace(b"\x01", b"|").decode("latin-1")


def checksum(data):
    return b"%03d" % (sum(data) % 256)


def expand(text):
    """Text of a line as bytes."""
    text = text.replace("{to}", "49=TW44|52={now}|56=ISLD")
    text = re.sub(r"\{now([+-]\d+)?\}", lambda m: utc_text(int(m.group(1) or 0)), text)
    data = text.replace("|", "\x01").encode("latin-1")
    data = re.sub(rb"\\x([0-9a-fA-F]{2})", lambda m: bytes([int(m.group(1), 16)]), data)
    place = data.find(b"10={sum}")
    if place >= 0:
        data = data.replace(b"{sum}", checksum(data[:place]))
    return data


def message(text):
    body = expand(text)
    head = b"8=FIX.4.4\x019=%d\x01" % len(body)
    return head + body + b"10=" + checksum(head + body) + b"\x01"


def pattern(text):
    text = text.replace("{from}", "49=ISLD|52={time}|56=TW44")
    parts = re.split(r"(\{time\}|\{any\})", text)
    return "".join(
        {"{time}": TIME_PATTERN, "{any}": r"[^|]*"}.get(part) or re.escape(part) for part in parts
    )


class Connection:
    def __init__(self, address):
        self.socket = socket.create_connection(address, timeout=5.0)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.received = b""
        self.ended = False

    def write(self, data):
        """Sends all; False where the peer has closed meanwhile."""
        try:
            self.socket.sendall(data)
            return True
        except (BrokenPipeError, ConnectionResetError):
            return False

    def read(self, deadline):
        """Waits for more bytes or the end. False at the deadline."""
        left = deadline - time.monotonic()
        if self.ended or left <= 0:
            return self.ended
        if not select.select([self.socket], [], [], left)[0]:
            return False
        try:
            data = self.socket.recv(65536)
        except ConnectionResetError:
            data = b""
        self.received += data
        self.ended = not data
        return True

    def take_message(self):
        """A whole message from what was received, or None."""
        match = re.match(rb"8=[^\x01]+\x019=(\d+)\x01", self.received)
        if not match:
            if len(self.received) > 64:
                raise Mismatch("no message: " + readable(self.received[:200]))
            return None
        end = match.end() + int(match.group(1)) + 7
        if len(self.received) < end:
            return None
        data, self.received = self.received[:end], self.received[end:]
        if not re.match(rb"10=\d{3}\x01$", data[-7:]):
            raise Mismatch("BodyLength is wrong: " + readable(data))
        if data[-4:-1] != checksum(data[:-7]):
            raise Mismatch("CheckSum is wrong: " + readable(data))
        if not match.group(0).startswith(b"8=FIX.4.4\x01"):
            raise Mismatch("BeginString is wrong: " + readable(data))
        return readable(data[match.end() : -7])

    def expect(self, text):
        deadline = time.monotonic() + EXPECT_SECONDS
        while True:
            found = self.take_message()
            if found is not None:
                break
            if self.ended or not self.read(deadline):
                why = "the peer closed" if self.ended else "nothing came"
                raise Mismatch(why + "; received so far: " + readable(self.received))
        if not re.fullmatch(pattern(text), found):
            raise Mismatch("found " + found)

    def silence(self, seconds):
        deadline = time.monotonic() + seconds
        while not self.received and not self.ended and time.monotonic() < deadline:
            self.read(deadline)
        if self.received or self.ended:
            raise Mismatch("found " + (readable(self.received) or "the end"))

    def closed(self, seconds):
        deadline = time.monotonic() + seconds
        while not self.ended:
            if not self.read(deadline):
                raise Mismatch("still open")
            if self.received:
                raise Mismatch("before the end came " + readable(self.received))

    def gone(self):
        """True where the peer has closed; what it sent is kept."""
        while not self.ended and select.select([self.socket], [], [], 0)[0]:
            self.read(time.monotonic() + 1)
        return self.ended


class Conversation:
    def __init__(self, taut, lines):
        self.taut = taut
        self.lines = lines
        self.arguments = []
        self.settings = []
        self.directory = None
        self.server = None
        self.address = None
        self.connections = {}
        self.gathered = {}

    def start(self):
        command = [self.taut, "serve", "--port", "0"]
        if self.settings:
            self.directory = tempfile.TemporaryDirectory()
            path = os.path.join(self.directory.name, "settings.cfg")
            with open(path, "w", encoding="ascii") as file:
                file.write("\n".join(SESSION + self.settings) + "\n")
            command += ["--config", path]
        else:
            command += ["--any-target", "--sender", "ISLD"]
        self.server = subprocess.Popen(
            command + self.arguments, stdout=subprocess.PIPE, stdin=subprocess.DEVNULL
        )
        deadline = time.monotonic() + LISTEN_SECONDS
        line = b""
        output = self.server.stdout.fileno()
        while not line.endswith(b"\n"):
            left = max(0.0, deadline - time.monotonic())
            if not select.select([output], [], [], left)[0]:
                raise Mismatch("the server printed no port within %g s" % LISTEN_SECONDS)
            byte = os.read(output, 1)
            if not byte:
                raise Mismatch("the server ended: exit code %s" % self.server.wait())
            line += byte
        match = re.match(rb"listening on ([0-9.]+):(\d+)", line)
        if not match:
            raise Mismatch("the server's first line is " + line.decode("latin-1"))
        self.address = (match.group(1).decode(), int(match.group(2)))

    def stop(self):
        """Ends the server; it must still have been there, and end by itself."""
        for connection in self.connections.values():
            connection.socket.close()
        if self.directory:
            self.directory.cleanup()
        if self.server is None:
            return
        code = self.server.poll()
        if code is not None:
            raise Mismatch("the server had ended: exit code %s" % code)
        self.server.send_signal(signal.SIGTERM)
        try:
            self.server.communicate(timeout=STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self.server.kill()
            self.server.wait()
            raise Mismatch("the server did not stop within %g s" % STOP_SECONDS) from None
        if self.server.returncode not in (0, -signal.SIGTERM, 128 + signal.SIGTERM):
            raise Mismatch("the server's exit code is %s" % self.server.returncode)

    def write(self, number, data):
        if number in self.gathered:
            self.gathered[number] += data
        else:
            self.connections[number].write(data)

    def perform(self, number, verb, rest):
        if verb == "connect":
            self.connections[number] = Connection(self.address)
            return
        if verb == "wait":
            time.sleep(float(rest))
            return
        connection = self.connections[number]
        if verb == "send":
            self.write(number, message(rest))
        elif verb == "raw":
            self.write(number, expand(rest))
        elif verb == "each-byte":
            for byte in message(rest):
                connection.write(bytes([byte]))
                time.sleep(0.001)
        elif verb == "dribble":
            seconds, text = rest.split(None, 1)
            for byte in message(text):
                if connection.gone() or not connection.write(bytes([byte])):
                    break
                time.sleep(float(seconds))
        elif verb == "fill":
            count, text = rest.split(None, 1)
            data = expand(text)
            data = (data * (int(count) // len(data) + 1))[: int(count)]
            for at in range(0, len(data), 4096):
                if connection.gone() or not connection.write(data[at : at + 4096]):
                    break
        elif verb == "together":
            self.gathered[number] = b""
        elif verb == "apart":
            connection.write(self.gathered.pop(number))
        elif verb == "expect":
            connection.expect(rest)
        elif verb == "silence":
            connection.silence(float(rest))
        elif verb == "closed":
            connection.closed(float(rest or 5))
        elif verb == "close":
            connection.socket.close()
        elif verb == "reset":
            linger = struct.pack("ii", 1, 0)
            connection.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
            connection.socket.close()
        else:
            raise Mismatch("unknown verb " + verb)

    def hold(self):
        """Performs all lines. Returns what went wrong, or None."""
        for line_number, line in enumerate(self.lines, 1):
            line = line.strip()
            if not line or line.startswith("#"):
                continue
            match = re.match(r"(?:(\d+):\s*)?(\S+)\s*(.*)$", line)
            number, verb, rest = int(match.group(1) or 1), match.group(2), match.group(3)
            try:
                if verb == "serve":
                    self.arguments += shlex.split(rest)
                    continue
                if verb == "setting":
                    self.settings.append(rest)
                    continue
                if self.server is None:
                    self.start()
                self.perform(number, verb, rest)
            except (Mismatch, OSError, KeyError) as problem:
                return "line %d: %s\n    %r" % (line_number, line, problem)
        if self.server is None:
            return "the file says nothing"
        return None


def main():
    if len(sys.argv) != 3:
        print("usage: wire.py TAUT FILE.wire", file=sys.stderr)
        return 2
    with open(sys.argv[2], encoding="latin-1") as file:
        conversation = Conversation(sys.argv[1], file.read().split("\n"))
    problem = conversation.hold()
    try:
        conversation.stop()
    except Mismatch as mismatch:
        problem = (problem + "\n" if problem else "") + str(mismatch)
    if problem:
        print("%s: %s" % (os.path.basename(sys.argv[2]), problem), file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
