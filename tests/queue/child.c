/* SPDX-License-Identifier: BSD-2-Clause */
/* tests/queue/child.c - steps in a child process of their own. */
#include "child.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <signal.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

int child_signal(int (*run)(void *context), void *context, int *code)
{
    fflush(NULL);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        (void)freopen("/dev/null", "w", stderr);
        signal(SIGABRT, SIG_DFL);
        _exit(run(context));
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    *code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
    return WIFSIGNALED(status) ? WTERMSIG(status) : 0;
}

struct misuse {
    void (*run)(void *context);
    void *context;
};

static int run_misuse(void *context)
{
    const struct misuse *misuse = context;
    misuse->run(misuse->context);
    return 0;
}

int child_aborts(void (*misuse)(void *context), void *context)
{
    struct misuse it = {misuse, context};
    int code;
    return child_signal(run_misuse, &it, &code) == SIGABRT;
}
