/* ldflags: -Wl,--wrap=malloc,--wrap=calloc,--wrap=realloc,--wrap=aligned_alloc */
/* The 1st, 2nd, ... nth allocation fails in a stream over a streaming directory of espnet_onnx.
 * Each time there is an error and no leak, and the model still works: the next stream gives the
 * same text as one without faults. Needs ../shared. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "speech/audio/file.h"
#include "steno.h"
#include "tests/support/alloc_fail.h"
#include "tests/support/shared.h"
#include "tests/support/test.h"

/* `said` gets the final's text. */
static steno_status speak(steno_model *m, const float *pcm, size_t n, char *said, size_t size)
{
    struct steno_stream_options o = {.sample_rate = 16000, .beam = 4, .no_endpointing = true};
    struct steno_event ev;
    steno_stream *s = NULL;
    steno_err err = {0};
    steno_status st = steno_stream_open(&s, m, &o, &err);
    if (!st)
        st = steno_stream_push(s, pcm, n, &err);
    if (!st)
        st = steno_stream_end(s, &err);
    said[0] = '\0';
    while (!st && steno_stream_next(s, &ev))
        if (ev.kind == STENO_FINAL)
            snprintf(said, size, "%s", ev.text);
    steno_stream_close(s);
    return st;
}

static float *read_audio(size_t *n)
{
    size_t size, k = 1;
    void *bytes = steno_test_shared("audio/librispeech/61-70968-0002.flac", &size);
    steno_audio *a = NULL;
    float *pcm = calloc(100000, sizeof *pcm);
    if (!bytes || !pcm) {
        free(pcm);
        return NULL;
    }
    assert_int_equal(steno_audio_open_mem(&a, bytes, size, NULL, NULL), 0);
    for (*n = 0; k; *n += k)
        assert_int_equal(steno_audio_read(a, pcm + *n, 100000 - *n, &k, NULL), 0);
    steno_audio_close(a);
    free(bytes);
    return pcm;
}

static void a_failed_allocation_ends_one_stream_alone(void **state)
{
    const char *root = getenv("STENO_SHARED");
    char dir[512], want[1024], said[1024];
    steno_model *m = NULL;
    steno_err err;
    size_t n = 0;
    float *pcm = read_audio(&n);
    long failed = 0, nth = 0;
    (void)state;
    if (!pcm)
        skip();
    snprintf(dir, sizeof dir, "%s/zoo/tiny/espnet-stream-conformer-op13",
             root ? root : "../shared");
    if (steno_model_open(&m, dir, NULL, &err))
        fail_msg("%s", err.msg);
    for (bool hit = true; hit; nth++) { /* until the scenario has fewer allocations */
        steno_status st;
        alloc_left = nth;
        st = speak(m, pcm, n, said, sizeof said);
        hit = alloc_left < 0;
        alloc_left = -1;
        if (st && st != STENO_ERR_NOMEM)
            fail_msg("allocation %ld: status %d", nth, (int)st);
        failed += st != STENO_OK;
        assert_true(!hit || st || said[0]);
    }
    assert_true(failed > 20);
    assert_int_equal(speak(m, pcm, n, want, sizeof want), STENO_OK);
    assert_string_equal(said, want); /* the last run had no fault */
    steno_model_close(m);
    free(pcm);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_failed_allocation_ends_one_stream_alone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
