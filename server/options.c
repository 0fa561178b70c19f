#include "server/options.h"

#include <getopt.h>
#include <stdio.h>
#include <string.h>

const char steno_usage[] =
    "Usage: stenod [OPTION]...\n"
    "Speech recognition server: uploads and live streams on one port.\n"
    "\n"
    "      --config FILE          read the configuration from FILE (see steno.conf(5))\n"
    "      --listen ADDR:PORT     serve on this address [127.0.0.1:8080]; port 0: any free one;\n"
    "                             or unix:/PATH\n"
    "      --model NAME|DIR       fetched model or model directory [the first fetched model,\n"
    "                             else the one that ships]\n"
    "      --threads N            threads that run networks [one per processor]\n"
    "      --log-level LEVEL      error, warning, notice, info or debug [info]\n"
    "      --set SECTION.KEY=VALUE  any key of the configuration file\n"
    "      --check-config         report errors of the configuration, and exit\n"
    "      --print-config         print every setting with its value and source, and exit\n"
    "      --print-sample-config  print a commented configuration file, and exit\n"
    "      --version, --help\n"
    "\n"
    "Options override environment variables (STENO_LISTEN, STENO_MODEL, ...), which override the\n"
    "file. Logs go to standard error. SIGTERM drains: running work finishes, new work is "
    "refused.\n";

enum { OPT_CONFIG = 256, OPT_LISTEN, OPT_MODEL, OPT_THREADS, OPT_LEVEL, OPT_SET, OPT_ACTION };

static const struct option long_options[] = {
    {"config", required_argument, NULL, OPT_CONFIG},
    {"listen", required_argument, NULL, OPT_LISTEN},
    {"model", required_argument, NULL, OPT_MODEL},
    {"threads", required_argument, NULL, OPT_THREADS},
    {"log-level", required_argument, NULL, OPT_LEVEL},
    {"set", required_argument, NULL, OPT_SET},
    {"check-config", no_argument, NULL, OPT_ACTION + STENO_ACTION_CHECK},
    {"print-config", no_argument, NULL, OPT_ACTION + STENO_ACTION_PRINT},
    {"print-sample-config", no_argument, NULL, OPT_ACTION + STENO_ACTION_SAMPLE},
    {"help", no_argument, NULL, OPT_ACTION + STENO_ACTION_HELP},
    {"version", no_argument, NULL, OPT_ACTION + STENO_ACTION_VERSION},
    {NULL, 0, NULL, 0}};

static steno_status apply_option(struct steno_config *c, int option, const char *value,
                                 steno_err *err)
{
    switch (option) {
    case OPT_LISTEN:
        return steno_config_set(c, "server", "listen", value, STENO_CONFIG_FLAG, err);
    case OPT_MODEL:
        return steno_config_set(c, "model", "dir", value, STENO_CONFIG_FLAG, err);
    case OPT_THREADS:
        return steno_config_set(c, "pool", "threads", value, STENO_CONFIG_FLAG, err);
    case OPT_LEVEL:
        return steno_config_set(c, "log", "level", value, STENO_CONFIG_FLAG, err);
    case OPT_SET:
        return steno_config_assign(c, value, STENO_CONFIG_FLAG, err);
    default:
        return STENO_OK;
    }
}

/* Two walks over argv. The first reads the file's name and the action, because options override the
 * file wherever they stand; the second applies the options. */
static steno_status walk_options(struct steno_config *c, int argc, char **argv, const char **file,
                                 enum steno_action *action, steno_err *err)
{
    int opt;
    optind = 1;
    opterr = 0;
    while ((opt = getopt_long(argc, argv, ":", long_options, NULL)) != -1) {
        steno_status st;
        if (opt == ':')
            return steno_fail(err, STENO_ERR_INVAL, "option %s needs a value", argv[optind - 1]);
        if (opt == '?')
            return steno_fail(err, STENO_ERR_INVAL, "unknown option %s", argv[optind - 1]);
        if (file && opt == OPT_CONFIG)
            *file = optarg;
        else if (file && opt >= OPT_ACTION)
            *action = (enum steno_action)(opt - OPT_ACTION);
        st = file ? STENO_OK : apply_option(c, opt, optarg, err);
        if (st)
            return st;
    }
    if (optind < argc)
        return steno_fail(err, STENO_ERR_INVAL, "unexpected argument '%.80s'", argv[optind]);
    return STENO_OK;
}

static void print_error(const char *message)
{
    fprintf(stderr, "error: %s\n", message);
}

/* Read every source and check, and tell all errors. The status is that of the first. */
static steno_status read_sources(struct steno_config *c, int argc, char **argv, const char *file,
                                 steno_err *err)
{
    steno_status of_file, of_environment, of_options, of_all;
    c->on_error = print_error;
    of_file = file ? steno_config_read_file(c, file, err) : STENO_OK;
    of_environment = steno_config_read_environment(c, NULL);
    of_options = walk_options(c, argc, argv, NULL, NULL, err);
    if (of_options)
        print_error(err->msg);
    of_all = steno_config_check(c, NULL);
    if (of_file)
        return of_file;
    if (of_environment)
        return of_environment;
    return of_options ? of_options : of_all;
}

steno_status steno_options_read(struct steno_config *c, int argc, char **argv,
                                enum steno_action *action, bool *usage, steno_err *err)
{
    const char *file = NULL;
    steno_status st;
    bool good;
    *action = STENO_ACTION_SERVE;
    *usage = true;
    st = walk_options(c, argc, argv, &file, action, err);
    if (st || *action >= STENO_ACTION_SAMPLE)
        return st;
    *usage = false;
    if (*action == STENO_ACTION_CHECK)
        return read_sources(c, argc, argv, file, err);
    st = file ? steno_config_read_file(c, file, err) : STENO_OK;
    if (!st)
        st = steno_config_read_environment(c, err);
    if (st)
        return st;
    good = !steno_config_check(c, NULL);
    *usage = true;
    st = walk_options(c, argc, argv, NULL, NULL, err);
    if (st)
        return st;
    *usage = good; /* the options broke what was right without them */
    return steno_config_check(c, err);
}
