/* Files of voice prints, and their names: what is read is written again and read as the same. */
/* covers: engine/speech/speakers/voiceprint.c */
#include <stdlib.h>
#include <string.h>

#include "speech/speakers/voiceprint.h"
#include "steno.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

static void read_name(const uint8_t *data, size_t n)
{
    char file[STENO_VOICEPRINT_FILE], again[STENO_VOICEPRINT_FILE], name[STENO_SPEAKER_NAME];
    if (n >= sizeof file)
        return;
    memcpy(file, data, n);
    file[n] = '\0';
    if (steno_voiceprint_person(name, file)) {
        steno_voiceprint_file(again, name);
        if (strcmp(again, file) != 0 || strchr(file, '/'))
            abort();
    }
    if (!steno_voiceprint_name_ok(file))
        return;
    steno_voiceprint_file(again, file);
    if (!steno_voiceprint_person(name, again) || strcmp(name, file) != 0)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    struct steno_voiceprint v, w;
    struct steno_buf out;
    steno_err err = {0};
    read_name(data, n);
    if (n > STENO_VOICEPRINT_MAX)
        return 0;
    if (steno_voiceprint_parse(&v, (const char *)data, n, &err)) {
        if (!err.msg[0] || v.print)
            abort();
        return 0;
    }
    steno_buf_init(&out, 2 * STENO_VOICEPRINT_MAX);
    if (steno_voiceprint_write(&out, &v) || steno_voiceprint_parse(&w, out.data, out.len, &err))
        abort();
    if (w.n != v.n || memcmp(v.print, w.print, v.n * sizeof *v.print) != 0)
        abort();
    free(v.print);
    free(w.print);
    steno_buf_free(&out);
    return 0;
}
