/* funasr/models/sense_voice/model.py of FunASR: SenseVoiceEncoderSmall and its CTC head. Frames
 * behind the end of a piece are hidden from attention, and are zeros for the memory. */
#include "speech/families/funasr/build.h"

#include <math.h>
#include <stdlib.h>

#define EPSILON 1e-5f
#define AHEAD 4       /* frames of the queries */
#define SOUND 1       /* rows of the embedding for sound and emotion, one behind the other */
#define WAVES 10000.0 /* of the longest position's wave, over the shortest one's */

/* What all blocks share. */
struct sanm {
    const struct steno_sense_voice_arch *a;
    steno_value_id hidden;  /* [B,1,1,T] bool: behind the end */
    steno_value_id present; /* [B,T,1]: 1, behind the end 0 */
};

/* Rows of the embedding that the numbers choose: [B] -> [B,1,in]. */
static steno_value_id query_of(struct steno_make *m, steno_value_id table, const char *name,
                               int64_t batch)
{
    const steno_value_id numbers = steno_make_input(m, name, STENO_I32, 1, &batch);
    return steno_make_unsqueeze(m, steno_make_2(m, "Gather", table, numbers), 1);
}

/* Language, sound, emotion and text norm before the frames x [B,T,in]. */
static steno_value_id put_queries(struct steno_make *m, steno_value_id x, int64_t batch,
                                  const struct steno_sense_voice_arch *a)
{
    const int64_t rows[] = {SOUND, SOUND + 1}, shape[] = {AHEAD - 2, a->in};
    const steno_value_id table =
        steno_make_param(m, "embed.weight", 2, (int64_t[]){a->queries, a->in});
    const steno_value_id language = query_of(m, table, "language", batch),
                         norm = query_of(m, table, "text_norm", batch);
    steno_value_id fixed = steno_make_2(m, "Gather", table, steno_make_ints(m, 2, rows));
    steno_value_id all =
        steno_make_concat(m, 0, steno_make_extent_of(m, x, 0), steno_make_ints(m, 2, shape));
    fixed = steno_make_2(m, "Expand", steno_make_unsqueeze(m, fixed, 0), all);
    return steno_make_join(m, 1, 4, (steno_value_id[]){language, fixed, norm, x});
}

/* x + sines and cosines of positions from 1 on, side by side. */
static steno_value_id place(struct steno_make *m, steno_value_id x, int64_t d)
{
    const int64_t half = d / 2;
    float *wave = malloc((size_t)half * sizeof *wave);
    steno_value_id at, all;
    for (int64_t i = 0; wave && i < half; i++)
        wave[i] = (float)exp(-log(WAVES) * (double)i / (double)(half - 1));
    at = steno_make_cast(m, steno_make_range(m, steno_make_extent_of(m, x, 1)), STENO_MAKE_FLOAT);
    at = steno_make_unsqueeze(m, steno_make_add(m, at, steno_make_number(m, 1)), 1);
    at = steno_make_2(m, "Mul", at, steno_make_floats(m, "pe", 1, &half, wave));
    free(wave);
    all = steno_make_concat(m, 1, steno_make_1(m, "Sin", at), steno_make_1(m, "Cos", at));
    return steno_make_add(m, x, all);
}

/* Queries, keys and values of x [B,T,in], [B,T,d] each. */
static void project(struct steno_make *m, steno_value_id x, int64_t in,
                    const struct steno_sense_voice_arch *a, steno_value_id out[3])
{
    static const char *const parts[] = {"linear_q", "linear_k", "linear_v"};
    const int64_t d[] = {a->d, a->d, a->d};
    const struct steno_attr axis = {.name = "axis", .kind = STENO_ATTR_INT, .i = -1};
    if (a->apart) {
        for (int i = 0; i < 3; i++)
            out[i] = steno_make_linear_of(m, x, "self_attn", parts[i], in, a->d, true);
        return;
    }
    x = steno_make_linear(m, x, "self_attn.linear_q_k_v", in, 3 * a->d, true);
    steno_make_outputs(m, "Split", 2, (steno_value_id[]){x, steno_make_ints(m, 3, d)}, 3, out, 1,
                       &axis);
}

/* The memory beside the attention: a convolution of the values, and these. */
static steno_value_id remember(struct steno_make *m, steno_value_id v, const struct sanm *s)
{
    const int64_t d = s->a->d, kernel = s->a->kernel;
    const int64_t pads[] = {(kernel - 1) / 2, kernel - 1 - (kernel - 1) / 2};
    const struct steno_make_conv c = {
        .rank = 1, .in = d, .out = d, .kernel = kernel, .stride = 1, .pads = pads, .groups = d};
    steno_value_id y;
    v = steno_make_2(m, "Mul", v, s->present);
    y = steno_make_turn(m,
                        steno_make_convolve(m, steno_make_turn(m, v), "self_attn.fsmn_block", &c));
    return steno_make_2(m, "Mul", steno_make_add(m, y, v), s->present);
}

static steno_value_id attend(struct steno_make *m, steno_value_id x, int64_t in,
                             const struct sanm *s)
{
    const int64_t d = s->a->d, heads = s->a->heads;
    steno_value_id part[3], scores;
    project(m, x, in, s->a, part);
    scores = steno_make_2(m, "MatMul",
                          steno_make_scale(m, steno_make_heads(m, part[0], heads, d, false),
                                           1 / sqrtf((float)(d / heads))),
                          steno_make_heads(m, part[1], heads, d, true));
    x = steno_make_weigh(m, steno_make_hide(m, s->hidden, -INFINITY, scores),
                         steno_make_heads(m, part[2], heads, d, false), d);
    x = steno_make_linear_of(m, x, "self_attn", "linear_out", d, d, true);
    return steno_make_add(m, x, remember(m, part[2], s));
}

static steno_value_id block(struct steno_make *m, steno_value_id x, int64_t in,
                            const struct sanm *s)
{
    const int64_t d = s->a->d;
    steno_value_id y = attend(m, steno_make_norm(m, x, "norm1", in, EPSILON), in, s);
    x = in == d ? steno_make_add(m, x, y) : y;
    y = steno_make_norm(m, x, "norm2", d, EPSILON);
    return steno_make_add(m, x, steno_make_feed_forward(m, y, "feed_forward", d, s->a->ff, "relu"));
}

/* The prefix of a block, by the two ways to count them. */
static void go_to_block(struct steno_make *m, int64_t i, const struct steno_sense_voice_arch *a)
{
    if (a->flat)
        steno_make_at(m, "encoder.blocks.%d.", (int)i);
    else if (!i)
        steno_make_at(m, "encoder.encoders0.0.");
    else if (i < a->blocks)
        steno_make_at(m, "encoder.encoders.%d.", (int)i - 1);
    else
        steno_make_at(m, "encoder.tp_encoders.%d.", (int)(i - a->blocks));
}

static steno_value_id encode(struct steno_make *m, steno_value_id x, steno_value_id length,
                             const struct steno_sense_voice_arch *a)
{
    struct sanm s = {.a = a};
    steno_value_id present = steno_make_present(m, steno_make_extent_of(m, x, 1), length);
    s.present = steno_make_unsqueeze(m, steno_make_cast(m, present, STENO_MAKE_FLOAT), 2);
    s.hidden = steno_make_unsqueeze(m, steno_make_1(m, "Not", present), 1);
    s.hidden = steno_make_unsqueeze(m, s.hidden, 1);
    x = place(m, steno_make_scale(m, x, sqrtf((float)a->d)), a->in);
    for (int64_t i = 0; i < a->blocks + a->behind && !m->st; i++) {
        go_to_block(m, i, a);
        x = block(m, x, i ? a->d : a->in, &s);
        if (i == a->blocks - 1) {
            steno_make_at(m, "encoder.");
            x = steno_make_norm(m, x, "after_norm", a->d, EPSILON);
        }
    }
    steno_make_at(m, "encoder.");
    return steno_make_norm(m, x, "tp_norm", a->d, EPSILON);
}

steno_status steno_sense_voice_build(const struct steno_sense_voice_arch *a,
                                     const struct steno_make_weights *w, struct steno_graph **out,
                                     steno_err *err)
{
    struct steno_make m;
    steno_value_id x, length;
    int64_t batch, frames;
    if (steno_make_begin(&m, w, 4, err))
        return m.st;
    m.asked = "the encoder";
    batch = steno_make_symbol(&m, "batch");
    frames = steno_make_symbol(&m, "frames");
    x = steno_make_input(&m, "x", STENO_F32, 3, (int64_t[]){batch, frames, a->in});
    length = steno_make_input(&m, "x_length", STENO_I32, 1, &batch);
    length = steno_make_add(&m, steno_make_cast(&m, length, STENO_MAKE_INT64),
                            steno_make_ints(&m, 1, (int64_t[]){AHEAD}));
    x = encode(&m, put_queries(&m, x, batch, a), length, a);
    steno_make_at(&m, "%s", "");
    m.asked = "the vocabulary";
    x = steno_make_linear(&m, x, "ctc.ctc_lo", a->d, a->vocab, true);
    steno_make_output(&m, x, "logits", STENO_F32, 3,
                      (int64_t[]){batch, steno_make_symbol(&m, "scores"), a->vocab});
    return steno_make_take(&m, out);
}
