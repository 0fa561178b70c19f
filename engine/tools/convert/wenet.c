#include "tools/convert/sources.h"

#include "base/list.h"
#include "tools/convert/conf.h"
#include "tools/convert/output.h"
#include "tools/convert/wenet_conf.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_TEXT ((size_t)64 << 20)
#define MAX_WEIGHTS ((size_t)16 << 30)
#define MAX_NAME 600
#define CHUNK 16 /* frames; what WeNet's and sherpa-onnx's exporters take */
#define LEFT 4   /* chunks */

struct job {
    const struct steno_bundle *b;
    const char *out;
    steno_yaml *y;
    struct steno_wenet_arch a;
    struct steno_wenet_conf c;
    char file[MAX_NAME]; /* of the weights */
    struct steno_blob blob, tokens;
    struct steno_torch *t;
    const char *root; /* in front of the names of the weights */
    const char *token_file;
    bool runtime; /* WeNet's layout */
    float *stats;
    steno_err *err;
};

/* ---- flags --------------------------------------------------------------------------------- */

static bool takes(const char *flag)
{
    return steno_list_holds("layout, chunk-size, left-chunks", flag);
}

static steno_status option_number(const struct steno_convert_options *o, const char *name, long max,
                                  int64_t *out, steno_err *err)
{
    const char *v = steno_convert_flag(o, name);
    char *end;
    long x;
    if (!v)
        return STENO_OK;
    x = strtol(v, &end, 10);
    if (!*v || *end || x < -1 || x > max)
        return steno_fail(err, STENO_ERR_INVAL, "--%s %.40s: expected -1 to %ld", name, v, max);
    *out = x;
    return STENO_OK;
}

/* Chunks as the configuration was trained, or as the caller wants them. */
static steno_status read_chunks(struct job *j, const struct steno_convert_options *o)
{
    struct steno_wenet_arch *a = &j->a;
    steno_status st;
    a->chunk = !j->c.chunks ? -1 : j->c.static_chunk ? j->c.static_chunk : CHUNK;
    st = option_number(o, "chunk-size", 1024, &a->chunk, j->err);
    a->left = a->chunk < 0 ? -1 : LEFT;
    READ(option_number(o, "left-chunks", 1024, &a->left, j->err));
    if (st)
        return st;
    if (!a->chunk || (a->chunk < 0 && a->left >= 0))
        return steno_fail(j->err, STENO_ERR_INVAL,
                          "--chunk-size %lld --left-chunks %lld: a chunk has frames, and a whole "
                          "utterance (-1) has no chunks before it",
                          (long long)a->chunk, (long long)a->left);
    if (a->chunk > 0 && !j->c.chunks)
        return steno_fail(
            j->err, STENO_ERR_INVAL,
            "--chunk-size %lld: the model does not stream: its training used no chunks "
            "(encoder_conf.use_dynamic_chunk, static_chunk_size), or its convolutions "
            "see to the right (encoder_conf.causal)",
            (long long)a->chunk);
    if (j->c.static_chunk && a->chunk != j->c.static_chunk)
        return steno_fail(
            j->err, STENO_ERR_INVAL,
            "--chunk-size %lld: the model was trained with chunks of %lld frames alone "
            "(encoder_conf.static_chunk_size)",
            (long long)a->chunk, (long long)j->c.static_chunk);
    if (!j->runtime && a->chunk > 0 && a->left < 1)
        return steno_fail(
            j->err, STENO_ERR_INVAL,
            "--left-chunks %lld: sherpa-onnx's layout has at least one; --layout wenet "
            "takes 0 and -1 too",
            (long long)a->left);
    return STENO_OK;
}

static steno_status read_flags(struct job *j, const struct steno_convert_options *o)
{
    const char *layout = steno_convert_flag(o, "layout");
    steno_status st = STENO_OK;
    if (layout && strcmp(layout, "sherpa") && strcmp(layout, "wenet"))
        st =
            steno_fail(j->err, STENO_ERR_INVAL, "--layout %.40s: expected sherpa or wenet", layout);
    j->runtime = !layout || !strcmp(layout, "wenet");
    return st ? st : read_chunks(j, o);
}

/* ---- files --------------------------------------------------------------------------------- */

static steno_status find_weights(struct job *j)
{
    if (steno_bundle_has(j->b, "final.pt")) {
        snprintf(j->file, sizeof j->file, "final.pt");
        return STENO_OK;
    }
    return steno_bundle_only(j->b, ".pt", j->file, sizeof j->file, j->err);
}

static bool probe(const struct steno_bundle *b)
{
    char name[MAX_NAME];
    return steno_bundle_has(b, "train.yaml") &&
           (steno_bundle_has(b, "final.pt") ||
            steno_bundle_only(b, ".pt", name, sizeof name, NULL) != STENO_ERR_IO);
}

/* Checkpoints are state dictionaries, or have one beside other things. */
static steno_status find_root(struct job *j)
{
    static const char *const roots[] = {"", "module.", "model.", "state_dict."};
    for (size_t i = 0; i < sizeof roots / sizeof *roots; i++) {
        char name[80];
        snprintf(name, sizeof name, "%sctc.ctc_lo.weight", roots[i]);
        j->root = roots[i];
        if (steno_torch_find(j->t, name))
            return STENO_OK;
    }
    return steno_fail(j->err, STENO_ERR_FORMAT,
                      "%s: 'ctc.ctc_lo.weight' is missing: no model of WeNet", j->file);
}

static const struct steno_torch_tensor *weight(const struct job *j, const char *name)
{
    char full[120];
    snprintf(full, sizeof full, "%s%s", j->root, name);
    return steno_torch_find(j->t, full);
}

static steno_status check_attention(struct job *j)
{
    static const char bias[] = "encoder.encoders.0.self_attn.pos_bias_u";
    if (j->a.position == STENO_WENET_REL || !weight(j, bias))
        return STENO_OK;
    return steno_fail(j->err, STENO_ERR_UNSUPPORTED,
                      "%s: '%s' is there: relative attention with encoder_conf.pos_enc_layer_type "
                      "abs_pos or no_pos; known: with rel_pos",
                      j->file, bias);
}

static steno_status open_weights(struct job *j)
{
    steno_status st = find_weights(j);
    READ(steno_bundle_read(j->b, j->file, MAX_WEIGHTS, &j->blob, j->err));
    READ(steno_torch_parse(&j->t, j->blob.p, j->blob.n, j->file, MAX_WEIGHTS, j->err));
    READ(find_root(j));
    return st ? st : check_attention(j);
}

/* ---- normalization ------------------------------------------------------------------------- */

static steno_status stats_of_file(struct job *j)
{
    const char *name = j->c.cmvn && steno_bundle_has(j->b, j->c.cmvn) ? j->c.cmvn : "global_cmvn";
    const size_t n = (size_t)j->a.in;
    struct steno_blob blob = {0};
    steno_status st = steno_bundle_read(j->b, name, MAX_TEXT, &blob, j->err);
    READ(steno_wenet_cmvn_parse(blob.p, blob.n, name, n, j->stats, j->stats + n, j->err));
    steno_blob_close(&blob);
    return st;
}

/* The checkpoint's own statistics are what WeNet computes with; older ones have them in a file. */
static steno_status read_stats(struct job *j)
{
    const struct steno_torch_tensor *mean = weight(j, "encoder.global_cmvn.mean"),
                                    *istd = weight(j, "encoder.global_cmvn.istd");
    const size_t n = (size_t)j->a.in;
    steno_status st = STENO_OK;
    if (!mean && !j->c.normalized)
        return STENO_OK;
    j->stats = malloc(2 * n * sizeof *j->stats);
    if (!j->stats)
        return steno_fail(j->err, STENO_ERR_NOMEM, "out of memory");
    if (!mean) {
        st = stats_of_file(j);
    } else if (!istd || mean->count != n || istd->count != n) {
        st = steno_fail(j->err, STENO_ERR_FORMAT,
                        "%s: 'encoder.global_cmvn.mean' and '.istd' are not [%zu]", j->file, n);
    } else {
        steno_torch_read(mean, 0, n, j->stats);
        steno_torch_read(istd, 0, n, j->stats + n);
    }
    j->a.mean = j->stats;
    j->a.istd = j->stats + n;
    return st;
}

/* ---- tokens -------------------------------------------------------------------------------- */

static steno_status find_tokens(struct job *j)
{
    const char *const names[] = {j->c.tokens, "units.txt", "lang_char.txt", "words.txt",
                                 "tokens.txt"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (names[i] && steno_bundle_has(j->b, names[i])) {
            j->token_file = names[i];
            return steno_bundle_read(j->b, names[i], MAX_TEXT, &j->tokens, j->err);
        }
    return steno_fail(
        j->err, STENO_ERR_IO,
        "%s: the tokens are missing: %s%sunits.txt, lang_char.txt, words.txt or tokens.txt",
        j->b->path, j->c.tokens ? j->c.tokens : "", j->c.tokens ? ", " : "");
}

/* "TOKEN ID" a line, the ids 0 to n - 1 in any order. */
static steno_status count_tokens(struct job *j)
{
    const char *p = j->tokens.p, *end = p + j->tokens.n;
    int64_t n = 0, top = -1, blank = -1;
    for (size_t line = 1; p < end; line++) {
        const char *stop = memchr(p, '\n', (size_t)(end - p)), *id;
        char text[24] = "", *rest;
        int64_t v;
        stop = stop ? stop : end;
        for (id = stop; id > p && id[-1] != ' ' && id[-1] != '\t'; id--)
            ;
        snprintf(text, sizeof text, "%.*s", (int)(stop - id < 22 ? stop - id : 22), id);
        v = strtol(text, &rest, 10);
        if (id == p || rest == text || (*rest && strcmp(rest, "\r")) || v < 0 || v >= 1 << 20)
            return steno_fail(j->err, STENO_ERR_FORMAT, "%s: line %zu: expected a token and its id",
                              j->token_file, line);
        if (id - p == 8 && !memcmp(p, "<blank>", 7))
            blank = v;
        top = v > top ? v : top;
        n++;
        p = stop + 1;
    }
    if (top != n - 1)
        return steno_fail(j->err, STENO_ERR_FORMAT, "%s: %lld tokens, but the highest id is %lld",
                          j->token_file, (long long)n, (long long)top);
    if (blank != j->c.blank)
        return steno_fail(j->err, STENO_ERR_FORMAT,
                          "%s: <blank> is %lld, the configuration asks for %lld", j->token_file,
                          (long long)blank, (long long)j->c.blank);
    if (j->a.vocab && j->a.vocab != n)
        return steno_fail(j->err, STENO_ERR_FORMAT,
                          "%s: %lld tokens, train.yaml's output_dim is %lld", j->token_file,
                          (long long)n, (long long)j->a.vocab);
    j->a.vocab = n;
    j->a.sos = j->a.sos < 0 ? n - 1 : j->a.sos;
    j->a.eos = j->a.eos < 0 ? n - 1 : j->a.eos;
    if (j->a.sos >= n || j->a.eos >= n)
        return steno_fail(j->err, STENO_ERR_FORMAT,
                          "train.yaml: <sos> %lld and <eos> %lld are no ids of %lld tokens",
                          (long long)j->a.sos, (long long)j->a.eos, (long long)n);
    return STENO_OK;
}

/* ---- what is written ----------------------------------------------------------------------- */

static steno_status write_network(struct job *j, const char *name, steno_wenet_writer *write)
{
    const struct steno_make_weights w = {.file = j->file,
                                         .torch = j->t,
                                         .map = j->b->archive ? &j->b->map : &j->blob.map,
                                         .root = j->root};
    char path[STENO_OUTPUT_PATH];
    return write(&j->a, &w, steno_output_network(path, j->out, name), j->err);
}

static steno_status write_networks(struct job *j)
{
    steno_status st = STENO_OK;
    if (!j->runtime && j->a.chunk > 0)
        return write_network(j, "model-streaming", steno_wenet_write_streaming);
    if (!j->runtime)
        return write_network(j, "model", steno_wenet_write_offline);
    READ(write_network(j, "encoder", steno_wenet_write_encoder));
    READ(write_network(j, "ctc", steno_wenet_write_ctc));
    READ(write_network(j, "decoder", steno_wenet_write_decoder));
    return st;
}

static steno_status copy_bpe(struct job *j)
{
    char only[MAX_NAME];
    const char *name = j->c.bpe;
    struct steno_blob blob = {0};
    steno_status st;
    if (!name || !steno_bundle_has(j->b, name)) {
        if (steno_bundle_only(j->b, ".model", only, sizeof only, NULL))
            return STENO_OK;
        name = only;
    }
    st = steno_bundle_read(j->b, name, MAX_TEXT, &blob, j->err);
    READ(steno_output_write(j->out, "bpe.model", blob.p, blob.n, j->err));
    steno_blob_close(&blob);
    return st;
}

static steno_status read_conf(struct job *j)
{
    const steno_status st = steno_conf_open(&j->y, j->b, "train.yaml", MAX_TEXT, j->err);
    return st ? st : steno_wenet_conf_read(j->y, &j->a, &j->c, j->err);
}

static steno_status convert_model(struct job *j, const struct steno_convert_options *o)
{
    steno_status st = read_conf(j);
    READ(read_flags(j, o));
    READ(find_tokens(j));
    READ(count_tokens(j));
    READ(open_weights(j));
    READ(read_stats(j));
    READ(steno_output_make(j->out, j->err));
    READ(write_networks(j));
    READ(copy_bpe(j));
    READ(steno_output_write(j->out, j->runtime ? "units.txt" : "tokens.txt", j->tokens.p,
                            j->tokens.n, j->err));
    return st;
}

static steno_status convert(const struct steno_bundle *b, const char *out,
                            const struct steno_convert_options *o, steno_err *err)
{
    struct job j = {.b = b, .out = out, .err = err};
    steno_status st = convert_model(&j, o);
    free(j.stats);
    steno_torch_close(j.t);
    steno_blob_close(&j.blob);
    steno_blob_close(&j.tokens);
    steno_yaml_close(j.y);
    return st;
}

const struct steno_convert_source steno_source_wenet = {
    "WeNet", probe, takes, convert,
    "WeNet models (a directory or archive with train.yaml, units.txt and final.pt)"};
