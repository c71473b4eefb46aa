#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""`taut bench pool` as a user runs it: shapes, processes, sessions, phases in messages and in time;
the figures once more from the raw files, by `taut raw` and by a reader written from docs/traw.md;
and every way of ending early.

usage: test_bench_pool.py TAUT
"""
import glob
import json
import os
import pty
import resource
import select
import signal
import struct
import subprocess
import sys
import time
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "load"))
import harness  # noqa: E402 # pylint: disable=wrong-import-position

SCHEMA = os.path.join(HERE, "..", "..", "docs", "bench-pool.schema.json")
# exit codes of taut(1)
(INVALID, USAGE, BAD_VALUE, DAMAGED, DISK_FULL, PEER_LOST, WRITE,
 RIGHTS, INTERRUPTED) = 1, 2, 3, 11, 13, 15, 17, 14, 130
PPM = {"p50_ns": 500000, "p90_ns": 900000, "p99_ns": 990000, "p999_ns": 999000, "p9999_ns": 999900}
TYPES = {"object": dict, "array": list, "string": str, "integer": int, "number": (int, float),
         "boolean": bool, "null": type(None)}


def misfits(schema, value, where="result"):
    """Where `value` does not follow the part of JSON Schema that the schema file uses."""
    found = []
    if "type" in schema:
        kinds = schema["type"] if isinstance(schema["type"], list) else [schema["type"]]
        if not any(isinstance(value, TYPES[kind]) and
                   (kind == "boolean" or not isinstance(value, bool)) for kind in kinds):
            return [f"{where}: {value!r} is not of type {kinds}"]
    if "enum" in schema and value not in schema["enum"]:
        found.append(f"{where}: {value!r} is none of {schema['enum']}")
    if isinstance(value, dict):
        known = schema.get("properties", {})
        found += [f"{where}: no {key}" for key in schema.get("required", []) if key not in value]
        for key, member in value.items():
            if key in known:
                found += misfits(known[key], member, f"{where}.{key}")
            elif schema.get("additionalProperties") is False:
                found.append(f"{where}: {key} is not in the schema")
    if isinstance(value, list) and "items" in schema:
        for index, member in enumerate(value):
            found += misfits(schema["items"], member, f"{where}[{index}]")
    return found


def read_raw(path):
    """(run, process, [(intended, begin, received, send, session, status, phase)]) by the document."""
    with open(path, "rb") as file:
        data = file.read()
    assert data[:8] == b"TAUTRAW\n" and struct.unpack_from("<I", data, 8)[0] == 1
    run, process = struct.unpack_from("<II", data, 28)
    count = (len(data) - 4096 - 32) // 32
    assert data[-32:-24] == b"TAUTEND\n" and struct.unpack_from("<Q", data, len(data) - 24)[0] == count
    return run, process, [struct.unpack_from("<QQQIHBB", data, 4096 + 32 * i) for i in range(count)]


def rank(values, ppm):
    """The quantile by the documented rule, None where it is refused."""
    n = len(values)
    if n < 5 if ppm == 500_000 else n * (1_000_000 - ppm) < 10_000_000:
        return None
    return values[max(1, -(-ppm * n // 1_000_000)) - 1]


class Pool(harness.Case):
    def pool(self, *more, exit_code=0, **options):
        stdout, stderr = self.taut("bench", "pool", "--json", "--out", self.out, *more,
                                   exit_code=exit_code, **options)
        self.assertEqual(len(stderr), 0 if exit_code == 0 else 1, stderr)
        result = json.loads(stdout)
        with open(SCHEMA, encoding="utf-8") as file:
            self.assertEqual(misfits(json.load(file), result), [])
        return result

    def whole(self, result, sessions, runs, warmup, measure):
        """A run that went to its end with phases in messages."""
        self.check_result(result)
        self.assertNotEqual(result["status"], "INVALID", result["reasons"])
        total = sessions * (warmup + measure) * runs
        delivery = result["delivery"]
        self.assertEqual([delivery[key] for key in ("scheduled", "sent", "answered", "lost")],
                         [total, total, total, 0])
        self.assertEqual([(run["run"], run["phase"], run["n"]) for run in result["runs"]],
                         [entry for run in range(1, runs + 1) for entry in
                          ((run, "warmup", sessions * warmup), (run, "measure", sessions * measure))
                          if entry[2]])
        self.assertGreater(result["throughput_per_s"], 0)
        workers = result["effective"]["server"]["workers"]
        self.assertEqual(sum(worker["app_in"] for worker in workers), total)
        self.assertEqual(sum(worker["app_out"] for worker in workers), total)


class Whole(Pool):
    def test_shapes_and_processes(self):
        for shape in ("single", "owned"):
            for processes in (1, 2):
                with self.subTest(shape=shape, processes=processes):
                    self.out = os.path.join(self.folder, f"{shape}-{processes}")
                    result = self.pool("--shape", shape, "--processes", processes, "--sessions", 8,
                                       "--runs", 2, "--warmup", 100, "--measure", 300)
                    self.whole(result, 8, 2, 100, 300)
                    self.assertEqual(result["effective"]["shape"], shape)
                    self.assertEqual(len(result["effective"]["clients"]), processes)
                    self.assertEqual(len(self.raw_files()), 2 * processes)

    def test_one_session(self):
        self.whole(self.pool("--sessions", 1, "--runs", 1, "--warmup", 20, "--measure", 200),
                   1, 1, 20, 200)

    def test_sessions_that_do_not_divide(self):
        result = self.pool("--sessions", 33, "--processes", 2, "--workers", 2, "--runs", 1,
                           "--warmup", 10, "--measure", 50)
        self.whole(result, 33, 1, 10, 50)
        self.assertEqual(sorted(client["sessions"] for client in result["effective"]["clients"]),
                         [16, 17])
        peaks = [worker["connections_peak"] for worker in result["effective"]["server"]["workers"]]
        self.assertEqual(len(peaks), 2)

    def test_no_warmup(self):
        self.whole(self.pool("--sessions", 2, "--runs", 2, "--warmup", 0, "--measure", 100),
                   2, 2, 0, 100)

    def test_answers_have_212_bytes(self):
        result = self.pool("--sessions", 4, "--runs", 1, "--warmup", 0, "--measure", 300)
        client = result["effective"]["clients"][0]
        self.assertEqual((client["reply_bytes_least"], client["reply_bytes_most"]), (212, 212))

    def test_busy_poll_echo_handler_unbound(self):
        result = self.pool("--sessions", 2, "--runs", 1, "--warmup", 10, "--measure", 100,
                           "--busy-poll", "--handler", "echo", "--unbound")
        self.whole(result, 2, 1, 10, 100)
        self.assertTrue(result["effective"]["busy_poll"])
        self.assertTrue(result["effective"]["server"]["busy_poll"])
        self.assertEqual(result["effective"]["server"]["handler"], "echo")
        self.assertIsNone(result["effective"]["clients"][0]["cpu_read_back"])

    def test_phases_in_time(self):
        result = self.pool("--sessions", 4, "--runs", 2, "--warmup", "100ms", "--measure", "300ms")
        self.check_result(result)
        self.assertNotEqual(result["status"], "INVALID", result["reasons"])
        self.assertEqual(result["delivery"]["unsent"], 0)
        self.assertEqual(len(result["runs"]), 4)
        for run in result["runs"]:
            least = 100_000_000 if run["phase"] == "warmup" else 300_000_000
            self.assertGreaterEqual(run["wall_ns"], least)
            self.assertGreater(run["n"], 0)

    def test_more_sessions_than_the_soft_limit_of_descriptors(self):
        def lower():
            resource.setrlimit(resource.RLIMIT_NOFILE,
                               (100, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
        result = self.pool("--sessions", 300, "--runs", 1, "--warmup", 0, "--measure", 5,
                           preexec_fn=lower)
        self.whole(result, 300, 1, 0, 5)

    def test_cpus_are_read_back(self):
        cpu = min(os.sched_getaffinity(0))
        result = self.pool("--sessions", 2, "--runs", 1, "--warmup", 10, "--measure", 100,
                           "--cpus", cpu)
        self.assertEqual(result["effective"]["clients"][0]["cpu_read_back"], cpu)
        self.assertEqual(result["effective"]["server"]["workers"][0]["cpu_read_back"], cpu)
        self.assertTrue(any("share a CPU" in reason for reason in result["reasons"]))
        self.assertEqual(result["status"], "PARTIAL")  # too few messages for p99, besides


class Figures(Pool):
    def test_figures_are_those_of_the_raw_files(self):
        result = self.pool("--sessions", 6, "--processes", 2, "--runs", 2, "--warmup", 200,
                           "--measure", 1000)
        samples, counts = {}, {}
        for path in self.raw_files():
            run, process, records = read_raw(path)
            self.assertEqual(os.path.basename(path), f"run-{run}-process-{process}.traw")
            for intended, begin, received, send, session, status, phase in records:
                self.assertEqual(intended, begin)  # closed loop
                self.assertEqual(status, 1)
                self.assertGreaterEqual(received - begin, send)
                key = (run, {1: "warmup", 2: "measure"}[phase])
                samples.setdefault(key, []).append(received - begin)
                counts[key, session] = counts.get((key, session), 0) + 1
        self.assertEqual(set(counts.values()), {200, 1000})
        self.assertEqual(len(result["runs"]), 4)
        for run in result["runs"]:
            values = sorted(samples[run["run"], run["phase"]])
            self.assertEqual(run["n"], len(values))
            self.assertEqual((run["min_ns"], run["max_ns"]), (values[0], values[-1]))
            for key, ppm in PPM.items():
                self.assertEqual(run[key], rank(values, ppm), key)
        self.assertIsNone(result["runs"][0]["p999_ns"])  # 1,200 are too few for p99.9

    def test_taut_raw_says_the_same(self):
        result = self.pool("--sessions", 4, "--runs", 2, "--warmup", 50, "--measure", 500)
        stdout, _ = self.taut("raw", "quantiles", "--json", *self.raw_files())
        groups = json.loads(stdout)["groups"]
        self.assertEqual(len(groups), 4)
        for group, run in zip(groups, result["runs"]):
            self.assertEqual((group["run"], group["phase"]), (run["run"], run["phase"]))
            for key in ("n", "p50_ns", "p90_ns", "p99_ns", "max_ns"):
                self.assertEqual(group["service"][key], run[key], key)

    def test_worst_is_found_again(self):
        result = self.pool("--sessions", 4, "--processes", 2, "--runs", 1, "--warmup", 50,
                           "--measure", 200)
        for run in result["runs"]:
            worst = run["worst"]
            path = os.path.join(self.out, "raw", f"run-1-process-{worst['process']}.traw")
            record = read_raw(path)[2][worst["record"]]
            self.assertEqual(record[2] - record[1], run["max_ns"])
            self.assertEqual(record[4], worst["session"])

    def test_recipe_is_kept(self):
        self.pool("--sessions", 2, "--runs", 1, "--warmup", 5, "--measure", 20)
        with open(os.path.join(self.out, "recipe.json"), encoding="utf-8") as file:
            recipe = json.load(file)
        self.assertEqual((recipe["sessions"], recipe["runs"]), (2, 1))
        self.assertEqual(recipe["measure"], {"messages_per_session": 20})
        self.assertIn("kernel", recipe["provenance"])
        with open(self.raw_files()[0], "rb") as file:
            header = file.read(4096)
        length = struct.unpack_from("<I", header, 80)[0]
        self.assertEqual(json.loads(header[128:128 + length])["sessions"], 2)


class Early(Pool):
    """Runs that do not reach their end."""

    def begin(self, *more):
        self.process = self.start("bench", "pool", "--json", "--out", self.out, "--sessions", 4,
                                  "--processes", 2, "--runs", 3, "--warmup", 100, "--measure",
                                  "60s", *more)
        self.addCleanup(self.process.stdout.close)
        self.addCleanup(self.process.stderr.close)
        deadline = time.monotonic() + 20
        while time.monotonic() < deadline:
            # A record of the measured phase: the run is in full flow.
            if len(self.raw_files()) == 2 and all(
                    self.phase_of(path, 2 * 100) == 2 for path in self.raw_files()):
                return
            self.assertIsNone(self.process.poll(), "ended too early")
            time.sleep(0.01)
        self.fail("did not begin to measure")

    @staticmethod
    def phase_of(path, record):
        with open(path, "rb") as file:
            file.seek(4096 + 32 * record + 31)
            byte = file.read(1)
        return byte[0] if byte else 0

    def child(self, name):
        for path in glob.glob("/proc/[0-9]*/stat"):
            try:
                with open(path, encoding="utf-8", errors="replace") as file:
                    text = file.read()
            except OSError:
                continue
            comm, rest = text[text.index("(") + 1:].rsplit(")", 1)
            if comm == name and int(rest.split()[1]) == self.process.pid:
                return int(text.split()[0])
        self.fail(f"no child {name}")
        return 0

    def end(self, exit_code):
        stdout, stderr = self.process.communicate(timeout=harness.LIMIT)
        self.assertEqual(self.process.returncode, exit_code, stderr)
        self.assertEqual(len(stderr.splitlines()), 1, stderr)
        self.assertEqual(self.left_over(), [])
        result = json.loads(stdout)
        with open(SCHEMA, encoding="utf-8") as file:
            self.assertEqual(misfits(json.load(file), result), [])
        return result, stderr

    def test_interrupted(self):
        for number in (signal.SIGINT, signal.SIGTERM):
            with self.subTest(number):
                self.out = os.path.join(self.folder, str(int(number)))
                self.begin()
                self.process.send_signal(number)
                result, stderr = self.end(INTERRUPTED)
                self.check_result(result, "PARTIAL")
                self.assertIn(self.out, stderr)
                self.assertTrue(result["interrupted"])
                self.assertIn("in run 1 of 3, measure", result["reasons"][0])
                self.assertEqual(result["delivery"]["lost"], 0)
                self.taut("raw", "maxima", *self.raw_files())  # closed, whole

    def test_interrupted_while_it_evaluates(self):
        """The processes are gone, the figures not yet made: the result is printed and written."""
        self.process = self.start("bench", "pool", "--json", "--out", self.out, "--sessions", 4,
                                  "--processes", 1, "--runs", 2, "--warmup", 0, "--measure", 20000)
        self.addCleanup(self.process.stdout.close)
        self.addCleanup(self.process.stderr.close)
        children = f"/proc/{self.process.pid}/task/{self.process.pid}/children"
        seen = False
        deadline = time.monotonic() + harness.LIMIT
        while time.monotonic() < deadline:
            with open(children, encoding="ascii") as file:
                now = file.read().split()
            if seen and not now:
                break
            seen = seen or bool(now)
        self.process.send_signal(signal.SIGINT)
        stdout, stderr = self.process.communicate(timeout=harness.LIMIT)
        # 0: the signal came when all was done and written
        self.assertIn(self.process.returncode, (0, INTERRUPTED), stderr)
        self.assertEqual(json.loads(stdout)["delivery"]["answered"], 4 * 2 * 20000)
        for name in ("result.json", "report.txt"):
            self.assertTrue(os.path.exists(os.path.join(self.out, name)), name)

    def test_group_is_interrupted(self):
        """Ctrl-C reaches the children too: they must leave the ending to the coordinator."""
        self.begin()
        for name in ("taut-client-0", "taut-client-1", "taut-server"):
            os.kill(self.child(name), signal.SIGINT)
        self.process.send_signal(signal.SIGINT)
        result, _ = self.end(INTERRUPTED)
        self.check_result(result, "PARTIAL")

    def test_client_killed(self):
        self.begin()
        os.kill(self.child("taut-client-1"), signal.SIGKILL)
        result, stderr = self.end(INVALID)
        self.assertEqual(result["status"], "INVALID")
        self.assertEqual(result["fault"]["name"], "client-died")
        self.assertEqual(result["fault"]["process"], 1)
        self.assertIn("client process 1", stderr)
        self.assertIn("signal 9", stderr)
        whole, cut = self.raw_files()
        self.taut("raw", "maxima", whole)
        stdout, _ = self.taut("raw", "maxima", "--json", cut, exit_code=DAMAGED)
        counts = [group["counts"] for group in json.loads(stdout)["groups"]]
        self.assertEqual(counts[0]["answered"], 200)  # its warm-up
        self.assertGreater(counts[1]["answered"], 0)  # and what it had measured

    def test_server_killed(self):
        self.begin()
        os.kill(self.child("taut-server"), signal.SIGKILL)
        result, stderr = self.end(PEER_LOST)
        self.check_result(result, "INVALID")
        self.assertEqual(result["fault"]["name"], "server-died")
        self.assertIn("signal 9", stderr)
        self.taut("raw", "maxima", *self.raw_files())

    def test_server_stopped(self):
        """A server that hangs is a stall of its sessions."""
        self.begin("--stall-timeout", "1s")
        os.kill(self.child("taut-server"), signal.SIGSTOP)
        result, _ = self.end(INVALID)
        self.check_result(result, "INVALID")
        self.assertEqual(result["fault"]["name"], "stalled")
        self.assertEqual(len(result["sessions"]), 4)
        self.assertGreater(sum(s["outstanding"] for s in result["sessions"]), 0)
        self.taut("raw", "maxima", *self.raw_files())

    def test_client_stopped(self):
        """A client that hangs is noticed by the coordinator."""
        self.begin("--stall-timeout", "1s")
        os.kill(self.child("taut-client-0"), signal.SIGSTOP)
        result, stderr = self.end(INVALID)
        self.assertEqual(result["fault"]["name"], "hung")
        self.assertIn("no sign of life", stderr)

    def test_coordinator_killed(self):
        self.begin()
        children = [self.child(name) for name in ("taut-client-0", "taut-client-1", "taut-server")]
        self.process.kill()
        self.process.wait(timeout=harness.LIMIT)
        deadline = time.monotonic() + 10
        while self.left_over() and time.monotonic() < deadline:
            time.sleep(0.01)
        self.assertEqual(self.left_over(), [], f"children were {children}")
        self.taut("raw", "maxima", *self.raw_files(), exit_code=DAMAGED)


class Disk(Pool):
    def full_disk(self, size, *arguments):
        """In a mount namespace of its own, so that nothing is left mounted."""
        if subprocess.run(["unshare", "-m", "true"], stderr=subprocess.DEVNULL,
                          check=False).returncode != 0:
            self.skipTest("skipped: no mount namespace for this user")
        os.mkdir(self.out)
        script = ('mount -t tmpfs -o size="$1" tmpfs "$2" || exit 77; out=$2; shift 2; '
                  '"$@" >"$out.json" 2>"$out.err"; echo $? >"$out.code"; cp -r "$out" "$out.kept"')
        done = subprocess.run(
            ["unshare", "-m", "sh", "-c", script, "sh", size, self.out, harness.TAUT, "bench",
             "pool", "--json", "--out", self.out, "--processes", "1", *arguments],
            timeout=2 * harness.LIMIT, check=False)
        if done.returncode == 77:
            self.skipTest("skipped: mounting a tmpfs is not permitted")
        with open(self.out + ".err", encoding="utf-8") as file:
            stderr = file.read()
        with open(self.out + ".code", encoding="utf-8") as file:
            self.assertEqual(file.read().strip(), str(DISK_FULL), stderr)
        self.assertEqual(len(stderr.splitlines()), 1, stderr)
        self.assertIn("no space", stderr.lower())
        with open(self.out + ".json", encoding="utf-8") as file:
            result = json.load(file)
        self.assertEqual(result["status"], "INVALID")
        self.assertEqual(result["fault"]["name"], "disk-full")
        self.assertTrue(result["delivery"]["balanced"], result["reasons"])
        self.assertGreater(result["delivery"]["answered"], 0)
        # What was measured before is kept and readable.
        self.out += ".kept"
        stdout, _ = self.taut("raw", "maxima", "--json", *self.raw_files())
        kept = sum(group["counts"]["answered"] for group in json.loads(stdout)["groups"])
        self.assertEqual(kept, result["delivery"]["answered"])
        return result

    def test_disk_full_before_the_second_run(self):
        """The first file was cut to its length: there is less than one chunk left."""
        result = self.full_disk("8600k", "--sessions", "8", "--runs", "2", "--warmup", "200",
                                "--measure", "2000")
        self.assertEqual(result["delivery"]["answered"], 8 * 2200)
        self.assertEqual(result["delivery"]["unsent"], 8 * 2200)

    def test_disk_full_in_mid_run(self):
        """One chunk of 262,144 records fits, the next one does not."""
        result = self.full_disk("12m", "--sessions", "16", "--runs", "1", "--warmup", "0",
                                "--measure", "60s")
        self.assertIn(result["delivery"]["sent"], range(261000, 262145))

    def test_full_stdout(self):
        with open("/dev/full", "w", encoding="utf-8") as full:
            done = subprocess.run([harness.TAUT, "bench", "pool", "--out", self.out, "--sessions",
                                   "2", "--runs", "1", "--warmup", "0", "--measure", "10"],
                                  stdout=full, stderr=subprocess.PIPE, text=True,
                                  timeout=harness.LIMIT, check=False)
        self.assertEqual(done.returncode, WRITE, done.stderr)
        self.assertTrue(os.path.exists(os.path.join(self.out, "result.json")))

    def test_directory_in_use(self):
        os.mkdir(self.out)
        with open(os.path.join(self.out, "mine"), "w", encoding="utf-8"):
            pass
        _, stderr = self.taut("bench", "pool", "--out", self.out, exit_code=BAD_VALUE)
        self.assertEqual(stderr, [f"taut bench pool: --out: {self.out} is not empty"])
        self.assertEqual(os.listdir(self.out), ["mine"])
        _, stderr = self.taut("bench", "pool", "--out", os.path.join(self.out, "mine"),
                              exit_code=BAD_VALUE)
        self.assertIn("is no directory", stderr[0])
        _, stderr = self.taut("bench", "pool", "--out", os.path.join(self.out, "mine", "below"),
                              exit_code=BAD_VALUE)
        self.assertEqual(len(stderr), 1)

    def test_directory_that_can_not_be_made(self):
        for path in ("/proc/nowhere/run", "/sys/run"):
            with self.subTest(path):
                done = subprocess.run([harness.TAUT, "bench", "pool", "--out", path],
                                      stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                      timeout=harness.LIMIT, check=False)
                self.assertIn(done.returncode, (WRITE, RIGHTS), done.stderr)
                self.assertEqual(len(done.stderr.splitlines()), 1)
                self.assertEqual(done.stdout, "")

    def test_default_directory(self):
        stdout, _ = self.taut("bench", "pool", "--json", "--sessions", 1, "--runs", 1, "--warmup",
                              0, "--measure", 5, cwd=self.folder)
        folder = json.loads(stdout)["dir"]
        self.assertRegex(folder, r"^runs/\d{8}T\d{6}Z-pool$")
        self.assertEqual(sorted(os.listdir(os.path.join(self.folder, folder))),
                         ["raw", "recipe.json", "report.txt", "result.json"])


class Usage(Pool):
    def test_bad_values(self):
        for arguments, exit_code in (
                (("--sessions", "0"), BAD_VALUE), (("--sessions", "70000"), BAD_VALUE),
                (("--sessions", "-1"), BAD_VALUE), (("--sessions", "many"), BAD_VALUE),
                (("--sessions", "2", "--processes", "3"), BAD_VALUE),
                (("--processes", "65"), BAD_VALUE), (("--runs", "0"), BAD_VALUE),
                (("--workers", "0"), BAD_VALUE), (("--workers", "65"), BAD_VALUE),
                (("--workers", "2", "--shape", "single"), BAD_VALUE),
                (("--measure", "0"), BAD_VALUE), (("--measure", "0s"), BAD_VALUE),
                (("--measure", "5x"), BAD_VALUE), (("--warmup", "1.5"), BAD_VALUE),
                (("--shape", "round"), BAD_VALUE), (("--port", "9880"), BAD_VALUE),
                (("--handler", "none"), BAD_VALUE), (("--scan", "fast"), BAD_VALUE),
                (("--cpus", "x"), BAD_VALUE), (("--cpus", "1023"), BAD_VALUE),
                (("--stall-timeout", "0s"), BAD_VALUE), (("--cpus", "0", "--unbound"), USAGE),
                (("--frobnicate",), USAGE), (("--runs",), USAGE), (("more",), USAGE)):
            with self.subTest(arguments):
                stdout, stderr = self.taut("bench", "pool", "--out", self.out, *arguments,
                                           exit_code=exit_code)
                self.assertEqual((stdout, len(stderr)), ("", 1), stderr)
                self.assertTrue(stderr[0].startswith("taut bench pool: "))
                self.assertFalse(os.path.exists(self.out), "made before the options were checked")

    def test_too_few_descriptors(self):
        def lower():
            resource.setrlimit(resource.RLIMIT_NOFILE, (100, 100))
        _, stderr = self.taut("bench", "pool", "--out", self.out, "--sessions", 300, exit_code=RIGHTS,
                              preexec_fn=lower)
        self.assertEqual(len(stderr), 1)
        self.assertIn("file descriptors, the limit is 100", stderr[0])

    def test_report_as_text(self):
        stdout, stderr = self.taut("bench", "pool", "--out", self.out, "--sessions", 2, "--runs", 2,
                                   "--warmup", 50, "--measure", 600)
        self.assertEqual(stderr, [])
        self.assertRegex(stdout, r"(?m)^ +1  warm-up +100 ")
        self.assertRegex(stdout, r"(?m)^ +2  measure +1,200 ")
        for text in ("response time is undefined", "scheduled 2,600", "answered 2,600", "lost 0",
                     "balances", "too few messages", os.path.join(self.out, "raw"), "drift"):
            self.assertIn(text, stdout)
        with open(os.path.join(self.out, "report.txt"), encoding="utf-8") as file:
            self.assertEqual(file.read(), stdout)

    def progress(self, *more):
        """What the run writes to a terminal on stderr."""
        leader, follower = pty.openpty()
        process = subprocess.Popen(
            [harness.TAUT, "bench", "pool", "--json", "--out", self.out, "--sessions", "2", "--runs",
             "1", "--warmup", "100ms", "--measure", "1s", *more],
            stdout=subprocess.PIPE, stderr=follower, text=True,
            env={**os.environ, "TERM": "xterm"})
        os.close(follower)
        shown = b""
        while select.select([leader], [], [], harness.LIMIT)[0]:
            try:
                data = os.read(leader, 4096)
            except OSError:
                break
            if not data:
                break
            shown += data
        os.close(leader)
        json.loads(process.communicate(timeout=harness.LIMIT)[0])
        self.assertEqual(process.returncode, 0)
        return shown.decode()

    def test_progress_on_a_terminal(self):
        shown = self.progress()
        self.assertRegex(shown, r"run 1/1  measure +[\d,]+/s  worst of this run [\d.]+ [num]?s")
        self.assertTrue(shown.endswith("\r\x1b[K"), "the line is not cleared")

    def test_no_progress_when_quiet(self):
        self.assertEqual(self.progress("--quiet"), "")


if __name__ == "__main__":
    harness.main()
