#include "speech/families/transformers_js/kind.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/path.h"

#define POSITIONS 2048 /* of the decoder that are used, at most */

static const struct steno_tjs_kind kinds[] = {
    {.type = "granite_speech",
     .title = "Granite Speech",
     .input = "input_features",
     .languages = "en fr de es pt ja",
     .speaks = true},
    {.type = "voxtral",
     .title = "Voxtral",
     .input = "audio_values",
     .languages = "en es fr pt hi de nl it",
     .pads = true},
};

/* ---- the files ------------------------------------------------------------------------------- */

static const struct steno_tjs_kind *named(const steno_json *config)
{
    const char *type = steno_json_text(steno_json_get(steno_json_root(config), "model_type"));
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (type && !strcmp(type, kinds[i].type))
            return &kinds[i];
    return NULL;
}

/* A file of dir as JSON; *out stays NULL where it is not there. */
static steno_status open_json(steno_json **out, const char *dir, const char *file, steno_err *err)
{
    char *path = steno_path_join(dir, file);
    steno_status st = STENO_OK;
    if (!path)
        st = steno_fail(err, STENO_ERR_NOMEM, "%s: out of memory", dir);
    else if (steno_path_readable(dir, file))
        st = steno_json_open(out, path, err);
    free(path);
    return st;
}

const struct steno_tjs_kind *steno_tjs_kind_of(const char *dir)
{
    steno_json *config = NULL;
    const struct steno_tjs_kind *kind = NULL;
    if (!open_json(&config, dir, "config.json", NULL) && config)
        kind = named(config);
    steno_json_close(config);
    return kind;
}

/* eos_token_id: a number, or a list of one or two. */
static bool read_ends(struct steno_tjs_config *c, const struct steno_json_node *ends)
{
    const struct steno_json_node *n = ends && ends->kind == STENO_JSON_LIST ? ends->first : ends;
    for (c->n_ends = 0; n; n = n == ends ? NULL : n->next) {
        int64_t id;
        if (c->n_ends == 2 || !steno_json_int(n, 0, STENO_BPE_MAX_PIECES - 1, &id))
            return false;
        c->end[c->n_ends++] = (int32_t)id;
    }
    return c->n_ends > 0;
}

static int64_t number_of(const struct steno_json_node *text, const char *key, int64_t otherwise)
{
    int64_t n;
    return steno_json_int(steno_json_get(text, key), 1, INT32_MAX, &n) ? n : otherwise;
}

/* As transformers does; 0: not said, for which the networks must say it. */
static void read_sizes(struct steno_llm_sizes *s, const struct steno_json_node *text)
{
    const int64_t heads = number_of(text, "num_attention_heads", 0);
    s->positions = number_of(text, "max_position_embeddings", POSITIONS);
    s->positions = s->positions < POSITIONS ? s->positions : POSITIONS;
    s->heads = number_of(text, "num_key_value_heads", heads);
    s->width = number_of(text, "head_dim", heads ? number_of(text, "hidden_size", 0) / heads : 0);
}

steno_status steno_tjs_parse(struct steno_tjs_config *c, const steno_json *config,
                             const steno_json *generation, const char *path, steno_err *err)
{
    const struct steno_json_node *text = steno_json_get(steno_json_root(config), "text_config");
    const struct steno_json_node *ends =
        generation ? steno_json_get(steno_json_root(generation), "eos_token_id") : NULL;
    c->kind = named(config);
    if (!c->kind)
        return steno_fail(err, STENO_ERR_FORMAT,
                          "%s: expected the model_type granite_speech or voxtral", path);
    read_sizes(&c->sizes, text);
    if (!read_ends(c, ends ? ends : steno_json_get(text, "eos_token_id")))
        return steno_fail(err, STENO_ERR_FORMAT,
                          "%s: expected eos_token_id, one number or two, in generation_config.json "
                          "or text_config",
                          path);
    return STENO_OK;
}

/* Granite before version 4 has turns with roles, and a date in its system's. */
static steno_status check_template(const struct steno_tjs_config *c, const char *dir,
                                   steno_err *err)
{
    char text[16384], *path = steno_path_join(dir, "chat_template.jinja");
    FILE *f = path && c->kind->speaks ? fopen(path, "rb") : NULL;
    const size_t n = f ? fread(text, 1, sizeof text - 1, f) : 0;
    steno_status st = STENO_OK;
    text[n] = '\0';
    if (f && !strstr(text, "USER: "))
        st = steno_fail(err, STENO_ERR_UNSUPPORTED,
                        "%s: only Granite 4's turns, which begin with \"USER: \", are known", path);
    if (f)
        fclose(f);
    free(path);
    return st;
}

steno_status steno_tjs_read(struct steno_tjs_config *c, const char *dir, steno_err *err)
{
    steno_json *config = NULL, *generation = NULL;
    char *path = steno_path_join(dir, "config.json");
    steno_status st = path ? steno_json_open(&config, path, err)
                           : steno_fail(err, STENO_ERR_NOMEM, "%s: out of memory", dir);
    if (!st)
        st = open_json(&generation, dir, "generation_config.json", err);
    if (!st)
        st = steno_tjs_parse(c, config, generation, path, err);
    if (!st)
        st = check_template(c, dir, err);
    steno_json_close(config);
    steno_json_close(generation);
    free(path);
    return st;
}

/* ---- Granite's prompt ------------------------------------------------------------------------ */

#define TRANSCRIBE "can you transcribe the speech into a written format?"
#define WITH_WORDS "transcribe the speech to text."
#define KEYWORDS " Keywords: "
#define BEHIND "\n ASSISTANT:"

/* USER: [rows]can you transcribe the speech into a written format?\n ASSISTANT: */
static void put_instruction(struct steno_llm_draft *d, const struct steno_family_stream *o,
                            size_t most)
{
    const char *asked = o->hints.prompt && *o->hints.prompt ? o->hints.prompt : NULL;
    struct steno_buf words, text;
    const size_t before = d->ids.len;
    steno_status st;
    steno_buf_init(&words, STENO_LLM_CONTEXT_BYTES);
    steno_buf_init(&text, STENO_LLM_CONTEXT_BYTES);
    steno_llm_add_words(d, &words, 0, o->hints.hotwords, ", ");
    steno_llm_add_words(d, &words, 0, o->vocabulary, ", ");
    st = steno_buf_puts(&text, asked ? asked : words.len ? WITH_WORDS : TRANSCRIBE);
    if (!st && words.len)
        st = steno_buf_puts(&text, KEYWORDS);
    if (!st && words.len)
        st = steno_buf_add(&text, words.data, words.len);
    if (!st)
        st = steno_buf_puts(&text, BEHIND);
    if (st && !d->st)
        d->st = steno_fail(d->err, STENO_ERR_LIMIT, "prompt: more than %zu bytes",
                           STENO_LLM_CONTEXT_BYTES);
    if (!d->st)
        steno_llm_put_text(d, text.data, text.len, SIZE_MAX);
    if (!d->st &&
        (d->ids.len - before) / sizeof(int64_t) > most) { /* cut the words, not the turn */
        steno_buf_cut(&d->ids, before + most * sizeof(int64_t));
        steno_llm_put_line(d, BEHIND);
    }
    steno_buf_free(&words);
    steno_buf_free(&text);
}

static void put_granite(struct steno_llm_draft *d, const struct steno_family_stream *o, size_t most)
{
    steno_llm_put_line(d, "USER: ");
    steno_llm_put_rows(d);
    put_instruction(d, o, most);
}

/* ---- Voxtral's ------------------------------------------------------------------------------- */

static void put_named(struct steno_llm_draft *d, const char *mark, const char *path)
{
    int32_t id;
    if (!d->st)
        d->st = steno_llm_vocabulary_find(d->vocabulary, &mark, 1, path, &id, d->err);
    if (!d->st)
        steno_llm_put_mark(d, id);
}

/* <s>[INST][BEGIN_AUDIO][rows][/INST]lang:en[TRANSCRIBE] (mistral-common,
 * _encode_instruct_transcription) */
static void put_voxtral(struct steno_llm_draft *d, const char *language, const char *path)
{
    char line[16];
    put_named(d, "<s>", path);
    put_named(d, "[INST]", path);
    put_named(d, "[BEGIN_AUDIO]", path);
    steno_llm_put_rows(d);
    put_named(d, "[/INST]", path);
    if (language) {
        snprintf(line, sizeof line, "lang:%.2s", language);
        steno_llm_put_line(d, line);
    }
    put_named(d, "[TRANSCRIBE]", path);
}

/* The kind's own code of a language. */
static const char *own_code(const struct steno_tjs_kind *k, const char *code)
{
    static const char *const codes[] = {"en", "es", "fr", "pt", "hi", "de", "nl", "it", "ja"};
    for (size_t i = 0; code && i < sizeof codes / sizeof *codes; i++)
        if (!strcmp(codes[i], code) && strstr(k->languages, code))
            return codes[i];
    return NULL;
}

steno_status steno_tjs_prompt_make(struct steno_llm_prompt *p, const struct steno_tjs_kind *k,
                                   const struct steno_llm_vocabulary *v,
                                   const struct steno_family_stream *o, size_t most,
                                   const char *path, steno_err *err)
{
    struct steno_llm_draft d;
    *p = (struct steno_llm_prompt){0};
    if (o->hints.language && strchr(o->hints.language, ','))
        return steno_fail(err, STENO_ERR_INVAL,
                          "language: %s takes one language, or finds it itself", k->title);
    p->language = own_code(k, o->hints.language);
    steno_llm_draft_open(&d, v, err);
    if (k->speaks)
        put_granite(&d, o, most);
    else
        put_voxtral(&d, p->language, path);
    return steno_llm_draft_take(&d, p);
}
