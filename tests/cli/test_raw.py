#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""taut raw maxima and taut raw quantiles, side by side with the reader in examples/."""
import json
import os
import subprocess
import sys
import tempfile
import unittest

from cli_support import (
    BAD_VALUE, DAMAGED, NO_FILE, OK, ROOT, USAGE, VERSION, WRITE, golden, taut,
)

WRITER = os.environ["WRITE_SAMPLES"]
READER = os.path.join(ROOT, "examples", "read_traw.py")
TIMES = ["service", "response", "lateness"]


def write(path, run=1, process=0, count=5000, seed=1, closed=0):
    subprocess.run([WRITER, path, *map(str, (run, process, count, seed, closed))], check=True)


class Raw(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.path = os.path.join(self.folder.name, "a.traw")

    def name(self, name):
        return os.path.join(self.folder.name, name)

    def json(self, what, *arguments, expect=OK):
        result = taut("raw", what, "--json", *arguments)
        self.assertEqual(result.returncode, expect, result.stderr)
        return json.loads(result.stdout)

    def compare(self, paths, expect=OK):
        """Both readers, bit for bit: groups, counts, quantiles, extremes."""
        ours = self.json("quantiles", *paths, expect=expect)["groups"]
        other = subprocess.run([READER, *paths], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        theirs = json.loads(other.stdout)["groups"]
        self.assertEqual(len(ours), len(theirs))
        for mine, its in zip(ours, theirs):
            for key in ["directory", "run", "phase", "counts", *TIMES]:
                self.assertEqual(mine[key], its[key], (paths, key))
        maxima = self.json("maxima", *paths, expect=expect)["groups"]
        for mine, its in zip(maxima, theirs):
            self.assertEqual(mine["counts"], its["counts"])
            for time in TIMES:
                if its[time] is None:
                    self.assertIsNone(mine[time])
                    continue
                self.assertEqual(mine[time]["n"], its[time]["n"])
                for end in ["min", "max"]:
                    place = mine[time][end]
                    self.assertEqual(place and place["ns"], its[time][end + "_ns"])
        return ours

    def test_two_readers_agree(self):
        for seed in range(1, 9):
            paths = []
            for index in range(seed % 4 + 1):
                path = self.name(f"{seed}-{index}.traw")
                count = [0, 1, 19, 20, 999, 1000, 12345, 60000][seed - 1]
                write(path, 1 + index // 2, index % 2, count, seed * 10 + index, seed % 2)
                paths.append(path)
            self.compare(paths)

    def test_two_readers_agree_on_damage(self):
        write(self.path, count=3000)
        with open(self.path, "rb") as file:
            whole = file.read()
        for cut in [4096, 4100, 4128, 50000, len(whole) - 32, len(whole) - 1]:
            damaged = self.name("cut.traw")
            with open(damaged, "wb") as file:
                file.write(whole[:cut])
            self.compare([damaged], DAMAGED)
        for at in [20, 30, 200, 4096 + 31, 4096 + 32 * 77 + 30, 5000, len(whole) - 20]:
            damaged = self.name("bit.traw")
            with open(damaged, "wb") as file:
                file.write(whole[:at] + bytes([whole[at] ^ 0xFF]) + whole[at + 1 :])
            self.compare([damaged], DAMAGED)
        damaged = self.name("longer.traw")
        with open(damaged, "wb") as file:
            file.write(whole + b"more" * 20)
        self.compare([damaged], DAMAGED)

    def test_the_maximum_is_where_it_says(self):
        write(self.path, count=20000, seed=5)
        with open(self.path, "rb") as file:
            data = file.read()
        for group in self.json("maxima", self.path)["groups"]:
            place = group["service"]["max"]
            at = 4096 + 32 * place["record"]
            begin, received = (int.from_bytes(data[at + o : at + o + 8], "little") for o in (8, 16))
            self.assertEqual(received - begin, place["ns"])
            self.assertEqual(begin, place["begin_ns"])
            self.assertEqual(int.from_bytes(data[at + 28 : at + 30], "little"), place["session"])
            self.assertEqual(place["utc_ns"], 1780000000000000000 + begin)
            self.assertEqual(place["file"], self.path)

    def test_golden(self):
        write(self.name("p0.traw"), 1, 0, 60000, 1, 1)
        write(self.name("p1.traw"), 1, 1, 60000, 2, 1)
        write(self.name("r2.traw"), 2, 0, 500, 3, 1)
        write(self.name("open.traw"), 3, 0, 5000, 4, 0)
        files = ["p0.traw", "p1.traw", "r2.traw", "open.traw"]
        for what in ["maxima", "quantiles"]:
            for by in ["run", "phase", "process"]:
                result = taut("raw", what, "--by", by, *files, cwd=self.folder.name)
                self.assertEqual((result.returncode, result.stderr), (OK, b""))
                golden(self, f"raw_{what}_{by}.txt", result.stdout)

    def test_every_phase_has_its_line(self):
        write(self.path)
        phases = [group["phase"] for group in self.json("maxima", self.path)["groups"]]
        self.assertEqual(phases, ["warmup", "measure"])
        sessions = self.json("quantiles", "--by", "session", self.path)["groups"]
        self.assertEqual(len(sessions), 32)

    def test_failures(self):
        write(self.path)
        with open(self.path, "rb") as file:
            whole = file.read()

        def make(name, data):
            with open(self.name(name), "wb") as file:
                file.write(data)
            return self.name(name)

        os.mkfifo(self.name("fifo"))
        cases = [
            (make("cut", whole[:5000]), DAMAGED),
            (make("header", whole[:100]), DAMAGED),
            (make("version", whole[:8] + b"\x02" + whole[9:]), VERSION),
            (make("text", b"8=FIX.4.4"), VERSION),
            (make("empty", b""), VERSION),
            (self.folder.name, VERSION),
            (self.name("fifo"), VERSION),
            (self.name("none"), NO_FILE),
            (self.name("none\n2"), NO_FILE),
            (self.path + "/x", NO_FILE),
        ]
        for path, code in cases:
            for what in ["maxima", "quantiles"]:
                result = taut("raw", what, path)
                self.assertEqual(result.returncode, code, result.stderr)
                self.assertEqual(result.stderr.count(b"\n"), 1, result.stderr)
                # The good one is shown all the same.
                result = taut("raw", what, path, self.path)
                self.assertEqual(result.returncode, code)
                self.assertIn(b"warmup", result.stdout)

    def test_bad_arguments(self):
        self.assertEqual(taut("raw", "maxima").returncode, USAGE)
        self.assertEqual(taut("raw", "quantiles", "--bye", "x").returncode, USAGE)
        self.assertEqual(taut("raw", "quantiles", "--by", "weekday", "x").returncode, BAD_VALUE)

    def test_the_same_file_twice_counts_once(self):
        write(self.path)
        result = taut("raw", "maxima", "--json", self.path, self.path)
        self.assertEqual(result.returncode, OK)
        self.assertIn(b"counted once", result.stderr)
        groups = json.loads(result.stdout)["groups"]
        self.assertEqual(sum(group["counts"]["records"] for group in groups), 5000)

    def test_full_output(self):
        write(self.path)
        for what in ["maxima", "quantiles"]:
            for form in [[], ["--json"]]:
                with open("/dev/full", "wb") as full:
                    result = taut("raw", what, *form, self.path, stdout=full)
                self.assertEqual(result.returncode, WRITE)
                self.assertEqual(result.stderr.count(b"\n"), 1)

    def test_a_name_that_is_no_utf8(self):
        path = os.fsencode(self.folder.name) + b"/\xff.traw"
        write(path)
        groups = json.loads(taut("raw", "maxima", "--json", path).stdout)["groups"]
        self.assertTrue(groups[0]["service"]["max"]["file"].endswith("?.traw"))

    def test_few_samples_are_refused(self):
        write(self.path, count=5, closed=1)
        for group in self.json("quantiles", self.path)["groups"]:
            self.assertIsNone(group["service"]["p50_ns"])
            self.assertIsNotNone(group["service"]["max_ns"])

    def test_the_median_wants_five_samples(self):
        seen = set()
        for count in range(1, 40):
            path = os.path.join(self.folder.name, "median-%u.traw" % count)
            write(path, count=count, closed=1)
            for group in self.json("quantiles", "--by", "run", path)["groups"]:
                n = group["service"]["n"]
                seen.add(n)
                self.assertEqual(group["service"]["p50_ns"] is not None, n >= 5, n)
                self.assertIsNone(group["service"]["p90_ns"])
        self.assertTrue({4, 5} <= seen, seen)


if __name__ == "__main__":
    sys.exit(unittest.main(verbosity=0))
