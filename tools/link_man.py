#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""At installation: each name that a page of section 3 has in its NAME section becomes a link to it.

usage: link_man.py PAGES MANDIR      (MANDIR is below MESON_INSTALL_DESTDIR_PREFIX, unless absolute)
"""
import glob
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from check_man import name_section  # noqa: E402


def main():
    pages, mandir = sys.argv[1:]
    at = os.path.join(os.environ["MESON_INSTALL_DESTDIR_PREFIX"], mandir, "man3")
    for page in sorted(glob.glob(os.path.join(pages, "*.3.scd"))):
        title = os.path.basename(page)[:-len(".scd")]
        with open(page, encoding="utf-8") as text:
            names = name_section(text.read())
        for name in names:
            link = os.path.join(at, name + ".3")
            if name + ".3" == title:
                continue
            if os.path.lexists(link):
                os.unlink(link)
            os.symlink(title, link)


if __name__ == "__main__":
    main()
