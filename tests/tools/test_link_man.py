#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""tools/link_man.py: the links beside installed pages."""
import os
import subprocess
import sys
import unittest

import support
from support import ROOT, TreeTest

sys.path.insert(0, os.path.join(ROOT, "tools"))
from check_man import public_functions  # noqa: E402


class Links(TreeTest):
    def link(self):
        os.makedirs(os.path.join(self.root, "share/man/man3"), exist_ok=True)
        subprocess.run([sys.executable, os.path.join(ROOT, "tools", "link_man.py"),
                        os.path.join(ROOT, "docs", "man"), "share/man"], check=True,
                       env=dict(os.environ, MESON_INSTALL_DESTDIR_PREFIX=self.root))

    def test_each_public_function_has_a_page(self):
        at = os.path.join(self.root, "share/man/man3")
        self.link()
        self.link()  # again: what is there is replaced
        declared, inline = public_functions(ROOT)
        for name in sorted(declared | inline):
            if name.startswith("taut__") or os.path.exists(os.path.join(ROOT, "docs/man", name + ".3.scd")):
                continue
            target = os.readlink(os.path.join(at, name + ".3"))
            self.assertTrue(os.path.exists(os.path.join(ROOT, "docs/man", target + ".scd")), name)


if __name__ == "__main__":
    sys.exit(support.main())
