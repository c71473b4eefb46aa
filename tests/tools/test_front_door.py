#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""./x: what it installs and when, what it says where it may not, and how it refuses wrong usage.

dpkg-query, apt-get, id and sudo are programs of the test, first on the PATH, that log how they are
called; nothing is installed here.
"""
import os
import re
import subprocess
import sys
import unittest

import support
from support import ROOT, TreeTest

X = os.path.join(ROOT, "x")


def packages(group=None):
    with open(os.path.join(ROOT, "tools", "packages.txt"), encoding="utf-8") as text:
        rows = [line.split(None, 2) for line in text if line.strip() and not line.startswith("#")]
    return [row for row in rows if group in (None, row[0])]


class SetUp(TreeTest):
    def setUp(self):
        super().setUp()
        self.log = os.path.join(self.root, "log")
        self.fake("dpkg-query", 'shift 2; for p; do case " $LACKING " in *" $p "*) ;; '
                                '*) echo "installed $p";; esac; done; [ -z "$LACKING" ]')
        self.fake("id", "echo $FAKE_UID")
        self.fake("sudo", 'echo "sudo $*" >>"$LOG"; [ "$FAKE_SUDO" = yes ] || exit 1; shift; exec "$@"')
        self.fake("apt-get", 'echo "apt-get $*" >>"$LOG"\n'
                             'case $1 in update) touch "$LOG.updated"; exit 0;; esac\n'
                             'case $FAKE_APT in works) exit 0;; stale) [ -e "$LOG.updated" ];; '
                             '*) echo "E: no such luck"; exit 100;; esac')

    def fake(self, name, script):
        self.write("bin/" + name, "#!/bin/sh\n" + script + "\n", 0o755)

    def need(self, *groups, lacking="", uid=0, sudo="no", apt="works"):
        """(exit code, stderr, calls) of need() in x."""
        env = dict(os.environ, PATH=os.path.join(self.root, "bin") + ":/usr/bin:/bin", LACKING=lacking,
                   FAKE_UID=str(uid), FAKE_SUDO=sudo, FAKE_APT=apt, LOG=self.log)
        done = subprocess.run(["bash", "-c", 'source "$1"; shift; need "$@"', "_", X, *groups], env=env,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.assertEqual(done.stdout, "")
        calls = ""
        if os.path.exists(self.log):
            with open(self.log, encoding="utf-8") as text:
                calls = text.read()
        return done.returncode, done.stderr, calls

    def test_nothing_is_run_when_all_is_there(self):
        self.assertEqual(self.need("build", "test", "lint", "sanitize", "bench"), (0, "", ""))

    def test_root_installs_exactly_what_is_missing(self):
        code, err, calls = self.need("build", lacking="meson scdoc")
        self.assertEqual((code, err), (0, "x: installing: meson scdoc\n"))
        self.assertRegex(calls, r"^apt-get install -y --no-install-recommends .*meson scdoc\n$")

    def test_only_the_groups_asked_for(self):
        self.assertEqual(self.need("build", lacking="cppcheck libquickfix-dev"), (0, "", ""))
        self.assertIn("cppcheck", self.need("build", "lint", lacking="cppcheck libquickfix-dev")[2])

    def test_lists_are_fetched_once_where_needed(self):
        code, _, calls = self.need("build", lacking="meson", apt="stale")
        self.assertEqual(code, 0)
        self.assertEqual([line.split()[1] for line in calls.splitlines()], ["install", "update", "install"])

    def test_sudo_without_a_password(self):
        code, _, calls = self.need("build", lacking="meson", uid=1000, sudo="yes")
        self.assertEqual(code, 0)
        self.assertRegex(calls, r"sudo -n true\nsudo -n env .*\napt-get install ")

    def test_no_rights(self):
        code, err, calls = self.need("build", lacking="meson scdoc", uid=1000)
        self.assertEqual(code, 3)
        self.assertIn("x: missing Debian packages: meson scdoc\n", err)
        self.assertIn("apt-get install -y --no-install-recommends meson scdoc", err)
        self.assertNotIn("apt-get", calls)

    def test_install_fails(self):
        code, err, _ = self.need("build", lacking="meson", apt="fails")
        self.assertEqual(code, 3)
        self.assertIn("E: no such luck", err)
        self.assertIn("x: could not install: meson\n", err)

    def test_job_stops_there(self):
        env = dict(os.environ, PATH=os.path.join(self.root, "bin") + ":/usr/bin:/bin", LACKING="meson",
                   FAKE_UID="1000", FAKE_SUDO="no", LOG=self.log)
        for job in ("run", "build", "test", "lint", "sanitize", "fuzz", "bench", "soak"):
            with self.subTest(job):
                done = subprocess.run([X, job], env=env, stdout=subprocess.PIPE,
                                      stderr=subprocess.PIPE, text=True)
                self.assertEqual((done.returncode, done.stdout), (3, ""), done.stderr)

    def test_no_dpkg(self):
        os.remove(os.path.join(self.root, "bin", "dpkg-query"))
        for name in ("bash", "awk", "sort", "readlink", "dirname", "nproc"):
            os.symlink("/usr/bin/" + name, os.path.join(self.root, "bin", name))
        done = subprocess.run(["/bin/bash", "-c", 'source "$1"; need build', "_", X],
                              env=dict(os.environ, PATH=os.path.join(self.root, "bin")),
                              stderr=subprocess.PIPE, text=True)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("no dpkg here", done.stderr)


class Usage(unittest.TestCase):
    def x(self, *args):
        done = subprocess.run([X, *args], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                              cwd="/")
        return done.returncode, done.stdout, done.stderr

    def test_help_names_every_command(self):
        code, out, err = self.x("help")
        self.assertEqual((code, err), (0, ""))
        with open(X, encoding="utf-8") as text:
            commands = set(re.findall(r"^cmd_(\w+)\(\)", text.read(), re.M))
        self.assertEqual(set(re.findall(r"^  (\w+) ", out, re.M)), commands)
        self.assertEqual(self.x()[:2], (0, out))
        self.assertEqual(self.x("--help")[:2], (0, out))

    def test_unknown_command(self):
        code, out, err = self.x("tset")
        self.assertEqual((code, out), (2, ""))
        self.assertIn("unknown command 'tset'", err)

    def test_help_of_a_command(self):
        """It does nothing else: clean, above all."""
        for command in ("build", "test", "lint", "sanitize", "mutants", "fuzz", "bench", "soak", "clean"):
            for word in ("-h", "--help"):
                with self.subTest(command + " " + word):
                    self.assertEqual(self.x(command, word), self.x("help"))

    def test_bad_arguments(self):
        for value in ("0", "-5", "1.5", "soon"):
            with self.subTest(value):
                self.assertEqual(self.x("fuzz", value)[0], 2)
        code, _, err = self.x("bench", "nothing")
        self.assertEqual(code, 2)
        self.assertIn("no benchmark bench/nothing/run", err)
        self.assertEqual(self.x("clean", "everything")[0], 2)

    def test_list_of_packages(self):
        for row in packages():
            self.assertEqual(len(row), 3, "a package without its reason: %s" % row)
            self.assertIn(row[0], ("build", "test", "lint", "sanitize", "bench"))
        rows = [(row[0], row[1]) for row in packages()]
        self.assertEqual(len(rows), len(set(rows)))


if __name__ == "__main__":
    sys.exit(support.main())
