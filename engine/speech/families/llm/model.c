#include "speech/families/llm/model.h"

/* ---- models ---------------------------------------------------------------------------------- */

void steno_llm_model_close(void *model)
{
    struct steno_llm_model *m = model;
    steno_llm_close(&m->llm);
    m->vocabulary.tokens = NULL; /* the shell closes them */
    steno_llm_vocabulary_close(&m->vocabulary);
}

steno_status steno_llm_model_take(struct steno_llm_model *m, steno_status st)
{
    m->base.tokens = m->vocabulary.tokens;
    m->llm.vocab = st ? 0 : steno_tokens_count(m->base.tokens);
    return st;
}

void steno_llm_model_info(const void *model, struct steno_family_info *out)
{
    const struct steno_llm_model *m = model;
    out->network = m->llm.decoder.name;
    out->languages = m->languages;
    out->detects_language = out->writes = true;
    out->weight_bytes += steno_llm_weight_bytes(&m->llm);
}

void steno_llm_model_describe(const struct steno_llm_model *m, const struct steno_model_info *i,
                              FILE *out)
{
    fprintf(out, "networks   ");
    for (int k = 0; k < STENO_SHELL_PARTS; k++)
        if (m->base.part[k].name)
            fprintf(out, "%s, ", m->base.part[k].name);
    if (m->llm.embedding.name)
        fprintf(out, "%s, ", m->llm.embedding.name);
    fprintf(out, "%s%s\n", m->llm.decoder.name, m->llm.decoder.quantized ? ", 8 bits" : "");
    steno_llm_describe(&m->llm, i, out);
    steno_offline_describe(&m->base.offline, i, out);
    steno_llm_describe_caches(&m->llm, out);
}

/* ---- streams --------------------------------------------------------------------------------- */

void steno_llm_stream_close(void *stream)
{
    steno_llm_prompt_close(&((struct steno_llm_stream *)stream)->prompt);
}

size_t steno_llm_context(const struct steno_llm_model *m)
{
    return (size_t)m->llm.positions / STENO_LLM_CONTEXT_SHARE;
}

/* ---- workers --------------------------------------------------------------------------------- */

steno_status steno_llm_worker_open(void *worker, const void *model, int max, steno_err *err)
{
    const struct steno_llm_model *m = model;
    (void)max;
    return steno_llm_run_open(&((struct steno_llm_worker *)worker)->run, &m->llm, &m->base, err);
}

void steno_llm_worker_close(void *worker)
{
    steno_llm_run_close(&((struct steno_llm_worker *)worker)->run);
}

const struct steno_llm_prompt *steno_llm_prompt_of(const struct steno_offline_piece *p)
{
    return &((const struct steno_llm_stream *)p->settings)->prompt;
}

steno_status steno_llm_list(struct steno_llm_worker *w, struct steno_offline_piece *p,
                            size_t frames)
{
    const char *language = steno_llm_prompt_of(p)->language;
    if (language) {
        p->language = language;
        p->language_probability = 1;
    }
    steno_greedy_text_share(&w->run.text, frames);
    return steno_greedy_text_list(&w->run.text, p);
}
