#include "tools/cli/origins.h"

#include "base/buf.h"
#include "base/spawn.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

#define ANSWER_BYTES (64 << 10)

/* pip has no command that prints the index that it would use: `pip config get` knows nothing of the
 * default. Its command objects have read the configuration files, the environment and the
 * default. */
static const char ask_pip[] =
    "from pip._internal.commands import create_command\n"
    "o, _ = create_command('download').parse_args([])\n"
    "print('cafile', o.cert or '')\n"
    "for u in [] if o.no_index else [o.index_url] + o.extra_index_urls: print('url', u)\n";

static const char ask_hub[] = "from huggingface_hub.constants import ENDPOINT\n"
                              "print('url', ENDPOINT)\n";

static void add_origin(struct origins *o, const char *url, size_t n)
{
    while (n && url[n - 1] == '/')
        n--;
    if (!n || n >= ORIGIN_SIZE || o->n == ORIGINS_MAX)
        return;
    memcpy(o->url[o->n], url, n);
    o->url[o->n++][n] = '\0';
}

/* Lines "url ADDRESS" and "cafile PATH". */
static void read_answer(struct origins *o, const char *text)
{
    for (; *text; text += strcspn(text, "\n"), text += *text == '\n') {
        size_t n = strcspn(text, "\n");
        if (n > 4 && !strncmp(text, "url ", 4))
            add_origin(o, text + 4, n - 4);
        else if (n > 7 && n - 7 < sizeof o->cafile && !strncmp(text, "cafile ", 7))
            snprintf(o->cafile, sizeof o->cafile, "%.*s", (int)(n - 7), text + 7);
    }
}

static void read_to_end(int fd, struct steno_buf *out)
{
    char bytes[4096];
    for (;;) {
        ssize_t n = read(fd, bytes, sizeof bytes);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0 || steno_buf_add(out, bytes, (size_t)n))
            return;
    }
}

/* Run a script with python3 and read what it prints. No python3, or a module that it lacks: nothing
 * is added. */
static void ask_python(struct origins *o, const char *script)
{
    char name[] = "python3", command[] = "-c";
    char *argv[] = {name, command, strdup(script), NULL};
    struct steno_buf answer;
    pid_t pid;
    int ends[2], rc;
    if (!argv[2] || pipe(ends)) {
        free(argv[2]);
        return;
    }
    rc = steno_spawn(&pid, name, true, argv, environ, -1, ends[1]);
    free(argv[2]);
    close(ends[1]);
    steno_buf_init(&answer, ANSWER_BYTES);
    if (!rc)
        read_to_end(ends[0], &answer);
    close(ends[0]);
    if (!rc && waitpid(pid, &rc, 0) == pid && WIFEXITED(rc) && !WEXITSTATUS(rc) && answer.data)
        read_answer(o, answer.data);
    steno_buf_free(&answer);
}

static steno_status find_list(struct origins *out, const char *given, const char *variable,
                              const char *script, const char *none, steno_err *err)
{
    memset(out, 0, sizeof *out);
    if (!given || !*given)
        given = getenv(variable);
    if (given && *given)
        add_origin(out, given, strlen(given));
    else
        ask_python(out, script);
    if (!out->n)
        return steno_fail(err, STENO_ERR_UNSUPPORTED, "%s", none);
    if (!*out->cafile && getenv("PIP_CERT"))
        snprintf(out->cafile, sizeof out->cafile, "%s", getenv("PIP_CERT"));
    return STENO_OK;
}

steno_status origins_of_packages(struct origins *out, const char *given, steno_err *err)
{
    return find_list(
        out, given, "PIP_INDEX_URL", ask_pip,
        "no package index is known: install python3-pip, or name an index with --index URL "
        "or PIP_INDEX_URL",
        err);
}

steno_status origins_of_hub(struct origins *out, const char *given, steno_err *err)
{
    return find_list(out, given, "HF_ENDPOINT", ask_hub,
                     "no model hub is known: give its address with --hub URL or HF_ENDPOINT", err);
}
