#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""The premises of the bench of deadlines, on the bench itself: a neighbour that stands still, and a
stranger on the waiter's CPU, leave nothing to judge. And what bench/wait/run makes of the figures, over a
stand-in.

usage: test_deadline_bench.py PATH/TO/bench/wait/run PATH/TO/bench_deadline
"""
import json
import os
import signal
import subprocess
import sys
import tempfile
import unittest

RUN = PROGRAM = None
CPU = min(os.sched_getaffinity(0))
ROUNDS = 4
IN_A_ROUND = {"ours": 8, "yields": 8, "each": 8, "each-64": 1}
FAST = {"samples": 80, "median_ratio": 1.0, "worst_ratio": 1.0, "worst_late_ns": 1000, "yields": 0,
        "contended": 0, "rounds": 10, "inconclusive": 0}


class Premises(unittest.TestCase):
    def run_beside(self, neighbours, disturb):
        """Starts it, has it disturbed once its neighbours are there; (exit code, objects, stderr)."""
        with subprocess.Popen([PROGRAM, "500", str(neighbours), str(ROUNDS), str(CPU)], text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE) as bench:
            try:
                first = bench.stdout.readline()  # the neighbours have been started when it is there
                with open(f"/proc/{bench.pid}/task/{bench.pid}/children", encoding="ascii") as children:
                    pids = [int(pid) for pid in children.read().split()]
                self.assertEqual(len(pids), neighbours, first)
                disturb(pids)
                out, error = bench.communicate(timeout=60)
            finally:
                if bench.poll() is None:
                    bench.kill()
        return bench.returncode, [json.loads(line) for line in out.splitlines()], error

    def test_undisturbed(self):
        code, rows, error = self.run_beside(1, lambda pids: None)
        if code == 2 and "were not beside busy neighbours only" in error:
            self.skipTest("this machine has other work on that CPU: " + error.strip())
        self.assertEqual(code, 0, error)
        self.assertEqual({row["discipline"] for row in rows[:-1]}, set(IN_A_ROUND))
        for row in rows[:-1]:
            kept = row["rounds"] - row["inconclusive"]
            self.assertEqual(row["rounds"], ROUNDS)
            self.assertGreaterEqual(2 * kept, ROUNDS)
            self.assertEqual(row["samples"], kept * IN_A_ROUND[row["discipline"]])

    def test_one_neighbour_of_two_stands_still(self):
        code, rows, error = self.run_beside(2, lambda pids: os.kill(pids[1], signal.SIGSTOP))
        self.assertEqual(code, 2, error)
        self.assertIn(f"{ROUNDS} of {ROUNDS} rounds of 'ours' were not beside", error)
        self.assertEqual(rows, [])

    def test_one_neighbour_is_gone(self):
        code, rows, error = self.run_beside(2, lambda pids: os.kill(pids[0], signal.SIGKILL))
        self.assertEqual(code, 2, error)
        self.assertEqual(rows, [])

    def test_a_stranger_on_that_cpu(self):
        # A third of the CPU each: the neighbour has more than half of its fair share, a half.
        def stranger():
            os.sched_setaffinity(0, {CPU})
        with subprocess.Popen([sys.executable, "-c", "while True: pass"], preexec_fn=stranger) as other:
            try:
                code, rows, error = self.run_beside(1, lambda pids: None)
            finally:
                other.kill()
        self.assertEqual(code, 2, error)
        self.assertIn("were not beside busy neighbours only", error)
        self.assertEqual(rows, [])


class Run(unittest.TestCase):
    def run_it(self, ours, last=None, code=0):
        """`ours`: what differs from FAST in our discipline, in every arm."""
        with tempfile.TemporaryDirectory(prefix="taut-test-") as folder:
            os.makedirs(os.path.join(folder, "bench", "wait"))
            rows = [dict(FAST, discipline=name) for name in IN_A_ROUND]
            rows[0].update(ours)
            rows[2]["inconclusive"] = 3
            ends = dict({"foreign_share": 0.01, "neighbour_least": 0.5}, **(last or {}))
            event = [{"what": "publish", "p50_ns": 1, "p99_ns": 2, "max_ns": 3}]
            for name, lines in (("bench_deadline", [{"tick_ns": 4000000}, *rows, ends]),
                                ("bench_event", event)):
                path = os.path.join(folder, "bench", "wait", name)
                with open(path + ".out", "w", encoding="utf-8") as out:
                    out.writelines(json.dumps(line) + "\n" for line in lines)
                with open(path, "w", encoding="utf-8") as script:
                    script.write(f"#!/bin/sh\ncat \"$0.out\"\nexit {code}\n")
                os.chmod(path, 0o755)
            return subprocess.run([RUN], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                  timeout=60, env=dict(os.environ, TAUT_BUILD=folder))

    def test_met(self):
        done = self.run_it({"inconclusive": 2})
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("| 1.0 % | 2, 3 of 10 | median ≤ 1.15×, late ≤ 5 ms | yes |", done.stdout)

    def test_missed(self):
        self.assertEqual(self.run_it({"median_ratio": 1.5}).returncode, 1)
        self.assertEqual(self.run_it({"worst_late_ns": 5_000_001}).returncode, 1)

    def test_inconclusive(self):
        for done in (self.run_it({"median_ratio": 1.5}, {"foreign_share": 0.04}),
                     self.run_it({}, {"neighbour_least": 0.05}), self.run_it({}, code=2)):
            self.assertEqual(done.returncode, 2, done.stdout)


if __name__ == "__main__":
    PROGRAM = os.path.abspath(sys.argv.pop(2))
    RUN = os.path.abspath(sys.argv.pop(1))
    unittest.main(verbosity=2)
