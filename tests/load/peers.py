#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Small servers that answer rightly or wrongly in one way each, for tests of the load client.

A Peer listens on a free port of the loopback interface and gives every connection a thread that
runs one of the functions below with a Connection. They count what they saw, so that a test can
compare the client's account with that of its peer.
"""
import contextlib
import datetime
import itertools
import socket
import struct
import threading

SOH = b"\x01"


def message(kind, sequence, sender, target, fields):
    """A whole FIX.4.4 message; `fields` is a list of (tag, text)."""
    now = datetime.datetime.now(datetime.timezone.utc).strftime("%Y%m%d-%H:%M:%S.%f")[:-3]
    body = b"".join(f"{tag}={value}".encode() + SOH for tag, value in
                    [(35, kind), (34, sequence), (49, sender), (52, now),
                     (56, target)] + fields)
    head = b"8=FIX.4.4" + SOH + f"9={len(body)}".encode() + SOH
    total = sum(head + body) % 256
    return head + body + f"10={total:03d}".encode() + SOH


class Connection:
    """One connection of a peer: whole messages in, messages out with the right numbers."""

    def __init__(self, sock, peer, number):
        self.sock, self.peer, self.number = sock, peer, number
        self.data, self.sequence = b"", itertools.count(1)
        self.sender = self.target = "?"
        self.orders = 0
        self.ids = []  # of the orders, oldest first

    def read(self):
        """The next message as a list of (tag, text), None at the end of the stream."""
        while True:
            end = self.data.find(SOH + b"10=")
            if end >= 0 and len(self.data) >= end + 8:
                whole, self.data = self.data[:end + 8], self.data[end + 8:]
                return [(int(tag), value.decode()) for tag, value in
                        (field.split(b"=", 1) for field in whole.split(SOH)[:-1])]
            more = self.sock.recv(65536)
            if not more:
                return None
            self.data += more

    def make(self, kind, fields=()):
        return message(kind, next(self.sequence), self.sender, self.target, list(fields))

    def send(self, kind, *fields):
        self.sock.sendall(self.make(kind, fields))

    def logon(self):
        """Reads the client's Logon and answers it; False where there was none."""
        first = self.read()
        if first is None:
            return False
        first = dict(first)
        self.sender, self.target = first[56], first[49]
        self.send("A", (98, 0), (108, first[108]), (141, "Y"))
        return True

    def order(self):
        """The next order's ClOrdID, None at the end; everything else is answered here."""
        while True:
            got = self.read()
            if got is None:
                return None
            got = dict(got)
            if got[35] == "D":
                self.orders += 1
                self.ids.append(got[11])
                with self.peer.lock:
                    self.peer.orders += 1
                    self.peer.last_id[self.number] = got[11]
                return got[11]
            if got[35] == "0":
                self.peer.heartbeats.append(got.get(112))
            if got[35] == "1":
                self.send("0", (112, got[112]))
            if got[35] == "5":
                self.send("5")
                return None

    def report(self, order_id):
        return self.make("8", [(37, "1"), (11, order_id), (17, "1"), (150, "F"), (39, "2"),
                               (55, "TAUT"), (54, 1), (38, 100), (44, "101.25"), (14, 100),
                               (151, 0), (6, "101.25")])

    def answer(self, order_id):
        self.sock.sendall(self.report(order_id))
        with self.peer.lock:
            self.peer.answers += 1


class Peer:
    """`with Peer(behaviour) as peer:`; peer.port is where it listens."""

    def __init__(self, behaviour, after=5):
        self.behaviour, self.after = behaviour, after
        self.lock = threading.Lock()
        self.orders = self.answers = 0
        self.last_id, self.heartbeats, self.sockets = {}, [], []
        self.over = threading.Event()

    def __enter__(self):
        self.listener = socket.create_server(("127.0.0.1", 0), backlog=128)
        self.port = self.listener.getsockname()[1]
        self.thread = threading.Thread(target=self.accept, daemon=True)
        self.thread.start()
        return self

    def __exit__(self, *unused):
        self.over.set()
        with contextlib.suppress(OSError):
            self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()
        for sock in self.sockets:
            with contextlib.suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)

    def accept(self):
        for number in itertools.count():
            try:
                sock, _ = self.listener.accept()
            except OSError:
                return
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self.sockets.append(sock)
            threading.Thread(target=self.serve, args=(sock, number), daemon=True).start()

    def serve(self, sock, number):
        with contextlib.suppress(OSError):
            self.behaviour(Connection(sock, self, number))
        with contextlib.suppress(OSError):
            sock.close()


# --- right --------------------------------------------------------------------------------------

def good(c):
    if c.logon():
        while (order_id := c.order()) is not None:
            c.answer(order_id)


def split(c):
    """Right answers, each in two pieces that arrive apart."""
    if c.logon():
        while (order_id := c.order()) is not None:
            report = c.report(order_id)
            cut = c.orders * 7 % (len(report) - 1) + 1
            c.sock.sendall(report[:cut])
            c.peer.over.wait(0.001)
            c.sock.sendall(report[cut:])


def asks(c):
    """Answers an order only after the client has answered a TestRequest."""
    if c.logon():
        while (order_id := c.order()) is not None:
            c.send("1", (112, order_id))
            got = dict(c.read() or [])
            if got.get(35) != "0" or got.get(112) != order_id:
                return
            c.peer.heartbeats.append(order_id)
            c.answer(order_id)


def echo(c):
    while data := c.sock.recv(65536):
        c.sock.sendall(data)


def fixed(c):
    """10 bytes for each request, whatever its bytes."""
    left = b""
    while data := c.sock.recv(65536):
        left += data
        while (end := left.find(SOH + b"10=")) >= 0 and len(left) >= end + 8:
            left = left[end + 8:]
            c.sock.sendall(b"0123456789")


# --- no logon -----------------------------------------------------------------------------------

def http(c):
    c.sock.recv(100)
    c.sock.sendall(b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n")
    c.sock.recv(100)


def silent(c):
    c.peer.over.wait(60)


def dribble(c):
    """A right Logon, one byte at a time, too slowly."""
    first = c.read()
    c.sender, c.target = dict(first)[56], dict(first)[49]
    for byte in c.make("A", [(98, 0), (108, 30), (141, "Y")]):
        c.sock.sendall(bytes([byte]))
        if c.peer.over.wait(0.3):
            return


def closes(c):
    c.read()


def refuses(c):
    first = dict(c.read())
    c.sender, c.target = first[56], first[49]
    c.send("5", (58, "unknown session"))
    c.sock.recv(100)


# --- wrong in mid-run, at order number `after` of a connection -----------------------------------

def at(wrong):
    def behave(c):
        if not c.logon():
            return
        while (order_id := c.order()) is not None:
            if c.orders == c.peer.after:
                if wrong(c, order_id) is False:
                    return
            else:
                c.answer(order_id)
    return behave


def wait_for_end(c):
    while c.sock.recv(65536):
        pass
    return False


@at
def twice(c, order_id):
    c.sock.sendall(c.report(order_id) + c.report(order_id))


@at
def other_session(c, order_id):
    """The id that another connection waits for, or waited for last."""
    del order_id
    while not c.peer.over.wait(0.01):
        with c.peer.lock:
            others = [value for number, value in c.peer.last_id.items() if number != c.number]
        if others:
            c.sock.sendall(c.report(others[0]))
            break
    return wait_for_end(c)


@at
def earlier(c, _order_id):
    """An id of this session that was answered long ago."""
    c.sock.sendall(c.report(c.ids[0]))
    return wait_for_end(c)


@at
def unknown(c, order_id):
    c.sock.sendall(c.report("999999999999"))
    return wait_for_end(c)


@at
def nameless(c, order_id):
    c.send("8", (37, "1"), (17, "1"), (150, "F"), (39, "2"))
    return wait_for_end(c)


@at
def big(c, order_id):
    report = c.report(order_id)
    c.sock.sendall(b"8=FIX.4.4\x019=1000000\x01" + report[report.find(b"35="):] + b"x" * 1000000)
    return wait_for_end(c)


@at
def closes_in_message(c, order_id):
    c.sock.sendall(c.report(order_id)[:60])
    return False


@at
def resets(c, order_id):
    c.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    return False


@at
def logs_out(c, order_id):
    c.send("5", (58, "end of day"))
    return wait_for_end(c)


@at
def rejects(c, order_id):
    c.send("j", (45, c.orders), (372, "D"), (380, 3), (58, "no such instrument"))


@at
def rejects_session(c, order_id):
    c.send("3", (45, c.orders), (372, "D"), (373, 5), (58, "value is incorrect"))


@at
def garbled(c, order_id):
    report = c.report(order_id)
    c.sock.sendall(report[:-4] + bytes([(report[-4] - 47) % 10 + 48]) + report[-3:])
    return wait_for_end(c)


@at
def stalls(c, order_id):
    return wait_for_end(c)


@at
def half(c, order_id):
    """Half an answer, then nothing."""
    c.sock.sendall(c.report(order_id)[:60])
    return wait_for_end(c)


def echo_wrong(c):
    seen = 0
    while data := c.sock.recv(65536):
        seen += 1
        c.sock.sendall(data if seen < c.peer.after else data[:-1] + b"?")


def echo_more(c):
    seen = 0
    while data := c.sock.recv(65536):
        seen += 1
        c.sock.sendall(data if seen < c.peer.after else data + b"x")
