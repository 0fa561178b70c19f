/* For fuzz targets of Whisper's weights: what a reader accepted can be read. */
#ifndef STENO_TESTS_WHISPER_ROWS_H
#define STENO_TESTS_WHISPER_ROWS_H

#include <stdlib.h>

#include "speech/families/whisper/weights_internal.h"

/* Read every row of at most `most` elements, and close w. */
static inline void whisper_rows_read(steno_whisper_weights *w, size_t most)
{
    for (size_t i = 0; i < w->n; i++) {
        const size_t length = steno_whisper_row_length(&w->tensor[i]);
        float *row = length <= most ? malloc((length + 1) * sizeof *row) : NULL;
        for (size_t r = 0; row && r < steno_whisper_row_count(&w->tensor[i]); r++)
            steno_whisper_rows(&w->tensor[i], r, 1, row);
        free(row);
    }
    steno_whisper_weights_close(w);
}

#endif
