# SPDX-License-Identifier: BSD-2-Clause
"""Runs `taut` for a test and looks at everything that it leaves: output, files, processes."""
import glob
import json
import os
import shutil
import subprocess
import sys
import tempfile
import unittest

TAUT = os.environ.get("TAUT", "build/taut")
LIMIT = 60  # seconds; nothing here takes a tenth of it


class Case(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="taut-test-")
        self.out = os.path.join(self.folder, "run")

    def tearDown(self):
        self.assertEqual(self.left_over(), [], "a process outlived its run")
        shutil.rmtree(self.folder, ignore_errors=True)

    def left_over(self):
        """Processes whose command line names this test's folder."""
        found = []
        for path in glob.glob("/proc/[0-9]*/cmdline"):
            try:
                with open(path, "rb") as file:
                    if self.folder.encode() in file.read():
                        found.append(path.split("/")[2])
            except OSError:
                pass
        return found

    def taut(self, *arguments, exit_code=0, **options):
        """Runs to its end; returns (stdout, lines of stderr)."""
        done = subprocess.run([TAUT, *map(str, arguments)], stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, text=True, timeout=LIMIT, check=False,
                              **options)
        self.assertEqual(done.returncode, exit_code,
                         f"{arguments}: stderr {done.stderr!r}, stdout {done.stdout[-2000:]!r}")
        return done.stdout, done.stderr.splitlines()

    def start(self, *arguments):
        return subprocess.Popen([TAUT, *map(str, arguments)], stdout=subprocess.PIPE,
                                stderr=subprocess.PIPE, text=True)

    def check_result(self, result, status=None, balanced=True):
        """What holds for every result, good or bad."""
        delivery = result["delivery"]
        self.assertEqual(delivery["balanced"], balanced, result["reasons"])
        if balanced:
            self.assertEqual(delivery["scheduled"], delivery["sent"] + delivery["unsent"])
            self.assertEqual(delivery["sent"],
                             delivery["answered"] + delivery["lost"] + delivery["error"])
            self.assertEqual({key: delivery[key] for key in delivery["raw_files"]},
                             delivery["raw_files"])
        if status:
            self.assertEqual(result["status"], status, result["reasons"])
        with open(os.path.join(result["dir"], "result.json"), encoding="utf-8") as file:
            self.assertEqual(json.load(file), result)
        self.assertTrue(os.path.getsize(os.path.join(result["dir"], "report.txt")) > 0)
        for run in result["runs"]:
            rising = [run[key] for key in ("min_ns", "p50_ns", "p90_ns", "p99_ns", "p999_ns",
                                           "p9999_ns", "max_ns")
                      if isinstance(run[key], int)]
            self.assertEqual(rising, sorted(rising))

    def raw_files(self):
        return sorted(glob.glob(os.path.join(self.out, "raw", "*.traw")))


def main():
    global TAUT
    if len(sys.argv) > 1 and os.path.exists(sys.argv[1]):
        TAUT = os.path.abspath(sys.argv.pop(1))
    unittest.main(module="__main__")
