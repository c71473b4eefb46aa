#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Verifies a Promela model with spin, and requires spin to refute its broken twins.

usage: check_models.py MODEL.pml BUILD_DIR

Lines of the model's opening comment say what is to be done:

    pan: FLAGS                  compiler flags of the verifier, such as -DSAFETY
    config NAME: DEFINES        one more size to verify; the defaults of the file come first
    twin NAME: WHAT: TEXT       with -DNAME the verifier must end with the fault WHAT, one of
                                "assertion violated", "invalid end state"; DEFINES may follow WHAT in
                                brackets: "assertion violated [-DROUNDS=1]"

A model holds when its whole state space was searched without an error, and at its default size left
no statement unreached; and of the lines that only other sizes have there is none that no size reached.
Out of memory, too deep, cut short, a twin that holds or fails in another way: a failure. Exit codes: 0 as
wanted, 1 not, 77 spin is not installed.
"""
import collections
import os
import re
import shutil
import subprocess
import sys
import time

MEMORY_MB, DEPTH, SECONDS = 1500, 1000000, 120
PAN = re.compile(r"^ \* pan: (.*)$", re.M)
CONFIG = re.compile(r"^ \* config (\w+): (.*)$", re.M)
TWIN = re.compile(r"^ \* twin (TWIN_\w+): (assertion violated|invalid end state)(?: \[(.*)\])?: ", re.M)
USED = re.compile(r"\bTWIN_\w+")
STATES = re.compile(r"^ *([\d.e+]+) states, stored$", re.M)
ERRORS = re.compile(r"^State-vector .*, errors: (\d+)$", re.M)
FAULT = re.compile(r"^pan:\d+: (.*) \(at depth \d+\)$", re.M)
UNREACHED = re.compile(r"^unreached in (?:proctype |claim )?(\w+)\n((?:\t.*\n)*)", re.M)
PLACE = re.compile(r"\b\w+\.pml:(\d+)\b")
PARTIAL = ("Search not completed", "max search depth too small", "out of memory", "Bit statespace")


class Failure(Exception):
    """What went otherwise than it should."""


def run(command, at, seconds):
    try:
        done = subprocess.run(command, cwd=at, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True, errors="replace", timeout=seconds)
    except subprocess.TimeoutExpired:
        raise Failure("%s: not done after %d s" % (command[0], seconds))
    return done.returncode, done.stdout


def tail(text):
    return "\n".join("    " + line for line in text.splitlines()[-20:])


def search(model, at, defines, flags):
    """The output of a verifier made and run in a directory of its own."""
    shutil.rmtree(at, ignore_errors=True)
    os.makedirs(at)
    code, text = run(["spin", "-a", *defines, model], at, SECONDS)
    if code != 0 or not os.path.exists(os.path.join(at, "pan.c")):
        raise Failure("spin -a:\n" + tail(text))
    # What spin has written is not for us to mend: no warnings.
    code, text = run([os.environ.get("CC", "cc"), "-w", "-DMEMLIM=%d" % MEMORY_MB, *flags,
                      "-o", "pan", "pan.c"], at, SECONDS)
    if code != 0:
        raise Failure("the verifier does not compile:\n" + tail(text))
    _, text = run(["./pan", "-m%d" % DEPTH], at, SECONDS)
    return text


def judge(text):
    """(states, faults) of a complete verifier run, or of one that a fault ended."""
    errors, stored = ERRORS.search(text), STATES.search(text)
    faults = FAULT.findall(text)
    if not errors or not stored:
        raise Failure("no result:\n" + tail(text))
    if (int(errors.group(1)) != 0) != bool(faults):
        raise Failure("%s errors, but these were told: %s" % (errors.group(1), faults))
    return int(float(stored.group(1))), faults


def holds(model, at, defines, flags, whole, seen):
    """How many states; `seen` gets the lines that are there, and those of which something was reached."""
    text = search(model, at, defines, flags)
    faults = FAULT.findall(text)
    if faults:
        raise Failure("%s; `spin -t -p` in %s shows the way there" % (faults[0], at))
    for word in PARTIAL:
        if word in text:
            raise Failure("not the whole state space: " + word + "\n" + tail(text))
    states, _ = judge(text)
    dead = [line.strip() for _, lines in UNREACHED.findall(text) for line in lines.splitlines()
            if not line.strip().startswith("(") and "-end-" not in line]
    if dead and whole:
        raise Failure("statements that no run reaches:\n" + "\n".join("    " + line for line in dead))
    _, listed = run(["./pan", "-d"], at, SECONDS)
    there = collections.Counter(PLACE.findall(listed))  # an inline's line as often as it is used
    if not there:
        raise Failure("the verifier does not list its statements:\n" + tail(listed))
    dead = collections.Counter(PLACE.findall("\n".join(dead)))
    seen["there"] |= {int(line) for line in there}
    seen["reached"] |= {int(line) for line, count in there.items() if dead[line] < count}
    return states


def all_reached(model, seen):
    dead = sorted(seen["there"] - seen["reached"])
    if dead:
        with open(model, encoding="utf-8") as text:
            lines = text.read().splitlines()
        raise Failure("lines that no size reaches:\n" +
                      "\n".join("    %d: %s" % (line, lines[line - 1].strip()) for line in dead))
    return "%d lines" % len(seen["there"])


def refuted(model, at, defines, flags, wanted):
    _, faults = judge(search(model, at, defines, flags))
    if not faults:
        raise Failure("the broken twin holds")
    if wanted not in faults[0]:
        raise Failure("refuted by '%s', not by '%s'" % (faults[0], wanted))
    return faults[0]


def check(model, build):
    with open(model, encoding="utf-8") as text:
        source = text.read()
    name = os.path.splitext(os.path.basename(model))[0]
    flags = " ".join(PAN.findall(source)).split()
    sizes = [("default", "")] + CONFIG.findall(source)
    twins = TWIN.findall(source)
    declared = {twin for twin, _, _ in twins}
    passed = failed = 0

    def step(what, work):
        nonlocal passed, failed
        begin = time.monotonic()
        try:
            told = work()
            passed += 1
        except Failure as failure:
            told = "FAILED: %s" % failure
            failed += 1
        print("%s %s: %s (%.1f s)" % (name, what, told, time.monotonic() - begin), flush=True)

    def complete():
        if not twins:
            raise Failure("no broken twin")
        if declared != set(USED.findall(source.split("*/", 2)[2])):
            raise Failure("twins in the comment and in the model differ")
        return "as many as are told"

    step("twins", complete)
    seen = {"there": set(), "reached": set()}
    for size, defines in sizes:
        step("holds, %s" % size, lambda: "%d states" % holds(
            model, os.path.join(build, name, size), defines.split(), ["-O2", *flags], not defines, seen))
    step("reached", lambda: all_reached(model, seen))
    for twin, wanted, defines in twins:
        step(twin, lambda: "refuted: %s" % refuted(
            model, os.path.join(build, name, twin), ["-D" + twin, *defines.split()], ["-O1", *flags],
            wanted))
    print("%d passed, %d failed, 0 skipped" % (passed, failed))
    return 1 if failed else 0


def main():
    if len(sys.argv) != 3:
        print(__doc__, file=sys.stderr)
        return 2
    if not shutil.which("spin"):
        print("skipped: spin is not installed")
        return 77
    return check(os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2]))


if __name__ == "__main__":
    sys.exit(main())
