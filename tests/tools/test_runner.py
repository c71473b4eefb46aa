#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""tools/run_tests.py: the closing line is the truth, whatever way a test program ends."""
import os
import subprocess
import sys
import unittest

import support
from support import TreeTest, TOOLS, needs

RUNNER = os.path.join(TOOLS, "run_tests.py")
import run_tests  # noqa: E402  (support puts tools/ on the path)

CMOCKA_MIXED = """[==========] Running 3 test(s).
[ RUN      ] a
[       OK ] a
[ RUN      ] b
[  FAILED  ] b
[ RUN      ] c
[  SKIPPED ] c
[==========] 3 test(s) run.
[  PASSED  ] 1 test(s).
[  SKIPPED ] 1 test(s), listed below:
[  SKIPPED ] c
[  FAILED  ] 1 test(s), listed below:
[  FAILED  ] b

 1 FAILED TEST(S)
"""


class Tally(unittest.TestCase):
    def test_cmocka_cases(self):
        self.assertEqual(run_tests.tally("OK", "[  PASSED  ] 7 test(s).\n"), (7, 0, 0))
        self.assertEqual(run_tests.tally("FAIL", CMOCKA_MIXED), (1, 1, 1))

    def test_several_groups_add_up(self):
        self.assertEqual(run_tests.tally("OK", "[  PASSED  ] 7 test(s).\n[  PASSED  ] 2 test(s).\n"),
                         (9, 0, 0))

    def test_unittest_cases(self):
        self.assertEqual(run_tests.tally("OK", "Ran 4 tests in 0.1s\n\nOK (skipped=1)\n"), (3, 0, 1))
        self.assertEqual(run_tests.tally("FAIL", "Ran 4 tests in 0.1s\n\nFAILED (failures=1, errors=2)\n"),
                         (1, 3, 0))

    def test_program_without_cases_counts_once(self):
        self.assertEqual(run_tests.tally("OK", "all fine\n"), (1, 0, 0))
        self.assertEqual(run_tests.tally("SKIP", "needs two CPUs\n"), (0, 0, 1))

    def test_every_bad_end_is_a_failure(self):
        for result in ("FAIL", "TIMEOUT", "ERROR", "INTERRUPT", "UNEXPECTEDPASS"):
            with self.subTest(result):
                self.assertEqual(run_tests.tally(result, "[  PASSED  ] 3 test(s).\n"), (3, 1, 0))

    def test_exit_code_0_does_not_hide_a_failed_case(self):
        self.assertEqual(run_tests.tally("OK", CMOCKA_MIXED), (1, 1, 1))

    def test_reason_of_a_skip(self):
        self.assertEqual(run_tests.skip_reason("start\nskipped: one CPU only\n[  PASSED  ] 0\n"),
                         "skipped: one CPU only")
        self.assertEqual(run_tests.skip_reason("needs cgroup v2\n"), "needs cgroup v2")
        self.assertEqual(run_tests.skip_reason(""), "no reason given")

    def test_skipped_cases_are_named(self):
        self.assertEqual(run_tests.skipped_cases(CMOCKA_MIXED), "c (no reason given)")
        self.assertEqual(run_tests.skipped_cases("c: skipped, one CPU only\n" + CMOCKA_MIXED),
                         "c\n    c: skipped, one CPU only")


class Sum(TreeTest):
    def total(self, *texts):
        paths = [self.write("log%d" % i, text) for i, text in enumerate(texts)]
        done = subprocess.run([sys.executable, RUNNER, "--sum", *paths], stdout=subprocess.PIPE, text=True)
        return done.returncode, done.stdout

    def test_adds_the_last_lines(self):
        self.assertEqual(self.total("9 passed, 9 failed, 9 skipped\nx\n1 passed, 0 failed, 2 skipped\n",
                                    "4 passed, 0 failed, 0 skipped\n\n"),
                         (0, "5 passed, 0 failed, 2 skipped\n"))

    def test_failure_fails(self):
        self.assertEqual(self.total("1 passed, 1 failed, 0 skipped\n"), (1, "1 passed, 1 failed, 0 skipped\n"))

    def test_log_without_a_closing_line_is_a_failure(self):
        self.assertEqual(self.total("1 passed, 0 failed, 0 skipped\n", "cut sho"),
                         (1, "1 passed, 1 failed, 0 skipped\n"))
        self.assertEqual(self.total(""), (1, "0 passed, 1 failed, 0 skipped\n"))

    def test_line_of_the_mutants_may_follow(self):
        self.assertEqual(self.total("4 passed, 0 failed, 0 skipped\n4 killed, 0 survived\n"),
                         (0, "4 passed, 0 failed, 0 skipped\n"))
        self.assertEqual(self.total("4 passed, 3 failed, 0 skipped\n4 killed, 1 survived, 2 errors\n"),
                         (1, "4 passed, 3 failed, 0 skipped\n"))
        self.assertEqual(self.total("4 killed, 0 survived\n"), (1, "0 passed, 1 failed, 0 skipped\n"))

    def test_no_test_at_all_is_no_success(self):
        self.assertEqual(self.total("0 passed, 0 failed, 3 skipped\n")[0], 1)


@needs("meson", "ninja")
class Runner(TreeTest):
    """Against a real meson project."""

    def project(self, **tests):
        lines = ["project('sample', meson_version: '>=1.0.0')", "sh = find_program('sh')"]
        for name, script in tests.items():
            room = name.split("_")[0]
            lines.append("test('%s', sh, args: ['-c', '''%s'''], suite: '%s', timeout: 1)"
                         % (name.replace("_", "/"), script, room))
        self.write("meson.build", "\n".join(lines) + "\n")
        subprocess.run(["meson", "setup", os.path.join(self.root, "build"), self.root], check=True,
                       stdout=subprocess.DEVNULL)

    def run_it(self, *args):
        done = subprocess.run([sys.executable, RUNNER, os.path.join(self.root, "build"), *args],
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        return done.returncode, done.stdout, done.stdout.rstrip("\n").split("\n")[-1]

    def test_every_end(self):
        self.project(a_good="exit 0", a_bad="echo marker-of-bad; exit 1", a_skip="echo needs a moon; exit 77",
                     b_crash="kill -SEGV $$", b_hang="exec sleep 30")
        code, text, last = self.run_it()
        self.assertEqual((code, last), (1, "1 passed, 3 failed, 1 skipped"))
        self.assertIn("\nmarker-of-bad\n", text)
        self.assertIn("--- b/crash: FAIL", text)
        self.assertIn("--- b/hang: TIMEOUT", text)
        self.assertIn("skipped: a/skip: needs a moon", text)

    def test_choice_of_tests(self):
        self.project(a_good="exit 0", a_other="exit 0", b_bad="exit 1")
        self.assertEqual(self.run_it("a")[::2], (0, "2 passed, 0 failed, 0 skipped"))
        self.assertEqual(self.run_it("a/good")[::2], (0, "1 passed, 0 failed, 0 skipped"))
        self.assertEqual(self.run_it("*/bad", "a/good")[::2], (1, "1 passed, 1 failed, 0 skipped"))
        self.assertEqual(self.run_it("--suite", "b")[::2], (1, "0 passed, 1 failed, 0 skipped"))
        self.assertEqual(self.run_it("--exclude-suite", "b")[::2], (0, "2 passed, 0 failed, 0 skipped"))
        code, text, _ = self.run_it("a/good", "a/goood")
        self.assertEqual(code, 2)
        self.assertIn("a/goood", text)

    def test_no_test_is_no_success(self):
        self.project()
        self.assertEqual(self.run_it()[::2], (1, "0 passed, 0 failed, 0 skipped"))

    def test_multiplier_and_wrapper(self):
        self.project(a_slow="sleep 2")
        self.assertEqual(self.run_it()[::2], (1, "0 passed, 1 failed, 0 skipped"))
        self.assertEqual(self.run_it("--multiplier", "20")[::2], (0, "1 passed, 0 failed, 0 skipped"))
        wrapper = self.write("wrap", "#!/bin/sh\nexit 0\n", 0o755)
        self.assertEqual(self.run_it("--wrapper", wrapper)[::2], (0, "1 passed, 0 failed, 0 skipped"))


if __name__ == "__main__":
    sys.exit(support.main())
