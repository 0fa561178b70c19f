#include "speech/families/common/greedy_text.h"

#include <stdlib.h>

#include "base/array.h"
#include "speech/families/common/scores.h"

steno_status steno_greedy_text_open(struct steno_greedy_text *t, int vocab, steno_err *err)
{
    t->vocab = vocab;
    t->row = malloc((size_t)vocab * sizeof *t->row);
    return t->row ? STENO_OK : steno_fail(err, STENO_ERR_NOMEM, "out of memory");
}

void steno_greedy_text_close(struct steno_greedy_text *t)
{
    free(t->row);
    free(t->spans);
}

steno_status steno_greedy_text_begin(struct steno_greedy_text *t, size_t most, steno_err *err)
{
    t->n = 0;
    t->score = 0;
    if (STENO_RESERVE(&t->spans, &t->cap, most))
        return steno_fail(err, STENO_ERR_NOMEM, "out of memory for %zu tokens", most);
    return STENO_OK;
}

int32_t steno_greedy_text_add(struct steno_greedy_text *t, const float *scores, int32_t end)
{
    const int32_t token = steno_scores_likeliest(scores, t->vocab);
    steno_log_softmax(scores, (size_t)t->vocab, t->row);
    if (token != end) {
        t->spans[t->n++] = (struct steno_span){.token = token, .peak = t->row[token]};
        t->score += (double)t->row[token];
    }
    return token;
}

void steno_greedy_text_share(struct steno_greedy_text *t, size_t frames)
{
    for (size_t i = 0; i < t->n; i++) {
        const int64_t first = (int64_t)(i * frames / t->n);
        const int64_t next = (int64_t)((i + 1) * frames / t->n);
        t->spans[i].first = first;
        t->spans[i].last = next > first ? next - 1 : first;
    }
}

steno_status steno_greedy_text_list(const struct steno_greedy_text *t,
                                    const struct steno_offline_piece *p)
{
    const steno_status st = steno_hypothesis_list_add(p->out, t->spans, t->n, NULL, 0, t->score);
    return st ? steno_fail(p->err, st, "stream: out of memory") : STENO_OK;
}
