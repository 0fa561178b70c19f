/* Filters and texts, with a line end between: flags, words for others, or a word to mask, then the
 * text. Checks: what the words
 * spell is the text, digits that are to be redacted are not there. */
/* covers: engine/speech/recognizer/filters.c engine/speech/recognizer/filter_pieces.c */
/* covers: engine/speech/recognizer/redact.c */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "speech/recognizer/filters.h"

#define MAX_WORDS 512

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

static void check(const struct steno_event *ev, bool every_number)
{
    const char *p = ev->text;
    for (size_t i = 0; i < ev->n_words; i++) {
        p = strstr(p, ev->words[i].text);
        if (!p || ev->words[i].end < ev->words[i].start)
            abort();
        p += strlen(ev->words[i].text);
    }
    for (p = ev->text; every_number && *p; p++)
        if (isdigit((unsigned char)*p))
            abort();
    if (ev->stable_bytes > strlen(ev->text) || ev->stable_words > ev->n_words)
        abort();
}

static void filter(const struct steno_filter_options *h, char *text, bool partial,
                   bool every_number)
{
    struct steno_word words[MAX_WORDS];
    struct steno_event ev = {.kind = partial ? STENO_PARTIAL : STENO_FINAL, .text = text};
    char *copy = strdup(text), *rest = copy, *one;
    steno_arena *a = steno_arena_new(0);
    steno_filters *f;
    if (!copy || !a || steno_filters_open(&f, h, NULL)) {
        free(copy);
        steno_arena_free(a);
        return;
    }
    while ((one = strsep(&rest, " ")) && ev.n_words < MAX_WORDS)
        if (*one) {
            words[ev.n_words] = (struct steno_word){
                .text = one, .start = (double)ev.n_words, .end = (double)ev.n_words + 1};
            ev.n_words++;
        }
    ev.words = words;
    ev.stable_words = ev.n_words;
    ev.stable_bytes = strlen(text);
    if (f && !steno_filters_apply(f, &ev, a))
        check(&ev, every_number);
    steno_filters_close(f);
    steno_arena_free(a);
    free(copy);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    static const char *const redact[] = {"aggressive_numbers", "numbers,email",
                                         "pci,ssn,phone,email", NULL};
    char *text = n > 1 ? malloc(n) : NULL, *replace, *rest;
    if (!text)
        return 0;
    memcpy(text, data + 1, n - 1);
    text[n - 1] = '\0';
    rest = text;
    replace = strsep(&rest, "\n");
    if (rest)
        filter(&(struct steno_filter_options){.redact = redact[data[0] & 3],
                                              .replace = data[0] & 16 ? NULL : replace,
                                              .mask = data[0] & 16 ? replace : NULL,
                                              .no_fillers = data[0] & 8},
               rest, data[0] & 4, (data[0] & 3) == 0 && !*replace);
    free(text);
    return 0;
}
