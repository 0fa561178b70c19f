/* steno top: show a running server in a terminal. It asks the administrator's socket every few
 * seconds. The terminal needs only the ANSI sequences for clearing and cursor position (ECMA-48).
 */
#include "base/clock.h"
#include "tools/cli/options.h"
#include "tools/cli/top_view.h"

#include <errno.h>
#include <jansson.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sysexits.h>
#include <termios.h>
#include <time.h>
#include <unistd.h>

#define DEFAULT_SOCKET "/run/steno/admin.sock"
#define ANSWER_BYTES (64 << 20)

static const char usage[] =
    "Usage: steno top [OPTION]...\n"
    "Shows the state of a running stenod: streams, capacity, latency, batch sizes. The server's\n"
    "configuration names the socket (server.admin). In a terminal, q quits and space updates at\n"
    "once. Elsewhere the same is printed as plain text, one block per interval.\n";

static volatile sig_atomic_t stopped;

static void on_signal(int sig)
{
    (void)sig;
    stopped = 1;
}

/* ---- the socket ---------------------------------------------------------------------------- */

static int connect_to(const char *path, steno_err *err)
{
    struct sockaddr_un addr = {.sun_family = AF_UNIX};
    int fd;
    if (strlen(path) >= sizeof addr.sun_path) {
        (void)steno_fail(err, STENO_ERR_INVAL, "%.80s...: longer than %zu bytes", path,
                         sizeof addr.sun_path - 1);
        return -1;
    }
    memcpy(addr.sun_path, path, strlen(path) + 1);
    fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd >= 0 && !connect(fd, (const struct sockaddr *)&addr, sizeof addr))
        return fd;
    (void)steno_fail(err, STENO_ERR_IO, "%s: %s (server.admin in the server's configuration)", path,
                     strerror(errno));
    if (fd >= 0)
        close(fd);
    return -1;
}

/* Read one line of answer, without its line end. */
static steno_status ask(int fd, struct steno_buf *line, steno_err *err)
{
    static const char question[] = "status\n";
    steno_buf_reset(line);
    if (send(fd, question, sizeof question - 1, MSG_NOSIGNAL) != sizeof question - 1)
        return steno_fail(err, STENO_ERR_IO, "the server is gone");
    for (;;) {
        char part[16384];
        ssize_t n = recv(fd, part, sizeof part, 0);
        if (n < 0 && errno == EINTR && !stopped)
            continue;
        if (n <= 0)
            return steno_fail(err, stopped ? STENO_ERR_CANCELLED : STENO_ERR_IO,
                              "the server is gone");
        if (steno_buf_add(line, part, (size_t)n))
            return steno_fail(err, STENO_ERR_NOMEM, "the answer has more than %d bytes",
                              ANSWER_BYTES);
        if (part[n - 1] == '\n') {
            line->data[--line->len] = '\0';
            return STENO_OK;
        }
    }
}

static steno_status look_at_server(int fd, struct steno_buf *line, json_t **out, steno_err *err)
{
    json_error_t je;
    steno_status st = ask(fd, line, err);
    if (st)
        return st;
    *out = json_loadb(line->data, line->len, 0, &je);
    return *out ? STENO_OK : steno_fail(err, STENO_ERR_FORMAT, "the server's answer: %s", je.text);
}

/* ---- the terminal -------------------------------------------------------------------------- */

struct screen {
    bool on, keys;
    struct termios before;
};

static void put_screen(const char *s, size_t n)
{
    while (n) {
        ssize_t k = write(STDOUT_FILENO, s, n);
        if (k < 0 && errno == EINTR)
            continue;
        if (k <= 0)
            return;
        s += k;
        n -= (size_t)k;
    }
}

static void screen_open(struct screen *s)
{
    struct termios raw;
    s->on = true;
    s->keys = !tcgetattr(STDIN_FILENO, &s->before);
    if (s->keys) {
        raw = s->before;
        raw.c_lflag &= ~(tcflag_t)(ICANON | ECHO);
        (void)tcsetattr(STDIN_FILENO, TCSANOW, &raw);
    }
    put_screen("\033[?1049h\033[?25l", 14); /* alternate screen, no cursor */
}

static void screen_close(struct screen *s)
{
    if (!s->on)
        return;
    put_screen("\033[?25h\033[?1049l", 14);
    if (s->keys)
        (void)tcsetattr(STDIN_FILENO, TCSANOW, &s->before);
    s->on = false;
}

static void draw_screen(const struct steno_buf *text)
{
    struct winsize w = {.ws_col = 80, .ws_row = 24};
    struct steno_buf out;
    (void)ioctl(STDOUT_FILENO, TIOCGWINSZ, &w);
    steno_buf_init(&out, ANSWER_BYTES);
    /* cursor home, lines with the rest of each cleared, then the rest of the screen: no flicker */
    if (!steno_buf_puts(&out, "\033[H") &&
        !top_fit(&out, text->data, w.ws_col ? w.ws_col : 80, w.ws_row > 1 ? w.ws_row - 1 : 23,
                 "\033[K\r\n") &&
        !steno_buf_puts(&out, "\033[J"))
        put_screen(out.data, out.len);
    steno_buf_free(&out);
}

/* Wait. False when the user quits. */
static bool pause_for(const struct screen *s, double seconds)
{
    struct pollfd p = {.fd = s->keys ? STDIN_FILENO : -1, .events = POLLIN};
    char key = 0;
    int n = poll(&p, 1, (int)(seconds * 1e3));
    if (n > 0 && read(STDIN_FILENO, &key, 1) <= 0)
        return false;
    return !stopped && key != 'q' && key != 'Q';
}

/* ---- the command --------------------------------------------------------------------------- */

struct top {
    int fd;
    bool once, json;
    double interval;
    struct screen screen;
    struct steno_buf line, text;
    json_t *before;
    int64_t before_ns;
};

static steno_status show(struct top *t, steno_err *err)
{
    json_t *now = NULL;
    int64_t ns = steno_now_ns();
    steno_status st = look_at_server(t->fd, &t->line, &now, err);
    if (st)
        return st;
    steno_buf_reset(&t->text);
    if (t->json)
        st = steno_buf_printf(&t->text, "%s\n", t->line.data);
    else
        st = top_view(&t->text, now, t->before, (double)(ns - t->before_ns) * 1e-9, err);
    if (!st && !t->screen.on && !t->json && t->before)
        put_screen("\n", 1);
    if (!st && t->screen.on)
        draw_screen(&t->text);
    else if (!st)
        put_screen(t->text.data, t->text.len);
    json_decref(t->before);
    t->before = now;
    t->before_ns = ns;
    return st;
}

static int run_top(struct top *t)
{
    struct sigaction sa = {.sa_handler = on_signal};
    steno_err err = {STENO_OK, ""};
    steno_status st;
    sigaction(SIGINT, &sa, NULL);
    sigaction(SIGTERM, &sa, NULL);
    sigaction(SIGHUP, &sa, NULL);
    signal(SIGPIPE, SIG_IGN);
    if (!t->once && !t->json && isatty(STDOUT_FILENO))
        screen_open(&t->screen);
    do {
        st = show(t, &err);
    } while (!st && !t->once && pause_for(&t->screen, t->interval));
    screen_close(&t->screen);
    return st && !stopped ? cli_fail(&err) : EX_OK;
}

int cli_top(int argc, char **argv)
{
    const char *path = getenv("STENO_ADMIN"), *none[1];
    struct top t = {.interval = 2};
    const struct cli_option options[] = {
        {"--socket", CLI_TEXT, "PATH", &path, 0, 0,
         "the server's socket ($STENO_ADMIN, else " DEFAULT_SOCKET ")"},
        {"--once", CLI_FLAG, NULL, &t.once, 0, 0,
         "print one update: figures since the server's start"},
        {"--json", CLI_FLAG, NULL, &t.json, 0, 0, "the server's answers unchanged, one per line"},
        {"--interval", CLI_REAL, "S", &t.interval, 0, 0, "seconds between two updates (2)"},
        {NULL, CLI_FLAG, NULL, NULL, 0, 0, NULL}};
    steno_err err;
    int n = 0, rc = cli_parse(argc, argv, usage, options, none, 0, &n);
    if (rc)
        return rc;
    if (t.interval < 0.1 || t.interval > 86400)
        return cli_usage("--interval: %g is outside 0.1..86400", t.interval);
    t.fd = connect_to(path && *path ? path : DEFAULT_SOCKET, &err);
    if (t.fd < 0)
        return cli_fail(&err);
    steno_buf_init(&t.line, ANSWER_BYTES);
    steno_buf_init(&t.text, ANSWER_BYTES);
    rc = run_top(&t);
    json_decref(t.before);
    steno_buf_free(&t.line);
    steno_buf_free(&t.text);
    close(t.fd);
    return rc;
}
