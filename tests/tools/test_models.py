#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""tools/check_models.py: a model is believed only after a whole search, and a twin must fail as told."""
import os
import subprocess
import sys
import unittest
from unittest import mock

import support
from support import TreeTest, TOOLS, needs

import check_models  # noqa: E402  (support puts tools/ on the path)

MODEL = """/* licence */
/*
 * Two threads add one to a sum.
 *
 * pan: -DSAFETY
%s */
#ifndef TIMES
#define TIMES 2
#endif
byte sum, ended;
bool guard;

active [2] proctype adder()
{
    byte times, seen;
    do
    :: times == TIMES -> break
    :: else ->
#ifndef TWIN_NO_GUARD
        atomic { !guard -> guard = true };
#endif
        seen = sum;
        sum = seen + 1;
        times++;
#ifndef TWIN_KEPT
        guard = false
#endif
    od;
    ended++;
    if
    :: ended == 2 -> assert(sum == 2 * TIMES)
    :: ended < 2
    fi
%s}
"""
GOOD = (" * twin TWIN_NO_GUARD: assertion violated: no guard\n"
        " * twin TWIN_KEPT: invalid end state: never given back\n")


@needs("spin", "cc")
class Models(TreeTest):
    def run_it(self, header=GOOD, more="", model=MODEL):
        """(exit code, last line, all text)."""
        path = self.write("sum.pml", model % (header, more))
        done = subprocess.run([sys.executable, os.path.join(TOOLS, "check_models.py"), path,
                               os.path.join(self.root, "build")], stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True)
        return done.returncode, done.stdout.rstrip("\n").split("\n")[-1], done.stdout

    def refuse(self, what, *args, **more):
        code, last, text = self.run_it(*args, **more)
        self.assertEqual((code, last.split(", ")[1] == "0 failed"), (1, False), text)
        self.assertIn(what, text)

    def test_good(self):
        code, last, text = self.run_it(" * config three: -DTIMES=3\n" + GOOD)
        self.assertEqual((code, last), (0, "6 passed, 0 failed, 0 skipped"), text)
        self.assertRegex(text, r"sum holds, default: \d+ states")
        self.assertRegex(text, r"sum holds, three: \d+ states")
        self.assertIn("sum TWIN_KEPT: refuted: invalid end state", text)

    def test_a_model_that_fails(self):
        self.refuse("holds, default: FAILED: assertion violated", more="    ;\n    assert(sum < 4)\n")

    def test_a_size_that_fails(self):
        self.refuse("holds, three: FAILED: assertion violated", " * config three: -DTIMES=3\n" + GOOD,
                    more="    ;\n    assert(sum < 5)\n")

    def test_a_twin_that_holds(self):
        self.refuse("TWIN_KEPT: FAILED: the broken twin holds",
                    model=MODEL.replace("#ifndef TWIN_KEPT\n", "#ifdef TWIN_KEPT\n guard = false\n#else\n"))

    def test_a_twin_that_fails_otherwise(self):
        self.refuse("refuted by 'invalid end state", GOOD.replace("invalid end state", "assertion violated"))

    def test_a_twin_that_is_no_promela(self):
        self.refuse("TWIN_KEPT: FAILED: spin -a", model=MODEL.replace(
            "#ifndef TWIN_KEPT\n", "#ifdef TWIN_KEPT\n nonsense\n#else\n"))

    def test_a_model_without_twins(self):
        self.refuse("no broken twin", "", model=MODEL.replace("TWIN_", "BROKEN_"))

    def test_a_twin_that_is_not_told(self):
        self.refuse("twins in the comment and in the model differ", GOOD.split("\n")[0] + "\n")

    def test_statements_that_no_run_reaches(self):
        self.refuse("statements that no run reaches", more="    ;\n    if\n    :: sum > 9 -> sum = 0\n"
                                                         "    :: sum <= 9\n    fi\n")

    def test_lines_of_another_size_that_no_run_reaches(self):
        more = "    ;\n#ifdef MORE\n    if\n    :: sum > 9 ->\n        sum = sum\n    :: sum <= 9\n    fi\n#endif\n"
        header = " * config more: -DMORE\n" + GOOD
        self.refuse("lines that no size reaches", header, more=more)
        code, _, text = self.run_it(header, more=more.replace("> 9", "> 2").replace("<= 9", "<= 2"))
        self.assertEqual(code, 0, text)

    def test_a_search_cut_short(self):
        with mock.patch.object(check_models, "DEPTH", 5), self.assertRaises(check_models.Failure) as caught:
            path = self.write("sum.pml", MODEL % (GOOD, ""))
            check_models.holds(path, os.path.join(self.root, "b"), [], ["-DSAFETY"], True, {"there": set(), "reached": set()})
        self.assertIn("max search depth too small", str(caught.exception))

    def test_out_of_memory(self):
        with self.assertRaises(check_models.Failure) as caught:
            path = self.write("sum.pml", MODEL % (GOOD, ""))
            with mock.patch.object(check_models, "MEMORY_MB", 1):
                check_models.holds(path, os.path.join(self.root, "b"), [], ["-DSAFETY"], True, {"there": set(), "reached": set()})
        self.assertIn("not the whole state space", str(caught.exception))

    def test_without_spin(self):
        path = self.write("sum.pml", MODEL % (GOOD, ""))
        done = subprocess.run([sys.executable, os.path.join(TOOLS, "check_models.py"), path, self.root],
                              env={"PATH": self.root}, stdout=subprocess.PIPE, text=True)
        self.assertEqual((done.returncode, done.stdout), (77, "skipped: spin is not installed\n"))


if __name__ == "__main__":
    support.main()
