#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""A rule without a test can rot: each checker of `./x lint` must refuse a tree that breaks it."""
import json
import os
import subprocess
import sys
import unittest
from unittest import mock

import support
from support import TreeTest, needs


class Rooms(TreeTest):
    tool = "check_rooms.py"

    def setUp(self):
        super().setUp()
        for name in ("err", "scan", "port", "gateway", "taut"):
            self.write("include/taut/%s.h" % name, "")
        for name in ("lib/base/check.h", "lib/fix/tags.h", "lib/port/port.h", "lab/capture/raw.h",
                     "lab/load/load.h", "lab/rig/rig.h", "lab/report/table.h", "lab/cli/cli.h"):
            self.write(name, "")

    def test_downwards_is_accepted(self):
        self.write("lib/fix/a.c", '#include <stdio.h>\n#include <taut/err.h>\n#include "base/check.h"\n'
                                  '#include "tags.h"\n')
        self.write("lab/load/a.c", '#include <taut/gateway.h>\n#include "capture/raw.h"\n')
        self.write("lab/cli/a.c", '#include "load/load.h"\n#include "rig/rig.h"\n')
        self.write("tests/fix/a.c", '#include "fix/tags.h"\n')
        self.write("examples/a.c", "#include <taut/taut.h>\n")
        self.assert_accepts(self.tool)

    def refuse(self, name, line, what):
        self.write(name, "/* first line */\n" + line + "\n")
        self.assert_refuses(what, self.tool)

    def test_upwards_in_lib(self):
        self.refuse("lib/fix/a.c", '#include "port/port.h"', "lib/fix/a.c:2: includes port/port.h")

    def test_upwards_by_a_public_header(self):
        self.refuse("lib/base/a.c", "#include <taut/scan.h>", "lib/fix is not below lib/base")

    def test_public_header_upwards(self):
        self.refuse("include/taut/err.h", "#include <taut/port.h>", "lib/port is not below lib/base")

    def test_odd_spelling_of_an_include(self):
        self.refuse("lib/fix/a.c", '  #  include   "port/port.h"', "includes port/port.h")

    def test_relative_path_upwards(self):
        self.refuse("lib/fix/a.c", '#include "../port/port.h"', "lib/port is not below lib/fix")

    def test_lib_uses_lab(self):
        self.refuse("lib/port/a.c", '#include "rig/rig.h"', "uses nothing outside lib/")

    def test_sideways_in_lab(self):
        self.refuse("lab/rig/a.c", '#include "capture/raw.h"', "lab/rig may not use lab/capture")

    def test_upwards_in_lab(self):
        self.refuse("lab/capture/a.c", '#include "load/load.h"', "lab/capture may not use lab/load")

    def test_anything_uses_cli(self):
        self.refuse("lab/load/a.c", '#include "cli/cli.h"', "lab/load may not use lab/cli")

    def test_report_is_a_leaf(self):
        self.refuse("lab/report/a.c", '#include "capture/raw.h"', "lab/report may not use")

    def test_example_looks_inside(self):
        self.refuse("examples/a.c", '#include "base/check.h"', "public headers only")

    def test_test_of_a_library_room_uses_lab(self):
        self.refuse("tests/port/a.c", '#include "load/load.h"', "do not need the laboratory")

    def test_room_without_a_place(self):
        self.write("lib/extra/extra.h", "")
        self.refuse("lib/extra/a.c", '#include "base/check.h"', "no place in the order of rooms")

    def test_public_header_without_an_owner(self):
        self.refuse("include/taut/other.h", "", "owns this header")

    def test_include_that_is_nowhere(self):
        self.refuse("lib/fix/a.c", '#include "base/cheque.h"', "is not in the tree")

    def test_include_in_a_comment_counts_for_nothing(self):
        self.write("lib/fix/a.c", '/* once it had\n#include "port/port.h"\n*/\n')
        self.assert_accepts(self.tool)


@needs("gcc", "clang", "g++", "clang++")
class Headers(TreeTest):
    tool = "check_headers.py"
    good = ("#ifndef TAUT_A_H\n#define TAUT_A_H\n#include <stdint.h>\n%s\n"
            "static inline uint32_t taut_a(void)\n{\n    return 1;\n}\n#endif\n")

    def refuse(self, line, what, name="include/taut/a.h"):
        self.write(name, self.good % line)
        self.assert_refuses(what, self.tool)

    def test_good_header(self):
        self.write("include/taut/a.h", self.good % "")
        self.write("lib/base/b.h", self.good % "")
        self.assert_accepts(self.tool)

    def test_needs_another_header(self):
        self.refuse("void taut_b(size_t n);", "not alone as gcc -std=c11")

    def test_needs_gnu_source(self):
        self.refuse("#include <sched.h>\nstatic inline int taut_c(void)\n{\n    return sched_getcpu();\n}",
                    "not alone as clang -std=c11")

    def test_is_no_cxx(self):
        self.refuse("struct taut_d {\n    int class;\n};", "not alone as g++ -std=c++17")

    def test_has_no_guard(self):
        self.write("include/taut/a.h", "struct taut_e {\n    int member;\n};\n")
        self.assert_refuses("not alone", self.tool)

    def test_warns(self):
        self.refuse("static inline char taut_f(int x)\n{\n    return x;\n}", "not alone as gcc -std=c11")

    def test_internal_header(self):
        self.refuse("void taut__b(size_t n);", "lib/base/b.h: not alone", "lib/base/b.h")


@needs("scdoc", "mandoc", "gcc", "nm")
class Man(TreeTest):
    tool = "check_man.py"
    page = "%s\n\n# NAME\n\n%s - does it\n\n# DESCRIPTION\n\nIt does.\n"

    def setUp(self):
        super().setUp()
        self.write("include/taut/a.h", "TAUT_API int taut_a(int x);\n"
                                       "TAUT_API const char *\ntaut_b(void);\n"
                                       "static inline int taut_c(void)\n{\n    return 1;\n}\n")
        self.write("docs/man/taut_a.3.scd", self.page % ("taut_a(3)", "taut_a, taut_b, taut_c"))
        self.write("lab/cli/cli.h", "enum cli_exit {\n    EXIT_OK = 0, /* x */\n    EXIT_USAGE = 2\n};\n")
        self.write("docs/man/taut.1.scd", "taut(1)\n\n# NAME\n\ntaut - command\n\n# EXIT STATUS\n\n"
                                          "*0*\n\tFine, not *1*.\n\n*2*\n\tWrong usage.\n\n# FILES\n\nNone.\n")
        self.write("docs/man/taut-fix-cat.1.scd", "taut-fix-cat(1)\n\n# NAME\n\ntaut-fix-cat - shows\n\n"
                                                  "# OPTIONS\n\n*--limit* _N_\n" "\tAt, not *--all*.\n\n# SEE ALSO\n\n*taut*(1)\n")
        self.library("int taut_a(int x) { return x; }\nconst char *taut_b(void) { return \"\"; }\n"
                     "__attribute__((visibility(\"hidden\"))) int taut__d(void) { return 1; }\n")
        self.program()

    def library(self, text):
        source = self.write("made/a.c", text)
        self.shared = os.path.join(self.root, "made", "libtaut.so")
        subprocess.run(["gcc", "-shared", "-fPIC", "-o", self.shared, source], check=True)

    def program(self, commands="fix cat", options="  --limit N   the most", code=0):
        lines = "\n".join("  taut %-16s shows" % command for command in commands.split(","))
        self.taut = self.write("made/taut", "#!/bin/sh\nif [ $# = 1 ]; then cat <<'E'\nusage: taut\n\n"
                               "%s\n\n`taut COMMAND --help` tells the options\nE\nelse cat <<'E'\n"
                               "usage: taut fix cat\n%s\n  --help      this\nE\nexit %d\nfi\n"
                               % (lines, options, code), 0o755)

    def args(self):
        return "--library", self.shared, "--program", self.taut

    def refuse(self, what):
        self.assert_refuses(what, self.tool, *self.args())

    def test_good_tree(self):
        self.assert_accepts(self.tool, *self.args())

    def test_symbol_without_a_page(self):
        self.write("docs/man/taut_a.3.scd", self.page % ("taut_a(3)", "taut_a, taut_c"))
        self.refuse("taut_b: no page")

    def test_inline_without_a_page(self):
        self.write("docs/man/taut_a.3.scd", self.page % ("taut_a(3)", "taut_a, taut_b"))
        self.refuse("taut_c: no page")

    def test_page_names_what_does_not_exist(self):
        self.write("docs/man/taut_z.3.scd", self.page % ("taut_z(3)", "taut_z"))
        self.refuse("names taut_z, which is not exported")

    def test_name_only_in_the_text_is_no_page(self):
        self.write("docs/man/taut_a.3.scd",
                   self.page % ("taut_a(3)", "taut_a, taut_c") + "\nSee taut_b.\n")
        self.refuse("taut_b: no page")

    def test_declared_but_not_exported(self):
        self.library("int taut_a(int x) { return x; }\n")
        self.refuse("taut_b: declared in a public header, but not exported")

    def test_exported_but_not_declared(self):
        self.library("int taut_a(int x) { return x; }\nconst char *taut_b(void) { return \"\"; }\n"
                     "int taut__leaked(void) { return 1; }\n")
        self.refuse("taut__leaked: exported, but no public header")

    def test_struct(self):
        struct = "struct taut_a_options {\n    uint32_t size; /* its own */\n};\n"
        header = "include/taut/b.h"
        self.write(header, struct)
        self.refuse("include/taut/b.h: struct taut_a_options is on no page docs/man/*.3.scd as it is here")
        page = self.page % ("taut_a(3)", "taut_a, taut_b, taut_c") + "\n# STRUCTURES\n\n```\n%s```\n"
        self.write("docs/man/taut_a.3.scd", page % struct)
        self.assert_accepts(self.tool, *self.args())
        self.write(header, struct.replace("its own", "of it"))
        self.refuse("struct taut_a_options is on no page")

    def test_reference(self):
        self.write("docs/man/taut_a.3.scd", self.page % ("taut_a(3)", "taut_a, taut_b, taut_c") +
                   "\n# SEE ALSO\n\n*taut_c*(3), *taut\\_a*(3), *taut*(1), *taut\\_d*(3)\n")
        self.refuse("docs/man/taut_a.3.scd: refers to taut\\_d(3), which is no page")

    def test_subcommand_without_a_page(self):
        self.program("fix cat,serve")
        self.refuse("no page docs/man/taut-serve.1.scd")

    def test_subcommand_whose_help_fails(self):
        self.program(code=2)
        self.refuse("--help: exit code 2")

    def test_option_not_told(self):
        self.program(options="  --limit N   the most\n  --other     other")
        self.refuse("does not tell --other")

    def test_option_told_that_is_not_there(self):
        self.program(options="")
        self.refuse("tells --limit, which the command does not have")

    def test_exit_code_missing(self):
        self.write("lab/cli/cli.h", "enum cli_exit { EXIT_OK = 0, EXIT_USAGE = 2, EXIT_MORE = 3 };\n")
        self.refuse("nothing on exit code 3 (EXIT_MORE)")

    def test_exit_code_too_many(self):
        self.write("lab/cli/cli.h", "enum cli_exit { EXIT_OK = 0 };\n")
        self.refuse("exit code 2 is not in lab/cli/cli.h")

    def test_page_that_is_no_scdoc(self):
        self.write("docs/man/taut_a.3.scd", "taut_a(3)\n\n# NAME\n\ntaut_a - a\n\n### too deep\n")
        self.refuse("scdoc:")

    def test_page_of_another_title(self):
        self.write("docs/man/taut_a.3.scd", self.page % ("taut_b(3)", "taut_a, taut_b, taut_c"))
        self.refuse("the first line must begin with taut_a(3)")


class Text(TreeTest):
    tool = "check_text.py"

    def refuse(self, name, text, what):
        self.write(name, text)
        self.assert_refuses(what, self.tool)

    def test_good_tree(self):
        self.write("tests/cli/golden/a.txt", "a column  \n")
        self.write("docs/a.md", "the directory /home is no one's path; /proc/self/root/x neither\n")
        self.assertEqual(self.assert_accepts(self.tool), "")

    def test_machine_path(self):
        self.refuse("lib/base/a.c", "open(\"/home/" "somebody/x\");\n", "a path of one machine")
        self.refuse("docs/a.md", "see /root/" "notes\n", "docs/a.md:1: '/root/" "notes'")

    def test_unfinished(self):
        for word in ("TO" "DO", "FIX" "ME", "XX" "X"):
            with self.subTest(word):
                self.refuse("lib/base/a.c", "int a;\n/* %s later */\n" % word, "a.c:2: '%s'" % word)

    def test_sizes(self):
        self.write("lib/base/a.c", "int a;\n" * 600)
        self.assertEqual(self.assert_accepts(self.tool), "")
        self.write("lib/base/a.c", "int a;\n" * 601)
        self.assertIn("note: lib/base/a.c: 601 lines", self.assert_accepts(self.tool))
        self.refuse("lib/base/a.c", "int a;\n" * 901, "901 lines, above 900")

    def test_layout(self):
        self.refuse("lib/base/a.c", "int a; \n", "white space at the end")
        self.refuse("lib/base/a.c", "int a;", "no newline at the end")


class Waits(TreeTest):
    tool = "check_waits.py"

    def refuse(self, text, what="an unbounded spin", name="lib/port/a.c"):
        self.write(name, "int before;\n" + text)
        self.assert_refuses(what, self.tool)
        self.assert_refuses(name + ":2: ", self.tool)
        os.remove(os.path.join(self.root, name))

    def accept(self, text, name="lib/port/a.c"):
        self.write(name, text)
        self.assert_accepts(self.tool)

    def test_calls(self):
        for name, what in (("sched_yield", "yield or sleep"), ("usleep", "yield or sleep"),
                           ("nanosleep", "a sleep outside lib/base"), ("sleep", "a sleep"),
                           ("clock_nanosleep", "a sleep outside lib/base"), ("_mm_pause", "a pause"),
                           ("__builtin_ia32_pause", "a pause"), ("pthread_cond_wait", "a condition"),
                           ("pthread_cond_timedwait", "a condition"), ("cnd_wait", "a condition"),
                           ("pthread_cond_clockwait", "a condition")):
            with self.subTest(name):
                self.write("tests/wait/a.c", "%s(x);\n" % name)
                self.refuse("%s (x);\n" % name, what, "bench/wait/a.cpp")
                self.accept("my_%s(x); /* not %s() */ f(\"%s(x)\");\n" % (name, name, name), "lab/rig/a.c")

    def test_yields_and_sleeps_in_disguise(self):
        self.refuse("syscall(SYS_sched_yield);\n", "yield or sleep")
        self.refuse("void (*rest)(void) = (void (*)(void))sched_yield;\n", "yield or sleep")
        self.refuse("poll(NULL, 0, 1);\n", "in the disguise")
        self.refuse("select(0, NULL, NULL, NULL, &soon);\n", "in the disguise")
        self.accept("poll(&fd, 1, 5);\nselect(fd + 1, &set, NULL, NULL, NULL);\n")

    def test_who_may(self):
        self.accept("sched_yield();\n_mm_pause();\n", "lib/wait/a.c")
        self.accept("clock_nanosleep(x);\n", "lib/base/a.c")
        self.refuse("clock_nanosleep(x);\n", "a sleep outside lib/base", "lib/wait/a.c")
        self.refuse("pthread_cond_wait(x);\n", "a condition variable", "lib/wait/a.c")
        fence = "atomic_thread_fence(memory_order_seq_cst);\n"
        self.refuse(fence, "a bare full fence", "lib/wait/a.c")
        self.refuse("__sync_synchronize();\n", "a bare full fence", "lab/a.c")
        self.accept(fence, "lib/base/fence.c")
        self.accept("atomic_thread_fence(memory_order_release);\n", "lib/wait/a.c")

    def test_assembly(self):
        for word in ("pause", "yield", "isb", "rep; nop", "wfe"):
            with self.subTest(word):
                self.refuse('__asm__ volatile("%s" ::: "memory");\n' % word, "a pause instruction")
        self.accept('__asm__ volatile("isb\\n\\tmrs %0, cntvct_el0" : "=r"(x));\n', "lib/base/a.c")
        self.accept('f("pause");\n')

    def test_spins(self):
        texts = ("while (atomic_load(&x) == 0);", "while (!atomic_load_explicit(&x, y))\n    ;",
                 "while (atomic_load(&x)) {\n}", "while (x.load()) { continue; }",
                 "while (atomic_load(&x))\n    taut__cpu_pause();",
                 "while (!ready(x)) {\n    cpu_relax();\n}",
                 "do {\n    taut__cpu_pause();\n} while (!atomic_load(&x));",
                 "do ; while (__atomic_load_n(&x, 2));", "for (; atomic_load(&x);)\n    ;",
                 "for (;;) {\n    if (atomic_load(&x))\n        break;\n    cpu_pause();\n}",
                 "while (1) {\n    uint32_t y = atomic_load(&x);\n    if (y == 1) {\n        return;\n"
                 "    }\n}", "while (atomic_exchange(&lock, 1)) ;",
                 "while (atomic_flag_test_and_set(&x)) /* soon */ ;",
                 "while (!atomic_compare_exchange_weak(&x, &zero, 1))\n    zero = 0;",
                 "while (tries-- && !atomic_load(&x)) ;", "while (taut_ring_peek(ring) == NULL) ;",
                 "while (!ready()) {\n}", "while (!flag) ;", "while (!x->flag) continue;",
                 "while (!atomic_load(&x))\n    (void)taut_now_ns();")
        for number, text in enumerate(texts):
            for room in ("lib/port", "lib/wait", "tests/port"):
                self.write("%s/a%d.c" % (room, number), text + "\n")
        _, out, _ = self.run_tool(self.tool)
        self.assertEqual(sorted(out.splitlines()), sorted(
            "lib/port/a%d.c:1: an unbounded spin: taut_wait(), or taut_spin_next()" % number
            for number in range(len(texts))))

    def test_loops_that_are_no_spin(self):
        self.write("lib/port/a.c", "int x;\n")
        for text in ("while (more > max && !atomic_compare_exchange_weak(&x, &max, more))\n    ;",
                     "while (!atomic_load(&x) && taut_spin_next(&spin))\n    ;",
                     "do {\n    taut__cpu_pause();\n} while (!atomic_load(&x) && taut_now_ns() < until);",
                     "while (!atomic_load(&x))\n    taut_wait(&event, seen, never, NULL, NULL);",
                     "while (atomic_load(&x)) {\n    work();\n}",
                     "for (i = 0; i < atomic_load(&x); i++)\n    sum += a[i];",
                     "for (;;) {\n    if (atomic_load(&x))\n        break;\n    poll(&fd, 1, -1);\n}",
                     "while (*p == ' ')\n    ;", "while (read_some(fd) == EINTR)\n    ;",
                     "while ((n = read_some(fd)) > 0)\n    ;", "while (skip(p++))\n    ;", "x = atomic_load(&y);\n", "/* while (atomic_load(&x)) ; */"):
            self.write("lib/port/a%d.c" % len(os.listdir(self.root + "/lib/port")), text + "\n")
        self.assert_accepts(self.tool)

    def test_excuses(self):
        self.accept("usleep(1); /* bare wait: once a second, off every hot path */\n")
        self.accept("/* bare wait: the control of this bench,\n * as it was. */\nwhile (atomic_load(&x)) ;\n")
        self.accept("for (;;) {\n    /* bare wait: the control */\n    sched_yield();\n}\n")
        self.accept("// bare wait: the control\nsched_yield();\n", "bench/wait/a.cpp")
        self.accept("/* x */\n/*\n * A bench.\n * bare wait: both sides spin.\n */\n#include <x.h>\nusleep(1);\n",
                    "bench/queue/a.c")

    def test_excuses_that_are_none(self):
        self.refuse("sched_yield(); /* bare wait: */\n", "a bare yield")
        self.refuse("sched_yield(); /* is all right */\n", "a bare yield")
        for name in ("lib/port/a.c", "lab/load/a.c"):
            self.write(name, "/* bare wait: this one */\nint x;\nsched_yield();\n")
            self.assert_refuses(name + ":3: a bare yield", self.tool)
        self.write("bench/port/a.c", "int y;\n/* bare wait: this one */\nint x;\nsched_yield();\n")
        self.assert_refuses("bench/port/a.c:4: a bare yield", self.tool)


@needs("clang", "clang-tidy")
class Tidy(TreeTest):
    tool = "tidy.py"

    def setUp(self):
        super().setUp()
        self.write(".clang-tidy", "Checks: '-*,clang-analyzer-core.*,bugprone-macro-parentheses'\n"
                                  "WarningsAsErrors: '*'\nHeaderFilterRegex: '.*'\n")
        self.write("lib/a.h", "#define TWICE(x) (2 * (x))\n")
        self.source = self.write("lib/a.c", '#include "a.h"\nint f(int x)\n{\n    return TWICE(x);\n}\n')
        self.write("build/compile_commands.json", json.dumps([{
            "directory": os.path.join(self.root, "build"), "file": "../lib/a.c",
            "command": "clang -c ../lib/a.c -o a.o"}]))

    def args(self):
        return "--build", os.path.join(self.root, "build"), "--cache", os.path.join(self.root, "cache")

    def test_clean_is_remembered_until_something_changes(self):
        self.assertIn("1 files, 0 unchanged", self.assert_accepts(self.tool, *self.args()))
        self.assertIn("1 files, 1 unchanged", self.assert_accepts(self.tool, *self.args()))
        self.write("lib/a.h", "#define TWICE(x) (2 * x)\n")
        self.assert_refuses("bugprone-macro-parentheses", self.tool, *self.args())

    def test_new_configuration_forgets(self):
        self.assert_accepts(self.tool, *self.args())
        self.write(".clang-tidy", "Checks: '-*,readability-identifier-length'\nWarningsAsErrors: '*'\n")
        self.assert_refuses("readability-identifier-length", self.tool, *self.args())

    def test_finding_is_never_remembered(self):
        self.write("lib/a.c", "int f(int *x)\n{\n    if (!x)\n        return *x;\n    return 0;\n}\n")
        self.assert_refuses("lib/a.c:4:16: error: Dereference", self.tool, *self.args())
        self.assert_refuses("lib/a.c:4:16: error: Dereference", self.tool, *self.args())

    def test_source_that_does_not_compile(self):
        self.write("lib/a.c", "int f( {\n")
        self.assert_refuses("lib/a.c", self.tool, *self.args())


class Driver(unittest.TestCase):
    """lint.py: all checks run, whatever one of them finds."""

    def lint(self, *names, checks=None):
        import lint
        with mock.patch.object(lint, "CHECKS", checks or lint.CHECKS), \
                mock.patch("sys.stdout") as out, mock.patch("sys.stderr"):
            code = lint.main(list(names))
        return code, "".join(call.args[0] for call in out.write.call_args_list)

    def test_a_finding_stops_nothing(self):
        code, text = self.lint(checks={"a": lambda: (1, "a.c: bad"), "b": lambda: (0, "")})
        self.assertEqual(code, 1)
        self.assertRegex(text, r"a\.c: bad\nlint: a FAILED \([\d.]+ s\)\nlint: b ok \([\d.]+ s\)\n"
                               r"1 passed, 1 failed, 0 skipped\n$")

    def test_all_well(self):
        code, text = self.lint(checks={"a": lambda: (0, "")})
        self.assertEqual(code, 0)
        self.assertTrue(text.endswith("1 passed, 0 failed, 0 skipped\n"))

    def test_unknown_check(self):
        self.assertEqual(self.lint("nonsense")[0], 2)

    def test_missing_program_is_a_finding(self):
        import lint
        self.assertEqual(lint.run(["no-such-program-here"]), (127, "no-such-program-here is not installed"))

    def test_python_that_is_none(self):
        import lint
        with mock.patch.object(lint.tree, "files", return_value=["a.py"]), \
                mock.patch.object(lint.tree, "scripts", return_value=[]), \
                mock.patch.object(lint.tree, "read", return_value="def f(:\n"):
            code, text = lint.check_python()
        self.assertTrue(code)
        self.assertIn("a.py:1:", text)


if __name__ == "__main__":
    sys.exit(support.main())
