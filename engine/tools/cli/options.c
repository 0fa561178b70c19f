#include "tools/cli/options.h"
#include "base/list.h"
#include "base/path.h"
#include "nn/kernels/peak.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sysexits.h>

#define HELP_COLUMN 25
#define HELP_WIDTH 100

void cli_list_free(struct cli_list *l)
{
    free(l->v);
    l->v = NULL;
    l->n = 0;
}

/* Length up to the line end, or to the last blank with which the line fits. */
static size_t line_length(const char *about)
{
    size_t len = strcspn(about, "\n"), at = HELP_WIDTH - HELP_COLUMN;
    if (len <= at)
        return len;
    while (at > 0 && about[at] != ' ')
        at--;
    return at ? at : len;
}

static void print_option(const struct cli_option *o)
{
    char head[128];
    const char *about = o->about;
    int n;
    if (o->kind == CLI_HEADING || o->kind == CLI_COMMANDS) {
        printf("\n%s\n", o->name);
        return;
    }
    n = o->kind == CLI_FLAG ? snprintf(head, sizeof head, "  %s", o->name)
                            : snprintf(head, sizeof head, "  %s %s", o->name, o->arg);
    if (n < HELP_COLUMN - 1)
        printf("%-*s", HELP_COLUMN, head);
    else
        printf("%s\n%*s", head, HELP_COLUMN, "");
    for (;;) {
        size_t len = line_length(about);
        printf("%.*s\n", (int)len, about);
        if (!about[len])
            return;
        about += len + 1;
        printf("%*s", HELP_COLUMN, "");
    }
}

static bool choose_value(const struct cli_option *o, const char *s)
{
    int k = 0;
    size_t n = strlen(s);
    for (const char *p = o->arg; *p; p += strcspn(p, "|"), p += *p == '|', k++)
        if (strcspn(p, "|") == n && !strncmp(p, s, n)) {
            *(int *)o->to = k;
            return true;
        }
    (void)cli_usage("%s: '%s' is none of %s", o->name, s, o->arg);
    return false;
}

static bool real(const struct cli_option *o, const char *s)
{
    char *end;
    double v;
    errno = 0;
    v = strtod(s, &end);
    if (errno || end == s || *end || !isfinite(v) || v < (double)o->min) {
        (void)cli_usage("%s: '%s' is not a number of at least %ld", o->name, s, o->min);
        return false;
    }
    *(double *)o->to = v;
    return true;
}

static bool append_to_list(struct cli_list *l, const char *s)
{
    const char **p = realloc(l->v, ((size_t)l->n + 1) * sizeof *p);
    if (!p) {
        fputs("steno: out of memory\n", stderr);
        return false;
    }
    l->v = p;
    l->v[l->n++] = s;
    return true;
}

static bool set_value(const struct cli_option *o, const char *s)
{
    switch (o->kind) {
    case CLI_FLAG:
        *(bool *)o->to = true;
        return true;
    case CLI_TEXT:
        *(const char **)o->to = s;
        return true;
    case CLI_NUMBER:
        return cli_int(o->name, s, o->min, o->max, o->to);
    case CLI_REAL:
        return real(o, s);
    case CLI_CHOICE:
        return choose_value(o, s);
    default:
        return append_to_list(o->to, s);
    }
}

/* What cli_parse has read: by row, the name of the option if it was given, else NULL. */
static const char *given[CLI_MAX_OPTIONS];

bool cli_given(const char *name)
{
    for (int i = 0; i < CLI_MAX_OPTIONS; i++)
        if (given[i] && !strcmp(given[i], name))
            return true;
    return false;
}

int cli_idle(const char *command, const char *options, const char *why)
{
    for (int i = 0; i < CLI_MAX_OPTIONS; i++)
        if (given[i] && steno_list_holds(options, given[i]))
            return cli_usage("%s: %s %s", command, given[i], why);
    return EX_OK;
}

/* Check that the options that were given do something for the subcommand: EX_OK, or EX_USAGE with
 * the reason printed. */
static int check_subcommand(const char *command, const struct cli_option *options, const char *sub)
{
    const char *owners = NULL;
    for (int i = 0; options[i].name && i < CLI_MAX_OPTIONS; i++) {
        if (options[i].kind == CLI_COMMANDS)
            owners = options[i].name;
        else if (given[i] && owners && !steno_list_holds(owners, sub))
            return cli_usage("%s %s: %s is an option of %s", command, sub, given[i], owners);
    }
    return EX_OK;
}

static void print_help(const char *usage, const struct cli_option *options)
{
    fputs(usage, stdout);
    puts("");
    for (int i = 0; options[i].name; i++)
        print_option(&options[i]);
}

static int say_unknown_option(const struct cli_option *options, const char *arg)
{
    const char *best = NULL;
    size_t alike = 0;
    char name[64];
    snprintf(name, sizeof name, "%.*s", (int)strcspn(arg, "="), arg);
    for (int i = 0; options[i].name; i++)
        if (*options[i].name == '-')
            cli_note_similar(options[i].name, name, &best, &alike);
    return cli_usage(best ? "unknown option %s (%s is known)" : "unknown option %s", name, best);
}

/* Take "--name value" or "--name=value", which stands at argv[*at]; *at: behind it. */
static int take_option(int argc, char **argv, const struct cli_option *options, int *at)
{
    const char *arg = argv[(*at)++], *value = strchr(arg, '=');
    const size_t n = value ? (size_t)(value++ - arg) : strlen(arg);
    int i = 0;
    while (options[i].name && (strncmp(options[i].name, arg, n) != 0 || options[i].name[n]))
        i++;
    if (!options[i].name)
        return say_unknown_option(options, arg);
    if (options[i].kind == CLI_FLAG && value)
        return cli_usage("%s takes no value", options[i].name);
    if (options[i].kind != CLI_FLAG && !value && *at == argc)
        return cli_usage("%s needs a value", options[i].name);
    if (options[i].kind != CLI_FLAG && !value)
        value = argv[(*at)++];
    given[i] = options[i].name;
    return set_value(&options[i], value) ? EX_OK : EX_USAGE;
}

int cli_parse(int argc, char **argv, const char *usage, const struct cli_option *options,
              const char **positional, int max, int *n)
{
    bool only_positional = false; /* after "--" */
    int rc = EX_OK;
    *n = 0;
    memset(given, 0, sizeof given);
    for (int at = 1; at < argc && rc == EX_OK;) {
        const char *arg = argv[at];
        if (!only_positional && arg[0] == '-' && arg[1] && strcmp(arg, "--") != 0) {
            if (!strcmp(arg, "--help") || !strcmp(arg, "-h")) {
                print_help(usage, options);
                return -1;
            }
            rc = take_option(argc, argv, options, &at);
            continue;
        }
        at++;
        if (!only_positional && !strcmp(arg, "--"))
            only_positional = true;
        else if (*n == max)
            rc = cli_usage("%s: unexpected argument '%s'", argv[0], arg);
        else
            positional[(*n)++] = arg;
    }
    return rc == EX_OK && *n ? check_subcommand(argv[0], options, positional[0]) : rc;
}

int cli_network_resolve(struct cli_network *n, int rc)
{
    const char *dir = n->net.cache_dir;
    n->net.opt_level = (int)n->opt_level;
    n->net.precision = (enum steno_precision)n->precision;
    n->sess.threads = (int)n->threads;
    if (rc != EX_OK || !dir || (!mkdir(dir, 0777) || (errno == EEXIST && steno_path_is_dir(dir))))
        return rc;
    fprintf(stderr, "steno: --cache: %s: %s\n", dir,
            errno == EEXIST ? strerror(ENOTDIR) : strerror(errno));
    return EX_CANTCREAT;
}

double cli_network_peak(const struct steno_precision_report *p, const steno_kernels *k)
{
    if (p->bytes || p->kept == STENO_INT8_WEIGHTS)
        return steno_peak_ops_i8(k);
    return p->kept == STENO_BF16_WEIGHTS ? steno_peak_bf16(k) : steno_peak_flops(k);
}
