# SPDX-License-Identifier: BSD-2-Clause
"""What the tests of the scripts share: a small tree in a temporary directory, and running things."""
import os
import shutil
import subprocess
import sys
import tempfile
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
TOOLS = os.path.join(ROOT, "tools")
sys.path.insert(0, TOOLS)


def needs(*programs):
    """Skips a test where one of the programs is not installed, and says which."""
    lacking = [name for name in programs if not shutil.which(name)]
    return unittest.skipIf(lacking, "not installed: " + " ".join(lacking))


class TreeTest(unittest.TestCase):
    """A test with a tree of its own."""

    def setUp(self):
        self.root = tempfile.mkdtemp(prefix="taut-tools-")
        self.addCleanup(shutil.rmtree, self.root)

    def write(self, name, text, mode=0o644):
        path = os.path.join(self.root, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="utf-8") as out:
            out.write(text)
        os.chmod(path, mode)
        return path

    def run_tool(self, script, *args):
        """(exit code, stdout, stderr) of a checker on the tree."""
        done = subprocess.run([sys.executable, os.path.join(TOOLS, script), "--root", self.root, *args],
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        return done.returncode, done.stdout, done.stderr

    def assert_accepts(self, script, *args):
        code, out, err = self.run_tool(script, *args)
        self.assertEqual((code, out), (0, ""), err)
        return err

    def assert_refuses(self, what, script, *args):
        """The checker fails with exit code 1, and its findings contain `what`."""
        code, out, err = self.run_tool(script, *args)
        self.assertEqual(code, 1, "accepted; stdout %r stderr %r" % (out, err))
        self.assertIn(what, out)


def main():
    """Exit code 77 where every test was skipped, with the reasons in the output."""
    program = unittest.main(verbosity=2, exit=False)
    result = program.result
    if not result.wasSuccessful():
        sys.exit(1)
    sys.exit(77 if result.testsRun and len(result.skipped) == result.testsRun else 0)
