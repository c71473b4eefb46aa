#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Rules on plain text: sizes, and words that must not stay.

- A source file above 600 lines is told as a note, above 900 it is a finding.
- No path of somebody's machine, no marker of unfinished work, no trailing white space (but in expected
  outputs, tests/*/golden/), no file without a newline at its end.
"""
import os
import re
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import tree  # noqa: E402

SOURCES = (".c", ".h", ".cpp", ".py", ".sh")
NOTE_LINES, MOST_LINES = 600, 900
TEXT = SOURCES + (".md", ".scd", ".mutant", ".pml", ".txt", ".build", ".yml", ".json", ".cfg", ".conf",
                  ".dict")
# Written in pieces, so that this file does not contain what it forbids.
UNFINISHED = re.compile(r"\b(?:TO" r"DO|FIX" r"ME|XX" r"X)\b")
MACHINE = re.compile(r"(?<![\w.$}])/(?:home|root|Users|work|tmp/brief|mnt/c)/[\w.-]+")


def check_file(name, text):
    found = []
    lines = text.split("\n")
    if text and not text.endswith("\n"):
        found.append("%s:%d: no newline at the end" % (name, len(lines)))
    if name.endswith(SOURCES) and len(lines) - 1 > MOST_LINES:
        found.append("%s: %d lines, above %d: split it" % (name, len(lines) - 1, MOST_LINES))
    for number, line in enumerate(lines, 1):
        at = "%s:%d: " % (name, number)
        if line != line.rstrip() and not name.endswith(".md") and "/golden/" not in name:
            found.append(at + "white space at the end")
        for hit in UNFINISHED.findall(line):
            found.append(at + "'%s': finish it, or file an issue" % hit)
        for hit in MACHINE.findall(line):
            found.append(at + "'%s' is a path of one machine" % hit)
    return found


def check(args):
    found = []
    for name in tree.files(args.root):
        if not name.endswith(TEXT) and name not in ("x", ".ci/run") and not name.endswith("/run"):
            continue
        text = tree.read(args.root, name)
        count = text.count("\n")
        if name.endswith(SOURCES) and NOTE_LINES < count <= MOST_LINES:
            print("note: %s: %d lines, above %d" % (name, count, NOTE_LINES), file=sys.stderr)
        found += check_file(name, text)
    return found


if __name__ == "__main__":
    tree.main(check, __doc__)
