#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Every public header compiles alone, as C11 and as C++17, with gcc and clang, without a warning.

Only include/ is on the path, and no more is defined than taut(7) asks of a user's file, which is
POSIX.1-2008. Internal headers (lib/, lab/) stand alone too, as C11 with gcc and the build's macros.
"""
import concurrent.futures
import os
import subprocess
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import tree  # noqa: E402

STRICT = ["-fsyntax-only", "-Wall", "-Wextra", "-Wconversion", "-Wundef", "-Wpedantic", "-Werror"]
# In C++, -Wshadow objects to a function named as a struct, as stat(2) is; so it is for C only.
C11 = ["-x", "c", "-std=c11", "-D_POSIX_C_SOURCE=200809L", "-Wshadow", "-Wstrict-prototypes"]
PUBLIC = [
    ["gcc"] + C11,
    ["clang"] + C11,
    ["g++", "-x", "c++", "-std=c++17"],
    ["clang++", "-x", "c++", "-std=c++17"],
]
INTERNAL = [["gcc", "-x", "c", "-std=c11", "-D_GNU_SOURCE"]]


def compile_alone(root, name, command, paths):
    # Included twice: a missing or wrong guard shows.
    line = '#include "%s"\n' % os.path.join(os.path.abspath(root), name)
    done = subprocess.run(command + STRICT + ["-I" + os.path.join(root, path) for path in paths] +
                          ["-"], input=line * 2, text=True, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT)
    if done.returncode == 0:
        return None
    lines = done.stdout.strip().splitlines()
    return "%s: not alone as %s %s:\n  %s" % (name, command[0], command[3], "\n  ".join(lines[:6]))


def check(args):
    jobs = []
    for name in tree.files(args.root, ".h"):
        if name.startswith("include/"):
            jobs += [(name, command, ["include"]) for command in PUBLIC]
        elif name.startswith(("lib/", "lab/")):
            jobs += [(name, command, ["include", "lib", "lab"]) for command in INTERNAL]
    with concurrent.futures.ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        return [line for line in pool.map(lambda job: compile_alone(args.root, *job), jobs) if line]


if __name__ == "__main__":
    tree.main(check, __doc__)
