# SPDX-License-Identifier: BSD-2-Clause
"""What the scripts of this directory share: running `taut`, FIX messages, golden outputs."""
import os
import subprocess

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
TAUT = os.environ["TAUT"]

OK, USAGE, BAD_VALUE, NO_FILE = 0, 2, 3, 4
DAMAGED, VERSION, GARBLED, WRITE = 11, 12, 16, 17


def taut(*arguments, cwd=None, data=b"", stdout=subprocess.PIPE):
    """Runs taut; no call may take long or end by a signal."""
    result = subprocess.run(
        [TAUT, *arguments], cwd=cwd, input=data, stdout=stdout, stderr=subprocess.PIPE, timeout=60
    )
    assert result.returncode >= 0, f"signal {-result.returncode}: {result.stderr[-2000:]}"
    return result


def golden(test, name, got):
    """Compares bytes with golden/NAME; UPDATE_GOLDEN=1 writes it instead, to be read by a human."""
    path = os.path.join(HERE, "golden", name)
    if os.environ.get("UPDATE_GOLDEN"):
        with open(path, "wb") as file:
            file.write(got)
    with open(path, "rb") as file:
        test.assertEqual(got.decode(), file.read().decode(), name)


def fix(body, begin=b"FIX.4.4", wrong_length=0, wrong_sum=0):
    """A message in wire form from body bytes that end with SOH."""
    head = b"8=" + begin + b"\x019=%d\x01" % (len(body) + wrong_length)
    total = (sum(head + body) + wrong_sum) % 256
    return head + body + b"10=%03d\x01" % total


def fields(text):
    """'35=0|34=1' -> bytes with SOH."""
    return text.encode("latin-1").replace(b"|", b"\x01") + b"\x01"
