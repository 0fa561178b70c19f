/* Tokens by which a model ends turns, <EOU> and <EOB> of Parakeet EOU: the rule, and whole
 * streams of the small RNNT of ../shared/zoo/tiny, one of whose tokens gets such a name. Its
 * weights are random, so what it says means nothing; what ends where is checked against the same
 * network with the token's own name. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "speech/recognizer/endpoint.h"
#include "tests/support/nemo_zoo.h"
#include "tests/support/test.h"

#define MAX_FINALS 256

/* ---- the rule -------------------------------------------------------------------------------- */

static void what_the_model_says_comes_before_all_rules(void **state)
{
    struct steno_endpoint e = {
        .silence_alone = 50, .silence_after = 20, .longest = 100, .marks = true};
    struct steno_endpoint_state s = {.now = 10, .first = 2, .last = 9, .sound = 9};
    (void)state;
    assert_int_equal(steno_endpoint_check(&e, &s), STENO_ENDPOINT_NONE);
    s.ending = STENO_ENDING_TURN;
    assert_int_equal(steno_endpoint_check(&e, &s), STENO_ENDPOINT_TURN);
    s.ending = STENO_ENDING_BACKCHANNEL;
    assert_int_equal(steno_endpoint_check(&e, &s), STENO_ENDPOINT_BACKCHANNEL);
    s.now = 500; /* silence and length would end it too */
    assert_int_equal(steno_endpoint_check(&e, &s), STENO_ENDPOINT_BACKCHANNEL);
    s.first = -1; /* nothing was said: there is nothing to end */
    assert_int_equal(steno_endpoint_check(&e, &s), STENO_ENDPOINT_EMPTY);
    s.first = 2;
    e = (struct steno_endpoint){.marks = false}; /* endpoints are off */
    assert_int_equal(steno_endpoint_check(&e, &s), STENO_ENDPOINT_NONE);
}

/* ---- streams --------------------------------------------------------------------------------- */

static const struct set rnnt = {
    .dir = "nemo-rnnt-streaming", .part = "", .sherpa = true, .beam = 1, .streaming = true};

struct heard {
    struct {
        enum steno_final_reason reason;
        size_t n; /* tokens in all up to its end */
        char text[1024];
    } final[MAX_FINALS];
    size_t n_finals, starts;
    int32_t id[MAX_TOKENS];
    size_t n;
};

static void take(steno_stream *s, struct heard *h)
{
    struct steno_event ev;
    while (steno_stream_next(s, &ev)) {
        assert_null(strstr(ev.text, "<EO"));
        h->starts += ev.kind == STENO_SPEECH_START;
        if (ev.kind != STENO_FINAL)
            continue;
        assert_true(h->n_finals < MAX_FINALS && h->n + ev.n_tokens <= MAX_TOKENS);
        for (size_t i = 0; i < ev.n_tokens; i++)
            h->id[h->n++] = ev.tokens[i].id;
        h->final[h->n_finals].reason = ev.reason;
        h->final[h->n_finals].n = h->n;
        snprintf(h->final[h->n_finals++].text, sizeof h->final[0].text, "%s", ev.text);
    }
}

/* The directory of the set, in which token `id` has this name. NULL: its own. */
static const char *link_with(int32_t id, const char *piece)
{
    const char *dir = nemo_link(&rnnt);
    char path[256], line[512];
    FILE *in, *out;
    if (!piece)
        return dir;
    snprintf(path, sizeof path, "%s/tokens.txt", dir);
    in = fopen(path, "r");
    assert_non_null(in);
    assert_int_equal(unlink(path), 0);
    out = fopen(path, "w");
    assert_non_null(out);
    for (int32_t i = 0; fgets(line, sizeof line, in); i++)
        if (i == id)
            fprintf(out, "%s %d\n", piece, (int)id);
        else
            fputs(line, out);
    fclose(in);
    fclose(out);
    return dir;
}

static void hear(const struct audio *a, int32_t id, const char *piece, bool endpoints, size_t push,
                 struct heard *h)
{
    const char *dir = link_with(id, piece);
    steno_model *m = nemo_open_model(&rnnt, dir);
    struct steno_stream_options o = steno_stream_options_default();
    steno_stream *s;
    steno_err err;
    memset(h, 0, sizeof *h);
    o.sample_rate = RATE;
    o.no_endpointing = !endpoints;
    o.endpoint.silence_alone = o.endpoint.silence_after = o.endpoint.longest = 600;
    if (steno_stream_open(&s, m, &o, &err))
        fail_msg("%s", err.msg);
    for (size_t at = 0; at < a->n; at += push) {
        assert_int_equal(
            steno_stream_push(s, a->pcm + at, a->n - at < push ? a->n - at : push, NULL), STENO_OK);
        take(s, h);
    }
    assert_int_equal(steno_stream_end(s, NULL), STENO_OK);
    take(s, h);
    steno_stream_close(s);
    steno_model_close(m);
    nemo_unlink(dir);
}

static size_t find(const struct heard *h, int32_t id)
{
    size_t i = 0;
    while (i < h->n && h->id[i] != id)
        i++;
    return i;
}

/* A token that is not the first one said; the numbers of tokens before it and of its sort. */
static int32_t choose(const struct heard *h, size_t *at)
{
    for (*at = 0; *at < h->n && h->id[*at] == h->id[0]; ++*at)
        ;
    assert_true(*at < h->n);
    return h->id[*at];
}

static void a_turn_ends_at_its_token_which_is_never_shown(void **state)
{
    static const struct {
        const char *piece;
        enum steno_final_reason reason;
    } all[] = {{"<EOU>", STENO_FINAL_ENDPOINT}, {"<EOB>", STENO_FINAL_BACKCHANNEL}};
    static struct heard own, marked, pieces;
    struct audio a = nemo_audio("61-70968-0001", 0, SILENCE);
    size_t at;
    int32_t id;
    (void)state;
    if (!a.pcm)
        skip();
    hear(&a, 0, NULL, true, a.n, &own);
    assert_int_equal(own.n_finals, 1);
    id = choose(&own, &at);
    for (size_t i = 0; i < 2; i++) {
        hear(&a, id, all[i].piece, true, a.n, &marked);
        assert_true(marked.n_finals > 1);
        assert_int_equal(find(&marked, id), at);
        assert_memory_equal(marked.id, own.id, (at + 1) * sizeof own.id[0]);
        assert_int_equal(marked.final[0].reason, all[i].reason);
        assert_true(marked.final[0].n > at && *marked.final[0].text);
        assert_true(marked.starts <= marked.n_finals);
        for (size_t k = 0; k < marked.n_finals; k++) /* no final of a mark alone */
            assert_true(k + 1 == marked.n_finals || *marked.final[k].text);
        hear(&a, id, all[i].piece, true, 777, &pieces); /* as it was cut into pushes or not */
        assert_int_equal(pieces.n_finals, marked.n_finals);
        assert_int_equal(pieces.n, marked.n);
        assert_memory_equal(pieces.id, marked.id, marked.n * sizeof marked.id[0]);
    }
    free(a.pcm);
}

static void a_mark_alone_is_nothing(void **state)
{
    static struct heard own, marked;
    struct audio a = nemo_audio("61-70968-0001", 0, SILENCE);
    (void)state;
    if (!a.pcm)
        skip();
    hear(&a, 0, NULL, true, a.n, &own);
    hear(&a, own.id[0], "<EOU>", true, a.n, &marked); /* it is the first token */
    for (size_t k = 0; k + 1 < marked.n_finals; k++)
        assert_true(*marked.final[k].text);
    assert_true(marked.starts <= marked.n_finals);
    free(a.pcm);
}

static void without_endpoints_tokens_end_nothing(void **state)
{
    static struct heard own, marked;
    struct audio a = nemo_audio("61-70968-0001", 0, SILENCE);
    size_t at;
    (void)state;
    if (!a.pcm)
        skip();
    hear(&a, 0, NULL, false, a.n, &own);
    hear(&a, choose(&own, &at), "<EOU>", false, a.n, &marked);
    assert_int_equal(marked.n_finals, 1);
    assert_int_equal(marked.n, own.n);
    assert_memory_equal(marked.id, own.id, own.n * sizeof own.id[0]);
    free(a.pcm);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_the_model_says_comes_before_all_rules),
        cmocka_unit_test(a_turn_ends_at_its_token_which_is_never_shown),
        cmocka_unit_test(a_mark_alone_is_nothing),
        cmocka_unit_test(without_endpoints_tokens_end_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
