/* What a process may do after steno_sandbox_enter: each case is a child that tries one thing. */
/* link: engine/tools/decode/sandbox.c */
/* ldflags: -Wl,--no-as-needed -lseccomp -Wl,--as-needed */
#include "tools/decode/sandbox.h"
#include "tests/support/test.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define GOOD 7 /* exit status of a child that could do what it tried */
#define REFUSED 8
#define NO_SANDBOX 9

static int result(bool good)
{
    return good ? GOOD : REFUSED;
}

static int read_and_write(void)
{
    char b;
    return result(read(0, &b, 1) == 1 && write(1, &b, 1) == 1);
}

static int write_elsewhere(void)
{
    return result(write(2, "x", 1) == 1);
}

static int open_file(void)
{
    return result(open("/etc/passwd", O_RDONLY) >= 0);
}

static int open_socket(void)
{
    return result(socket(AF_INET, SOCK_STREAM, 0) >= 0);
}

static int start_process(void)
{
    return result(fork() >= 0);
}

static int run_program(void)
{
    execl("/bin/true", "true", (char *)NULL);
    return REFUSED;
}

static int kill_parent(void)
{
    return result(!kill(getppid(), 0));
}

static int map_code(void)
{
    return result(mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) !=
                  MAP_FAILED);
}

static int take_memory(size_t bytes)
{
    char *p = malloc(bytes);
    if (p)
        p[bytes / 2] = 1;
    return result(p != NULL);
}

static int take_some_memory(void)
{
    return take_memory((size_t)16 << 20);
}

static int take_much_memory(void)
{
    return take_memory((size_t)300 << 20);
}

__attribute__((noreturn)) static int never_end(void)
{
    for (volatile unsigned i = 0;; i++)
        ;
}

/* Exit status of a child that enters the sandbox and tries fn; -SIGNAL when it was killed. */
static int try(int (*fn)(void))
{
    int in[2], out[2], status;
    pid_t pid;
    assert_int_equal(pipe(in), 0);
    assert_int_equal(pipe(out), 0);
    assert_int_equal(write(in[1], "xyz", 3), 3);
    fflush(NULL);
    pid = fork();
    assert_true(pid >= 0);
    if (!pid) {
        if (dup2(in[0], 0) || dup2(out[1], 1) != 1)
            _exit(1);
        _exit(steno_sandbox_enter(1, (size_t)64 << 20, NULL) ? NO_SANDBOX : fn());
    }
    while (waitpid(pid, &status, 0) < 0)
        ;
    for (int i = 0; i < 2; i++) {
        close(in[i]);
        close(out[i]);
    }
    return WIFSIGNALED(status) ? -WTERMSIG(status) : WEXITSTATUS(status);
}

static void a_sandboxed_process_reads_writes_and_allocates(void **state)
{
    (void)state;
    assert_int_equal(try(read_and_write), GOOD);
    assert_int_equal(try(take_some_memory), GOOD);
}

static void it_reaches_nothing_else(void **state)
{
    (void)state;
    assert_int_equal(try(open_file), REFUSED);
    assert_int_equal(try(write_elsewhere), -SIGSYS);
    assert_int_equal(try(open_socket), -SIGSYS);
    assert_int_equal(try(start_process), -SIGSYS);
    assert_int_equal(try(run_program), -SIGSYS);
    assert_int_equal(try(kill_parent), -SIGSYS);
    assert_int_equal(try(map_code), -SIGSYS);
}

static void memory_and_processor_time_are_limited(void **state)
{
    (void)state;
    assert_int_equal(try(take_much_memory), REFUSED);
    assert_int_equal(try(never_end), -SIGXCPU);
}

/* The child tells its number, then waits in the sandbox for input that never comes. */
static void it_ends_with_its_parent(void **state)
{
    int up[2], in[2];
    char b;
    pid_t parent;
    (void)state;
    assert_int_equal(pipe(up), 0);
    assert_int_equal(pipe(in), 0);
    parent = fork();
    if (!parent) {
        if (!fork()) {
            dup2(in[0], 0);
            dup2(up[1], 1);
            close(in[1]);
            if (steno_sandbox_enter(5, (size_t)64 << 20, NULL))
                _exit(1);
            (void)!write(1, "r", 1);
            (void)!read(0, &b, 1);
            _exit(0);
        }
        close(up[1]);
        pause();
    }
    close(up[1]);
    assert_int_equal(read(up[0], &b, 1), 1); /* it waits */
    kill(parent, SIGKILL);
    waitpid(parent, NULL, 0);
    assert_int_equal(read(up[0], &b, 1), 0); /* and is gone: nobody holds the pipe */
    close(up[0]);
    close(in[0]);
    close(in[1]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_sandboxed_process_reads_writes_and_allocates),
        cmocka_unit_test(it_reaches_nothing_else),
        cmocka_unit_test(memory_and_processor_time_are_limited),
        cmocka_unit_test(it_ends_with_its_parent),
    };
#ifdef STENO_SANITIZE
    printf("1..0 # SKIP builds with sanitizers have no sandbox\n");
    return 0;
#endif
    return cmocka_run_group_tests(tests, NULL, NULL);
}
