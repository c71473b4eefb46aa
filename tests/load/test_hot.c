/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What a message costs beside its work: no allocation, and one send. Counted over a client that
 * runs in this process against a server in another one: ten times as many messages must not make
 * one allocation more.
 */
#include <signal.h>
#include <sys/wait.h>

#include "support.h"

#if defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define SANITIZED 1
#endif
#endif
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANITIZED 1
#endif

#ifndef SANITIZED
static _Atomic uint64_t allocations;

void *__libc_malloc(size_t size);
void *__libc_calloc(size_t count, size_t size);
void *__libc_realloc(void *memory, size_t size);
void *malloc(size_t size);
void *calloc(size_t count, size_t size);
void *realloc(void *memory, size_t size);

void *malloc(size_t size)
{
    atomic_fetch_add_explicit(&allocations, 1, memory_order_relaxed);
    return __libc_malloc(size);
}

void *calloc(size_t count, size_t size)
{
    atomic_fetch_add_explicit(&allocations, 1, memory_order_relaxed);
    return __libc_calloc(count, size);
}

void *realloc(void *memory, size_t size)
{
    atomic_fetch_add_explicit(&allocations, 1, memory_order_relaxed);
    return __libc_realloc(memory, size);
}

/* A server in a process of its own: its allocations are not counted here. */
static pid_t start_echo(uint16_t *port_number)
{
    static const _Atomic uint32_t never;
    int listener = listen_any(port_number);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0)
        echo_until(listener, &never, 0);
    close(listener);
    return pid;
}

static uint64_t count_allocations(uint64_t messages, struct taut_port_stats *port)
{
    char folder[256];
    struct load_plan plan;
    struct load_control control;
    make_folder(folder, sizeof(folder));
    make_plan(&plan, folder, 8, 1, 1, messages, messages);
    pid_t server = start_echo(&plan.port_number);
    assert_int_equal(load_control_create(&control, &plan, NULL), 0);
    uint64_t before = atomic_load(&allocations);
    assert_int_equal(load_client_run(&control, 0), LOAD_FINE);
    uint64_t made = atomic_load(&allocations) - before;
    assert_true(atomic_load(&control.processes[0].answered) == 8 * 2 * messages);
    *port = control.processes[0].port;
    kill(server, SIGKILL);
    waitpid(server, NULL, 0);
    load_control_destroy(&control);
    remove_folder(&plan);
    return made;
}

static void a_message_allocates_nothing(void **state)
{
    struct taut_port_stats port;
    (void)state;
    count_allocations(20, &port); /* a process reads once, at its first event, where it may spin */
    uint64_t few = count_allocations(200, &port);
    uint64_t many = count_allocations(2000, &port);
    assert_true(few > 0); /* the counter counts */
    assert_true(many == few);
    /* One send a message, and none of them in pieces. */
    assert_true(port.sends == 8 * 2 * 2000);
    assert_true(port.sends_short == 0);
}
#else
static void a_message_allocates_nothing(void **state)
{
    (void)state;
    print_message("skipped: sanitizers bring their own malloc\n");
    skip();
}
#endif

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_message_allocates_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
