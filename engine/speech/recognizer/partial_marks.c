#include "speech/recognizer/partial_marks.h"

#include <string.h>

/* The bytes of a text without the marks at its end. */
static size_t without_marks(const char *text, size_t n)
{
    static const char *const marks[] = {".",
                                        ",",
                                        "?",
                                        "!",
                                        ";",
                                        ":",
                                        "\xE2\x80\xA6",
                                        "\xE3\x80\x82",
                                        "\xEF\xBC\x8C",
                                        "\xEF\xBC\x9F",
                                        "\xEF\xBC\x81",
                                        "\xE3\x80\x81"}; /* … 。 ， ？ ！ 、 */
    for (size_t i = 0; i < sizeof marks / sizeof *marks;) {
        const size_t k = strlen(marks[i]);
        const bool ends = n > k && !memcmp(text + n - k, marks[i], k);
        n -= ends ? k : 0;
        i = ends ? 0 : i + 1;
    }
    return n;
}

steno_status steno_partial_drop_marks(struct steno_event *io, steno_arena *a)
{
    const size_t n = strlen(io->text), kept = without_marks(io->text, n);
    const struct steno_section *last = io->n_sections ? &io->sections[io->n_sections - 1] : NULL;
    struct steno_word *w;
    const char *word;
    if (kept == n || kept < io->stable_bytes || !io->n_words || io->stable_words == io->n_words ||
        (last && last->first_word + last->n_words == io->n_words))
        return STENO_OK;
    word = io->words[io->n_words - 1].text;
    if (strlen(word) <= n - kept || strcmp(word + strlen(word) - (n - kept), io->text + kept) != 0)
        return STENO_OK;
    w = steno_arena_calloc(a, io->n_words, sizeof *w);
    if (!w)
        return steno_arena_failure(a);
    memcpy(w, io->words, io->n_words * sizeof *w);
    w[io->n_words - 1].text = steno_arena_strndup(a, word, strlen(word) - (n - kept));
    io->words = w;
    io->text = steno_arena_strndup(a, io->text, kept);
    return io->text && w[io->n_words - 1].text ? STENO_OK : steno_arena_failure(a);
}
