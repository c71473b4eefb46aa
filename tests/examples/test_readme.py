#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""The C code under README's heading "Embedding" compiles as it stands, against the public headers.

usage: test_readme.py README INCLUDE_DIR COMPILER...
"""
import re
import subprocess
import sys
import unittest

README = INCLUDE = COMPILER = None


def blocks_of(text):
    """The C blocks between the heading that begins with "Embedding" and the next of its level."""
    section = re.search(r"(?ms)^(#+) Embedding[^\n]*\n(.*?)(?=^\1 |\Z)", text)
    return re.findall(r"(?ms)^```c\n(.*?)^```$", section.group(2)) if section else []


def complaints(code):
    command = COMPILER + ["-x", "c", "-std=gnu11", "-fsyntax-only", "-Wall", "-Wextra", "-Werror",
                          "-I", INCLUDE, "-"]
    done = subprocess.run(command, input=code, text=True, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT)
    return None if done.returncode == 0 else done.stdout or "the compiler failed"


class Readme(unittest.TestCase):
    def setUp(self):
        with open(README, encoding="utf-8") as file:
            self.blocks = blocks_of(file.read())

    def test_there_is_one(self):
        self.assertTrue(self.blocks)
        self.assertTrue(any("taut_" in block for block in self.blocks))

    def test_each_compiles(self):
        for block in self.blocks:
            said = complaints(block)
            self.assertIsNone(said, f"{said}\n{block}")

    def test_rot_is_seen(self):
        """A call that the headers do not have, or not so, does not pass."""
        for block in self.blocks:
            for name in sorted(set(re.findall(r"\btaut_\w+(?=\()", block))):
                self.assertIsNotNone(complaints(block.replace(name + "(", name + "_gone(")), name)

    def test_extraction(self):
        text = "# A\n```c\nno\n```\n## Embedding it\ntext\n```\nno\n```\n```c\nyes\n```\n" \
               "### Deeper\n```c\nyes too\n```\n## Next\n```c\nno\n```\n"
        self.assertEqual(blocks_of(text), ["yes\n", "yes too\n"])
        self.assertEqual(blocks_of("# A\n```c\nno\n```\n"), [])


if __name__ == "__main__":
    README, INCLUDE, *COMPILER = sys.argv[1:]
    del sys.argv[1:]
    unittest.main()
