/* Texts and grammars: a transducer of the input's arcs, as a chain of two and as a tagger with its
 * verbalizer; and texts as those of a tagger. Checks: origins lie in the text and, in a chain, do
 * not go back; the shield covers whole words. */
/* covers: engine/speech/itn/itn.c engine/speech/itn/fields.c engine/speech/itn/rewrite.c */
/* covers: engine/speech/itn/shield.c */
/* link: tests/support/fst_make.c */
#include <stdlib.h>
#include <string.h>

#include "speech/itn/fields.h"
#include "speech/itn/internal.h"
#include "speech/itn/shield.h"
#include "tests/support/fst_make.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

#define ARC 5 /* bytes: from, input, output, weight, to */

static void write(steno_itn_writer *w, const steno_itn *g, const char *text)
{
    struct steno_itn_text t;
    uint32_t last = 0;
    if (steno_itn_write(w, g, text, &t, NULL))
        return;
    if (t.n != strlen(t.text))
        abort();
    for (size_t i = 0; i < t.n; i++) {
        if (t.origin[i].begin > t.origin[i].end || t.origin[i].end > strlen(text) ||
            (!g->tagged && t.origin[i].begin < last))
            abort();
        last = t.origin[i].begin;
    }
}

static void order(const char *text)
{
    struct steno_itn_fields f = {0};
    struct steno_buf out;
    steno_buf_init(&out, 1 << 20);
    if (!steno_itn_fields_order(text, strlen(text), &out, &f))
        for (size_t i = 0; i < f.n; i++)
            if (f.field[i].tagged >= f.field[i].tagged_end ||
                f.field[i].tagged_end > strlen(text) ||
                f.field[i].ordered >= f.field[i].ordered_end || f.field[i].ordered_end > out.len)
                abort();
    steno_buf_free(&out);
    free(f.field);
}

static void shield(const char *text)
{
    char *covered = strdup(text);
    if (!covered || steno_itn_shield_english(covered) || strlen(covered) != strlen(text))
        abort();
    for (size_t i = 0; text[i]; i++) {
        const bool changed = covered[i] != text[i];
        if (changed && covered[i] != STENO_ITN_SHIELD)
            abort();
        if (i && text[i] != ' ' && text[i - 1] != ' ' && changed != (covered[i - 1] != text[i - 1]))
            abort();
    }
    free(covered);
}

/* What is decided is a begin of the text. */
static void decide_begin(steno_itn_writer *w, const steno_itn *g, char *text)
{
    size_t n;
    for (int shielded = 0; shielded < 2; shielded++)
        if (!steno_itn_decided(w, g, text, shielded, &n) && n > strlen(text))
            abort();
    if (steno_itn_shield_decided(text, &n) || n > strlen(text))
        abort();
}

/* The first byte is the number of arcs, up to 64. */
static size_t read_arcs(const uint8_t *data, size_t n, struct fst_make *m)
{
    size_t at = 1;
    fst_make_start(m);
    m->final[0] = 0;
    while (m->n_states < 16)
        (void)fst_make_state(m, m->n_states % 3 ? 1 : 0);
    for (size_t i = 0; i < data[0] % 64 && at + ARC <= n; i++, at += ARC)
        fst_make_add(m, data[at] % 16, data[at + 1], data[at + 2], (float)(int8_t)data[at + 3],
                     data[at + 4] % 16);
    return at;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    struct fst_make m;
    steno_itn g = {0};
    steno_itn_writer *w = steno_itn_writer_new();
    size_t at = n ? read_arcs(data, n, &m) : 0, size = 0;
    char *text = malloc(n - at + 1);
    unsigned char *file = n ? fst_make_bytes(&m, FST_MAKE_VECTOR, &size) : NULL;
    if (text && w && file && !steno_fst_parse(&g.stage, file, size, "fuzz", NULL) &&
        !steno_fst_parse(&g.stage, file, size, "fuzz", NULL)) {
        memcpy(text, data + at, n - at);
        text[n - at] = '\0';
        write(w, &g, text);
        g.tagged = true;
        write(w, &g, text);
        order(text);
        shield(text);
        decide_begin(w, &g, text);
    }
    free(file);
    free(text);
    steno_itn_writer_free(w);
    steno_fst_list_free(&g.stage);
    return 0;
}
