/* Opens a model directory: finds its family and asks the family about it. */
#include "speech/recognizer/model.h"

#include "base/path.h"
#include "speech/families/option.h"
#include "speech/families/registry.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct steno_model_options steno_model_options_default(void)
{
    return (struct steno_model_options){.threads = 1};
}

/* The first of n files that the directory has; NULL: none. */
static const char *first_of(const char *dir, const char *const *files, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (steno_path_readable(dir, files[i]))
            return files[i];
    return NULL;
}

/* A file of the directory that Kaldi's decoders read; NULL: there is none. */
static const char *kaldi_file(const char *dir)
{
    static const char *const files[] = {"am/final.mdl", "final.mdl", "graph/HCLG.fst",
                                        "graph/HCLr.fst", "HCLG.fst"};
    return first_of(dir, files, sizeof files / sizeof *files);
}

/* Weights of Hugging Face's layout; NULL: there are none. */
static const char *hugging_face_file(const char *dir)
{
    static const char *const files[] = {"model.safetensors", "model.safetensors.index.json",
                                        "pytorch_model.bin"};
    return first_of(dir, files, sizeof files / sizeof *files);
}

/* GGUF by its name, ggml by its content as well, since others call theirs .bin, too. */
static int rank_whole_model(const char *name, const void *dir)
{
    char *path = steno_path_join(dir, name);
    const bool is = path && (steno_path_ends(path, ".gguf") ||
                             (steno_path_ends(path, ".bin") && steno_family_of(path)));
    free(path);
    return is;
}

/* Count the GGUF and ggml files of a directory. *path: the first, to be freed by the caller; NULL:
 * there is none, or no memory. */
static size_t whole_models(const char *dir, char **path)
{
    char *name;
    size_t n = 0;
    *path = NULL;
    if (!steno_path_find(&name, dir, rank_whole_model, dir, &n, NULL) && name)
        *path = steno_path_join(dir, name);
    free(name);
    return n;
}

/* Where a model lies: the directory or file that is named, or the one GGUF or ggml file of a
 * directory that no family knows. */
struct place {
    const struct steno_family *family; /* NULL: none */
    const char *path;
    char *file; /* path, or NULL: it is the one that was named */
};

static struct place find_place(const char *dir)
{
    struct place p = {.family = steno_family_of(dir), .path = dir};
    if (p.family || whole_models(dir, &p.file) != 1 || !p.file)
        return p;
    p.path = p.file;
    p.family = steno_family_of(p.path);
    return p;
}

/* What keeps those weights from being served. */
static steno_status unknown_hugging_face(const char *dir, const char *file, steno_err *err)
{
    if (!steno_path_readable(dir, "config.json"))
        return steno_fail(err, STENO_ERR_IO,
                          "%s: %s needs config.json beside it, which says what model it is", dir,
                          file);
    return steno_fail(err, STENO_ERR_UNSUPPORTED,
                      "%s: %s is served where config.json has the model_type whisper (as "
                      "safetensors); steno convert makes models of other checkpoints",
                      dir, file);
}

/* What else a directory may be; NULL: none of these. */
static const char *what_else(const char *dir)
{
    static const struct {
        bool (*is)(const char *dir);
        const char *what;
    } others[] = {
        {steno_vad_is_dir, "silero-vad tells speech from silence and is no model (steno transcribe "
                           "--vad silero, stenod's vad.model)"},
        {steno_speakers_is_dir, "these networks tell speakers apart and are no model (steno "
                                "speakers, steno transcribe --speakers auto)"},
        {steno_punctuator_is_dir, "this network writes marks of text and is no model (steno "
                                  "punctuate, steno transcribe --punctuation auto)"}};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (others[i].is(dir))
            return others[i].what;
    return NULL;
}

static steno_status no_family(const char *dir, steno_err *err)
{
    char names[512];
    size_t n = 0;
    for (size_t i = 0; steno_families[i] && n < sizeof names; i++)
        n += (size_t)snprintf(names + n, sizeof names - n, "%s%s", i ? ", " : "",
                              steno_families[i]->name);
    return steno_fail(err, STENO_ERR_FORMAT,
                      "%s: not a model's directory: it has the files of none of the families %s "
                      "(docs/models.md says which those are)",
                      dir, names);
}

/* No family knows the directory. */
static steno_status unknown_family(const char *dir, steno_err *err)
{
    const char *kaldi = kaldi_file(dir), *hugging_face = hugging_face_file(dir), *what;
    char *file;
    size_t n;
    if (access(dir, F_OK))
        return steno_fail(err, STENO_ERR_IO, "%s: there is no such directory", dir);
    if (!steno_path_is_dir(dir))
        return steno_fail(err, STENO_ERR_FORMAT,
                          "%s: not a model; one file may be Whisper's: of CTranslate2, whisper.cpp "
                          "or OpenAI, safetensors beside their config.json, an ONNX encoder beside "
                          "its decoder",
                          dir);
    what = what_else(dir);
    if (what)
        return steno_fail(err, STENO_ERR_UNSUPPORTED, "%s: %s", dir, what);
    if (kaldi)
        return steno_fail(
            err, STENO_ERR_UNSUPPORTED,
            "%s: %s is of a Kaldi model, as vosk has them: acoustic models and graphs "
            "of Kaldi are not served",
            dir, kaldi);
    if (hugging_face)
        return unknown_hugging_face(dir, hugging_face, err);
    n = whole_models(dir, &file);
    free(file);
    if (n > 1)
        return steno_fail(err, STENO_ERR_UNSUPPORTED,
                          "%s: there are %zu GGUF and ggml files: the model is one of them", dir,
                          n);
    return no_family(dir, err);
}

/* Whether the model writes marks itself: its family does, or marks that end sentences are pieces of
 * its vocabulary. */
static bool writes_marks(const steno_model *m)
{
    static const char *const marks[] = {".", "?", "\xE3\x80\x82", "\xEF\xBC\x9F"}; /* 。 ？ */
    for (size_t i = 0; i < sizeof marks / sizeof *marks; i++)
        if (steno_tokens_find(m->info.tokens, marks[i]) >= 0)
            return true;
    return m->info.writes;
}

static steno_status open_impl(steno_model *m, const char *path,
                              const struct steno_model_options *opt,
                              const struct steno_observer *observer, steno_err *err)
{
    struct steno_family_open o = {.family = m->family,
                                  .dir = path,
                                  .cpu = opt->cpu,
                                  .threads = m->threads,
                                  .plain = opt->plain,
                                  .precision = opt->precision,
                                  .options = opt->options,
                                  .n_options = opt->n_options,
                                  .observer = observer};
    steno_status st = steno_options_check(m->family, o.options, o.n_options, err);
    if (!st && opt->threads < 0)
        st = steno_fail(err, STENO_ERR_INVAL, "threads: %d is below 0", opt->threads);
    if (!st && (unsigned)opt->precision > STENO_AUTO_WEIGHTS)
        st = steno_fail(err, STENO_ERR_INVAL, "precision: there is no number %u",
                        (unsigned)opt->precision);
    if (st)
        return steno_fail_in(err, st, "%s", m->dir);
    st = m->family->open(&m->impl, &o, err);
    if (st)
        return st;
    m->family->info(m->impl, &m->info);
    m->writes_marks = writes_marks(m);
    st = steno_confidence_map_open(&m->confidence, m->dir, err);
    if (!st)
        st = steno_model_use_grammars(m, NULL, err);
    return st ? st : steno_model_use_punctuators(m, NULL, err);
}

steno_status steno_model_open_observed(steno_model **out, const char *dir,
                                       const struct steno_model_options *opt,
                                       const struct steno_observer *observer, steno_err *err)
{
    const struct steno_model_options none = steno_model_options_default();
    const struct place p = find_place(dir);
    steno_model *m = p.family ? calloc(1, sizeof *m) : NULL;
    steno_status st;
    if (m)
        m->dir = strdup(dir);
    if (!m || !m->dir) {
        st = p.family ? steno_fail(err, STENO_ERR_NOMEM, "%s: out of memory", dir)
                      : unknown_family(p.path, err);
        free(m);
        free(p.file);
        return st;
    }
    m->family = p.family;
    m->threads = opt && opt->threads > 0 ? opt->threads : 1;
    st = open_impl(m, p.path, opt ? opt : &none, observer, err);
    free(p.file);
    if (st)
        steno_model_close(m);
    else
        *out = m;
    return st;
}

steno_status steno_model_open(steno_model **out, const char *dir,
                              const struct steno_model_options *opt, steno_err *err)
{
    return steno_model_open_observed(out, dir, opt, NULL, err);
}

void steno_model_close(steno_model *m)
{
    if (!m)
        return;
    if (m->impl)
        m->family->close(m->impl);
    steno_by_language_close(&m->grammars, &steno_grammars);
    steno_by_language_close(&m->punctuators, &steno_punctuators);
    free(m->dir);
    free(m);
}

/* Open a list anew; the old one stays if that fails. */
static steno_status use_tools(const steno_model *m, struct steno_by_language *io,
                              const struct steno_tool_kind *kind, const char *list, steno_err *err)
{
    const struct steno_family_info *i = &m->info;
    struct steno_by_language b = {0};
    const steno_status st = steno_by_language_open(
        &b, kind, m->dir, i->languages ? i->languages : i->language, list, err);
    if (st) {
        steno_by_language_close(&b, kind);
        return st;
    }
    steno_by_language_close(io, kind);
    *io = b;
    return STENO_OK;
}

/* Families with an option of their own write numbers themselves, and so do others (Whisper). */
steno_status steno_model_use_grammars(steno_model *m, const char *list, steno_err *err)
{
    return steno_options_family_has(m->family, STENO_OPTION_ITN) || m->info.writes
               ? STENO_OK
               : use_tools(m, &m->grammars, &steno_grammars, list, err);
}

steno_status steno_model_use_punctuators(steno_model *m, const char *list, steno_err *err)
{
    return m->writes_marks ? STENO_OK
                           : use_tools(m, &m->punctuators, &steno_punctuators, list, err);
}

const char *steno_model_family(const char *dir)
{
    const struct place p = find_place(dir);
    free(p.file);
    return p.family ? p.family->name : NULL;
}

bool steno_model_languages(const char *dir, struct steno_model_languages *out)
{
    const struct place p = find_place(dir);
    bool known;
    *out = (struct steno_model_languages){0};
    known = p.family && p.family->languages && p.family->languages(p.path, out) && *out->languages;
    free(p.file);
    if (!known)
        return false;
    if (!strchr(out->languages, ' '))
        snprintf(out->language, sizeof out->language, "%.31s", out->languages);
    return true;
}

steno_status steno_model_check(const char *dir, const struct steno_option *options, size_t n,
                               steno_err *err)
{
    const struct place p = find_place(dir);
    steno_status st =
        p.family ? steno_options_check(p.family, options, n, err) : unknown_family(p.path, err);
    if (!st && p.family->check)
        st = p.family->check(p.path, options, n, err);
    free(p.file);
    return st;
}

void steno_model_get_info(const steno_model *m, struct steno_model_info *info)
{
    const struct steno_family_info *i = &m->info;
    *info = (struct steno_model_info){
        .dir = m->dir,
        .name = i->name,
        .version = i->version,
        .family = m->family->name,
        .language = strchr(i->language, ' ') ? "" : i->language,
        .license = i->license,
        .network = i->network,
        .results_of = i->results_of,
        .sample_rate = i->sample_rate,
        .feature_bins = i->feature_bins,
        .frame_seconds = (double)i->frame_samples / i->sample_rate,
        .chunk_seconds = i->chunk_seconds,
        .lookahead_seconds = i->lookahead_seconds,
        .weight_bytes = i->weight_bytes,
        .stream_bytes = i->stream_bytes,
        .vocab_size = (size_t)steno_tokens_count(i->tokens),
        .endpoint = i->endpoint,
        .languages = i->languages ? i->languages : i->language,
        .detects_language = i->detects_language,
        .translates = i->translates,
        .takes_prompt = i->takes_prompt,
        .takes_hotwords = i->takes_hotwords,
        .cuts = i->feeding == STENO_FEED_SEGMENTS && i->segments.cuts,
    };
}

void steno_model_describe(const steno_model *m, FILE *out)
{
    struct steno_model_info i;
    steno_model_get_info(m, &i);
    m->family->describe(m->impl, &i, out);
}
