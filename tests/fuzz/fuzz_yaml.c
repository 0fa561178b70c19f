/* config.yaml, config.json: any bytes become a tree or are refused; a tree can be walked and
 * searched. */
/* covers: engine/formats/yaml.c */
#include <stdlib.h>

#include "formats/yaml.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

static size_t count(const struct steno_yaml_node *n)
{
    size_t sum = 1, children = 0;
    for (const struct steno_yaml_node *c = n->first; c; c = c->next, children++) {
        if ((n->kind == STENO_YAML_MAP) != (c->key != NULL))
            abort();
        sum += count(c);
    }
    if (children != n->n || (n->kind == STENO_YAML_SCALAR && (!n->text || children)))
        abort();
    return sum;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    steno_yaml *y = NULL;
    const char *text = NULL;
    bool flag = false;
    double real = 0.5;
    long whole = 1;
    if (steno_yaml_parse(&y, data, n, "fuzz", NULL))
        return 0;
    if (!count(steno_yaml_root(y)) ||
        (!steno_yaml_double(y, "weights.ctc", 0, 1, &real, NULL) && !(real >= 0 && real <= 1)) ||
        (!steno_yaml_int(y, "token.sos", 0, 9, &whole, NULL) && (whole < 0 || whole > 9)))
        abort();
    if (steno_yaml_str(y, "encoder.enc_type", &text, NULL) ||
        steno_yaml_bool(y, "lm.use_lm", &flag, NULL))
        text = NULL;
    steno_yaml_close(y);
    return 0;
}
