#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""bench/port/run over stand-ins of the two programs: ratios, their median, order of the arms, exit
statuses.

usage: test_bench_run.py PATH/TO/bench/port/run
"""
import json
import os
import subprocess
import sys
import tempfile
import unittest

RUN = None

STAND_IN = """#!/bin/sh
echo "{name} $*" >>"{folder}/calls"
turn=$(grep -c "^{name} " "{folder}/calls")
exec sed -n "${{turn}}p" "{folder}/{name}.out"
"""


class PortBench(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory(prefix="taut-test-")
        self.addCleanup(self.folder.cleanup)

    def program(self, room, name, lines):
        folder = self.folder.name
        os.makedirs(os.path.join(folder, "bench", room), exist_ok=True)
        with open(os.path.join(folder, name + ".out"), "w", encoding="utf-8") as out:
            out.write("".join(line + "\n" for line in lines))
        path = os.path.join(folder, "bench", room, name)
        with open(path, "w", encoding="utf-8") as script:
            script.write(STAND_IN.format(name=name, folder=folder))
        os.chmod(path, 0o755)

    def both(self, ours, bare):
        self.program("port", "bench_direct", [json.dumps({"p50_ns": value}) for value in ours])
        self.program("peers", "pingpong", [json.dumps({"p50_ns": value}) for value in bare])

    def run_it(self, *arguments):
        return subprocess.run([RUN, *arguments], env=dict(os.environ, TAUT_BUILD=self.folder.name),
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=60)

    def calls(self):
        with open(os.path.join(self.folder.name, "calls"), encoding="utf-8") as calls:
            return [line.split()[0] for line in calls]

    def test_met(self):
        self.both([9000, 11000, 10000], [10000, 10000, 10000])
        done = self.run_it("--rounds", "3")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("| 1.00 (0.90 .. 1.10) | yes |", done.stdout)
        self.assertEqual(self.calls(), ["bench_direct", "pingpong", "pingpong", "bench_direct",
                                        "bench_direct", "pingpong"])

    def test_both_move_the_same_bytes(self):
        self.both([1], [1])
        self.run_it("--rounds", "1", "--cpus", "4,5", "--measure", "77")
        with open(os.path.join(self.folder.name, "calls"), encoding="utf-8") as calls:
            lines = calls.read().splitlines()
        self.assertEqual(lines[0], "bench_direct 1 77 one 4 5")
        for part in ("--request-bytes 163", "--reply-bytes 212", "--busy-poll", "--cpus 4,5",
                     "--count 77"):
            self.assertIn(part, lines[1])

    def test_missed(self):
        self.both([13000, 13000], [10000, 10000])
        done = self.run_it("--rounds", "2")
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertIn("| 1.30 (1.30 .. 1.30) | NO |", done.stdout)

    def test_an_arm_that_fails(self):
        for ours in (["no JSON"], [], [json.dumps({"n": 1})], [json.dumps({"p50_ns": 0})]):
            self.program("port", "bench_direct", ours)
            self.program("peers", "pingpong", [json.dumps({"p50_ns": 10})])
            with open(os.path.join(self.folder.name, "calls"), "w", encoding="utf-8"):
                pass  # the stand-ins count from here
            done = self.run_it("--rounds", "1")
            self.assertEqual(done.returncode, 2, ours)
            self.assertRegex(done.stderr, r"(?m)^bench/port: .*bench_direct")

    def test_an_arm_that_exits_badly(self):
        self.both([1], [1])
        with open(os.path.join(self.folder.name, "bench/peers/pingpong"), "w",
                  encoding="utf-8") as script:
            script.write("#!/bin/sh\necho 'no such CPU' >&2\nexit 1\n")
        done = self.run_it("--rounds", "1")
        self.assertEqual(done.returncode, 2)
        self.assertIn("no such CPU", done.stderr)

    def test_not_built(self):
        done = self.run_it("--rounds", "1")
        self.assertEqual(done.returncode, 2)
        self.assertIn("is not built", done.stderr)

    def test_bad_arguments(self):
        self.both([1], [1])
        for arguments in (("--rounds", "0"), ("--rounds", "x"), ("--cpus", "1"), ("--measure", "0"),
                          ("--unknown",)):
            self.assertEqual(self.run_it(*arguments).returncode, 2, arguments)


if __name__ == "__main__":
    RUN = os.path.abspath(sys.argv.pop(1))
    unittest.main()
