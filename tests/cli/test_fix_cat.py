#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""taut fix cat: written logs against golden outputs, generated ones against what was put in."""
import json
import os
import random
import subprocess
import tempfile
import unittest

from cli_support import GARBLED, NO_FILE, OK, TAUT, USAGE, WRITE, fields, fix, golden, taut

LOGON = fix(
    fields("35=A|34=1|49=CLIENT|56=SERVER|52=20261201-00:00:00|98=0|108=30|141=Y|553=bob")
    + b"554=s3cret\x0195=9\x0196=top\x01secre\x01"
)
ORDER = fix(
    fields(
        "35=D|34=2|49=CLIENT|56=SERVER|52=20261201-00:00:00.123|11=A1|21=1|55=MSFT|54=1"
        "|60=20261201-00:00:00.123|38=100|40=2|44=10.25|59=0"
    )
)
REPORT = fix(
    fields(
        "35=8|34=2|49=SERVER|56=CLIENT|52=20261201-00:00:00.124|37=1|11=A1|17=1|150=F|39=2|55=MSFT"
        "|54=1|38=100|32=100|31=10.25|151=0|14=100|6=10.25"
    )
)
HEARTBEAT = fix(fields("35=0|34=3|49=CLIENT|56=SERVER|52=20261201-00:00:30"))
SEPARATORS = [b"\x01", b"|", b"^A", b"\\x01", b"\\u0001", b"<SOH>", b"\\001"]


def bar(message):
    return message.replace(b"\x01", b"|")


def show(log, *options):
    """Exit code and the JSON objects for a log given on stdin."""
    result = taut("fix", "cat", "--json", *options, data=log)
    return result.returncode, [json.loads(line) for line in result.stdout.splitlines()]


def value(message, tag):
    return next(field["value"] for field in message["fields"] if field["tag"] == tag)


MIXED = b"".join(
    [
        b"2026-12-01 00:00:00.000001 INFO session up\n",
        b"2026-12-01 00:00:00.000100 OUT : " + LOGON + b"\n",
        b"[00:00:00.123] sent: " + bar(ORDER) + b"\n",
        b"[00:00:00.124] received: " + bar(REPORT)[:-1] + b" (took 812us)\r\n",
        b"two: " + bar(ORDER) + bar(HEARTBEAT) + b"\n",
        b"bad sum: " + bar(fix(fields("35=0|34=4|49=CLIENT|56=SERVER"), wrong_sum=1)),
        bar(HEARTBEAT) + b"\n",
        b"bad length: " + bar(fix(fields("35=0|34=4|49=CLIENT|56=SERVER"), wrong_length=7)),
        b" then " + bar(HEARTBEAT) + b"\n",
        b"no length: 8=FIX.4.4|35=0|34=5|10=123|\n",
        b"no begin: 9=65|35=0|34=5|49=A|56=B|10=123|\n",
        b"order: " + bar(fix(fields("34=1|35=0"))) + b"\n",
        b"no tag: " + bar(fix(fields("35=0|34=1|oops|58=x"))) + b"\n",
        b"data: " + fix(fields("35=U1|34=1|49=A|56=B") + b"95=50\x0196=abc\x0158=t\x01") + b"\n",
        b"nothing more: 8=FIX.4.4\n",
        b"escapes <- ",
        fix(b"35=B\x0134=9\x0149=\xff\x00\x1b[31m\x0158=x\\y\xe2\x82\xac\x01") + b"\n",
        b"lines in data: " + fix(b"35=B\x0134=9\x0195=12\x0196=a\nb\x018=FIX|c\n\x01") + b"\n",
        b"cut: " + ORDER[:-40],
    ]
)


class Written(unittest.TestCase):
    def test_golden_blocks(self):
        result = taut("fix", "cat", data=MIXED)
        self.assertEqual(result.returncode, GARBLED)
        golden(self, "fix_cat_blocks.txt", result.stdout)
        self.assertEqual(result.stderr.count(b"\n"), 1)
        self.assertIn(b"9 of 18 messages are garbled", result.stderr)

    def test_golden_lines(self):
        result = taut("fix", "cat", "--oneline", "--text", data=MIXED)
        golden(self, "fix_cat_lines.txt", result.stdout)

    def test_golden_numbers(self):
        result = taut("fix", "cat", "--raw-tags", "--only", "D,Logon", data=MIXED)
        golden(self, "fix_cat_numbers.txt", result.stdout)

    def test_golden_json(self):
        result = taut("fix", "cat", "--json", "--no-names", data=MIXED)
        golden(self, "fix_cat_json.txt", result.stdout)

    def test_all_good(self):
        code, messages = show(LOGON + b"\n" + ORDER + REPORT)
        self.assertEqual(code, OK)
        self.assertEqual([m["msg_type"] for m in messages], ["A", "D", "8"])
        self.assertEqual([m["line"] for m in messages], [1, 2, 2])
        self.assertEqual(messages[2]["column"], len(ORDER) + 1)

    def test_separators(self):
        for separator in SEPARATORS:
            for ending in [separator, b"", b" ", b"\n", b"]\n"]:
                log = b"pre " + ORDER.replace(b"\x01", separator)
                log = log[: -len(separator)] + ending
                code, messages = show(log)
                self.assertEqual(code, OK, log)
                self.assertEqual(value(messages[0], 44), "10.25")
                self.assertEqual(messages[0]["before"], "pre ")

    def test_bar_in_soh_log(self):
        code, messages = show(fix(b"35=B\x0158=a|b=1|10=000|8=FIX.4.4|9=5|\x01"))
        self.assertEqual(code, OK)
        self.assertEqual(len(messages), 1)
        self.assertEqual(value(messages[0], 58), "a|b=1|10=000|8=FIX.4.4|9=5|")

    def test_bar_in_value_of_bar_log(self):
        code, messages = show(bar(fix(b"35=B\x0158=a|b|c\x0134=1\x01")))
        self.assertEqual(code, OK)
        self.assertEqual(value(messages[0], 58), "a|b|c")
        # In data it counts as itself or as SOH, whichever the sum says.
        for data in [b"a|5=b", b"a\x015=b"]:
            code, messages = show(bar(fix(b"35=B\x0195=5\x0196=" + data + b"\x0134=1\x01")))
            self.assertEqual(code, OK)
            self.assertEqual(value(messages[0], 96), data.decode().replace("\x01", "\\x01"))

    def test_a_whole_message_within_data(self):
        inner = REPORT
        outer = fix(b"35=n\x0134=1\x01212=%d\x01213=" % len(inner) + inner + b"\x01")
        code, messages = show(b"x " + outer + HEARTBEAT + b"\n")
        self.assertEqual(code, OK)
        self.assertEqual([m["msg_type"] for m in messages], ["n", "0"])

    def test_secrets(self):
        log = LOGON + b"\n554=plain|x=1 925=new\n"
        log += bar(fix(fields("35=BE|34=1|925=other|1402=en")))
        log += b"bad: " + bar(LOGON).replace(b"10=", b"10=9") + b" 554=tayl\n"
        log += bar(fix(fields("35=A|34=1|554=pa") + b"ss=word\x01w0rd\x01")) + b"\n"
        log += b"8=FIX.4.4|9=99|35=A|554=cut-"
        for form in [[], ["--oneline"], ["--json"]]:
            result = taut("fix", "cat", "--text", *form, data=log)
            for secret in "s3cret secre plain new other =en tayl w0rd cut-".split():
                self.assertNotIn(secret.encode(), result.stdout + result.stderr)
            shown = taut("fix", "cat", "--text", "--show-secrets", *form, data=log)
            self.assertIn(b"s3cret", shown.stdout)
        # RawData is a secret only in a Logon.
        _, messages = show(fix(b"35=B\x0195=2\x0196=hi\x01"))
        self.assertEqual(value(messages[0], 96), "hi")

    def test_no_control_bytes(self):
        every = bytes(range(256))
        log = every * 3 + fix(b"35=B\x0158=" + every[2:] + b"\x01") + every
        for form in [[], ["--oneline"], ["--json"]]:
            out = taut("fix", "cat", "--text", *form, data=log).stdout
            self.assertTrue(out)
            for character in out.decode("utf-8"):
                self.assertTrue(character == "\n" or character.isprintable(), repr(character))

    def test_huge_lines(self):
        rubbish = b"x=8=" * 2_000_000
        code, messages = show(rubbish + b"|" + ORDER + rubbish + b"\n" + ORDER)
        self.assertEqual(code, OK)
        self.assertEqual([m["line"] for m in messages], [1, 2])
        self.assertEqual(messages[0]["column"], len(rubbish) + 2)

    def test_huge_values(self):
        log = fix(b"35=B\x0158=" + b"v" * 3_000_000 + b"\x01")
        result = taut("fix", "cat", data=log)
        self.assertEqual(result.returncode, OK)
        self.assertLess(len(result.stdout), 4000)
        self.assertIn(b"(3000000 bytes)", result.stdout)
        self.assertGreater(len(taut("fix", "cat", "--full", data=log).stdout), 3_000_000)

    def test_lengths_that_lie(self):
        for length in [b"99999999", b"16777216", b"999999999", b"-5", b"0", b"", b"x"]:
            log = b"8=FIX.4.4|9=" + length + b"|35=0|34=7|10=000| "
            log += bar(ORDER) + b"\n" + bar(ORDER)
            code, messages = show(log)
            self.assertEqual(code, GARBLED, length)
            self.assertEqual([m["status"] for m in messages], ["garbled", "good", "good"], length)

    def test_many_beginnings_take_linear_time(self):
        pieces = [b"8=FIX.4.4|9=1|", b"8=FIX|", b"8=FIX.4.4|9=99999|35=0|", b"35=A|10=1|"]
        pieces += [b"10=000|8=F", b"8=FIX.4.4^A9=99999^A35=0^A", b"9=5|35=A|10=111|"]
        pieces += [b"8=FIX.4.4|9=9|10=|"]
        for piece in pieces:  # a quadratic reader would run for minutes: the time-out judges
            result = taut("fix", "cat", "--oneline", data=piece * 100_000)
            self.assertIn(result.returncode, (OK, GARBLED))

    def test_only_and_garbled(self):
        code, messages = show(MIXED, "--only", "D")
        self.assertEqual({m["msg_type"] for m in messages}, {"D", None})
        code, messages = show(MIXED, "--garbled")
        self.assertEqual(len(messages), 9)
        code, messages = show(LOGON + ORDER, "--only", "NewOrderSingle,0")
        self.assertEqual((code, len(messages)), (OK, 1))

    def test_files_and_failures(self):
        with tempfile.TemporaryDirectory() as folder:
            good = os.path.join(folder, "good.log")
            with open(good, "wb") as file:
                file.write(ORDER)
            self.assertEqual(taut("fix", "cat", good, good).stdout.count(b"NewOrderSingle  "), 2)
            empty = os.path.join(folder, "empty")
            open(empty, "w").close()
            self.assertEqual(taut("fix", "cat", empty).returncode, OK)
            for missing in [os.path.join(folder, "none"), folder]:
                result = taut("fix", "cat", missing, good)
                self.assertEqual(result.returncode, NO_FILE)
                self.assertEqual(result.stderr.count(b"\n"), 1)
                self.assertIn(b"NewOrderSingle", result.stdout)
        self.assertEqual(taut("fix", "cat", "--colour").returncode, USAGE)
        self.assertEqual(taut("fix", "cat", "--json", "--oneline").returncode, USAGE)

    def test_outputs_that_fail(self):
        with open("/dev/full", "wb") as full:
            result = taut("fix", "cat", data=ORDER * 1000, stdout=full)
        self.assertEqual(result.returncode, WRITE)
        self.assertEqual(result.stderr.count(b"\n"), 1)
        # A reader that goes away is no fault: nothing is said.
        process = subprocess.Popen(
            [TAUT, "fix", "cat"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        process.stdout.close()
        try:
            process.stdin.write(ORDER * 10000)
            process.stdin.close()
        except BrokenPipeError:
            pass
        self.assertEqual(process.stderr.read(), b"")
        process.stderr.close()
        process.wait(timeout=60)

    def test_a_pipe_is_shown_while_it_is_written(self):
        process = subprocess.Popen(
            [TAUT, "fix", "cat", "--oneline"], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        for _ in range(3):
            process.stdin.write(bar(ORDER) + b"\n")
            process.stdin.flush()
            self.assertIn(b"NewOrderSingle", process.stdout.readline())  # or the test times out
        process.stdin.close()
        process.stdout.close()
        self.assertEqual(process.wait(timeout=60), OK)


class Generated(unittest.TestCase):
    """Logs from a generator that knows which of its messages are good, and what is in them."""

    TEXT = "abcXYZ 0123456789-.,;:"

    def body(self, rng, separator):
        soh = separator == b"\x01"
        pairs = [(35, rng.choice(["0", "8", "D", "U7", "AE"])), (34, str(rng.randrange(1, 10**6)))]
        pairs += [(49, "S" + str(rng.randrange(9))), (56, "T")]
        for _ in range(rng.randrange(0, 12)):
            text = "".join(rng.choice(self.TEXT) for _ in range(rng.randrange(1, 30)))
            pairs.append((rng.choice([11, 55, 58, 6000, 44, 1]), text))
        if rng.random() < 0.3:
            alphabet = "ab|=8910\n\x01" if soh else "ab89=\n" if separator == b"|" else "ab89="
            data = "".join(rng.choice(alphabet) for _ in range(rng.randrange(0, 40)))
            pairs += [(354, str(len(data))), (355, data)]
        return pairs

    def fault(self, rng, body):
        """A garbled message and the text of its reason."""
        kind = rng.randrange(4)
        if kind == 0:
            return fix(body, wrong_sum=rng.randrange(1, 256)), "checksum"
        if kind == 1:
            return fix(body, wrong_length=rng.choice([-3, -1, 1, 2, 500])), "BodyLength says"
        if kind == 2:
            return fix(b"34=1\x01" + body), "MsgType"
        return fix(body + b"no tag here\x01"), "integer tag"

    def test_random_logs(self):
        for seed in range(120):
            rng = random.Random(seed)
            separator = rng.choice(SEPARATORS)
            log, wanted = b"", []
            for _ in range(rng.randrange(1, 25)):
                pairs = self.body(rng, separator)
                body = b"".join(b"%d=%s\x01" % (t, v.encode()) for t, v in pairs)
                good = rng.random() < 0.7
                if not good:  # with a newline or SOH in its data its end could not be known
                    pairs = [p for p in pairs if p[0] not in (354, 355)]
                    body = b"".join(b"%d=%s\x01" % (t, v.encode()) for t, v in pairs)
                message, reason = (fix(body), None) if good else self.fault(rng, body)
                wanted.append((pairs, reason))
                log += rng.choice([b"", b"2026-12-01 12:00:00.000 <- ", b"[x] ", b"a=b "])
                log += message.replace(b"\x01", separator)
                log += rng.choice([b"\n", b"\r\n", b" ", b"", b" | took 5us\nmore text\n"])
            code, messages = show(log)
            self.assertEqual(code, OK if all(r is None for _, r in wanted) else GARBLED, seed)
            self.assertEqual(len(messages), len(wanted), seed)
            for message, (pairs, reason) in zip(messages, wanted):
                if reason:
                    self.assertEqual(message["status"], "garbled", seed)
                    self.assertIn(reason, message["reason"], seed)
                    continue
                self.assertEqual(message["status"], "good", (seed, message))
                got = [(f["tag"], f["value"]) for f in message["fields"][2:-1]]
                escaped = [(t, v.replace("\x01", "\\x01").replace("\n", "\\x0a")) for t, v in pairs]
                self.assertEqual(got, escaped, seed)

    def test_cut_at_every_byte(self):
        log = b"in: " + ORDER + b"\n" + HEARTBEAT
        for length in range(len(log)):
            code, messages = show(log[:length])
            whole = (length >= 4 + len(ORDER) - 1) + (length >= len(log) - 1)
            good = [m for m in messages if m["status"] == "good"]
            self.assertEqual(len(good), whole, length)
            self.assertLessEqual(len(messages), whole + 1)
            self.assertEqual(code, OK if len(messages) == whole else GARBLED, length)
            if len(messages) > whole:
                self.assertEqual(messages[-1]["status"], "cut", length)

    def test_random_bytes(self):
        rng = random.Random(1)
        parts = [b"8=", b"FIX.4.4", b"9=", b"10=000", b"35=0", b"\x01", b"|", b"\n", b"95=5"]
        parts += [b"96=", b"x"]
        for _ in range(60):
            log = b"".join(rng.choice(parts) for _ in range(rng.randrange(2000)))
            result = taut("fix", "cat", "--json", "--text", data=log)
            self.assertIn(result.returncode, (OK, GARBLED))


if __name__ == "__main__":
    unittest.main(verbosity=0)
