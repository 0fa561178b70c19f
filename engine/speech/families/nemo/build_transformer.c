#include "speech/families/nemo/build_transformer.h"

#include <math.h>
#include <stdio.h>

#define HIDDEN -10000.0f

static steno_value_id nemo_heads(struct steno_make *m, steno_value_id x, const char *part,
                                 const char *net, bool columns, const int64_t size[2])
{
    char name[64];
    snprintf(name, sizeof name, "%s.%s", part, net);
    x = steno_make_linear(m, x, name, size[0], size[0], true);
    return steno_make_heads(m, x, size[1], size[0], columns);
}

steno_value_id steno_nemo_attention(struct steno_make *m, const char *part, steno_value_id x,
                                    steno_value_id keys, steno_value_id mask, int64_t d,
                                    int64_t heads)
{
    const float root = sqrtf((float)(d / heads));
    const int64_t size[2] = {d, heads};
    char name[64];
    steno_value_id q = nemo_heads(m, x, part, "query_net", false, size);
    const steno_value_id k = nemo_heads(m, keys, part, "key_net", true, size);
    const steno_value_id v = nemo_heads(m, keys, part, "value_net", false, size);
    q = steno_make_2(m, "Div", steno_make_2(m, "MatMul", q, k), steno_make_number(m, root));
    if (mask != STENO_NONE)
        q = steno_make_add(m, q, mask);
    snprintf(name, sizeof name, "%s.out_projection", part);
    return steno_make_linear(m, steno_make_weigh(m, q, v, d), name, d, d, true);
}

steno_value_id steno_nemo_dense(struct steno_make *m, const char *part, steno_value_id x, int64_t d,
                                int64_t ff, const char *activation)
{
    char name[64];
    snprintf(name, sizeof name, "%s.dense_in", part);
    x = steno_make_activation(m, steno_make_linear(m, x, name, d, ff, true), activation);
    snprintf(name, sizeof name, "%s.dense_out", part);
    return steno_make_linear(m, x, name, ff, d, true);
}

steno_value_id steno_nemo_hidden(struct steno_make *m, steno_value_id present)
{
    const steno_value_id mask = steno_make_hide(m, present, 0, steno_make_number(m, HIDDEN));
    return steno_make_unsqueeze(m, steno_make_unsqueeze(m, mask, 1), 1);
}
