#include "speech/families/moonshine/build.h"

#include "base/base64.h"
#include "tools/convert/hf.h"
#include "tools/convert/make.h"
#include "tools/convert/output.h"
#include "formats/json.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TOKENIZER "tokenizer.json"
#define MAX_FILE ((size_t)64 << 20)
#define MAX_TOKENS (1 << 20)

static const char *const files[] = {"preprocessor_config.json", "tokenizer_config.json",
                                    "generation_config.json", "special_tokens_map.json", NULL};

/* ---- configuration --------------------------------------------------------------------------- */

static void read_moonshine_positions(struct steno_hf_conf *c, struct steno_moonshine_arch *a)
{
    const struct steno_json_node *rope = c->st ? NULL : steno_json_get(c->root, "rope_parameters");
    struct steno_hf_conf inner = {.root = rope ? rope : c->root, .file = c->file, .err = c->err};
    double part = 0.9;
    const char *type = "default";
    a->theta = 10000;
    steno_hf_only(c, "rope_scaling", "null");
    if (c->st)
        return;
    steno_hf_number(&inner, "partial_rotary_factor", 0, 1, &part);
    steno_hf_number(&inner, "rope_theta", 1, 1e12, &a->theta);
    if (rope)
        steno_hf_text(&inner, "rope_type", &type);
    if (strcmp(type, "default"))
        steno_hf_refuse(&inner, "rope_type", type, "default");
    a->rotary = (int64_t)((double)(a->d / a->heads) * part);
    c->st = inner.st;
}

static void check_ids(struct steno_hf_conf *c)
{
    steno_hf_only(c, "decoder_start_token_id", "1"); /* <s>, </s>: all that serve it expect these */
    steno_hf_only(c, "eos_token_id", "2");
}

static void read_moonshine(struct steno_hf_conf *c, struct steno_moonshine_arch *a)
{
    int64_t heads = 8, encoder_heads, kv[2];
    *a = (struct steno_moonshine_arch){.d = 288,
                                       .ff = 1152,
                                       .vocab = 32768,
                                       .encoder_layers = 6,
                                       .decoder_layers = 6,
                                       .encoder_activation = "gelu",
                                       .decoder_activation = "silu"};
    steno_hf_int(c, "hidden_size", 2, 65536, &a->d);
    steno_hf_int(c, "intermediate_size", 1, 1 << 20, &a->ff);
    steno_hf_int(c, "vocab_size", 3, MAX_TOKENS, &a->vocab);
    steno_hf_int(c, "encoder_num_hidden_layers", 1, 256, &a->encoder_layers);
    steno_hf_int(c, "decoder_num_hidden_layers", 1, 256, &a->decoder_layers);
    steno_hf_int(c, "decoder_num_attention_heads", 1, 1024, &heads);
    encoder_heads = heads;
    steno_hf_int(c, "encoder_num_attention_heads", 1, 1024, &encoder_heads);
    kv[0] = kv[1] = heads;
    steno_hf_int(c, "encoder_num_key_value_heads", 1, 1024, &kv[0]);
    steno_hf_int(c, "decoder_num_key_value_heads", 1, 1024, &kv[1]);
    steno_hf_text(c, "encoder_hidden_act", &a->encoder_activation);
    steno_hf_text(c, "decoder_hidden_act", &a->decoder_activation);
    steno_hf_flag(c, "attention_bias", &a->bias);
    a->heads = heads;
    if (!c->st && (encoder_heads != heads || kv[0] != heads || kv[1] != heads || a->d % heads ||
                   a->d / heads % 2))
        c->st = steno_fail(c->err, STENO_ERR_UNSUPPORTED,
                           "%s: %lld columns, heads of encoder %lld (keys %lld), of decoder %lld "
                           "(keys %lld); known: one number of heads, of an even width",
                           c->file, (long long)a->d, (long long)encoder_heads, (long long)kv[0],
                           (long long)heads, (long long)kv[1]);
    read_moonshine_positions(c, a);
    check_ids(c);
}

/* ---- tokens ---------------------------------------------------------------------------------- */

struct pieces {
    const char **of; /* [n] */
    int64_t n;
};

static steno_status put_added_piece(struct pieces *p, const char *piece,
                                    const struct steno_json_node *id, steno_err *err)
{
    int64_t i;
    if (!id || !piece || !steno_json_int(id, 0, MAX_TOKENS - 1, &i))
        return steno_fail(err, STENO_ERR_FORMAT, "%s: a token without a number below %d", TOKENIZER,
                          MAX_TOKENS);
    if (i < p->n && !p->of[i])
        p->of[i] = piece;
    return STENO_OK;
}

static steno_status put_all(struct pieces *p, const struct steno_json_node *root, steno_err *err)
{
    const struct steno_json_node *model = steno_json_get(root, "model");
    const struct steno_json_node *vocab = steno_json_get(model, "vocab");
    const struct steno_json_node *added = steno_json_get(root, "added_tokens");
    steno_status st = STENO_OK;
    if (!vocab || vocab->kind != STENO_JSON_OBJECT)
        return steno_fail(err, STENO_ERR_FORMAT, "%s: there is no model.vocab {\"piece\": id, ...}",
                          TOKENIZER);
    for (const struct steno_json_node *e = vocab->first; e && !st; e = e->next)
        st = put_added_piece(p, e->key, e, err);
    for (const struct steno_json_node *e = added ? added->first : NULL; e && !st; e = e->next) {
        const struct steno_json_node *content = steno_json_get(e, "content");
        st = put_added_piece(p, content ? content->text : NULL, steno_json_get(e, "id"), err);
    }
    return st;
}

/* "<0x0A>" is one byte. */
static steno_status put_piece(struct steno_buf *b, const char *piece)
{
    unsigned byte;
    int end = 0;
    if (strlen(piece) == 6 && sscanf(piece, "<0x%2X>%n", &byte, &end) == 1 && end == 6) {
        const unsigned char c = (unsigned char)byte;
        return steno_base64_put(b, &c, 1);
    }
    return steno_base64_put(b, piece, strlen(piece));
}

/* "base64 id" lines, as sherpa-onnx's users have them; numbers without a piece get "<none>". */
static steno_status put_lines(struct steno_buf *b, const struct pieces *p)
{
    steno_status st = STENO_OK;
    for (int64_t i = 0; i < p->n && !st; i++) {
        st = put_piece(b, p->of[i] && *p->of[i] ? p->of[i] : "<none>");
        if (!st)
            st = steno_buf_printf(b, " %lld\n", (long long)i);
    }
    return st;
}

static steno_status write_tokens(struct steno_hf_job *j, int64_t vocab)
{
    struct pieces p = {.of = calloc((size_t)vocab, sizeof *p.of), .n = vocab};
    struct steno_blob blob = {0};
    struct steno_buf lines;
    steno_json *json = NULL;
    steno_status st = p.of ? steno_bundle_read(j->b, TOKENIZER, MAX_FILE, &blob, j->err)
                           : steno_fail(j->err, STENO_ERR_NOMEM, "out of memory");
    steno_buf_init(&lines, MAX_FILE);
    if (!st)
        st = steno_json_parse(&json, blob.p, blob.n, TOKENIZER, j->err);
    if (!st)
        st = put_all(&p, steno_json_root(json), j->err);
    if (!st && (st = put_lines(&lines, &p)))
        st = steno_fail(j->err, st, "tokens.txt: too large");
    if (!st)
        st = steno_hf_write(j, "tokens.txt", lines.data, lines.len);
    steno_buf_free(&lines);
    steno_json_close(json);
    steno_blob_close(&blob);
    free(p.of);
    return st;
}

/* ---- the directory --------------------------------------------------------------------------- */

static steno_status check_preprocessor(struct steno_hf_job *j)
{
    static const char name[] = "preprocessor_config.json";
    struct steno_hf_conf c = {.file = name, .err = j->err};
    struct steno_blob blob = {0};
    steno_json *json = NULL;
    if (!steno_bundle_has(j->b, name))
        return STENO_OK;
    c.st = steno_bundle_read(j->b, name, MAX_FILE, &blob, j->err);
    if (!c.st)
        c.st = steno_json_parse(&json, blob.p, blob.n, name, j->err);
    if (!c.st)
        c.root = steno_json_root(json);
    steno_hf_only(&c, "do_normalize", "false");
    steno_hf_only(&c, "sampling_rate", "16000");
    steno_json_close(json);
    steno_blob_close(&blob);
    return c.st;
}

steno_status steno_hf_convert_moonshine(struct steno_hf_job *j)
{
    const struct steno_make_weights w = steno_hf_weights_of(j->weights);
    static const char *const idle[] = {NULL};
    struct steno_moonshine_arch a;
    struct steno_graph *g;
    char path[STENO_OUTPUT_PATH];
    steno_status st;
    read_moonshine(j->conf, &a);
    st = j->conf->st ? j->conf->st : check_preprocessor(j);
    if (!st)
        st = steno_moonshine_build_encoder(&a, &w, &g, j->err);
    if (!st)
        st = steno_make_save(g, steno_output_network(path, j->out, "encoder_model"), NULL, j->err);
    if (!st)
        st = steno_moonshine_build_decoder(&a, &w, &g, j->err);
    if (!st)
        st = steno_make_save(g, steno_output_network(path, j->out, "decoder_model_merged"), NULL,
                             j->err);
    if (!st)
        st = steno_hf_weights_all_used(j->weights, idle, j->err);
    if (!st)
        st = write_tokens(j, a.vocab);
    if (!st)
        st = steno_hf_copy(j, TOKENIZER, true);
    for (const char *const *f = files; *f && !st; f++)
        st = steno_hf_copy(j, *f, false);
    return st;
}
