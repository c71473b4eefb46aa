#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Reads raw sample files (*.traw) and prints counts and exact quantiles as JSON.

Written from docs/traw.md alone; plain Python 3, no other module needed. Where a libxxhash is
installed, the hashes are verified too; where it is not, "hashes" says "not checked".

    examples/read_traw.py FILE...
"""
import array
import ctypes
import ctypes.util
import json
import os
import struct
import sys

HEADER = struct.Struct("<8sIIIIIIIIQQQQqI")
RECORD = struct.Struct("<QQQIHBB")
TRAILER = struct.Struct("<8sQQQ")
UNANSWERED = 2**64 - 1
INFINITE = 2**64 - 1
LIMIT = 2**63
STATUS = ["empty", "answered", "late", "lost", "error", "shed", "unsent"]
PHASE = {1: "warmup", 2: "measure", 3: "drain"}
QUANTILES = {
    "p50_ns": 500000,
    "p90_ns": 900000,
    "p99_ns": 990000,
    "p999_ns": 999000,
    "p9999_ns": 999900,
    "p99999_ns": 999990,
}


class Unreadable(Exception):
    """Nothing can be read of the file."""


def find_xxh3():
    name = ctypes.util.find_library("xxhash") or "libxxhash.so.0"
    try:
        function = ctypes.CDLL(name).XXH3_64bits
    except (OSError, AttributeError):
        return None
    function.restype = ctypes.c_uint64
    function.argtypes = [ctypes.c_char_p, ctypes.c_size_t]
    return lambda data: function(data, len(data))


XXH3 = find_xxh3()


def hash_differs(data, stored):
    return XXH3 is not None and XXH3(data) != stored


def used_slots(data):
    """Whole slots behind the header up to the last one that is not all zero."""
    slots = (len(data) - 4096) // 32
    while slots and not any(data[4096 + 32 * (slots - 1) : 4096 + 32 * slots]):
        slots -= 1
    return slots


def read(path):
    """The header's fields, the number of records, the damage found (or None), the bytes."""
    with open(path, "rb") as file:
        data = file.read()
    if len(data) < 8 or data[:8] != b"TAUTRAW\n":
        raise Unreadable("no raw file")
    if len(data) >= 12 and struct.unpack_from("<I", data, 8)[0] != 1:
        raise Unreadable("another version")
    if len(data) < 4096:
        raise Unreadable("cut in its header")
    fields = HEADER.unpack_from(data)
    header = {
        "flags": fields[5],
        "run": fields[6],
        "process": fields[7],
        "epoch_ns": fields[9],
        "recipe": data[128 : 128 + min(fields[14], 3900)].decode("utf-8", "replace"),
    }
    damage = None
    if hash_differs(data[:4088], struct.unpack_from("<Q", data, 4088)[0]):
        damage = "header hash"
    size = len(data)
    if size >= 4128 and data[size - 32 : size - 24] == b"TAUTEND\n":
        records = (size - 4128) // 32
        _, count, records_hash, header_hash = TRAILER.unpack_from(data, size - 32)
        if (size - 4128) % 32:
            damage = damage or "length"
        elif count != records:
            damage = damage or "count"
        elif hash_differs(data[:4096], header_hash):
            damage = damage or "header of another trailer"
        elif hash_differs(data[4096 : 4096 + 32 * records], records_hash):
            damage = damage or "records hash"
    elif header["flags"] & 2:
        records, damage = used_slots(data), damage or "cut"
        for i in range((size - 4096) // 32):
            magic, count = struct.unpack_from("<8sQ", data, 4096 + 32 * i)
            if magic == b"TAUTEND\n" and count == i:
                records, damage = i, "bytes behind the trailer"
                break
    else:
        records, damage = used_slots(data), damage or "not closed"
    return header, records, damage, data


class Group:
    """The samples of one run and phase."""

    def __init__(self):
        self.counts = dict.fromkeys(["records", *STATUS, "damaged"], 0)
        self.times = {name: array.array("Q") for name in ("service", "response", "lateness")}
        self.open_loop = False

    def add(self, record, closed_loop):
        intended, begin, received, _send, _session, status, phase = record
        self.counts["records"] += 1
        self.open_loop |= not closed_loop
        if record == (0, 0, 0, 0, 0, 0, 0):
            self.counts["empty"] += 1
            return
        sent = 1 <= status <= 4
        answered = status in (1, 2)
        if (
            not 1 <= status <= 6
            or phase not in PHASE
            or intended >= LIMIT
            or (sent and (begin >= LIMIT or (not closed_loop and begin < intended)))
            or (answered and (received >= LIMIT or received < begin))
        ):
            self.counts["damaged"] += 1
            return
        self.counts[STATUS[status]] += 1
        if sent:
            self.times["service"].append(received - begin if answered else INFINITE)
        if not closed_loop:
            self.times["response"].append(received - intended if answered else INFINITE)
            if sent:
                self.times["lateness"].append(begin - intended)


def figures(samples):
    samples = sorted(samples)
    n = len(samples)
    finite = [s for s in samples if s != INFINITE]
    result = {"n": n, "unanswered": n - len(finite)}
    result["min_ns"] = finite[0] if finite else None
    for name, ppm in QUANTILES.items():
        # Too few samples for that statement; the median is given from 5 on.
        if n < 5 if ppm == 500000 else n * (1000000 - ppm) < 10000000:
            result[name] = None
            continue
        value = samples[max(1, -(-ppm * n // 1000000)) - 1]
        result[name] = "inf" if value == INFINITE else value
    result["max_ns"] = finite[-1] if finite else None
    return result


def main(paths):
    files, groups = [], {}
    for path in paths:
        try:
            header, records, damage, data = read(path)
        except (OSError, Unreadable) as error:
            print(f"{path}: {error}", file=sys.stderr)
            files.append({"path": path, "damage": str(error)})
            continue
        files.append(
            {
                "path": path,
                "run": header["run"],
                "process": header["process"],
                "records": records,
                "damage": damage,
                "hashes": "checked" if XXH3 else "not checked",
            }
        )
        directory = os.path.realpath(os.path.dirname(path) or ".")
        for record in RECORD.iter_unpack(data[4096 : 4096 + 32 * records]):
            key = (directory, header["run"], record[6])
            groups.setdefault(key, Group()).add(record, bool(header["flags"] & 1))
    result = []
    for (directory, run, phase), group in sorted(groups.items()):
        entry = {"directory": directory, "run": run, "phase": PHASE.get(phase, "?")}
        entry["counts"] = group.counts
        for name, samples in group.times.items():
            defined = name == "service" or group.open_loop
            entry[name] = figures(samples) if defined else None
        result.append(entry)
    json.dump({"files": files, "groups": result}, sys.stdout, indent=2)
    print()
    return 1 if any(file["damage"] for file in files) else 0


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit("usage: read_traw.py FILE...")
    sys.exit(main(sys.argv[1:]))
