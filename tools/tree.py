# SPDX-License-Identifier: BSD-2-Clause
"""What the checkers under tools/ share: which files are ours, and how findings are told."""
import argparse
import os
import subprocess
import sys


def files(root, *suffixes):
    """Paths below `root`, relative to it, sorted: those git knows or would add; all without git."""
    try:
        listed = subprocess.run(["git", "-C", root, "ls-files", "-z", "-co", "--exclude-standard"],
                                check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        names = listed.stdout.decode().split("\0")
    except (OSError, subprocess.CalledProcessError):
        names = [os.path.relpath(os.path.join(at, name), root)
                 for at, _, found in os.walk(root) for name in found]
    return sorted({name for name in names
                   if name and (not suffixes or name.endswith(suffixes))
                   and os.path.isfile(os.path.join(root, name))})


def scripts(root, *interpreters):
    """Files whose first line names one of the interpreters."""
    found = []
    for name in files(root):
        with open(os.path.join(root, name), "rb") as text:
            first = text.readline(200)
        if first.startswith(b"#!") and any(word.encode() in first for word in interpreters):
            found.append(name)
    return found


def read(root, name):
    with open(os.path.join(root, name), encoding="utf-8", errors="replace") as text:
        return text.read()


def main(check, doc, extra=None):
    """The command line of a checker: --root DIR; findings on stdout, exit code 1 if there are any."""
    parser = argparse.ArgumentParser(description=doc)
    parser.add_argument("--root", default=os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    if extra:
        extra(parser)
    args = parser.parse_args()
    found = check(args)
    for line in found:
        print(line)
    sys.exit(1 if found else 0)
