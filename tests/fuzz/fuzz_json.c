/* JSON: any bytes are parsed or refused. A tree has as many children as it reports, and its
 * strings are terminated. */
/* covers: engine/formats/json.c */
#include <stdlib.h>
#include <string.h>

#include "formats/json.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

static size_t walk(const struct steno_json_node *n, size_t bytes)
{
    size_t children = 0, strings = (n->key ? strlen(n->key) : 0) + (n->text ? strlen(n->text) : 0);
    for (const struct steno_json_node *c = n->first; c; c = c->next, children++)
        strings += walk(c, bytes);
    if (children != n->n || strings > bytes)
        abort();
    return strings;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    steno_json *j = NULL;
    if (steno_json_parse(&j, data, n, "fuzz", NULL))
        return 0;
    walk(steno_json_root(j), n);
    steno_json_close(j);
    return 0;
}
