#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Waits belong to lib/wait: everybody else waits through it, on a descriptor, or until a deadline.

Refused outside lib/wait and tests/:

- sched_yield, usleep and their relatives, poll(2) and select(2) on nothing; nanosleep and clock_nanosleep also outside lib/base, whose
  taut_sleep_until_ns() sleeps to an absolute deadline;
- the CPU's pause instruction, as an intrinsic or in assembly;
- condition variables, in lib/wait as well: their wake-ups can be lost, and their deadlines are another
  clock's;
- a full fence outside lib/base/fence.c: one half of a wait whose other half is elsewhere;
- a loop that does nothing but pause, or look (at an atomic, a flag, what a function says), until that
  changes. A loop that asks taut_spin_next() or the clock, and looks at the answer, has an end and passes;
  so does one around a compare and swap that repeats because of others' progress.

A place may be excused by a comment that says why, on its line, right above it, or within the loop:
/* bare wait: REASON */.
A benchmark whose matter is spinning may say so once, in the comment that opens the file.
"""
import os
import re
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import tree  # noqa: E402

EXCUSE = re.compile(r"bare wait:\s*\w+")
# (what, where it may stand, why not elsewhere)
CALLS = (
    (re.compile(r"\b(?:(?:SYS_|__NR_)?sched_yield|usleep|pthread_yield|thrd_yield)\b"),
     ("lib/wait/", "tests/"), "a bare yield or sleep outside lib/wait"),
    (re.compile(r"\bp?poll\s*\(\s*NULL\b|\bp?select\s*\(\s*0\s*,"), ("tests/",),
     "a sleep in the disguise of poll(2) or select(2)"),
    (re.compile(r"\b(?:clock_nanosleep|nanosleep|thrd_sleep|sleep)\s*\("), ("lib/base/", "tests/"),
     "a sleep outside lib/base: taut_sleep_until_ns(), or the wait primitive"),
    (re.compile(r"\b(?:_mm_pause|__builtin_ia32_pause|__yield|__builtin_arm_yield)\s*\("),
     ("lib/wait/", "tests/"), "a pause instruction outside lib/wait"),
    (re.compile(r"\b(?:pthread_cond_(?:timed|clock)?wait|cnd_(?:timed)?wait)\s*\("), ("tests/",),
     "a condition variable: an event of taut/wait.h"),
    (re.compile(r"\batomic_thread_fence\s*\(\s*memory_order_seq_cst\b|\b__sync_synchronize\s*\("),
     ("lib/base/fence.c", "tests/"), "a bare full fence: taut__full_fence(), which a test can replace"),
)
PAUSE_ASM = re.compile(r'\b(?:__asm__|asm|__asm)\b[^;"]*"\s*(?:pause|yield|isb|wfe|rep;?\s*nop)\s*"')
SPIN_ROOMS = ("lib/wait/", "tests/")

ATOMIC = re.compile(r"\b(?:atomic_(?:load|exchange|fetch|compare_exchange|flag_test_and_set)\w*|"
                    r"__atomic_\w+|__sync_\w+)\s*\(|\.load\s*\(|\.exchange\s*\(")
SWAP = re.compile(r"compare_exchange|compare_and_swap")
# The clock counts where somebody looks at what it says.
BOUNDED = re.compile(r"\b(?:taut_+spin_next|taut_+wait|taut_+futex_wait)\s*\(|"
                     r"(?<!\(void\))\btaut_+now_ns\s*\(")
# A condition that only looks: a call or a flag, nothing that it changes.
LOOKS = re.compile(r"\w\s*\(|^\(\s*!?\s*[\w.>-]+\s*\)$")
CHANGES = re.compile(r"\+\+|--|(?<![=!<>])=(?!=)")
LOOP = re.compile(r"\b(while|for|do)\b")
PAUSE = re.compile(r"\b\w*(?:pause|relax|yield)\w*\s*\(", re.I)
# What an idle body may consist of, taken away one after another.
IDLE = (
    re.compile(r"\bif\s*@\s*(?:break|return|goto)\b[^;{}]*;"),
    re.compile(r"\bif\s*@\s*\{\s*(?:break|return|goto)\b[^;{}]*;\s*\}"),
    re.compile(r"\b\w*(?:pause|relax|yield)\w*\s*@\s*;", re.I),
    re.compile(r"(?:\b[\w\s*]+\s)?\b\w+\s*=\s*(?:[\w.]+|[\w.]+\s*@)\s*;"),
    re.compile(r"@\s*taut_+now_ns\s*@\s*;"),  # (void)taut_now_ns();
    re.compile(r"\b__asm__\b[^;]*;"),
    re.compile(r"\bcontinue\s*;"),
)


def blank(text):
    """The text without comments and what is in strings, as long as before, line by line."""
    def spaces(match):
        word = match.group(0)
        if word[0] in "\"'":
            return word[0] + re.sub(r"[^\n]", " ", word[1:-1]) + word[-1]
        return re.sub(r"[^\n]", " ", word)
    return re.sub(r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'', spaces, text, flags=re.S)


def closing(code, at):
    """Behind the bracket that closes the one at `at`; the end where none does."""
    pairs, depth = {"(": ")", "{": "}"}, 0
    for i in range(at, len(code)):
        if code[i] == code[at]:
            depth += 1
        elif code[i] == pairs[code[at]]:
            depth -= 1
            if depth == 0:
                return i + 1
    return len(code)


def skip(code, at):
    while at < len(code) and code[at].isspace():
        at += 1
    return at


def statement(code, at):
    """(begin, end) of the simple or compound statement at `at`."""
    at = skip(code, at)
    if code[at:at + 1] == "{":
        return at, closing(code, at)
    end = at
    while end < len(code) and code[end] != ";":
        end = closing(code, end) if code[end] in "({" else end + 1
    return at, end + 1


def idle(body):
    """Whether a loop's body only passes the time: looks, leaves, pauses."""
    folded, i = "", 0
    while i < len(body):
        if body[i] == "(":
            i = closing(body, i)
            folded += "@"
        else:
            folded += body[i]
            i += 1
    for piece in IDLE:
        folded = piece.sub(" ", folded)
    return not re.sub(r"[\s;{}]", "", folded)


def spins(code):
    """(begin, end) of loops that pass the time and have no end of their own."""
    found, taken = [], set()
    for match in LOOP.finditer(code):
        at = match.start()
        if at in taken:
            continue
        if match.group(1) == "do":
            begin, end = statement(code, match.end())
            tail = skip(code, end)
            if not code.startswith("while", tail):
                continue
            taken.add(tail)
            condition = code[skip(code, tail + 5):closing(code, skip(code, tail + 5))]
            body = code[begin:end]
        else:
            bracket = skip(code, match.end())
            if code[bracket:bracket + 1] != "(":
                continue
            condition = code[bracket:closing(code, bracket)]
            begin, end = statement(code, bracket + len(condition))
            body = code[begin:end]
            if match.group(1) == "for":
                parts = condition[1:-1].split(";")
                if len(parts) != 3:
                    continue
        whole = condition + body
        if BOUNDED.search(whole) or not idle(body):
            continue
        if PAUSE.search(body):
            found.append((at, end))
            continue
        if not ATOMIC.search(whole):
            # A system call that is begun again is no spin.
            if match.group(1) != "for" and "EINTR" not in condition and \
                    LOOKS.search(condition) and not CHANGES.search(whole):
                found.append((at, end))
            continue
        endless = re.fullmatch(r"\(\s*(?:1|true|;\s*;)\s*\)", condition)
        if not endless and not ATOMIC.search(condition):
            continue
        if SWAP.search(whole) and not re.search(r"\w\s*=\s*\w+\s*;", body):
            continue
        found.append((at, end))
    return found


def excused(lines, plain, number):
    """A reason on the line (1-based) or in the comment that ends right above."""
    at = number - 1
    if EXCUSE.search(lines[at]):
        return True
    at -= 1
    while at >= 0 and lines[at].strip() and not plain[at].strip():
        if EXCUSE.search(lines[at]):
            return True
        at -= 1
    return False


def check_file(name, text):
    code = blank(text)
    lines, plain = text.split("\n"), code.split("\n")
    if name.startswith("bench/") and EXCUSE.search(text[:skip(code, 0)]):
        return []
    hits = []
    for pattern, rooms, why in CALLS:
        if not name.startswith(rooms):
            hits += [(code.count("\n", 0, match.start()) + 1, why) for match in pattern.finditer(code)]
    if not name.startswith(SPIN_ROOMS):
        # In assembly the instruction is a string: looked for in the text.
        hits += [(text.count("\n", 0, match.start()) + 1, "a pause instruction outside lib/wait")
                 for match in PAUSE_ASM.finditer(text) if code[match.start()].strip()]
        hits += [(code.count("\n", 0, at) + 1, "an unbounded spin: taut_wait(), or taut_spin_next()")
                 for at, end in spins(code) if not EXCUSE.search(text[at:(text + "\n").find("\n", end)])]
    return ["%s:%d: %s" % (name, number, why) for number, why in sorted(set(hits))
            if not excused(lines, plain, number)]


def check(args):
    found = []
    for name in tree.files(args.root, ".c", ".h", ".cpp"):
        found += check_file(name, tree.read(args.root, name))
    return found


if __name__ == "__main__":
    tree.main(check, __doc__)
