/* SPDX-License-Identifier: BSD-2-Clause */
/* tests/queue/child.h - steps in a child process of their own, which may end by abort(3). */
#ifndef TESTS_QUEUE_CHILD_H
#define TESTS_QUEUE_CHILD_H

/* 0 when `run` returned and the exit code is its result; SIGABRT etc. where a signal ended it. */
int child_signal(int (*run)(void *context), void *context, int *code);

/* 1: it ends by abort(3). What it says there goes nowhere. */
int child_aborts(void (*misuse)(void *context), void *context);

#endif
