#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Rooms depend downwards only: reads every #include and refuses those that point up or sideways.

The table below is the architecture. A public header <taut/x.h> belongs to the library room that
implements it. An include in quotes must be found beside the file or from one of the roots lib/,
lab/, tests/, bench/; what is found nowhere is refused as well, so that no typo hides a dependency.
"""
import os
import re
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import tree  # noqa: E402

# Room -> the rooms right below it; what those may use is allowed too.
LIB = {
    "base": [],
    "wait": ["base"],
    "queue": ["wait"],
    "pool": ["queue"],
    "fix": ["base"],
    "port": ["wait", "queue", "fix"],
    "gateway": ["port", "pool"],
}
# Within lab a room names all it may use there; all of lib is below.
LAB = {
    "rig": [],
    "capture": [],
    "probe": [],
    "stall": [],
    "report": [],
    "load": ["capture", "report"],
    "trial": ["capture", "probe", "rig", "report"],
    "tune": ["trial", "capture", "probe", "rig", "report"],
    "cli": ["rig", "capture", "probe", "stall", "report", "load", "trial", "tune"],
}
PUBLIC = {
    "err": "base", "clock": "base", "log": "base", "topology": "base",
    "wait": "wait", "event": "wait", "lock": "wait", "span": "base",
    "queue": "queue", "team": "pool", "tasks": "pool", "placement": "pool",
    "scan": "fix", "number": "fix", "encode": "fix", "dictionary": "fix", "session": "fix",
    "store": "fix", "settings": "fix",
    "port": "port", "tls": "port", "gateway": "gateway", "taut": "gateway",
}
# The one look upwards: taut/taut.h includes all rooms and declares taut_version(), made here.
EXCEPTIONS = {("lib/base/version.c", "taut/taut.h")}
INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*([<"])([^>"]+)[>"]', re.M)
COMMENT = re.compile(r"/\*.*?\*/", re.S)


def below(room):
    """A library room and everything it may use."""
    reached = {room}
    for lower in LIB[room]:
        reached |= below(lower)
    return reached


def owner(path):
    """('lib'|'lab'|'tests'|..., room) of a path in the tree."""
    parts = path.split("/")
    if parts[:2] == ["include", "taut"]:
        return "lib", PUBLIC.get(parts[-1].rsplit(".", 1)[0])
    return parts[0], parts[1] if len(parts) > 2 else None


def resolve(root, name, kind, target):
    """The path in the tree that an include means, None for a system header or an unknown one."""
    if kind == "<":
        return "include/" + target if target.startswith("taut/") else None
    for place in (os.path.dirname(name), "lib", "lab", "include", "tests", "bench", "."):
        path = os.path.normpath(os.path.join(place, target))
        if os.path.isfile(os.path.join(root, path)):
            return path
    return None


def allowed(user, used):
    """None, or why `user` (area, room) may not include a header of `used`."""
    area, room = user
    to_area, to_room = used
    if area == "lib":
        if room not in LIB:
            return "lib/%s has no place in the order of rooms (tools/check_rooms.py)" % room
        if to_area != "lib":
            return "the library uses nothing outside lib/"
        if to_room not in below(room):
            return "lib/%s is not below lib/%s" % (to_room, room)
    elif area == "lab":
        if room not in LAB:
            return "lab/%s has no place in the order of rooms (tools/check_rooms.py)" % room
        if to_area not in ("lib", "lab"):
            return "lab uses lib and lab only"
        if to_area == "lab" and to_room != room and to_room not in LAB[room]:
            return "lab/%s may not use lab/%s" % (room, to_room)
    elif area == "examples":
        if to_area not in ("lib", "examples"):
            return "an example shows what a user can do: public headers only"
    elif area == "tests" and room in LIB:
        if to_area == "lab":
            return "tests of a library room do not need the laboratory"
    return None


def check(args):
    found = []
    for name in tree.files(args.root, ".c", ".h", ".cpp", ".cc", ".hpp"):
        user = owner(name)
        if user[0] == "lib" and user[1] is None:
            found.append("%s: no room of tools/check_rooms.py owns this header" % name)
            continue
        # Blank comments, keeping their newlines: an include in one is no dependency.
        text = COMMENT.sub(lambda hit: "\n" * hit.group(0).count("\n"), tree.read(args.root, name))
        for hit in INCLUDE.finditer(text):
            line = text.count("\n", 0, hit.start(1)) + 1
            kind, target = hit.groups()
            path = resolve(args.root, name, kind, target)
            if path is None:
                if kind == '"' and not target.endswith((".skel.h", ".inc")):
                    found.append("%s:%d: \"%s\" is not in the tree" % (name, line, target))
                continue
            if user[0] == "examples" and kind == '"' and not path.startswith("examples/"):
                found.append("%s:%d: %s: an example uses public headers only" % (name, line, target))
                continue
            why = allowed(user, owner(path))
            if why and (name, target) not in EXCEPTIONS:
                found.append("%s:%d: includes %s: %s" % (name, line, target, why))
    return found


if __name__ == "__main__":
    tree.main(check, __doc__)
