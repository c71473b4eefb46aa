#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""`taut load` against peers that answer rightly, and against each way of answering wrongly: the exit
code, the one line, the reason, the account, and raw files that can be read.

usage: test_peers.py TAUT
"""
import json
import socket
import unittest

import harness
import peers

# exit codes of taut(1)
INVALID, BAD_VALUE, CONNECT, NOT_FIX, TOO_SLOW, TOO_BIG, PEER_LOST = 1, 3, 7, 8, 9, 10, 15


class Load(harness.Case):
    def load(self, peer, *more, scheme="fix", exit_code=0, sessions=2, stall="1s"):
        stdout, stderr = self.taut(
            "load", f"{scheme}://127.0.0.1:{peer.port}", "--sessions", sessions, "--processes", 1,
            "--runs", 1, "--warmup", 10, "--measure", 40, "--unbound", "--json", "--out", self.out,
            "--stall-timeout", stall, "--logon-timeout", "1s", *more, exit_code=exit_code)
        self.assertEqual(len(stderr), 0 if exit_code == 0 else 1, stderr)
        result = json.loads(stdout)
        self.check_result(result)
        self.maxima(0)
        return result, stderr

    def maxima(self, exit_code):
        if self.raw_files():
            self.taut("raw", "maxima", *self.raw_files(), exit_code=exit_code)


class Right(Load):
    def test_account_is_that_of_the_peer(self):
        with peers.Peer(peers.good) as peer:
            result, _ = self.load(peer, sessions=3)
        self.assertNotEqual(result["status"], "INVALID")
        self.assertEqual(peer.orders, 3 * 50)
        self.assertEqual(result["delivery"]["sent"], peer.orders)
        self.assertEqual(result["delivery"]["answered"], peer.answers)
        self.assertEqual([(run["phase"], run["n"]) for run in result["runs"]],
                         [("warmup", 30), ("measure", 120)])

    def test_answers_in_pieces(self):
        with peers.Peer(peers.split) as peer:
            result, _ = self.load(peer)
        self.assertEqual(result["delivery"]["answered"], 100)

    def test_test_requests_are_answered_in_mid_run(self):
        with peers.Peer(peers.asks) as peer:
            result, _ = self.load(peer)
        self.assertEqual(result["delivery"]["answered"], 100)
        self.assertEqual(len(peer.heartbeats), 100)

    def test_heartbeats_flow_while_an_answer_is_awaited(self):
        def slow(c):
            if c.logon():
                while (order_id := c.order()) is not None:
                    if c.orders == 12:
                        got = c.read()  # the peer says nothing: the client must
                        c.peer.heartbeats.append(dict(got)[35])
                    c.answer(order_id)
        with peers.Peer(slow) as peer:
            result, _ = self.load(peer, "--heartbeat", 1, sessions=1, stall="20s")
        self.assertEqual(result["delivery"]["answered"], 50)
        self.assertEqual(peer.heartbeats, ["0"])
        slowest = [run["max_ns"] for run in result["runs"] if run["phase"] == "measure"]
        self.assertGreaterEqual(slowest[0], 500_000_000)  # it is among the samples

    def test_echo(self):
        with peers.Peer(peers.echo) as peer:
            result, _ = self.load(peer, scheme="echo")
        self.assertEqual(result["delivery"]["answered"], 100)
        self.assertEqual(result["effective"]["protocol"], "echo")

    def test_echo_of_another_size(self):
        with peers.Peer(peers.fixed) as peer:
            result, _ = self.load(peer, "--reply-bytes", 10, scheme="echo")
        self.assertEqual(result["delivery"]["answered"], 100)
        self.assertEqual(result["effective"]["clients"][0]["reply_bytes_most"], 10)


class NoLogon(Load):
    def fails(self, behaviour, exit_code, name):
        with peers.Peer(behaviour) as peer:
            result, stderr = self.load(peer, exit_code=exit_code)
        self.assertEqual(result["status"], "INVALID")
        self.assertEqual(result["fault"]["name"], name)
        self.assertEqual(result["delivery"]["sent"], 0)
        return stderr[0]

    def test_http(self):
        self.assertIn("HTTP/1.1 400", self.fails(peers.http, NOT_FIX, "not-fix"))

    def test_silence(self):
        self.fails(peers.silent, TOO_SLOW, "too-slow")

    def test_one_byte_at_a_time(self):
        self.fails(peers.dribble, TOO_SLOW, "too-slow")

    def test_closes(self):
        self.fails(peers.closes, CONNECT, "logon-refused")

    def test_logout_instead(self):
        self.assertIn("unknown session", self.fails(peers.refuses, CONNECT, "logon-refused"))

    def test_port_that_nobody_listens_on(self):
        with socket.create_server(("127.0.0.1", 0)) as taken:
            port = taken.getsockname()[1]
        stdout, stderr = self.taut("load", f"fix://127.0.0.1:{port}", "--json", "--out", self.out,
                                   exit_code=CONNECT)
        self.assertEqual(len(stderr), 1)
        self.assertIn("refused", stderr[0])
        self.assertEqual(json.loads(stdout)["fault"]["name"], "refused")


class WrongAnswer(Load):
    def fails(self, behaviour, exit_code, name, text="", scheme="fix", error=False):
        after = 15  # in the measured phase: orders 11 to 50 of a connection
        with peers.Peer(behaviour, after=after) as peer:
            result, stderr = self.load(peer, exit_code=exit_code, scheme=scheme)
        self.assertEqual(result["status"], "INVALID")
        self.assertEqual(result["fault"]["name"], name, result["reasons"])
        self.assertIn(text, stderr[0])
        self.assertEqual(len(result["sessions"]), 2)
        self.assertEqual(sum(s["sent"] for s in result["sessions"]), result["delivery"]["sent"])
        # The other session's request may meet the same fate in the same poll.
        self.assertIn(result["delivery"]["error"], (1, 2) if error else (0,))
        self.assertEqual(result["runs"][0]["n"], 20)  # the warm-up before it is whole
        self.assertEqual(result["runs"][0]["answered"], 20)
        return result

    def test_second_answer(self):
        self.fails(peers.twice, INVALID, "wrong-answer", "second answer")

    def test_answer_to_another_session(self):
        result = self.fails(peers.other_session, INVALID, "wrong-answer", "another session's")
        self.assertGreaterEqual(result["delivery"]["lost"], 1)

    def test_answer_to_an_earlier_request(self):
        self.fails(peers.earlier, INVALID, "wrong-answer", "unknown request")

    def test_answer_to_an_unknown_request(self):
        self.fails(peers.unknown, INVALID, "wrong-answer", "999999999999")

    def test_answer_without_an_id(self):
        self.fails(peers.nameless, INVALID, "wrong-answer", "without ClOrdID")

    def test_too_big(self):
        self.fails(peers.big, TOO_BIG, "too-big", "larger than the buffer")

    def test_closes_in_the_middle_of_a_message(self):
        self.fails(peers.closes_in_message, PEER_LOST, "peer-lost", "middle of a message")

    def test_reset(self):
        self.fails(peers.resets, PEER_LOST, "peer-lost")

    def test_logout(self):
        self.fails(peers.logs_out, PEER_LOST, "peer-lost", "end of day")

    def test_business_reject(self):
        self.fails(peers.rejects, INVALID, "rejected", "no such instrument", error=True)

    def test_session_reject(self):
        self.fails(peers.rejects_session, INVALID, "rejected", "value is incorrect", error=True)

    def test_garbled(self):
        self.fails(peers.garbled, INVALID, "garbled", "checksum")

    def test_silence_in_mid_run(self):
        result = self.fails(peers.stalls, INVALID, "stalled", "no answer within")
        self.assertEqual(sorted(s["outstanding"] for s in result["sessions"])[-1], 1)

    def test_half_an_answer(self):
        self.fails(peers.half, TOO_SLOW, "too-slow", "not complete")

    def test_echo_of_other_bytes(self):
        self.fails(peers.echo_wrong, INVALID, "wrong-answer", "no echo", scheme="echo")

    def test_echo_of_more_bytes(self):
        self.fails(peers.echo_more, INVALID, "wrong-answer", "1 bytes more", scheme="echo")


class Url(Load):
    def test_bad_urls(self):
        for url in ("http://127.0.0.1:80", "fix://127.0.0.1", "fix://:80", "fix://host:0",
                    "fix://host:65536", "fix://host:8x", "fix://[::1]", "fix://[::1:80", "127.0.0.1"):
            _, stderr = self.taut("load", url, "--out", self.out, exit_code=BAD_VALUE)
            self.assertEqual(len(stderr), 1, url)
            self.assertIn(url, stderr[0])

    def test_unknown_host(self):
        _, stderr = self.taut("load", "fix://no.such.host.invalid:80", "--out", self.out,
                              "--logon-timeout", "2s", exit_code=CONNECT)
        self.assertEqual(len(stderr), 1)


if __name__ == "__main__":
    harness.main()
