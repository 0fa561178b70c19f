/* steno graph: print the nodes of a network as text or for Graphviz. */
#include "base/buf.h"
#include "tools/cli/options.h"

#include <stdio.h>
#include <sysexits.h>

#define MAX_DUMP ((size_t)1 << 30)

static const char usage[] =
    "Usage: steno graph MODEL.onnx [--text|--dot]\n"
    "\n"
    "Prints the network after the passes, one line per node, or for Graphviz:\n"
    "steno graph --dot MODEL.onnx | dot -Tsvg > graph.svg\n";

static int dump(const char *path, const struct cli_network *o, bool dot)
{
    steno_err err = {0};
    steno_network *n = NULL;
    struct steno_buf b;
    steno_status st = steno_network_open(&n, path, &o->net, &err);
    steno_buf_init(&b, MAX_DUMP);
    if (!st && (st = steno_graph_dump(steno_network_graph(n), dot, &b)))
        st = steno_fail(&err, st, "the dump is too long");
    if (!st && b.data)
        (void)fwrite(b.data, 1, b.len, stdout);
    steno_buf_free(&b);
    steno_network_close(n);
    return st ? cli_fail(&err) : EX_OK;
}

int cli_graph(int argc, char **argv)
{
    struct cli_network o = CLI_NETWORK_INIT;
    bool text = false, dot = false;
    const char *path = NULL;
    const struct cli_option options[] = {
        {"--text", CLI_FLAG, NULL, &text, 0, 0, "one line per node, the default"},
        {"--dot", CLI_FLAG, NULL, &dot, 0, 0, "for Graphviz"},
        CLI_PASS_OPTIONS(&o),
        {0},
    };
    int n, rc = cli_parse(argc, argv, usage, options, &path, 1, &n);
    rc = cli_network_resolve(&o, rc);
    o.net.rewrite_only = true; /* weights are not needed */
    if (rc == EX_OK && text && dot)
        rc = cli_usage("graph: --text and --dot exclude each other");
    if (rc == EX_OK && !path)
        rc = cli_usage("graph needs a model");
    if (rc == EX_OK)
        rc = cli_readable(path);
    if (rc == EX_OK)
        rc = dump(path, &o, dot);
    return rc;
}
