#include "speech/families/ctc/conf.h"

#include <errno.h>
#include <ini.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"

#define MAX_FILE 65536

enum kind { TEXT, FILENAME, INT, REAL, BOOL };

struct key {
    const char *section, *name;
    enum kind kind;
    size_t offset, size; /* size: of text fields */
    double min, max;
    const char *fallback; /* NULL: the key is required */
};

#define FIELD(f) offsetof(struct steno_model_conf, f), sizeof(((struct steno_model_conf *)0)->f)

static const struct key keys[] = {
    {"model", "name", TEXT, FIELD(name), 0, 0, NULL},
    {"model", "version", TEXT, FIELD(version), 0, 0, "0"},
    {"model", "family", TEXT, FIELD(family), 0, 0, NULL},
    {"model", "language", TEXT, FIELD(language), 0, 0, "und"},
    {"model", "license", TEXT, FIELD(license), 0, 0, "unknown"},
    {"features", "type", TEXT, FIELD(feature_type), 0, 0, "kaldi-fbank"},
    {"features", "sample_rate", INT, FIELD(sample_rate), 8000, 48000, NULL},
    {"features", "mel_bins", INT, FIELD(mel_bins), 8, 512, NULL},
    {"features", "low_freq", REAL, FIELD(low_freq), 0, 24000, "20"},
    {"features", "high_freq", REAL, FIELD(high_freq), -24000, 24000, "0"},
    {"features", "snip_edges", BOOL, FIELD(snip_edges), 0, 0, "true"},
    {"features", "sample_scale", REAL, FIELD(sample_scale), 1, 32768, "1"},
    {"network", "file", FILENAME, FIELD(network), 0, 0, NULL},
    {"network", "window_frames", INT, FIELD(window_frames), 1, 10000, NULL},
    {"network", "shift_frames", INT, FIELD(shift_frames), 1, 10000, NULL},
    {"network", "subsampling", INT, FIELD(subsampling), 1, 64, NULL},
    {"network", "lead_frames", INT, FIELD(lead_frames), 0, 10000, "0"},
    {"network", "tail_frames", INT, FIELD(tail_frames), 0, 10000, "0"},
    {"network", "bf16", BOOL, FIELD(bf16), 0, 0, "false"},
    {"network", "int8", BOOL, FIELD(int8), 0, 0, "false"},
    {"decoder", "tokens", FILENAME, FIELD(tokens), 0, 0, "tokens.txt"},
    {"decoder", "blank", TEXT, FIELD(blank), 0, 0, "<blk>"},
    {"decoder", "drop", TEXT, FIELD(drop), 0, 0, ""},
    {"decoder", "blank_penalty", REAL, FIELD(blank_penalty), -100, 100, "0"},
    {"decoder", "word_before", REAL, FIELD(word_before), 0, 2, "0"},
    {"decoder", "word_after", REAL, FIELD(word_after), 0, 2, "0"},
    {"decoder", "beam", INT, FIELD(beam), 1, 64, "1"},
    {"endpoint", "rule1_silence", REAL, FIELD(rule1_silence), 0.1, 3600, "5"},
    {"endpoint", "rule2_silence", REAL, FIELD(rule2_silence), 0.1, 3600, "0.8"},
    {"endpoint", "rule3_length", REAL, FIELD(rule3_length), 1, 3600, "30"},
};
#define N_KEYS (sizeof keys / sizeof *keys)

struct parser {
    struct steno_model_conf *conf;
    bool seen[N_KEYS];
    char msg[160]; /* the first error */
};

/* Whether a file name stays inside the model directory. */
static bool inside(const char *file)
{
    return file[0] && file[0] != '/' && strcmp(file, "..") != 0 && strncmp(file, "../", 3) != 0 &&
           !strstr(file, "/../");
}

static bool parse_number(const struct key *k, const char *value, double *out)
{
    char *end;
    errno = 0;
    *out = strtod(value, &end);
    return end != value && !*end && !errno && isfinite(*out) && *out >= k->min && *out <= k->max &&
           (k->kind != INT || *out == floor(*out));
}

static bool parse_bool(const char *value, bool *out)
{
    static const char *const yes[] = {"true", "yes", "on", "1"}, *const no[] = {"false", "no",
                                                                                "off", "0"};
    for (size_t i = 0; i < 4; i++) {
        if (strcmp(value, yes[i]) == 0)
            return *out = true, true;
        if (strcmp(value, no[i]) == 0)
            return *out = false, true;
    }
    return false;
}

static bool set_ctc_conf(struct parser *p, const struct key *k, const char *value)
{
    char *at = (char *)p->conf + k->offset;
    double num;
    bool flag;
    switch (k->kind) {
    case TEXT:
    case FILENAME:
        if (strlen(value) >= k->size) {
            snprintf(p->msg, sizeof p->msg, "%s has %zu characters, at most %zu", k->name,
                     strlen(value), k->size - 1);
            return false;
        }
        if (k->kind == FILENAME && !inside(value)) {
            snprintf(p->msg, sizeof p->msg, "%s = '%.80s' is not a file of the model directory",
                     k->name, value);
            return false;
        }
        memcpy(at, value, strlen(value) + 1);
        return true;
    case INT:
    case REAL:
        if (!parse_number(k, value, &num)) {
            snprintf(p->msg, sizeof p->msg, "%s = '%.40s': expected %s from %g to %g", k->name,
                     value, k->kind == INT ? "a whole number" : "a number", k->min, k->max);
            return false;
        }
        if (k->kind == INT)
            *(int *)(void *)at = (int)num;
        else
            *(double *)(void *)at = num;
        return true;
    case BOOL:
        if (!parse_bool(value, &flag)) {
            snprintf(p->msg, sizeof p->msg, "%s = '%.40s': expected true or false", k->name, value);
            return false;
        }
        *(bool *)(void *)at = flag;
        return true;
    }
    return false;
}

static int on_pair(void *user, const char *section, const char *name, const char *value)
{
    struct parser *p = user;
    if (p->msg[0])
        return 0;
    for (size_t i = 0; i < N_KEYS; i++) {
        if (strcmp(keys[i].section, section) != 0 || strcmp(keys[i].name, name) != 0)
            continue;
        if (p->seen[i]) {
            snprintf(p->msg, sizeof p->msg, "%s is given twice", name);
            return 0;
        }
        p->seen[i] = true;
        return set_ctc_conf(p, &keys[i], value);
    }
    snprintf(p->msg, sizeof p->msg, "unknown key '%.40s' in section [%.40s]", name, section);
    return 0;
}

static steno_status check_ctc_conf(const struct steno_model_conf *c, const char *name,
                                   steno_err *err)
{
    double nyquist = c->sample_rate / 2.0;
    if (c->shift_frames > c->window_frames)
        return steno_fail(err, STENO_ERR_FORMAT,
                          "%s: shift_frames %d is more than window_frames %d", name,
                          c->shift_frames, c->window_frames);
    if (c->shift_frames % c->subsampling)
        return steno_fail(err, STENO_ERR_FORMAT,
                          "%s: shift_frames %d is not a multiple of subsampling %d", name,
                          c->shift_frames, c->subsampling);
    if (c->low_freq >= nyquist || c->high_freq > nyquist)
        return steno_fail(err, STENO_ERR_FORMAT,
                          "%s: low_freq %g, high_freq %g: half the sample rate is %g", name,
                          c->low_freq, c->high_freq, nyquist);
    return STENO_OK;
}

steno_status steno_model_conf_parse(struct steno_model_conf *out, const char *text,
                                    const char *name, steno_err *err)
{
    struct steno_model_conf conf = {0};
    struct parser p = {.conf = &conf};
    int line = ini_parse_string(text, on_pair, &p);
    if (line < 0)
        return steno_fail(err, STENO_ERR_NOMEM, "%s: out of memory", name);
    if (line > 0)
        return steno_fail(err, STENO_ERR_FORMAT, "%s:%d: %s", name, line,
                          p.msg[0] ? p.msg : "expected [section] or key = value");
    for (size_t i = 0; i < N_KEYS; i++) {
        if (p.seen[i])
            continue;
        if (!keys[i].fallback)
            return steno_fail(err, STENO_ERR_FORMAT, "%s: [%s] %s is missing", name,
                              keys[i].section, keys[i].name);
        (void)set_ctc_conf(&p, &keys[i], keys[i].fallback);
    }
    if (check_ctc_conf(&conf, name, err))
        return STENO_ERR_FORMAT;
    *out = conf;
    return STENO_OK;
}

steno_status steno_model_conf_open(struct steno_model_conf *out, const char *path, steno_err *err)
{
    char *text;
    size_t n;
    steno_status st = steno_file_read(path, MAX_FILE, &text, &n, err);
    if (st)
        return st == STENO_ERR_LIMIT
                   ? steno_fail(err, STENO_ERR_FORMAT, "%s: not a configuration file", path)
                   : st;
    if (memchr(text, '\0', n))
        st = steno_fail(err, STENO_ERR_FORMAT, "%s: not a configuration file", path);
    else
        st = steno_model_conf_parse(out, text, path, err);
    free(text);
    return st;
}
