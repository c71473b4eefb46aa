#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""All checks of `./x lint`: each is run, each says how it went, one closing line sums them up.

usage: lint.py [CHECK...]       (all without one; --list tells their names)
"""
import ast
import os
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
import tree  # noqa: E402

ROOT = os.path.dirname(HERE)
CPUS = str(len(os.sched_getaffinity(0)))
GCC, CLANG = "build-gcc", "build-clang"


def at(*parts):
    return os.path.join(ROOT, *parts)


def run(command, **more):
    """(exit code, output) of a command in the root; a program that is not there is a finding."""
    try:
        done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              text=True, errors="replace", **more)
    except FileNotFoundError as error:
        return 127, "%s is not installed" % error.filename
    return done.returncode, done.stdout.strip()


def own(script, *args):
    """One of the checkers beside this file."""
    return run([sys.executable, at("tools", script), "--root", ROOT, *args])


def werror(directory, cc, cxx):
    """Everything built with every warning an error."""
    if not os.path.exists(at(directory, "build.ninja")):
        code, text = run(["meson", "setup", "-Dwerror=true", "-Dman=false", directory],
                         env=dict(os.environ, CC=cc, CXX=cxx))
        if code != 0:
            return code, "\n".join(text.splitlines()[-8:])
    code, text = run(["ninja", "--quiet", "-k", "0", "-j", CPUS, "-C", directory])
    # -k 0 shows all there is; what repeats in every file that includes a header is cut.
    return code, "\n".join(text.splitlines()[:80])


def check_format():
    sources = tree.files(ROOT, ".c", ".h", ".cpp")
    return run(["clang-format", "--dry-run", "-Werror", *sources])


def check_tidy():
    if not os.path.exists(at(CLANG, "compile_commands.json")):
        return 1, "no %s/compile_commands.json: the check `clang` comes first" % CLANG
    return own("tidy.py", "--build", at(CLANG), "--cache", at("build", ".tidy-cache"))


def check_cppcheck():
    cache = at("build", ".cppcheck")
    os.makedirs(cache, exist_ok=True)
    sources = [name for name in tree.files(ROOT, ".c") if name.startswith(("lib/", "lab/"))]
    return run(["cppcheck", "--quiet", "--enable=warning,performance,portability", "--std=c11",
                "--library=posix,gnu", "--inline-suppr", "--error-exitcode=1", "-j", CPUS,
                "--cppcheck-build-dir=" + cache, "--suppressions-list=" + at("tools", "cppcheck.txt"),
                "-D__x86_64__=1", "-D_GNU_SOURCE=1", "-Iinclude", "-Ilib", "-Ilab", *sources])


def check_man():
    library, program = at(GCC, "lib", "libtaut.so"), at(GCC, "taut")
    for made in (library, program):
        if not os.path.exists(made):
            return 1, "no %s: the check `gcc` comes first" % os.path.relpath(made, ROOT)
    return own("check_man.py", "--library", library, "--program", program)


def check_shell():
    return run(["shellcheck", *tree.scripts(ROOT, "bash", "/sh")])


def check_python():
    found = []
    for name in sorted(set(tree.files(ROOT, ".py")) | set(tree.scripts(ROOT, "python"))):
        try:
            ast.parse(tree.read(ROOT, name), name)
        except SyntaxError as error:
            found.append("%s:%s: %s" % (name, error.lineno, error.msg))
    return bool(found), "\n".join(found)


def check_spelling():
    names = [name for name in tree.files(ROOT) if not name.startswith("tests/fuzz/corpus/")]
    return run(["codespell", *names])


CHECKS = {
    "format": check_format,
    "rooms": lambda: own("check_rooms.py"),
    "headers": lambda: own("check_headers.py"),
    "text": lambda: own("check_text.py"),
    "waits": lambda: own("check_waits.py"),
    "shell": check_shell,
    "python": check_python,
    "spelling": check_spelling,
    "gcc": lambda: werror(GCC, "gcc", "g++"),
    "clang": lambda: werror(CLANG, "clang", "clang++"),
    "man": check_man,
    "cppcheck": check_cppcheck,
    "tidy": check_tidy,
}


def main(names):
    if names == ["--list"]:
        print("\n".join(CHECKS))
        return 0
    unknown = [name for name in names if name not in CHECKS]
    if unknown:
        print("lint: no check '%s'; there are: %s" % (unknown[0], " ".join(CHECKS)), file=sys.stderr)
        return 2
    failed = 0
    for name, check in CHECKS.items():
        if names and name not in names:
            continue
        begin = time.monotonic()
        code, text = check()
        took = time.monotonic() - begin
        if text:
            print(text)
        print("lint: %s %s (%.1f s)" % (name, "FAILED" if code else "ok", took), flush=True)
        failed += bool(code)
    print("%d passed, %d failed, 0 skipped" % (len(names or CHECKS) - failed, failed))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
