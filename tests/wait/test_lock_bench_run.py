#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""bench/lock/run over a stand-in of bench_lock: ratios within a round, order of the arms, maxima of all
rounds, and which miss fails it.

usage: test_lock_bench_run.py PATH/TO/bench/lock/run
"""
import json
import os
import subprocess
import sys
import tempfile
import unittest

RUN = None
FAST = {"ops": 1000, "ops_per_s": 1000, "p50_ns": 100, "p999_ns": 2000, "max_ns": 3000, "over_1ms": 0,
        "over_2ms": 0, "unexplained_2ms": 0, "certain_2ms": 0, "stolen_ns": 0, "unexplained_most_ns": 0, "dropped": 0,
        "unreadable": 0, "bypass_most": 8, "passed_most": 9, "cpu_ns_per_op": 1500, "jain": 1.0}
KINDS = ("bounded", "barging", "fifo", "mutex", "adaptive", "pi", "ticket", "mcs")
CALLS = 9  # of one kind at most: three rounds of three settings
STAND_IN = """#!/bin/sh
echo "$*" >>"{folder}/calls"
exec sed -n "$(grep -c "^$1 " "{folder}/calls")p" "{folder}/$1.out"
"""


class LockBench(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory(prefix="taut-test-")
        self.addCleanup(self.folder.cleanup)
        self.calls = os.path.join(self.folder.name, "calls")

    def run_it(self, answers, *arguments):
        """answers: {kind: [what differs from FAST, call by call; the last for all that follow]}"""
        folder = os.path.join(self.folder.name, "bench", "lock")
        os.makedirs(folder, exist_ok=True)
        path = os.path.join(folder, "bench_lock")
        for kind in KINDS:
            own = answers.get(kind, [{}])
            with open(os.path.join(self.folder.name, kind + ".out"), "w", encoding="utf-8") as out:
                for call in range(CALLS):
                    out.write(json.dumps(dict(FAST, **own[min(call, len(own) - 1)])) + "\n")
        with open(path, "w", encoding="utf-8") as script:
            script.write(STAND_IN.format(folder=self.folder.name))
        os.chmod(path, 0o755)
        if os.path.exists(self.calls):
            os.unlink(self.calls)
        cpu = str(min(os.sched_getaffinity(0)))
        return subprocess.run([RUN, "--cpus", cpu, *arguments], stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, text=True, timeout=60,
                              env=dict(os.environ, TAUT_BUILD=self.folder.name))

    def test_met(self):
        done = self.run_it({}, "--rounds", "2", "--ms", "50")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertNotIn("| NO |", done.stdout)
        with open(self.calls, encoding="utf-8") as calls:
            lines = [line.split() for line in calls]
        self.assertEqual(len(lines), 2 * 3 * 8)
        self.assertEqual(lines[0], ["bounded", "2", "1000", "500", "50"])
        self.assertEqual(lines[16][1:], ["4", "1000", "500", "50", "100000", "0"])
        order = [line[0] for line in lines]
        self.assertEqual(order[:8], list(reversed(order[24:32])))

    def test_throughput_missed(self):
        # Six calls of the mutex: two rounds of three settings. 0.98 of it with two threads.
        done = self.run_it({"bounded": [{"ops_per_s": 980}]}, "--rounds", "2")
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertIn("| 2 threads: throughput, bounded / mutex | ≥ 1.0 | 0.98 (0.98 .. 0.98) | NO |",
                      done.stdout)
        self.assertIn("| 4 threads: throughput, bounded / mutex | ≥ 0.7 | 0.98 (0.98 .. 0.98) | yes |",
                      done.stdout)

    def test_one_long_chain_of_bypasses_in_one_round(self):
        done = self.run_it({"bounded": [{}, {"bypass_most": 13}, {}]}, "--rounds", "3")
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertIn("| 4 threads: bypasses of one acquisition at most | ≤ 12 | 13 | NO |",
                      done.stdout)

    def test_one_unexplained_wait(self):
        one = {"unexplained_2ms": 1, "certain_2ms": 1, "over_2ms": 1}
        done = self.run_it({"bounded": [{}, {}, one, {}]}, "--rounds", "2")
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertIn("does not explain | 0 | 1, certain 1 (", done.stdout)
        # Not known, and stolen: neither is a pass. A miss elsewhere is a miss.
        for one in ({"certain_2ms": 0}, {"certain_2ms": 1, "stolen_ns": 10_000_000}):
            one |= {"unexplained_2ms": 1, "over_2ms": 1}
            done = self.run_it({"bounded": [{}, {}, one, {}]}, "--rounds", "2")
            self.assertEqual(done.returncode, 2, done.stderr)
            self.assertIn("does not explain | 0 | 1, certain 0 (", done.stdout)
            self.assertIn("| inconclusive |", done.stdout)
            done = self.run_it({"bounded": [dict(one, bypass_most=13)]}, "--rounds", "1")
            self.assertEqual(done.returncode, 1, done.stderr)
        # Those of the others are told, and are theirs.
        done = self.run_it({"mutex": [{"unexplained_2ms": 5, "over_2ms": 5}]}, "--rounds", "1")
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_an_arm_that_fails(self):
        for answer in ({"ops": 0}, {"dropped": 1}, {"unreadable": 1}):
            done = self.run_it({"fifo": [answer]}, "--rounds", "1")
            self.assertEqual(done.returncode, 2, done.stdout)
        os.unlink(os.path.join(self.folder.name, "bench", "lock", "bench_lock"))
        done = subprocess.run([RUN], stderr=subprocess.PIPE, text=True, timeout=60,
                              env=dict(os.environ, TAUT_BUILD=self.folder.name))
        self.assertEqual(done.returncode, 2)
        self.assertIn("is not built", done.stderr)


if __name__ == "__main__":
    RUN = os.path.abspath(sys.argv.pop(1))
    unittest.main(verbosity=2)
