#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""What is built and what is documented are the same.

- Every function that libtaut exports, and every inline one that a public header defines, is named in
  the NAME section of a page docs/man/*.3.scd; every name there exists.
- Every function that a public header declares is exported.
- Each public struct of options, reports, statistics, policies and items stands in the STRUCTURES section
  of such a page, word for word as in the header.
- Every page of ours that another refers to is one, or the NAME of one.
- Every subcommand of `taut` has --help, and a page docs/man/taut-WORDS.1.scd that tells each of its
  options and none besides; the exit codes of lab/cli/cli.h are those that taut(1) lists in bold, each on a line of its own.
- Every page passes scdoc and mandoc -Tlint.
"""
import os
import re
import subprocess
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import tree  # noqa: E402

COMMENT = re.compile(r"/\*.*?\*/|//[^\n]*", re.S)
DECLARED = re.compile(r"TAUT_API\b[^;{]*?\b(taut_\w+)\s*\(")
INLINE = re.compile(r"static inline[^;{]*?\b(taut_\w+)\s*\(")
STRUCT = re.compile(r"^struct (taut_\w+_(?:options|report|stats|policy|item)) \{\n(?:.*\n)*?\};\n", re.M)
REFERENCE = re.compile(r"\*(taut[\w\\-]*)\*\((\d)\)")
EXIT = re.compile(r"\b(EXIT_\w+)\s*=\s*(\d+)")
# mandoc's own opinions on what scdoc writes; nothing a page's author could change.
NOISE = re.compile(r"outdated mandoc\.db|referenced manual not found|"
                   r"skipping paragraph macro|line scope broken|missing date|cannot parse date|"
                   r"operating system")


def name_section(text):
    """The names before the dash in the NAME section of an scdoc page."""
    hit = re.search(r"^# NAME\n+(.*?)(?=^# |\Z)", text, re.M | re.S)
    names = re.split(r"\s-\s", hit.group(1), 1)[0] if hit else ""
    return [name.strip().strip("*_").replace("\\_", "_") for name in names.replace("\n", " ").split(",")
            if name.strip()]


def public_functions(root):
    """(declared with TAUT_API, static inline) over all public headers."""
    declared, inline = set(), set()
    for name in tree.files(root, ".h"):
        if name.startswith("include/"):
            text = COMMENT.sub("", tree.read(root, name))
            declared |= set(DECLARED.findall(text))
            inline |= set(INLINE.findall(text))
    return declared, inline


def exported(library):
    listed = subprocess.run(["nm", "-D", "--defined-only", library], check=True,
                            stdout=subprocess.PIPE, text=True).stdout
    return {fields[2].split("@")[0] for fields in map(str.split, listed.splitlines())
            if len(fields) == 3 and fields[1] in "TtDBRVWi"}


def check_library(root, library):
    found = []
    symbols = exported(library)
    declared, inline = public_functions(root)
    named = {}
    for page in tree.files(root, ".3.scd"):
        for name in name_section(tree.read(root, page)):
            named.setdefault(name, page)
    for name in sorted(symbols - declared):
        found.append("%s: exported, but no public header declares it with TAUT_API" % name)
    for name in sorted(declared - symbols):
        found.append("%s: declared in a public header, but not exported" % name)
    # taut__x is what inline functions of a header call: exported, declared, and nobody else's.
    for name in sorted((symbols | inline) - set(named)):
        if name.startswith("taut__"):
            continue
        found.append("%s: no page docs/man/*.3.scd has it in its NAME section" % name)
    for name in sorted(set(named) - symbols - inline):
        found.append("%s: names %s, which is not exported" % (named[name], name))
    return found


def check_structs(root):
    pages = [tree.read(root, page) for page in tree.files(root, ".3.scd")]
    return ["%s: struct %s is on no page docs/man/*.3.scd as it is here" % (name, struct.group(1))
            for name in tree.files(root, ".h") if name.startswith("include/")
            for struct in STRUCT.finditer(tree.read(root, name))
            if not any(struct.group(0) in page for page in pages)]


def check_references(root):
    found, pages = [], tree.files(root, ".scd")
    known = {(name, page.rsplit(".", 2)[1]) for page in pages
             for name in name_section(tree.read(root, page)) + [os.path.basename(page).split(".")[0]]}
    for page in pages:
        for name, section in sorted(set(REFERENCE.findall(tree.read(root, page)))):
            if (name.replace("\\", ""), section) not in known:
                found.append("%s: refers to %s(%s), which is no page" % (page, name, section))
    return found


def subcommands(program):
    text = subprocess.run([program, "--help"], check=True, stdout=subprocess.PIPE, text=True).stdout
    return [hit.strip() for hit in re.findall(r"^  taut ((?:[a-z-]+ ?){1,2})\s", text, re.M)]


def options_of_help(text):
    return set(re.findall(r"(?<![\w-])--[a-z][a-z-]*", text))


def options_of_page(text):
    """Options that the OPTIONS section defines: paragraphs that begin with one in bold."""
    hit = re.search(r"^# OPTIONS\n(.*?)(?=^# |\Z)", text, re.M | re.S)
    section = hit.group(1) if hit else ""
    return {option for line in section.splitlines() if re.match(r"\*?-", line)
            for option in options_of_help(line)}


def check_program(root, program):
    found = []
    for words in subcommands(program):
        shown = subprocess.run([program] + words.split() + ["--help"], stdout=subprocess.PIPE,
                               stderr=subprocess.STDOUT, text=True)
        if shown.returncode != 0 or "usage" not in shown.stdout.lower():
            found.append("taut %s --help: exit code %d, or no usage" % (words, shown.returncode))
            continue
        page = "docs/man/taut-%s.1.scd" % words.replace(" ", "-")
        if not os.path.isfile(os.path.join(root, page)):
            found.append("taut %s: no page %s" % (words, page))
            continue
        told, real = options_of_page(tree.read(root, page)), options_of_help(shown.stdout)
        found += ["%s: does not tell %s in OPTIONS" % (page, name)
                  for name in sorted(real - told - {"--help"})]
        found += ["%s: tells %s, which the command does not have" % (page, name)
                  for name in sorted(told - real)]
    return found


def check_exit_codes(root):
    header, page = "lab/cli/cli.h", "docs/man/taut.1.scd"
    real = {int(code): name for name, code in EXIT.findall(tree.read(root, header))}
    section = re.search(r"^# EXIT STATUS\n(.*?)(?=^# |\Z)", tree.read(root, page), re.M | re.S)
    rows = re.findall(r"^\*(\d+)\*$", section.group(1) if section else "", re.M)
    told = {int(code) for code in rows}
    found = ["%s: nothing on exit code %d (%s)" % (page, code, real[code])
             for code in sorted(set(real) - told)]
    found += ["%s: exit code %d is not in %s" % (page, code, header)
              for code in sorted(told - set(real))]
    return found


def check_pages(root):
    found = []
    for page in tree.files(root, ".scd"):
        text = tree.read(root, page)
        title = "%s(%s)" % tuple(os.path.basename(page)[:-len(".scd")].rsplit(".", 1))
        if not text.startswith(title):
            found.append("%s: the first line must begin with %s" % (page, title))
        made = subprocess.run(["scdoc"], input=text.encode(), stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE)
        if made.returncode != 0:
            found.append("%s: scdoc: %s" % (page, made.stderr.decode().strip()))
            continue
        linted = subprocess.run(["mandoc", "-Tlint", "-W", "warning"], input=made.stdout,
                                stdout=subprocess.PIPE, stderr=subprocess.STDOUT).stdout.decode()
        found += ["%s: %s" % (page, line) for line in linted.splitlines() if not NOISE.search(line)]
    return found


def check(args):
    found = (check_pages(args.root) + check_exit_codes(args.root) + check_structs(args.root) +
             check_references(args.root))
    if args.library:
        found += check_library(args.root, args.library)
    if args.program:
        found += check_program(args.root, args.program)
    return found


def options(parser):
    parser.add_argument("--library", help="libtaut.so")
    parser.add_argument("--program", help="the taut program")


if __name__ == "__main__":
    tree.main(check, __doc__, options)
