#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""The example of workers: every job is done once, the slow worker gets no third of them, waits add up, and
nobody is bypassed without bound.

usage: test_workers.py WORKERS
"""
import re
import subprocess
import sys

JOBS = 30000
WORKER = re.compile(r"worker (\d+): jobs (\d+), stalled (\d+) us; waits (\d+): caught (\d+), "
                    r"parked (\d+), expired (\d+); most bypassed (\d+)")
JOURNAL = re.compile(r"journal: entries (\d+), acquired (\d+), contended (\d+), ")


def main():
    done = subprocess.run([sys.argv[1]], stdout=subprocess.PIPE, text=True, timeout=50)
    assert done.returncode == 0, done
    workers = [tuple(map(int, found)) for found in WORKER.findall(done.stdout)]
    journal = tuple(map(int, JOURNAL.search(done.stdout).groups()))
    assert [worker[0] for worker in workers] == [0, 1, 2], done.stdout
    assert sum(worker[1] for worker in workers) == JOBS, done.stdout
    assert workers[0][1] < JOBS / 3, done.stdout  # it got what it could do, and held up nobody
    for _, _, _, waits, caught, parked, expired, bypassed in workers:
        assert caught + parked + expired == waits, done.stdout
        assert bypassed <= 8 + 3, done.stdout
    assert workers[0][6] == workers[0][1], done.stdout  # its device: one expired wait a job
    assert journal[0] == journal[1] == JOBS, done.stdout
    print("1 passed, 0 failed, 0 skipped")


if __name__ == "__main__":
    main()
