#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Runs the tests of a meson build directory and ends with `N passed, N failed, N skipped`.

usage: run_tests.py BUILD_DIR [--suite S] [--exclude-suite S] [--multiplier N] [--wrapper CMD] [NAME...]
       run_tests.py --sum FILE...

A NAME is a test's name, a suite, or a pattern (`fix/*`). What is counted are test cases where a
program's own closing lines tell them (cmocka, Python's unittest), and the program itself else; a
program that failed, crashed or ran into its time limit counts as at least one failure, whatever
its cases say. --sum adds up the closing lines that end each FILE; a file without one is a failure.
Below it there may be the line that ends `./x mutants`.
"""
import argparse
import fnmatch
import glob
import json
import os
import re
import subprocess
import sys

CLOSING = re.compile(r"^(\d+) passed, (\d+) failed, (\d+) skipped$")
MUTANTS = re.compile(r"^\d+ killed, \d+ survived(?:, \d+ errors)?$")
CMOCKA = re.compile(r"^\[  (PASSED |FAILED |SKIPPED) \] (?:[^:]*: )?(\d+) test\(s\)", re.M)
UNITTEST = re.compile(r"^Ran (\d+) tests? in ", re.M)
UNITTEST_END = re.compile(r"^(?:OK|FAILED)(?: \((.*)\))?$", re.M)
LOG_LINES = 200


def cases(output):
    """(passed, failed, skipped) from a test program's output, (0, 0, 0) where it tells none."""
    counts = {"PASSED": 0, "FAILED": 0, "SKIPPED": 0}
    for kind, number in CMOCKA.findall(output):
        counts[kind.strip()] += int(number)
    ran = UNITTEST.findall(output)
    if ran:
        ended = UNITTEST_END.search(output)
        detail = dict(re.findall(r"(\w+)=(\d+)", (ended.group(1) or "") if ended else ""))
        failed = int(detail.get("failures", 0)) + int(detail.get("errors", 0))
        skipped = int(detail.get("skipped", 0))
        counts["PASSED"] += sum(map(int, ran)) - failed - skipped
        counts["FAILED"] += failed
        counts["SKIPPED"] += skipped
    return counts["PASSED"], counts["FAILED"], counts["SKIPPED"]


def tally(result, output):
    """What one program adds to (passed, failed, skipped); `result` is meson's word for its end."""
    passed, failed, skipped = cases(output)
    if result in ("OK", "EXPECTEDFAIL"):
        # A program that ends well although a case of it failed is not believed.
        return (passed if passed + failed + skipped else 1), failed, skipped
    if result == "SKIP":
        return 0, 0, max(1, skipped)
    return passed, max(1, failed), skipped


def skip_reason(output):
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    named = [line for line in lines if "skip" in line.lower() and not line.startswith("[")]
    return (named or lines or ["no reason given"])[-1]


def skipped_cases(output):
    """Names of cmocka's skipped cases, and the lines that tell why."""
    names = dict.fromkeys(re.findall(r"^\[  SKIPPED \] (.*[^:\n])$", output, re.M))
    told = [line.strip() for line in output.splitlines()
            if "skip" in line.lower() and not re.match(r"\[|.*SKIPPED TEST", line)]
    return ", ".join(names) + ("".join("\n    " + line for line in told) or " (no reason given)")


def wanted(build, args):
    """The tests to run as names for meson, in its order."""
    listed = json.loads(subprocess.run(["meson", "introspect", "--tests", build], check=True,
                                       stdout=subprocess.PIPE).stdout)
    chosen, unknown = [], set(args.names)
    for test in listed:
        suites = {suite.split(":")[-1] for suite in test["suite"]}
        if args.suite and not suites & set(args.suite) or suites & set(args.exclude_suite):
            continue
        hits = {name for name in args.names
                if name in suites or fnmatch.fnmatchcase(test["name"], name)}
        unknown -= hits
        if hits or not args.names:
            chosen.append(test["name"])
    return chosen, unknown


def run(build, args):
    names, unknown = wanted(build, args)
    if unknown:
        print("no test, suite or pattern matches: " + " ".join(sorted(unknown)), file=sys.stderr)
        return 2
    totals = [0, 0, 0]
    if names:
        # The log's name depends on the wrapper; an old log must never be taken for this run's.
        logs = os.path.join(build, "meson-logs", "testlog*.json")
        for old in glob.glob(logs):
            os.remove(old)
        command = ["meson", "test", "-C", build, "--no-rebuild", "--num-processes",
                   str(len(os.sched_getaffinity(0))), "-t", str(args.multiplier)]
        if args.wrapper:
            command += ["--wrapper", args.wrapper]
        sys.stdout.flush()
        status = subprocess.run(command + names).returncode
        totals = report(glob.glob(logs), status, len(names))
    print("%d passed, %d failed, %d skipped" % tuple(totals))
    return 0 if totals[1] == 0 and totals[0] > 0 else 1


def plain(name):
    """The name in what meson tells, `project:suite / name`."""
    return name.split(" / ", 1)[-1]


def report(logs, status, expected):
    """Prints failing logs and reasons for skips; returns the totals."""
    totals, seen, skips = [0, 0, 0], 0, []
    entries = []
    try:
        for log in logs:
            with open(log, encoding="utf-8", errors="replace") as lines:
                entries += [json.loads(line) for line in lines]
    except (OSError, ValueError) as error:
        print("no usable test log: %s" % error)
    for entry in entries:
        seen += 1
        output = entry.get("stdout", "") + "\n" + entry.get("stderr", "")
        counts = tally(entry["result"], output)
        totals = [a + b for a, b in zip(totals, counts)]
        if counts[1]:
            show(entry, output)
        if entry["result"] == "SKIP":
            skips.append("%s: %s" % (plain(entry["name"]), skip_reason(output)))
        elif counts[2]:
            skips.append("%s: %s" % (plain(entry["name"]), skipped_cases(output)))
    if seen < expected:
        print("%d of %d tests have no result" % (expected - seen, expected))
        totals[1] += expected - seen
    if status != 0 and totals[1] == 0:
        print("meson test ended with %d, though no test failed" % status)
        totals[1] += 1
    for line in skips:
        print("skipped: " + line)
    return totals


def show(entry, output):
    lines = output.rstrip().splitlines()
    print("\n--- %s: %s after %.1f s, exit code %s" % (
        plain(entry["name"]), entry["result"], entry.get("duration", 0), entry.get("returncode", "?")))
    print("    " + " ".join(entry.get("command", [])))
    if len(lines) > LOG_LINES:
        print("    (%d lines before these left out)" % (len(lines) - LOG_LINES))
    print("\n".join(lines[-LOG_LINES:]) + "\n---\n")


def add_up(paths):
    totals = [0, 0, 0]
    for path in paths:
        with open(path, encoding="utf-8", errors="replace") as text:
            lines = [""] + [line for line in text.read().split("\n") if line]
        if MUTANTS.match(lines[-1]):
            lines.pop()
        last = CLOSING.match(lines[-1])
        numbers = [int(group) for group in last.groups()] if last else [0, 1, 0]
        totals = [a + b for a, b in zip(totals, numbers)]
    print("%d passed, %d failed, %d skipped" % tuple(totals))
    return 0 if totals[1] == 0 and totals[0] > 0 else 1


def main():
    if sys.argv[1:2] == ["--sum"]:
        return add_up(sys.argv[2:])
    parser = argparse.ArgumentParser()
    parser.add_argument("build")
    parser.add_argument("names", nargs="*")
    parser.add_argument("--suite", action="append", default=[])
    parser.add_argument("--exclude-suite", action="append", default=[])
    parser.add_argument("--multiplier", type=float, default=1)
    parser.add_argument("--wrapper")
    args = parser.parse_intermixed_args()
    return run(args.build, args)


if __name__ == "__main__":
    sys.exit(main())
