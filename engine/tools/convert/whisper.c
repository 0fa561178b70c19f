#include "tools/convert/sources.h"

#include "base/buf.h"
#include "base/path.h"
#include "tools/convert/output.h"
#include "tools/convert/whisper_ranks.h"
#include "formats/torch.h"
#include "formats/whisper_names.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define STATE "model_state_dict."
#define MODEL "model.pt"
#define MAX_HEAD ((size_t)16 << 20)
#define MAX_TEXT ((size_t)64 << 20)
#define MAX_PATH 4200
#define CHUNK 65536 /* elements that are made f32 at a time */
#define MULTILINGUAL 51865

struct dims {
    int64_t mels, vocab, audio_ctx, audio_state, audio_head, audio_layer;
    int64_t text_ctx, text_state, text_head, text_layer;
};

struct job {
    const char *path; /* of the checkpoint */
    const char *out;
    steno_torch *t;
    struct dims d;
    steno_err *err;
};

/* ---- the checkpoint -------------------------------------------------------------------------- */

/* The file itself, or model.pt of a directory. */
static bool find_checkpoint(const char *in, char path[MAX_PATH])
{
    return snprintf(path, MAX_PATH, steno_path_is_dir(in) ? "%s/" MODEL : "%s", in) < MAX_PATH &&
           !access(path, R_OK);
}

static bool is_whisper(const steno_torch *t)
{
    int64_t n;
    return steno_torch_int(t, "dims.n_text_layer", 0, INT64_MAX, &n) &&
           steno_torch_find(t, STATE "decoder.token_embedding.weight");
}

static bool probe(const struct steno_bundle *b)
{
    char path[MAX_PATH];
    steno_torch *t = NULL;
    bool yes;
    if (!find_checkpoint(b->path, path) || steno_torch_open(&t, path, NULL))
        return false;
    yes = is_whisper(t);
    steno_torch_close(t);
    return yes;
}

static steno_status read_dims(struct job *j)
{
    struct dims *d = &j->d;
    const struct {
        const char *name;
        int64_t max, *to;
    } all[] = {{"n_mels", 1024, &d->mels},
               {"n_vocab", 1 << 20, &d->vocab},
               {"n_audio_ctx", 1 << 20, &d->audio_ctx},
               {"n_audio_state", 65536, &d->audio_state},
               {"n_audio_head", 1024, &d->audio_head},
               {"n_audio_layer", 1024, &d->audio_layer},
               {"n_text_ctx", 1 << 20, &d->text_ctx},
               {"n_text_state", 65536, &d->text_state},
               {"n_text_head", 1024, &d->text_head},
               {"n_text_layer", 1024, &d->text_layer}};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        char name[40];
        snprintf(name, sizeof name, "dims.%s", all[i].name);
        if (!steno_torch_int(j->t, name, 1, all[i].max, all[i].to))
            return steno_fail(j->err, STENO_ERR_FORMAT, "%s: %s is no number from 1 to %lld",
                              j->path, name, (long long)all[i].max);
    }
    return STENO_OK;
}

/* ---- model.safetensors ----------------------------------------------------------------------- */

/* The type in the written file; NULL: elements are made f32. */
static const char *kept_type(const struct steno_torch_tensor *t)
{
    if (!t->contiguous)
        return NULL;
    return t->type == STENO_TORCH_F16    ? "F16"
           : t->type == STENO_TORCH_BF16 ? "BF16"
           : t->type == STENO_TORCH_F32  ? "F32"
                                         : NULL;
}

static size_t tensor_bytes(const struct steno_torch_tensor *t)
{
    return t->count * (kept_type(t) ? steno_torch_item(t->type) : sizeof(float));
}

static const struct steno_torch_tensor *tensor(const struct job *j, size_t i)
{
    const struct steno_torch_tensor *t = steno_torch_get(j->t, i);
    return strncmp(t->name, STATE, strlen(STATE)) ? NULL : t;
}

static steno_status add_entry(struct steno_buf *b, const struct steno_torch_tensor *t,
                              const char *name, size_t at)
{
    const char *type = kept_type(t);
    steno_status st = steno_buf_printf(b, "%s\"model.%s\":{\"dtype\":\"%s\",\"shape\":[",
                                       b->len > 1 ? "," : "", name, type ? type : "F32");
    for (int i = 0; i < t->rank && !st; i++)
        st = steno_buf_printf(b, "%s%lld", i ? "," : "", (long long)t->dim[i]);
    return st ? st : steno_buf_printf(b, "],\"data_offsets\":[%zu,%zu]}", at, at + tensor_bytes(t));
}

static steno_status make_head(struct job *j, struct steno_buf *b)
{
    size_t at = 0;
    steno_status st = steno_buf_puts(b, "{");
    for (size_t i = 0; i < steno_torch_count(j->t) && !st; i++) {
        const struct steno_torch_tensor *t = tensor(j, i);
        char name[160];
        if (!t)
            continue;
        if (!steno_whisper_other_name(t->name + strlen(STATE), STENO_WHISPER_OPENAI, name,
                                      sizeof name))
            return steno_fail(j->err, STENO_ERR_FORMAT, "%s: '%.100s' is no tensor of a Whisper",
                              j->path, t->name);
        st = add_entry(b, t, name, at);
        at += tensor_bytes(t);
    }
    if (!st)
        st = steno_buf_puts(b, "}");
    while (!st && b->len % 8) /* the data are aligned */
        st = steno_buf_puts(b, " ");
    return st ? steno_fail(j->err, st, "%s: too many tensors", j->path) : STENO_OK;
}

/* False: the disk is full, or the like. */
static bool write_elements(FILE *f, const struct steno_torch_tensor *t)
{
    static const size_t n = CHUNK;
    float *x;
    bool ok = true;
    if (kept_type(t))
        return !t->count || fwrite(t->data, steno_torch_item(t->type), t->count, f) == t->count;
    x = malloc(n * sizeof *x);
    for (size_t at = 0; x && ok && at < t->count; at += n) {
        const size_t k = t->count - at < n ? t->count - at : n;
        steno_torch_read(t, at, k, x);
        ok = fwrite(x, sizeof *x, k, f) == k;
    }
    free(x);
    return ok && x;
}

/* u64 bytes of the head, little-endian | head | elements */
static bool write_safetensors(const struct job *j, const struct steno_buf *head, const char *path)
{
    unsigned char length[8];
    FILE *f = fopen(path, "wbe");
    bool ok;
    for (int i = 0; i < 8; i++)
        length[i] = (unsigned char)((uint64_t)head->len >> (8 * i));
    ok = f && fwrite(length, 1, 8, f) == 8 && fwrite(head->data, 1, head->len, f) == head->len;
    for (size_t i = 0; i < steno_torch_count(j->t) && ok; i++) {
        const struct steno_torch_tensor *t = tensor(j, i);
        ok = !t || write_elements(f, t);
        steno_torch_rest(j->t);
    }
    if (f && fclose(f))
        ok = false;
    return ok;
}

static steno_status write_weights(struct job *j)
{
    struct steno_buf head;
    char path[MAX_PATH];
    steno_status st;
    snprintf(path, sizeof path, "%s/model.safetensors", j->out);
    steno_buf_init(&head, MAX_HEAD);
    st = make_head(j, &head);
    if (!st && !write_safetensors(j, &head, path))
        st = steno_fail(j->err, STENO_ERR_IO, "%s: %s", path, strerror(errno));
    steno_buf_free(&head);
    return st;
}

/* ---- the other files ------------------------------------------------------------------------- */

static steno_status write_config(const struct job *j)
{
    const struct dims *d = &j->d;
    const int64_t end = d->vocab >= MULTILINGUAL ? 50257 : 50256;
    struct steno_buf b;
    steno_status st;
    steno_buf_init(&b, MAX_TEXT);
    st = steno_buf_printf(
        &b,
        "{\n  \"architectures\": [\"WhisperForConditionalGeneration\"],\n"
        "  \"model_type\": \"whisper\",\n  \"activation_function\": \"gelu\",\n"
        "  \"d_model\": %lld,\n  \"num_mel_bins\": %lld,\n  \"vocab_size\": %lld,\n"
        "  \"encoder_layers\": %lld,\n  \"encoder_attention_heads\": %lld,\n"
        "  \"encoder_ffn_dim\": %lld,\n  \"max_source_positions\": %lld,\n"
        "  \"decoder_layers\": %lld,\n  \"decoder_attention_heads\": %lld,\n"
        "  \"decoder_ffn_dim\": %lld,\n  \"max_target_positions\": %lld,\n"
        "  \"bos_token_id\": %lld,\n  \"eos_token_id\": %lld,\n  \"pad_token_id\": %lld,\n"
        "  \"decoder_start_token_id\": %lld,\n  \"scale_embedding\": false\n}\n",
        (long long)d->audio_state, (long long)d->mels, (long long)d->vocab,
        (long long)d->audio_layer, (long long)d->audio_head, (long long)(4 * d->audio_state),
        (long long)d->audio_ctx, (long long)d->text_layer, (long long)d->text_head,
        (long long)(4 * d->text_state), (long long)d->text_ctx, (long long)end, (long long)end,
        (long long)end, (long long)(end + 1));
    st = st ? steno_fail(j->err, st, "out of memory")
            : steno_output_write(j->out, "config.json", b.data, b.len, j->err);
    steno_buf_free(&b);
    return st;
}

/* ---- vocabulary ------------------------------------------------------------------------------ */

static steno_status write_ranks(struct job *j, const char *path)
{
    struct steno_buf b;
    struct steno_map m;
    steno_status st = steno_map_open(&m, path, j->err);
    if (st)
        return st;
    steno_buf_init(&b, MAX_TEXT);
    st = steno_whisper_ranks(&b, m.p, m.n, path, j->err);
    if (!st)
        st = steno_output_write(j->out, "vocab.json", b.data, b.len, j->err);
    steno_buf_free(&b);
    steno_map_close(&m);
    return st;
}

static steno_status copy_file(struct job *j, const char *path, const char *name)
{
    struct steno_map m;
    steno_status st = steno_map_open(&m, path, j->err);
    if (st)
        return st;
    st = m.n > MAX_TEXT ? steno_fail(j->err, STENO_ERR_LIMIT, "%s: too large", path)
                        : steno_output_write(j->out, name, m.p, m.n, j->err);
    steno_map_close(&m);
    return st;
}

/* The vocabulary that steno would read beside the checkpoint (families/whisper/files.c). */
static steno_status write_vocabulary(struct job *j)
{
    static const char *const names[] = {"vocabulary.txt", "vocabulary.json", "tokenizer.json",
                                        "vocab.json"};
    const char *ranks = j->d.vocab >= MULTILINGUAL ? "multilingual.tiktoken" : "gpt2.tiktoken";
    const char *slash = strrchr(j->path, '/');
    const int n = slash ? (int)(slash - j->path) + 1 : 0;
    char path[MAX_PATH];
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        snprintf(path, sizeof path, "%.*s%s", n, j->path, names[i]);
        if (!access(path, R_OK))
            return copy_file(j, path, names[i]);
    }
    snprintf(path, sizeof path, "%.*s%s", n, j->path, ranks);
    if (!access(path, R_OK))
        return write_ranks(j, path);
    return steno_fail(j->err, STENO_ERR_IO,
                      "%.*s: no vocabulary: none of vocabulary.txt, vocabulary.json, "
                      "tokenizer.json, vocab.json, %s is there",
                      n ? n : 1, n ? j->path : ".", ranks);
}

/* ---- all ------------------------------------------------------------------------------------- */

static steno_status same_place(const struct job *j)
{
    const char *slash = strrchr(j->path, '/');
    char dir[MAX_PATH];
    struct stat a, b;
    snprintf(dir, sizeof dir, "%.*s", slash ? (int)(slash - j->path) + 1 : 1,
             slash ? j->path : ".");
    if (!stat(dir, &a) && !stat(j->out, &b) && a.st_dev == b.st_dev && a.st_ino == b.st_ino)
        return steno_fail(j->err, STENO_ERR_INVAL,
                          "%s: the checkpoint is in it; give another directory", j->out);
    return STENO_OK;
}

static steno_status convert(const struct steno_bundle *b, const char *out,
                            const struct steno_convert_options *o, steno_err *err)
{
    char path[MAX_PATH] = "";
    struct job j = {.path = path, .out = out, .err = err};
    steno_status st;
    (void)o;
    if (!find_checkpoint(b->path, path))
        return steno_fail(err, STENO_ERR_INVAL, "%s: the path is too long", b->path);
    st = steno_torch_open(&j.t, path, err);
    if (!st)
        st = read_dims(&j);
    if (!st)
        st = steno_output_make(out, err);
    if (!st)
        st = same_place(&j);
    if (!st)
        st = write_vocabulary(&j);
    if (!st)
        st = write_weights(&j);
    if (!st)
        st = write_config(&j); /* last: the directory is complete */
    steno_torch_close(j.t);
    return st;
}

const struct steno_convert_source steno_source_whisper = {"OpenAI's Whisper", probe, NULL, convert,
                                                          "OpenAI's Whisper (*.pt)"};
