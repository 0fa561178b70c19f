/* The segments that a stream's recording was cut into, as the sections of its hypothesis. Confined.
 */
#ifndef STENO_FAMILIES_WHISPER_SECTIONS_H
#define STENO_FAMILIES_WHISPER_SECTIONS_H

#include "base/buf.h"
#include "speech/families/whisper/recording.h"
#include "steno.h"

struct steno_whisper_sections { /* zero-initialised: call steno_whisper_sections_init */
    struct steno_section *v;
    size_t n, cap;
    struct steno_buf text; /* of each, terminated */
};

void steno_whisper_sections_init(struct steno_whisper_sections *s);
void steno_whisper_sections_free(struct steno_whisper_sections *s);
/* Back to the first n, whose texts have this length together. */
void steno_whisper_sections_cut(struct steno_whisper_sections *s, size_t n, size_t text);
/* Append segment g of a window: its text is spans [span, span + n_spans) of the hypothesis. False:
 * out of memory. */
bool steno_whisper_sections_add(struct steno_whisper_sections *s,
                                const struct steno_whisper_segment *g,
                                const struct steno_whisper_decoded *window, size_t span,
                                size_t n_spans);
/* All of them [s->n], as struct steno_hypothesis has them; valid until the next add. ids: those of
 * all sections, one section behind the other. */
const struct steno_section *steno_whisper_sections_list(struct steno_whisper_sections *s,
                                                        const int32_t *ids);

#endif
