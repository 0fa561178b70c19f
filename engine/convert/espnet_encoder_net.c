/* The encoders of ESPnet2 for one whole utterance, so no position is masked. */
#include "convert/espnet_encoder.h"
#include "convert/espnet_graphs.h"
#include "convert/espnet_parts.h"

#include <stdio.h>

static void check_blocks(struct steno_make *m, const struct steno_espnet_encoder *e)
{
    static const char *const names[] = {"norm1.weight", "norm_mha.weight", "norm_final.weight"};
    steno_make_at(m, "encoder.encoders.%d.", (int)e->blocks);
    for (int i = 0; i < 3; i++)
        if (!m->st && steno_make_has(m, names[i]))
            m->st = steno_fail(m->err, STENO_ERR_FORMAT,
                               "%s: more than the %lld blocks of encoder_conf.num_blocks",
                               m->w.file, (long long)e->blocks);
}

steno_status steno_espnet_write_encoder(const struct steno_espnet_arch *a,
                                        const struct steno_make_weights *w, const char *path,
                                        steno_err *err)
{
    const struct steno_espnet_encoder *e = &a->e;
    struct steno_make m;
    steno_value_id x, pos, n;
    int64_t frames, rows;
    if (steno_make_begin(&m, w, 2, err))
        return m.st;
    m.asked = "encoder_conf";
    frames = steno_make_symbol(&m, "feats_length");
    rows = steno_make_symbol(&m, "encoder_out_length");
    x = steno_make_input(&m, "feats", STENO_F32, 3, (int64_t[]){1, frames, e->in});
    x = steno_espnet_embed(&m, x, e, &pos);
    for (int64_t i = 0; i < e->blocks && !m.st; i++) {
        steno_make_at(&m, "encoder.encoders.%d.", (int)i);
        x = steno_espnet_layer(&m, x, pos, e, i);
    }
    check_blocks(&m, e);
    steno_make_at(&m, "encoder.");
    if (e->before)
        x = steno_make_norm(&m, x, "after_norm", e->d, STENO_ESPNET_EPSILON);
    n = steno_make_extent_of(&m, x, 1);
    steno_make_output(&m, x, "encoder_out", STENO_F32, 3, (int64_t[]){1, rows, e->d});
    steno_make_output(&m, n, "encoder_out_lens", STENO_I64, 1, (int64_t[]){1});
    return steno_make_write(&m, path, NULL);
}
