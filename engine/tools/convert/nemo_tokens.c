/* tokens.txt and bpe.vocab, as sherpa-onnx's scripts write them: the pieces of the tokenizer in the
 * archive, or the vocabulary of the configuration, and <blk> behind them. */
#include "tools/convert/conf.h"
#include "tools/convert/nemo_job.h"
#include "speech/text/sentencepiece.h"

#include <stdio.h>
#include <string.h>

#define MAX_NAME 300
#define MARK "\xE2\x96\x81" /* U+2581, before the first piece of a word */

static steno_status add_marked_piece(struct steno_nemo_job *j, const char *mark, const char *piece,
                                     size_t n)
{
    struct steno_buf *b = &j->tokens;
    steno_status st;
    if (memchr(piece, '\n', n))
        return steno_fail(j->err, STENO_ERR_FORMAT, "token %lld has a line break",
                          (long long)j->a.vocab);
    if (n >= STENO_SENTENCEPIECE_MAX_PIECE || j->a.vocab >= STENO_SENTENCEPIECE_MAX_PIECES)
        return steno_fail(j->err, STENO_ERR_LIMIT, "token %lld: too many or too long",
                          (long long)j->a.vocab);
    st = steno_buf_printf(b, "%s%.*s %lld\n", mark, (int)n, piece, (long long)j->a.vocab++);
    return st ? steno_fail(j->err, st, "tokens.txt: too large") : STENO_OK;
}

/* "nemo:HASH_tokenizer.model": the name in the archive. Else the only file of such a name. */
static steno_status find_tokenizer(struct steno_nemo_job *j, const char *section, const char *key,
                                   const char *ending, char out[MAX_NAME])
{
    const char *v = NULL;
    char path[MAX_NAME];
    steno_status st;
    snprintf(path, sizeof path, "%s.%s", section, key);
    st = steno_yaml_str(j->y, path, &v, j->err);
    if (st)
        return st;
    if (v && !strncmp(v, "nemo:", 5))
        v += 5;
    if (!v || !*v)
        return steno_bundle_only(j->b, ending, out, MAX_NAME, j->err);
    snprintf(out, MAX_NAME, "%s", v);
    return STENO_OK;
}

/* ---- kinds of tokenizers ------------------------------------------------------------------- */

static steno_status add_pieces(struct steno_nemo_job *j, const steno_sentencepiece *s, bool scores)
{
    steno_status st = STENO_OK;
    for (int32_t i = 0; i < steno_sentencepiece_count(s) && !st; i++) {
        const char *piece = steno_sentencepiece_piece(s, i);
        st = add_marked_piece(j, "", piece, strlen(piece));
        if (!st && scores)
            st = steno_buf_printf(&j->bpe, "%s\t%g\n", piece,
                                  (double)steno_sentencepiece_score(s, i));
    }
    return st;
}

static steno_status read_bpe(struct steno_nemo_job *j, const char *section, bool scores)
{
    steno_sentencepiece *s = NULL;
    struct steno_blob blob = {0};
    char name[MAX_NAME];
    steno_status st = find_tokenizer(j, section, "model_path", ".model", name);
    if (!st)
        st = steno_bundle_read(j->b, name, STENO_SENTENCEPIECE_MAX_FILE, &blob, j->err);
    if (!st)
        st = steno_sentencepiece_parse(&s, blob.p, blob.n, name, j->err);
    if (!st)
        st = add_pieces(j, s, scores);
    steno_sentencepiece_close(s);
    steno_blob_close(&blob);
    return st;
}

/* WordPiece, a piece per line: "##ing" goes on with a word, "[UNK]" is a mark, all others begin a
 * word. */
static steno_status read_wpe(struct steno_nemo_job *j, const char *section)
{
    struct steno_blob blob = {0};
    char name[MAX_NAME];
    steno_status st = find_tokenizer(j, section, "vocab_path", "vocab.txt", name);
    const char *p, *end;
    if (!st)
        st = steno_bundle_read(j->b, name, STENO_NEMO_MAX_TEXT, &blob, j->err);
    p = blob.p;
    end = p ? p + blob.n : p;
    while (!st && p < end) {
        const char *stop = memchr(p, '\n', (size_t)(end - p));
        size_t n = (size_t)((stop ? stop : end) - p);
        const bool inner = n > 2 && p[0] == '#' && p[1] == '#';
        const char *mark = n && p[0] == '[' ? "" : MARK;
        if (n && p[n - 1] == '\r')
            n--;
        st = inner ? add_marked_piece(j, "", p + 2, n - 2) : add_marked_piece(j, mark, p, n);
        p = stop ? stop + 1 : end;
    }
    steno_blob_close(&blob);
    return st;
}

/* A vocabulary in the configuration: characters, or pieces if the tokenizer's file is missing. */
static steno_status read_label_list(struct steno_nemo_job *j)
{
    static const char *const paths[] = {"joint.vocabulary", "decoder.vocabulary",
                                        "aux_ctc.decoder.vocabulary", "labels"};
    const struct steno_yaml_node *list = NULL;
    steno_status st = STENO_OK;
    for (size_t i = 0; i < sizeof paths / sizeof *paths && !list; i++) {
        list = steno_yaml_find(j->y, paths[i]);
        if (list && (list->kind != STENO_YAML_LIST || !list->n))
            list = NULL;
    }
    if (!list)
        return steno_fail(j->err, STENO_ERR_FORMAT,
                          "%s: neither tokenizer, joint.vocabulary, decoder.vocabulary nor labels "
                          "has tokens",
                          steno_yaml_name(j->y));
    for (const struct steno_yaml_node *n = list->first; n && !st; n = n->next)
        st = n->kind == STENO_YAML_SCALAR
                 ? add_marked_piece(j, "", n->text, strlen(n->text))
                 : steno_fail(j->err, STENO_ERR_FORMAT, "%s: line %zu: a token is no text",
                              steno_yaml_name(j->y), n->line);
    return st;
}

static steno_status read_one(struct steno_nemo_job *j, const char *section, bool scores)
{
    const char *type = "bpe";
    char path[MAX_NAME];
    steno_status st;
    snprintf(path, sizeof path, "%s.type", section);
    st = steno_conf_choice(j->y, path, "bpe|wpe", &type, j->err);
    if (st)
        return st;
    return strcmp(type, "wpe") ? read_bpe(j, section, scores) : read_wpe(j, section);
}

/* A tokenizer for each language; their tokens come one after the other. */
static steno_status read_tokenizers(struct steno_nemo_job *j)
{
    const struct steno_yaml_node *langs = steno_yaml_find(j->y, "tokenizer.langs");
    char section[MAX_NAME];
    steno_status st = STENO_OK;
    if (!langs || langs->kind != STENO_YAML_MAP || !langs->n)
        return steno_yaml_missing(j->y, "tokenizer.langs", j->err);
    for (const struct steno_yaml_node *n = langs->first; n && !st; n = n->next) {
        snprintf(section, sizeof section, "tokenizer.langs.%s", n->key);
        st = read_one(j, section, false);
    }
    return st;
}

steno_status steno_nemo_read_tokens(struct steno_nemo_job *j)
{
    const bool any = !steno_yaml_null(steno_yaml_find(j->y, "tokenizer.type"));
    const char *type = NULL;
    steno_status st = steno_yaml_str(j->y, "tokenizer.type", &type, j->err);
    if (st)
        return st;
    if (!any)
        st = read_label_list(j);
    else
        st = strcmp(type, "agg") ? read_one(j, "tokenizer", !j->a.aed.layers) : read_tokenizers(j);
    j->a.aed.rows = (j->a.vocab + 7) / 8 * 8;
    if (st || j->a.aed.layers) /* an attention decoder has no blank */
        return st;
    st = steno_buf_printf(&j->tokens, "<blk> %lld\n", (long long)j->a.vocab);
    return st ? steno_fail(j->err, st, "tokens.txt: too large") : STENO_OK;
}
