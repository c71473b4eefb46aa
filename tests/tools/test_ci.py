#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
""".ci/run over a stand-in of ./x: what it prints at the end, what makes it fail, and that time is
told and warned of but does not gate.

bash begins to count SECONDS at the value it finds in the environment: no test waits for twenty
minutes.
"""
import os
import shutil
import subprocess
import unittest

import support
from support import ROOT, TreeTest, needs


@needs("git", "bash")
class Ci(TreeTest):
    def setUp(self):
        super().setUp()
        for name in (".ci/run", "tools/run_tests.py"):
            os.makedirs(os.path.dirname(os.path.join(self.root, name)), exist_ok=True)
            shutil.copy(os.path.join(ROOT, name), os.path.join(self.root, name))
        self.stand_in('echo "2 passed, 0 failed, 1 skipped"')
        git = ["git", "-c", "user.name=test", "-c", "user.email=test@example.org", "-C", self.root]
        subprocess.run([*git, "init", "-q"], check=True)
        subprocess.run([*git, "add", "."], check=True)
        subprocess.run([*git, "commit", "-q", "-m", "tree"], check=True)

    def stand_in(self, script):
        self.write("x", "#!/bin/sh\n" + script + "\n", 0o755)

    def run_ci(self, seconds=0):
        done = subprocess.run([os.path.join(self.root, ".ci", "run")], stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, text=True,
                              env=dict(os.environ, SECONDS=str(seconds), CI="true"))
        self.assertEqual(done.stderr, "")
        return done.returncode, done.stdout.splitlines()

    def test_within_the_budget(self):
        code, lines = self.run_ci()
        self.assertEqual(code, 0, lines)
        self.assertEqual(lines[-1], "11 passed, 0 failed, 5 skipped")
        self.assertRegex(lines[-2], r"^total +\d+ s$")
        self.assertFalse([line for line in lines if "warning" in line])
        for stage in ("lint", "test", "sanitize", "mutants", "fuzz", "clean-tree"):
            self.assertEqual(len([line for line in lines if line.startswith(stage + " ")]), 1, stage)

    def test_above_the_budget_is_a_warning(self):
        code, lines = self.run_ci(1300)
        self.assertEqual(code, 0, lines)
        self.assertEqual(lines[-1], "9 passed, 0 failed, 4 skipped")  # no time for fuzz
        self.assertRegex(lines[-2], r"^warning: total 13\d\d s is above the budget of 1200 s")
        self.assertRegex(lines[-3], r"^total +13\d\d s$")

    def test_a_stage_that_fails(self):
        self.stand_in('if [ "$1" = test ]; then echo "1 passed, 1 failed, 0 skipped"; exit 1; fi\n'
                      'echo "2 passed, 0 failed, 1 skipped"')
        subprocess.run(["git", "-c", "user.name=test", "-c", "user.email=test@example.org", "-C",
                        self.root, "commit", "-q", "-a", "-m", "fails"], check=True)
        code, lines = self.run_ci()
        self.assertEqual(code, 1)
        self.assertEqual(lines[-1], "10 passed, 1 failed, 4 skipped")
        self.assertTrue([line for line in lines if line.startswith("test ") and "FAILED" in line])

    def test_a_stage_that_leaves_files_behind(self):
        self.stand_in('touch left-behind; echo "2 passed, 0 failed, 1 skipped"')
        subprocess.run(["git", "-c", "user.name=test", "-c", "user.email=test@example.org", "-C",
                        self.root, "commit", "-q", "-a", "-m", "litters"], check=True)
        code, lines = self.run_ci()
        self.assertEqual(code, 1)
        self.assertTrue([line for line in lines if "left-behind" in line])


if __name__ == "__main__":
    support.main()
