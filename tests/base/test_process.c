/* SPDX-License-Identifier: BSD-2-Clause */
/* Generations of a process and thread ids, across forks and in threads. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/process.h"

static void the_generation_is_never_0_and_stays(void **state)
{
    (void)state;
    uint32_t generation = taut__process_generation_enter();
    assert_int_not_equal(generation, 0);
    for (int i = 0; i < 10; i++) {
        assert_int_equal(taut__process_generation_enter(), generation);
        assert_int_equal(taut__process_generation(), generation);
    }
}

/* Runs in the child: what its parent can see is the exit code. */
static int child_result(uint32_t parent_generation, int32_t parent_tid, int deeper)
{
    if (taut__process_generation() == parent_generation || taut__process_generation() == 0)
        return 1;
    if (taut__tid() != (int32_t)gettid() || taut__tid() == parent_tid)
        return 2;
    if (!deeper)
        return 0;
    uint32_t generation = taut__process_generation();
    pid_t grandchild = fork();
    if (grandchild == 0)
        _exit(taut__process_generation() == parent_generation
                  ? 3
                  : child_result(generation, taut__tid() == 0 ? 0 : parent_tid, 0));
    int status = 0;
    if (grandchild < 0 || waitpid(grandchild, &status, 0) != grandchild || !WIFEXITED(status))
        return 4;
    return WEXITSTATUS(status) != 0 ? 10 + WEXITSTATUS(status) : 0;
}

static void a_child_is_another_generation_and_another_thread(void **state)
{
    (void)state;
    uint32_t generation = taut__process_generation_enter();
    int32_t tid = taut__tid();
    assert_int_equal(tid, gettid());
    for (int i = 0; i < 3; i++) {
        pid_t child = fork();
        assert_true(child >= 0);
        if (child == 0)
            _exit(child_result(generation, tid, 1));
        int status = 0;
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_true(WIFEXITED(status));
        assert_int_equal(WEXITSTATUS(status), 0);
        assert_int_equal(taut__process_generation(), generation);
    }
    assert_int_equal(taut__tid(), gettid());
}

static void *read_tid(void *context)
{
    int32_t *result = context;
    result[0] = taut__tid();
    result[1] = taut__tid();
    result[2] = (int32_t)gettid();
    return NULL;
}

static void each_thread_has_its_own_id(void **state)
{
    (void)state;
    int32_t ids[2][3] = {{0}};
    for (int i = 0; i < 2; i++) {
        pthread_t thread;
        assert_int_equal(pthread_create(&thread, NULL, read_tid, ids[i]), 0);
        pthread_join(thread, NULL);
        assert_int_equal(ids[i][0], ids[i][2]);
        assert_int_equal(ids[i][1], ids[i][2]);
        assert_int_not_equal(ids[i][0], taut__tid());
    }
}

/* The first call of a whole process is in the child: no handler had been registered before. */
static void a_tid_read_before_any_object_is_renewed_in_a_child(void **state)
{
    (void)state;
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        int32_t own = taut__tid();
        pid_t grandchild = fork();
        if (grandchild == 0)
            _exit(taut__tid() == (int32_t)gettid() && taut__tid() != own ? 0 : 1);
        int status = 0;
        if (grandchild < 0 || waitpid(grandchild, &status, 0) != grandchild)
            _exit(2);
        _exit(WIFEXITED(status) ? WEXITSTATUS(status) : 3);
    }
    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_tid_read_before_any_object_is_renewed_in_a_child), /* first */
        cmocka_unit_test(the_generation_is_never_0_and_stays),
        cmocka_unit_test(a_child_is_another_generation_and_another_thread),
        cmocka_unit_test(each_thread_has_its_own_id),
    };
    return cmocka_run_group_tests_name("base/process", tests, NULL, NULL);
}
