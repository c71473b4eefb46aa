#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""clang-tidy over a compilation database, in parallel, remembering what was clean.

usage: tidy.py --build DIR --cache DIR [--root DIR]

A file is skipped when nothing that decides its findings has changed since it was clean: its own
bytes, those of the tree's headers it includes, its command, the configuration, the version.
"""
import concurrent.futures
import hashlib
import json
import os
import shlex
import subprocess
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import tree  # noqa: E402


def digest_file(path):
    with open(path, "rb") as data:
        return hashlib.sha256(data.read()).hexdigest()


def dependencies(entry):
    """Files that the unit includes, system headers aside."""
    words = shlex.split(entry["command"])
    for flag in ("-o", "-MF", "-MQ"):
        if flag in words:
            at = words.index(flag)
            del words[at:at + 2]
    words = [word for word in words if word not in ("-c", "-MD")]
    made = subprocess.run(words + ["-MM"], cwd=entry["directory"], stdout=subprocess.PIPE,
                          stderr=subprocess.DEVNULL, text=True)
    if made.returncode != 0:
        return None
    names = made.stdout.replace("\\\n", " ").split(":", 1)[1].split()
    return [os.path.join(entry["directory"], name) for name in names]


def configuration(root, path):
    """Digests of every .clang-tidy from the file's directory up to the root."""
    parts, at = [], os.path.dirname(path)
    while at.startswith(root):
        name = os.path.join(at, ".clang-tidy")
        if os.path.exists(name):
            parts.append(digest_file(name))
        at = os.path.dirname(at)
    return " ".join(parts)


def key_of(entry, config):
    needed = dependencies(entry)
    if needed is None:
        return None
    parts = [config, entry["command"]] + [digest_file(name) for name in sorted(needed)]
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()


def tidy(entry, args, config):
    """(findings, skipped)"""
    path = os.path.normpath(os.path.join(entry["directory"], entry["file"]))
    key = key_of(entry, config + configuration(args.root, path))
    mark = os.path.join(args.cache, key) if key else None
    if mark and os.path.exists(mark):
        return [], True
    done = subprocess.run(["clang-tidy", "--quiet", "-p", args.build, path], cwd=args.root,
                          stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    found = [line for line in done.stdout.splitlines() if line.strip()]
    if done.returncode == 0 and not found:
        if mark:
            open(mark, "w").close()
        return [], False
    name = os.path.relpath(path, args.root)
    text = "\n".join(found)
    for prefix in (os.path.join(entry["directory"], "..", ""), args.root + "/", "../"):
        text = text.replace(prefix, "")
    return [text or "%s: clang-tidy ended with %d and said nothing" % (name, done.returncode)], False


def check(args):
    args.root = os.path.abspath(args.root)
    with open(os.path.join(args.build, "compile_commands.json"), encoding="utf-8") as text:
        database = json.load(text)
    known = set(tree.files(args.root, ".c"))
    entries = {}
    for entry in database:
        path = os.path.normpath(os.path.join(entry["directory"], entry["file"]))
        if os.path.relpath(path, args.root) in known:
            entries.setdefault(path, entry)  # one target is enough where a file is built for several
    os.makedirs(args.cache, exist_ok=True)
    version = subprocess.run(["clang-tidy", "--version"], stdout=subprocess.PIPE, check=True).stdout
    config = hashlib.sha256(version).hexdigest()
    found, skipped = [], 0
    with concurrent.futures.ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        for lines, cached in pool.map(lambda entry: tidy(entry, args, config), entries.values()):
            # A finding in a header comes once for each file that includes it.
            found += [line for line in lines if line not in found]
            skipped += cached
    print("note: %d files, %d unchanged since they were clean" % (len(entries), skipped),
          file=sys.stderr)
    return found


def options(parser):
    parser.add_argument("--build", required=True)
    parser.add_argument("--cache", required=True)


if __name__ == "__main__":
    tree.main(check, __doc__, options)
