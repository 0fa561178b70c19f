/* What is told of a model of NeMo: its languages, its sizes, a description for people. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/path.h"
#include "speech/families/nemo/internal.h"

#define BLANK "<blk>"
#define RUSSIAN "ru" /* of GigaAM */

/* The languages of well-known models, by the metadata `url` (as their cards say); "": not known. */
static const char *languages_of(const char *url)
{
    static const struct {
        const char *part, *languages;
    } known[] = {{"parakeet-tdt-0.6b-v3",
                  "bg hr cs da nl en et fi fr de el hu it lv lt mt pl pt ro sk sl es sv ru uk"},
                 {"parakeet-tdt-0.6b-v2", "en"},
                 {"-en-", "en"},
                 {"_en_", "en"}};
    for (size_t i = 0; url && i < sizeof known / sizeof *known; i++)
        if (strstr(url, known[i].part))
            return known[i].languages;
    return "";
}

/* Those of a Canary, which its vocabulary names. */
static bool canary_languages(const char *dir, struct steno_model_languages *out)
{
    steno_tokens *tokens = NULL;
    for (int i = 0; i < 2 && !tokens; i++) {
        char *path = steno_path_join(dir, i ? "vocab.txt" : "tokens.txt");
        if (path && steno_path_readable(dir, i ? "vocab.txt" : "tokens.txt"))
            (void)!steno_tokens_open(&tokens, path, NULL);
        free(path);
    }
    if (!tokens)
        return false;
    steno_language_marks(tokens, out->languages, sizeof out->languages);
    out->translates = *out->languages && steno_language_mark(tokens, "en") >= 0;
    steno_tokens_close(tokens);
    return *out->languages;
}

static void prompt_languages(const steno_onnx_head *h, struct steno_model_languages *out)
{
    struct steno_nemo_prompts p;
    if (!steno_nemo_prompts_read(&p, h, "", NULL))
        memcpy(out->languages, p.languages, sizeof p.languages);
    steno_nemo_prompts_free(&p);
}

static bool file_languages(const char *path, struct steno_model_languages *out)
{
    const struct steno_nemo_file_info *i;
    struct steno_nemo_prompts p = {0};
    steno_nemo_file *f;
    if (steno_nemo_file_open(&f, path, NULL, 0, NULL))
        return false;
    i = steno_nemo_file_info(f);
    if (i->prompts)
        (void)!steno_nemo_prompts_parse(&p, i->prompts, i->automatic, path, NULL);
    snprintf(out->languages, sizeof out->languages, "%s", i->prompts ? p.languages : i->languages);
    steno_nemo_prompts_free(&p);
    steno_nemo_file_close(f);
    return *out->languages;
}

bool steno_nemo_languages(const char *dir, struct steno_model_languages *out)
{
    steno_onnx_head *h = steno_nemo_file_probe(dir) ? NULL : steno_nemo_conf_head(dir);
    const char *url = h ? steno_onnx_head_meta(h, "url") : NULL;
    const char *gigaam = h ? steno_onnx_head_meta(h, "is_giga_am") : NULL;
    snprintf(out->languages, sizeof out->languages, "%s",
             gigaam && strcmp(gigaam, "1") == 0 ? RUSSIAN : languages_of(url));
    if (h && steno_onnx_head_has_input(h, "prompt_index"))
        prompt_languages(h, out);
    steno_onnx_head_close(h);
    return *out->languages || file_languages(dir, out) || canary_languages(dir, out);
}

void steno_nemo_info(const void *model, struct steno_family_info *out)
{
    const struct steno_nemo_model *m = model;
    out->network = m->conf.encoder;
    out->results_of = m->sherpa ? "sherpa-onnx" : "";
    out->sample_rate = STENO_NEMO_RATE;
    out->frame_samples = steno_nemo_frame(m);
    out->language = out->languages = m->conf.gigaam ? RUSSIAN
                                     : m->file
                                         ? steno_nemo_file_info(m->file)->languages
                                         : languages_of(steno_network_meta(m->encoder, "url"));
    if (m->prompt >= 0) {
        out->languages = m->prompts.languages;
        out->language = "";
        out->detects_language = true;
    }
    if (m->conf.kind == STENO_NEMO_CANARY) {
        out->language = out->languages = m->canary.languages;
        out->translates = steno_language_mark(m->base.tokens, "en") >= 0;
    }
}

static const char *kind_of(const struct steno_nemo_model *m)
{
    if (m->conf.kind == STENO_NEMO_CTC)
        return "CTC";
    if (m->conf.kind == STENO_NEMO_CANARY)
        return "attention decoder (Canary)";
    return m->transducer.outputs > (size_t)steno_tokens_count(m->base.tokens)
               ? "transducer with durations (TDT)"
               : "transducer";
}

void steno_nemo_describe(const void *model, const struct steno_model_info *i, FILE *out)
{
    const struct steno_nemo_model *m = model;
    const struct steno_nemo_conf *c = &m->conf;
    fprintf(out, "model      %s, %s, %s%s\n", i->name, i->family, kind_of(m),
            !c->gigaam     ? ""
            : c->version_3 ? ", GigaAM 3"
                           : ", GigaAM");
    if (c->format)
        fprintf(out, "file       %s, %s\n", c->dir, c->format);
    else
        fprintf(out, "directory  %s, layout of %s\n", c->dir,
                c->onnx_asr ? "onnx-asr" : "sherpa-onnx");
    fprintf(out, "languages  %s%s\n", *i->languages ? i->languages : "not named",
            m->prompt >= 0 ? ", detected where none is named" : "");
    fprintf(out, "features   %d mel bins, %d Hz, as %s%s\n", i->feature_bins, i->sample_rate,
            m->sherpa ? "sherpa-onnx computes them" : "in training",
            c->per_feature ? ", normalised over each segment" : "");
    fprintf(out, "networks   %s%s%s%s%s%s\n", c->encoder, c->decoder ? ", " : "",
            c->decoder ? c->decoder : "", c->joiner ? ", " : "", c->joiner ? c->joiner : "",
            c->quantized ? ", 8 bits" : "");
    if (c->streaming)
        fprintf(out,
                "steps      streaming: %.0f ms and %.0f ms of lookahead, scores every %.0f ms\n",
                i->chunk_seconds * 1e3, i->lookahead_seconds * 1e3, i->frame_seconds * 1e3);
    else
        fprintf(out, "steps      whole segments of at most %.0f s, scores every %.0f ms\n",
                m->base.offline.cuts.full, i->frame_seconds * 1e3);
    if (c->streaming && m->endings[0] >= 0)
        fprintf(out, "turns      the model ends them, by <EOU>\n");
    if (c->kind == STENO_NEMO_CANARY)
        fprintf(out, "decoder    %zu tokens, %d memories of %lld, no hot words\n", i->vocab_size,
                m->canary.stacked ? (int)m->canary.layers : m->canary.n_memories,
                (long long)m->canary.hidden);
    else
        steno_shell_describe_search(&m->base, i, BLANK, out);
    steno_shell_describe_limits(i, out);
}
