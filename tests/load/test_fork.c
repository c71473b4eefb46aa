/* SPDX-License-Identifier: BSD-2-Clause */
/* A client process that can't be forked: one clear error, and nobody else in the process group is
 * touched. Linked with --wrap=fork. */
#include <errno.h>
#include <signal.h>

#include "support.h"

static int forks, fails_at;

pid_t __real_fork(void);
pid_t __wrap_fork(void);

pid_t __wrap_fork(void)
{
    if (++forks == fails_at) {
        errno = EAGAIN;
        return -1;
    }
    return __real_fork();
}

static void a_fork_that_fails(void **state)
{
    (void)state;
    for (fails_at = 1; fails_at <= 3; fails_at++) {
        struct load_plan plan;
        struct load_control control;
        struct load_result result;
        struct taut_err err = {0};
        struct load_crew_options options = {.house_cpu = LOAD_UNBOUND};
        char folder[64], text[64];
        uint16_t port_number;
        int listener = listen_any(&port_number);
        forks = 0;
        make_folder(folder, sizeof(folder));
        make_plan(&plan, folder, 3, 3, 1, 0, 1000);
        plan.port_number = port_number;
        options.port_number = &port_number;
        assert_int_equal(load_control_create(&control, &plan, &err), 0);
        assert_int_equal(load_crew_run(&control, &options, &result, &err), TAUT_EAGAIN);
        snprintf(text, sizeof(text), "can't start client process %d", fails_at - 1);
        assert_non_null(strstr(err.text, text));
        assert_int_equal(forks, fails_at); /* no further one is tried */
        load_control_destroy(&control);
        remove_folder(&plan);
        close(listener);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(a_fork_that_fails)};
    setpgid(0, 0); /* a signal to "everybody in the group" must not reach who runs the tests */
    return cmocka_run_group_tests(tests, NULL, NULL);
}
