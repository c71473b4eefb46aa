#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# Instructions a scan and an encoded message take, against tests/fix/callgrind.budget.
#
# usage: callgrind.sh BENCH_SCAN BUDGET_FILE COMPILER OPTIMIZATION
#
# Each subject runs twice, with different counts; the difference of the two instruction counts is
# that of the operations alone, start-up and end fall out. Exit: 0 within the budgets, 1 above one,
# 77 where valgrind is missing or the build's code is not what the budgets are for.
set -eu

bench=$1
budgets=$2
few=500
many=2500

skip() {
    echo "skipped: $1"
    exit 77
}

command -v valgrind >/dev/null 2>&1 || skip "no valgrind"
[ "$3 $4" = "gcc 2" ] || skip "the budgets are for gcc -O2, this build is $3 -O$4"
[ "$(uname -m)" = x86_64 ] || skip "the budgets are for x86-64"

# count SUBJECT N: instructions of `bench_scan --once SUBJECT N`.
count() {
    valgrind --tool=callgrind --callgrind-out-file=/dev/null "$bench" --once "$1" "$2" 2>&1 |
        sed -n 's/.*Collected : *//p'
}

checked=0
above=0
while read -r subject budget; do
    case $subject in '' | '#'*) continue ;; esac
    status=0
    "$bench" --once "$subject" 1 >/dev/null 2>&1 || status=$?
    if [ "$status" -eq 77 ]; then
        echo "$subject: not on this CPU"
        continue
    fi
    a=$(count "$subject" "$few")
    b=$(count "$subject" "$many")
    if [ -z "$a" ] || [ -z "$b" ]; then
        echo "$subject: valgrind gave no count"
        exit 1
    fi
    each=$(((b - a) / (many - few)))
    verdict=within
    if [ "$each" -le 0 ] || [ "$each" -gt "$budget" ]; then
        verdict=ABOVE
        above=1
    fi
    echo "$subject: $each instructions, budget $budget: $verdict"
    checked=$((checked + 1))
done <"$budgets"
[ "$checked" -gt 0 ] || { echo "no budget was checked"; exit 1; }
exit "$above"
