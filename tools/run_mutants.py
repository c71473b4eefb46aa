#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Breaks guarded sites one by one and requires a named test to notice; tests/mutants/README.md tells
the format.

usage: run_mutants.py [--root DIR] [NAME...]      (names or patterns of mutants; all without one)

The tree is copied to build-mutants/tree, where one build directory serves all mutants. Whether a
mutant is in the program that runs is decided by content: the program must differ from the unmutated
one and from every other mutant's, and be the unmutated one again after the source has been put back.
Exit codes: 0 all killed, 1 a survivor or an error, 2 no such mutant.
"""
import argparse
import concurrent.futures
import fcntl
import fnmatch
import hashlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
import tree  # noqa: E402

FOLDER, SUFFIX = "tests/mutants", ".mutant"
ONCE = ("what", "file", "case", "cpus", "repeat", "limit")
MANY = ("test", "env")
SKIP = 77
LEAST_LIMIT, LIMIT_FACTOR = 10, 4  # a run is a hang after 4 times what it takes, 10 s at least
OFF = ("bench", "man", "fuzz")     # options of meson_options.txt that no test needs
EDIT = re.compile(r"\A(.*?)^--- old\n(.*?)^--- new\n(.*?)^--- end\n\Z", re.M | re.S)
# cmocka's and unittest's words. A case may go on after its name: "test_connect (blocking)".
FAILED = re.compile(r"^\[  FAILED  \] (\w+)(?: \(.*)?$|^(?:FAIL|ERROR): (\w+) \(", re.M)
BEGUN = re.compile(r"^\[ RUN      \] (.*)$", re.M)
ENDED = re.compile(r"^\[ +(?:OK|FAILED|SKIPPED) +\] (.*)$", re.M)


class Bad(Exception):
    """A mutant that can't be judged, and why."""


# --- the files ------------------------------------------------------------------------------------

class Mutant:
    """One edit, and the tests that must notice."""

    def __init__(self, name, text):
        self.name = name
        parts = EDIT.match(text)
        if not parts:
            raise Bad("not of the form: header, '--- old', '--- new', '--- end'")
        header, self.old, self.new = parts.groups()
        self.fields = {key: [] for key in ONCE + MANY}
        for line in header.splitlines():
            key, colon, value = line.partition(":")
            if not colon or key not in self.fields or not value.strip():
                raise Bad("header line '%s'" % line)
            self.fields[key].append(value.strip())
        for key in ("what", "file", "test"):
            if not self.fields[key]:
                raise Bad("no '%s:' line" % key)
        for key in ONCE:
            if len(self.fields[key]) > 1:
                raise Bad("two '%s:' lines" % key)
        self.file, self.tests = self.one("file"), self.fields["test"]
        if not self.file.endswith((".c", ".h")):
            raise Bad("'%s' is no C source" % self.file)
        self.cpus, self.limit = self.number("cpus"), self.number("limit")
        self.repeat = self.number("repeat") or 1
        self.env = dict(pair.partition("=")[::2] for pair in self.fields["env"])

    def one(self, key):
        return self.fields[key][0] if self.fields[key] else None

    def number(self, key):
        value = self.one(key)
        if value is not None and not re.fullmatch(r"[1-9]\d{0,4}", value):
            raise Bad("'%s: %s' is no number" % (key, value))
        return int(value) if value else None

    def apply(self, source):
        """The source with the edit made; the old text must be there once, as whole lines."""
        if not self.old:
            raise Bad("the old text is empty")
        if self.old == self.new:
            raise Bad("the new text is the old one")
        found, at = [], source.find(self.old)
        while at >= 0:
            if at == 0 or source[at - 1] == "\n":
                found.append(at)
            at = source.find(self.old, at + 1)
        if len(found) != 1:
            raise Bad("the old text occurs %d times in %s, not once" % (len(found), self.file))
        return source[:found[0]] + self.new + source[found[0] + len(self.old):]


def names_of(root, patterns):
    """(names of the mutants asked for, patterns that match none)."""
    folder = os.path.join(root, FOLDER)
    names = sorted(entry[:-len(SUFFIX)] for entry in os.listdir(folder) if entry.endswith(SUFFIX)) \
        if os.path.isdir(folder) else []
    wanted = [name for name in names
              if not patterns or any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns)]
    return wanted, [pattern for pattern in patterns if not fnmatch.filter(names, pattern)]


def read(path):
    with open(path, encoding="utf-8") as text:
        return text.read()


# --- the copy and its build -----------------------------------------------------------------------

class Copy:
    """A copy of the tree with a build directory. Nothing here touches the tree itself."""

    def __init__(self, root):
        self.root = root
        self.base = os.path.join(root, "build-mutants")
        self.tree = os.path.join(self.base, "tree")
        self.build = os.path.join(self.base, "build")
        self.newest = 0
        self.original = {}  # name: what the tree had when it was copied
        os.makedirs(self.tree, exist_ok=True)
        self.lock = open(os.path.join(self.base, "lock"), "w", encoding="utf-8")
        try:
            fcntl.flock(self.lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise Bad("another run is at work in build-mutants")

    def write(self, name, data):
        """ninja goes by time stamps: what is written here is newer than all that was built before."""
        path = os.path.join(self.tree, name)
        with open(path, "wb") as out:
            out.write(data)
        self.newest = max(self.newest + 1, time.time_ns())
        os.utime(path, ns=(self.newest, self.newest))

    def synchronise(self):
        """Makes the copy equal to the tree, by content; what did not change keeps its time stamp."""
        wanted = tree.files(self.root)
        for name in wanted:
            source, path = os.path.join(self.root, name), os.path.join(self.tree, name)
            with open(source, "rb") as text:
                data = self.original[name] = text.read()
            os.makedirs(os.path.dirname(path), exist_ok=True)
            old = None
            if os.path.isfile(path):
                with open(path, "rb") as text:
                    old = text.read()
            if old != data:
                self.write(name, data)
            shutil.copymode(source, path)
        keep = set(wanted)
        for at, _, found in os.walk(self.tree):
            for name in found:
                path = os.path.join(at, name)
                if os.path.relpath(path, self.tree) not in keep:
                    os.remove(path)

    def configure(self):
        if not os.path.exists(os.path.join(self.build, "build.ninja")):
            options = ["-Doptimization=1", "-Ddebug=false"]
            listed = os.path.join(self.tree, "meson_options.txt")
            known = read(listed) if os.path.exists(listed) else ""
            options += ["-D%s=false" % name for name in OFF if "option('%s'" % name in known]
            self.tell("meson setup", ["meson", "setup", *options, self.build, self.tree])
        self.tell("ninja", ["ninja", "-C", self.build, "build.ninja"])
        self.tests = {test["name"]: test for test in self.introspect("--tests")}
        self.outputs = {target["id"]: target["filename"] for target in self.introspect("--targets")}

    def introspect(self, what):
        return json.loads(self.tell("meson introspect", ["meson", "introspect", what, self.build]))

    @staticmethod
    def tell(what, command):
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                              errors="replace")
        if done.returncode != 0:
            raise Bad("%s failed:\n%s" % (what, "\n".join(done.stdout.splitlines()[-20:])))
        return done.stdout

    def programs(self, test):
        """The files that a test needs built."""
        return [path for target in self.tests[test]["depends"] for path in self.outputs[target]]

    def make(self, tests):
        """Builds what these tests need; {test: hash of its programs}."""
        files = {test: self.programs(test) for test in tests}
        targets = sorted({os.path.relpath(path, self.build) for paths in files.values() for path in paths})
        if targets:
            self.tell("the build", ["ninja", "--quiet", "-C", self.build, "-j",
                                    str(len(os.sched_getaffinity(0))), *targets])
        return {test: digest(paths) for test, paths in files.items()}


def digest(paths):
    total = hashlib.sha256()
    for path in paths:
        with open(path, "rb") as program:
            total.update(program.read())
    return total.hexdigest()


# --- running --------------------------------------------------------------------------------------

class Run:
    """How one run of a test ended: `how` is passed, failed, hang or skipped."""

    def __init__(self, test, build, mutant, limit):
        cpus = ",".join(map(str, sorted(os.sched_getaffinity(0))[:mutant.cpus]))
        command = (["taskset", "-c", cpus] if mutant.cpus else []) + test["cmd"]
        begin = time.monotonic()
        with tempfile.TemporaryFile() as log:
            child = subprocess.Popen(
                command, cwd=test["workdir"] or build, stdin=subprocess.DEVNULL, stdout=log,
                stderr=subprocess.STDOUT, start_new_session=True,
                env={**os.environ, **test["env"], **mutant.env})
            try:
                code = child.wait(timeout=limit)
            except subprocess.TimeoutExpired:
                code = None
            finally:
                try:  # also what the test has left running
                    os.killpg(child.pid, signal.SIGKILL)
                except ProcessLookupError:
                    pass
                child.wait()
            self.seconds = time.monotonic() - begin
            log.seek(0)
            self.output = log.read().decode(errors="replace")
        self.how = {None: "hang", 0: "passed", SKIP: "skipped"}.get(code, "failed")
        self.code = code

    def notices(self, case):
        """Whether this run noticed the mutant; a case, if named, must be the one that did."""
        if self.how not in ("failed", "hang"):
            return False
        if not case:
            return True
        guilty = {name for pair in FAILED.findall(self.output) for name in pair}
        begun = BEGUN.findall(self.output)
        if begun and begun[-1] not in ENDED.findall(self.output):
            guilty.add(begun[-1].split(" (")[0])  # crashed or hung in it
        return case in guilty


class Bench:
    """Judges mutants, one after another."""

    def __init__(self, copy):
        self.copy = copy
        self.took = {}       # (test, environment): seconds unmutated
        self.unfit = {}      # (test, environment): Bad, or a reason to skip
        self.clean = {}      # test: hash of its unmutated programs
        self.seen = {}       # (test, hash): mutant
        self.changed = None  # the file that differs from the tree now
        self.touched = set() # tests whose programs were built meanwhile

    @staticmethod
    def key(test, mutant):
        return test, mutant.cpus, tuple(sorted(mutant.env.items()))

    def rehearse(self, mutants):
        """Every named test must pass unmutated; twice, where its mutants are for luck."""
        known = set(self.copy.tests)
        self.clean = self.copy.make(sorted({test for mutant in mutants for test in mutant.tests} & known))
        jobs = {}
        for mutant in sorted(mutants, key=lambda mutant: mutant.repeat):
            for test in mutant.tests:
                if test in known:
                    jobs[self.key(test, mutant)] = mutant  # the one that runs it most often
                else:
                    self.unfit[self.key(test, mutant)] = Bad("no test '%s'" % test)
        beside = [key for key in jobs if self.copy.tests[key[0]]["is_parallel"]]
        with concurrent.futures.ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
            list(pool.map(lambda key: self.rehearse_one(key, jobs[key]), beside))
        for key in set(jobs) - set(beside):
            self.rehearse_one(key, jobs[key])

    def rehearse_one(self, key, mutant):
        test = key[0]
        for _ in range(min(mutant.repeat, 2)):
            run = Run(self.copy.tests[test], self.copy.build, mutant, self.meson_limit(test))
            self.took[key] = max(run.seconds, self.took.get(key, 0))
            if run.how == "skipped":
                self.unfit[key] = "%s: %s" % (test, last_line(run.output))
            elif run.how != "passed":
                tail = "\n".join(run.output.splitlines()[-15:])
                self.unfit[key] = Bad("%s fails unmutated (%s)\n%s" % (test, run.how, tail))
            if key in self.unfit:
                return

    def meson_limit(self, test):
        return self.copy.tests[test]["timeout"] or 600

    def put(self, mutant):
        """The mutant into the copy; the file changed before, if another, back and proven so."""
        if self.changed not in (None, mutant.file):
            self.restore()
        data = mutant.apply(self.copy.original[mutant.file].decode()).encode()
        self.changed = mutant.file
        self.copy.write(mutant.file, data)

    def restore(self):
        if self.changed is None:
            return
        self.copy.write(self.changed, self.copy.original[self.changed])
        again = self.copy.make(sorted(self.touched))
        self.touched.clear()
        for test, program in again.items():
            if program != self.clean[test]:
                raise SystemExit("%s is put back, but the program of %s is not what it was"
                                 % (self.changed, test))
        self.changed = None

    def judge(self, mutant):
        """The word for the table; raises Bad for a mutant that can't be judged."""
        for test in mutant.tests:
            unfit = self.unfit.get(self.key(test, mutant))
            if isinstance(unfit, Bad):
                raise unfit
            if unfit:
                return "skipped", unfit
        self.put(mutant)
        self.touched.update(mutant.tests)
        made = self.copy.make(mutant.tests)
        words = []
        for test in mutant.tests:
            if made[test] == self.clean[test]:
                raise Bad("compiles to the same program: %s is unchanged" % test)
            other = self.seen.setdefault((test, made[test]), mutant)
            if other is not mutant:
                raise Bad("the same program as mutant %s" % other.name)
            words.append(self.try_test(mutant, test))
        return next((word for word in words if word[0] == "survived"), words[-1])

    def try_test(self, mutant, test):
        took = self.took[self.key(test, mutant)]
        if mutant.limit and mutant.limit < 2 * took:
            raise Bad("limit %d: %s takes %.1f s unmutated, and a slower machine is no hang"
                      % (mutant.limit, test, took))
        limit = mutant.limit or min(max(LEAST_LIMIT, LIMIT_FACTOR * took), self.meson_limit(test))
        told = "%s: %s" % (test, mutant.one("what"))
        for _ in range(mutant.repeat):
            run = Run(self.copy.tests[test], self.copy.build, mutant, limit)
            if run.notices(mutant.one("case")):
                return ("hang" if run.how == "hang" else "killed"), None
            if run.how in ("failed", "hang"):
                told = "%s: ended with '%s', but not in case %s\n%s" % (
                    test, run.how, mutant.one("case"), "\n".join(run.output.splitlines()[-8:]))
            elif run.how == "skipped":
                told = "%s: skipped itself: %s" % (test, last_line(run.output))
        return "survived", told


def last_line(output):
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    return lines[-1] if lines else "no reason given"


# --- the table ------------------------------------------------------------------------------------

class Table:
    def __init__(self, names, mutants):
        self.widths = [max(map(len, ["mutant", *names])),
                       max([len("test")] + [len(", ".join(mutant.tests)) for mutant in mutants])]
        self.counts = {"killed": 0, "survived": 0, "error": 0, "skipped": 0}
        self.details = []
        self.row("mutant", "test", "result", "seconds")

    def row(self, name, tests, word, seconds):
        print("%-*s  %-*s  %-8s  %7s" % (self.widths[0], name, self.widths[1], tests, word, seconds),
              flush=True)

    def add(self, name, tests, word, seconds, detail=None):
        self.row(name, ", ".join(tests), word, "%.1f" % seconds)
        self.counts["killed" if word == "hang" else word] += 1
        if detail:
            self.details.append("%s %s: %s" % (word, name, detail))

    def close(self):
        """The details, then two closing lines: one as of every stage of CI, one of its own."""
        killed, survived, error, skipped = (self.counts[key]
                                            for key in ("killed", "survived", "error", "skipped"))
        print("\n".join([""] * bool(self.details) + self.details))
        print("%d passed, %d failed, %d skipped" % (killed, survived + error, skipped))
        print("%d killed, %d survived%s" % (killed, survived, ", %d errors" % error if error else ""))
        return 1 if survived or error or not killed else 0


def load(root, names):
    """(mutants whose text applies, {name: Bad})."""
    mutants, bad = [], {}
    for name in names:
        try:
            mutant = Mutant(name, read(os.path.join(root, FOLDER, name + SUFFIX)))
            if not os.path.isfile(os.path.join(root, mutant.file)):
                raise Bad("no file %s" % mutant.file)
            mutant.apply(read(os.path.join(root, mutant.file)))
            mutants.append(mutant)
        except Bad as error:
            bad[name] = error
    return mutants, bad


def run(root, names):
    mutants, bad = load(root, names)
    table = Table(names, mutants)
    for name, error in bad.items():
        table.add(name, [], "error", 0, error)
    if mutants:
        try:
            copy = Copy(root)
            copy.synchronise()
            copy.configure()
            bench = Bench(copy)
            bench.rehearse(mutants)
        except Bad as error:
            for mutant in mutants:
                table.add(mutant.name, mutant.tests, "error", 0)
            table.details.append("before any mutant: %s" % error)
            return table.close()
        # By file: consecutive mutants of one file need no build of the unmutated one between them.
        for mutant in sorted(mutants, key=lambda mutant: (mutant.file, mutant.tests, mutant.name)):
            begin = time.monotonic()
            try:
                word, detail = bench.judge(mutant)
            except Bad as error:
                word, detail = "error", error
            table.add(mutant.name, mutant.tests, word, time.monotonic() - begin, detail)
        bench.restore()
    return table.close()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--root", default=os.path.dirname(HERE))
    parser.add_argument("names", nargs="*")
    args = parser.parse_args()
    root = os.path.abspath(args.root)
    names, unknown = names_of(root, args.names)
    if unknown:
        print("no mutant matches: " + " ".join(unknown), file=sys.stderr)
        return 2
    return run(root, names)


if __name__ == "__main__":
    sys.exit(main())
