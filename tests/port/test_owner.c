/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * One owner: who has polled a port is the only one to change it. Each call is made by another
 * thread in a child process, which has to end by SIGABRT, and by the owner, where it has to work.
 */
#include "support.h"

#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

struct scene {
    struct taut_port *port;
    struct taut_conn listener, conn;
    uint32_t buffer; /* a borrowed one */
    int pair[2], spare[2];
    void (*call)(struct scene *scene);
};

static void call_poll(struct scene *scene)
{
    struct taut_completion completion;
    taut_port_poll(scene->port, &completion, 1, 0);
}

static void call_send(struct scene *scene)
{
    taut_port_send(scene->port, scene->conn, "x", 1);
}

static void call_release(struct scene *scene)
{
    taut_port_release(scene->port, scene->buffer);
}

static void call_pause(struct scene *scene)
{
    taut_port_pause(scene->port, scene->conn, 1);
}

static void call_shutdown(struct scene *scene)
{
    taut_port_shutdown(scene->port, scene->conn);
}

static void call_close(struct scene *scene)
{
    taut_port_close(scene->port, scene->conn, 0);
}

static void call_set_user(struct scene *scene)
{
    taut_port_set_user(scene->port, scene->conn, 1);
}

static void call_adopt(struct scene *scene)
{
    struct taut_conn conn;
    taut_port_adopt(scene->port, scene->spare[0], 0, &conn, NULL);
}

static void call_connect(struct scene *scene)
{
    struct taut_conn conn;
    taut_port_connect(scene->port, "127.0.0.1", taut_port_local(scene->port, scene->listener), 0,
                      &conn, NULL);
}

static void call_listen(struct scene *scene)
{
    struct taut_conn conn;
    taut_port_listen(scene->port, "127.0.0.1", 0, 0, &conn, NULL);
}

/* These two are anybody's: the children that make them must live. */
static void call_wake(struct scene *scene)
{
    taut_port_wake(scene->port);
}

static void call_stats(struct scene *scene)
{
    struct taut_port_stats stats;
    taut_port_stats(scene->port, &stats);
}

static void *on_another_thread(void *argument)
{
    struct scene *scene = argument;
    scene->call(scene);
    return NULL;
}

static void *set_up(void *argument)
{
    struct scene *scene = argument;
    if (taut_port_create(&scene->port, NULL, NULL) ||
        taut_port_listen(scene->port, "127.0.0.1", 0, 0, &scene->listener, NULL))
        _exit(1);
    return NULL;
}

static void run_on_another_thread(void *(*function)(void *), struct scene *scene)
{
    pthread_t thread;
    if (pthread_create(&thread, NULL, function, scene) || pthread_join(thread, NULL))
        _exit(3);
}

/* In the child. Made and listening on a thread of its own, as is allowed, then polled here. */
static void play(void (*call)(struct scene *scene), uint32_t foreign)
{
    struct scene scene = {.call = call};
    struct taut_completion completion;
    const struct rlimit no_core = {0, 0};
    close(2);
    setrlimit(RLIMIT_CORE, &no_core);
    run_on_another_thread(set_up, &scene);
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, scene.pair) ||
        socketpair(AF_UNIX, SOCK_STREAM, 0, scene.spare) ||
        taut_port_adopt(scene.port, scene.pair[0], 0, &scene.conn, NULL) ||
        write(scene.pair[1], "x", 1) != 1 ||
        taut_port_poll(scene.port, &completion, 1, TAUT_NEVER_NS) != 1)
        _exit(4);
    scene.buffer = completion.buffer;
    if (foreign)
        run_on_another_thread(on_another_thread, &scene);
    else
        scene.call(&scene);
    _exit(0);
}

static int status_of(void (*call)(struct scene *scene), uint32_t foreign)
{
    int status;
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0)
        play(call, foreign);
    assert_int_equal(waitpid(child, &status, 0), child);
    return status;
}

static const struct {
    const char *name;
    void (*call)(struct scene *scene);
    uint32_t owners; /* 1: only the owner may */
} calls[] = {
    {"poll", call_poll, 1},         {"send", call_send, 1},         {"release", call_release, 1},
    {"pause", call_pause, 1},       {"shutdown", call_shutdown, 1}, {"close", call_close, 1},
    {"set_user", call_set_user, 1}, {"adopt", call_adopt, 1},       {"connect", call_connect, 1},
    {"listen", call_listen, 1},     {"wake", call_wake, 0},         {"stats", call_stats, 0},
};
#define CALLS (sizeof calls / sizeof calls[0])

static void test_another_thread_aborts(void **state)
{
    uint32_t wrong = 0;
    (void)state;
#ifdef NDEBUG
    print_message("skipped: the owner is not checked with NDEBUG\n");
    skip();
#endif
    for (uint32_t i = 0; i < CALLS; i++) {
        int status = status_of(calls[i].call, 1);
        uint32_t aborted = WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT;
        uint32_t lived = WIFEXITED(status) && WEXITSTATUS(status) == 0;
        if (calls[i].owners ? !aborted : !lived) {
            print_error("taut_port_%s: status %#x\n", calls[i].name, (unsigned)status);
            wrong++;
        }
    }
    assert_int_equal(wrong, 0);
}

static void test_the_owner_may(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < CALLS; i++)
        if (status_of(calls[i].call, 0) != 0)
            fail_msg("taut_port_%s fails for the owner", calls[i].name);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_another_thread_aborts),
        cmocka_unit_test(test_the_owner_may),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
