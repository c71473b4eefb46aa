#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""tools/run_mutants.py on a small meson project: only a test that fails kills."""
import os
import subprocess
import sys
import unittest

import support
from support import TreeTest, TOOLS, needs

RUNNER = os.path.join(TOOLS, "run_mutants.py")
import run_mutants  # noqa: E402  (support puts tools/ on the path)

MESON = """project('sample', 'c', meson_version: '>=1.0.0')
lib = static_library('limit', 'limit.c', 'other.c')
foreach name : ['low', 'high', 'end', 'moon', 'broken']
  exe = executable('test_' + name, 'test_' + name + '.c', link_with: lib)
  test('limit/' + name, exe, timeout: 30)
endforeach
"""
LIMIT = """int limit(int x);
int steps(int x);

int limit(int x)
{
    if (x < 0)
        return 0;
    if (x > 9)
        return 9;
    return x;
}

int steps(int x)
{
    int n = 0;
    while (x > 0) {
        x--;
        n++;
    }
    return n;
}
"""
OTHER = "int other(void);\n\nint other(void)\n{\n    return 7;\n}\n"
DECLARED = "int limit(int x);\nint steps(int x);\nint other(void);\n"
TESTS = {
    "low": "#include <stdio.h>\nint main(void)\n{\n    puts(\"[ RUN      ] below\");\n"
           "    puts(limit(-1) == 0 ? \"[       OK ] below\" : \"[  FAILED  ] below (two)\");\n"
           "    return limit(-1) != 0;\n}\n",
    "high": "int main(void)\n{\n    return limit(10) != 9 || other() != 7;\n}\n",
    "end": "#include <stdio.h>\nint main(void)\n{\n    puts(\"[ RUN      ] ends (each)\");\n    fflush(stdout);\n"
           "    return steps(3) != 3;\n}\n",
    "moon": "#include <stdio.h>\nint main(void)\n{\n    puts(\"needs a moon\");\n"
            "    return limit(-1) != 0 ? 1 : 77;\n}\n",
    "broken": "int main(void)\n{\n    return 1;\n}\n",
}
LOW = ("    if (x < 0)\n", "    if (x < -5)\n")
HIGH = ("    if (x > 9)\n", "    if (x > 99)\n")


class Form(unittest.TestCase):
    good = "what: w\nfile: a.c\ntest: t\n--- old\nx\n--- new\ny\n--- end\n"

    def refuse(self, what, text):
        with self.assertRaises(run_mutants.Bad) as caught:
            run_mutants.Mutant("m", text)
        self.assertIn(what, str(caught.exception))

    def test_good(self):
        mutant = run_mutants.Mutant("m", self.good.replace("test: t\n", "test: t\ntest: u\nrepeat: 3\n"
                                                           "cpus: 1\nlimit: 9\nenv: A=b=c\ncase: c\n"))
        self.assertEqual((mutant.file, mutant.tests, mutant.repeat, mutant.cpus, mutant.limit, mutant.env),
                         ("a.c", ["t", "u"], 3, 1, 9, {"A": "b=c"}))
        self.assertEqual(mutant.apply("w\nx\nx2\n"), "w\ny\nx2\n")

    def test_empty_new_text_removes(self):
        self.assertEqual(run_mutants.Mutant("m", self.good.replace("y\n", "")).apply("w\nx\nz\n"), "w\nz\n")

    def test_bad_header(self):
        for key in ("what: w\n", "file: a.c\n", "test: t\n"):
            self.refuse("no '%s:' line" % key[:4], self.good.replace(key, ""))
        self.refuse("header line 'tset: t'", self.good.replace("test:", "tset:"))
        self.refuse("header line 'what:'", self.good.replace("what: w", "what:"))
        self.refuse("two 'file:' lines", self.good.replace("file: a.c\n", "file: a.c\nfile: b.c\n"))
        self.refuse("'cpus: one' is no number", "cpus: one\n" + self.good)
        self.refuse("no C source", self.good.replace("a.c", "a.py"))

    def test_bad_body(self):
        self.refuse("not of the form", self.good.replace("--- end\n", ""))
        self.refuse("not of the form", self.good.replace("--- new\n", ""))
        self.refuse("not of the form", self.good + "more\n")

    def test_text_must_be_there_once_as_whole_lines(self):
        mutant = run_mutants.Mutant("m", self.good)
        for source, times in (("w\n", 0), ("x\nw\nx\n", 2), ("x\nx\n", 2), ("wx\n", 0)):
            with self.assertRaises(run_mutants.Bad) as caught:
                mutant.apply(source)
            self.assertIn("occurs %d times" % times, str(caught.exception))
        with self.assertRaises(run_mutants.Bad):
            run_mutants.Mutant("m", self.good.replace("y\n", "x\n")).apply("x\n")
        with self.assertRaises(run_mutants.Bad):
            run_mutants.Mutant("m", self.good.replace("x\n", "")).apply("x\n")


@needs("meson", "ninja", "cc")
class Runner(TreeTest):
    def setUp(self):
        super().setUp()
        self.write("meson.build", MESON)
        self.write("limit.c", LIMIT)
        self.write("other.c", OTHER)
        for name, text in TESTS.items():
            self.write("test_%s.c" % name, DECLARED + text)

    def mutant(self, name, test, edit, file="limit.c", more=""):
        self.write("tests/mutants/%s.mutant" % name, "what: %s is broken\nfile: %s\ntest: limit/%s\n%s"
                   "--- old\n%s--- new\n%s--- end\n" % (name, file, test, more, *edit))

    def run_it(self, *names):
        """(exit code, {mutant: word}, the two closing lines, all text)."""
        done = subprocess.run([sys.executable, RUNNER, "--root", self.root, *names],
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        lines = done.stdout.rstrip("\n").split("\n")
        rows = [line.split() for line in lines]
        words = {row[0]: row[-2] for row in rows
                 if len(row) >= 3 and os.path.exists(os.path.join(self.root, "tests/mutants", row[0] + ".mutant"))}
        return done.returncode, words, lines[-2:], done.stdout

    def test_all_killed(self):
        self.mutant("low", "low", LOW, more="case: below\n")
        self.mutant("high", "high", HIGH)
        self.mutant("other", "high", ("    return 7;\n", "    return 8;\n"), "other.c")
        self.mutant("hang", "end", ("        x--;\n", ""), more="limit: 1\ncase: ends\n")
        code, words, closing, text = self.run_it()
        self.assertEqual(words, {"low": "killed", "high": "killed", "other": "killed", "hang": "hang"}, text)
        self.assertEqual((code, closing), (0, ["4 passed, 0 failed, 0 skipped", "4 killed, 0 survived"]))
        # Nothing but the copy is changed, and again gives the same.
        with open(os.path.join(self.root, "limit.c"), encoding="utf-8") as source:
            self.assertEqual(source.read(), LIMIT)
        self.assertEqual(self.run_it("h*")[:3], (0, {"high": "killed", "hang": "hang"},
                                                 ["2 passed, 0 failed, 0 skipped", "2 killed, 0 survived"]))

    def test_survivor(self):
        self.mutant("low", "low", LOW)
        self.mutant("deaf", "high", LOW)
        code, words, closing, text = self.run_it()
        self.assertEqual((code, words), (1, {"low": "killed", "deaf": "survived"}))
        self.assertEqual(closing, ["1 passed, 1 failed, 0 skipped", "1 killed, 1 survived"])
        self.assertIn("survived deaf: limit/high: deaf is broken", text)

    def test_each_named_test_must_fail(self):
        self.mutant("two", "low", LOW, more="test: limit/high\n")
        self.assertEqual(self.run_it()[:2], (1, {"two": "survived"}))

    def test_another_case_is_no_kill(self):
        self.mutant("low", "low", LOW, more="case: above\n")
        code, words, _, text = self.run_it()
        self.assertEqual((code, words), (1, {"low": "survived"}))
        self.assertIn("but not in case above", text)

    def test_errors(self):
        self.mutant("gone", "low", ("    if (x < 1)\n", ""))
        self.mutant("twice", "low", ("    int x;\n", ""), "twice.c")
        self.write("twice.c", "    int x;\n    int x;\n")
        self.mutant("nowhere", "low", LOW, "nowhere.c")
        self.mutant("syntax", "low", ("    if (x < 0)\n", "    if (x < )\n"))
        self.mutant("same", "low", ("    if (x < 0)\n", "    if (0 > x)\n"))
        self.mutant("double", "low", ("    if (x < 0)\n", "    if (x < -2)\n"))
        self.mutant("double2", "low", ("    if (x < 0)\n", "    if (-2 > x)\n"))
        self.mutant("no-test", "lo", LOW)
        self.mutant("unfit", "broken", LOW)
        self.write("tests/mutants/form.mutant", "what: x\n")
        code, words, closing, text = self.run_it()
        self.assertEqual(words, dict.fromkeys(("gone", "twice", "nowhere", "syntax", "same", "double2",
                                               "no-test", "unfit", "form"), "error") | {"double": "killed"})
        self.assertEqual((code, closing), (1, ["1 passed, 9 failed, 0 skipped",
                                               "1 killed, 0 survived, 9 errors"]))
        for told in ("error gone: the old text occurs 0 times", "error twice: the old text occurs 2 times",
                     "error nowhere: no file nowhere.c", "error syntax: the build failed",
                     "error same: compiles to the same program",
                     "error double2: the same program as mutant double", "error no-test: no test 'limit/lo'",
                     "error unfit: limit/broken fails unmutated", "error form: not of the form"):
            self.assertIn(told, text)

    def test_error_alone_fails(self):
        self.mutant("low", "low", LOW)
        self.mutant("gone", "low", ("    if (x < 1)\n", ""))
        self.assertEqual(self.run_it()[::2], (1, ["1 passed, 1 failed, 0 skipped",
                                                  "1 killed, 0 survived, 1 errors"]))

    def test_skip_is_told_and_is_no_kill(self):
        self.mutant("low", "low", LOW)
        self.mutant("moon", "moon", LOW)
        code, words, closing, text = self.run_it()
        self.assertEqual((code, words["moon"]), (0, "skipped"))
        self.assertEqual(closing, ["1 passed, 0 failed, 1 skipped", "1 killed, 0 survived"])
        self.assertIn("skipped moon: limit/moon: needs a moon", text)
        self.write("test_moon.c", DECLARED + "int main(void)\n{\n    return limit(-1) != 0 ? 77 : 0;\n}\n")
        self.assertEqual(self.run_it("moon")[:2], (1, {"moon": "survived"}))

    def test_the_tree_moves_on(self):
        self.mutant("low", "low", LOW)
        self.assertEqual(self.run_it()[0], 0)
        # Its test no longer looks: the same mutant survives in the copy that was built before.
        self.write("test_low.c", DECLARED + "int main(void)\n{\n    return limit(-1) > 9;\n}\n")
        self.assertEqual(self.run_it()[:2], (1, {"low": "survived"}))
        os.remove(os.path.join(self.root, "limit.c"))
        self.assertEqual(self.run_it()[:2], (1, {"low": "error"}))

    def test_a_tree_that_does_not_build(self):
        self.mutant("low", "low", LOW)
        self.write("other.c", "int other(\n")
        code, words, closing, text = self.run_it()
        self.assertEqual((code, words), (1, {"low": "error"}))
        self.assertIn("before any mutant: the build failed", text)
        self.assertEqual(closing[0], "0 passed, 1 failed, 0 skipped")

    def test_names(self):
        self.mutant("low", "low", LOW)
        code, _, _, text = self.run_it("lowe*")
        self.assertEqual(code, 2)
        self.assertIn("lowe*", text)

    def test_no_mutants_is_no_success(self):
        self.assertEqual(self.run_it()[::2], (1, ["0 passed, 0 failed, 0 skipped", "0 killed, 0 survived"]))

    def test_cpus_and_environment_and_repeat(self):
        body = ("#define _GNU_SOURCE\n#include <sched.h>\n#include <stdio.h>\n#include <stdlib.h>\n"
                "#include <string.h>\n" + DECLARED + "int main(void)\n{\n"
                "    cpu_set_t set;\n    sched_getaffinity(0, sizeof(set), &set);\n"
                "    const char *word = getenv(\"WORD\");\n"
                "    FILE *log = fopen(getenv(\"LOG\"), \"a\");\n    fputs(\"x\", log);\n    fclose(log);\n"
                "    if (CPU_COUNT(&set) != 1 || !word || strcmp(word, \"here\") != 0)\n        return 1;\n"
                "    log = fopen(getenv(\"LOG\"), \"r\");\n    int n = 0;\n"
                "    while (fgetc(log) == 'x')\n        n++;\n"
                "    return limit(-1) != 0 && n >= 5;\n}\n")
        self.write("test_low.c", body)
        log = os.path.join(self.root, "log")
        more = "cpus: 1\nenv: WORD=here\nenv: LOG=%s\nrepeat: " % log
        self.mutant("low", "low", LOW, more=more + "2\n")
        self.assertEqual(self.run_it()[:2], (1, {"low": "survived"}))  # runs 1, 2; then 3, 4
        os.remove(log)
        self.mutant("low", "low", LOW, more=more + "3\n")
        self.assertEqual(self.run_it()[:2], (0, {"low": "killed"}))  # runs 1, 2; then 3, 4, 5
        with open(log, encoding="utf-8") as text:
            self.assertEqual(text.read(), "xxxxx")


if __name__ == "__main__":
    support.main()
