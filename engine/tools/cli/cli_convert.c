/* steno convert: write a model directory from a training checkpoint. */
#include "base/clock.h"
#include "tools/cli/fetch.h"
#include "tools/cli/optimize.h"

#include "tools/convert/convert.h"
#include "tools/convert/icefall.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sysexits.h>
#include <unistd.h>

static const char usage[] =
    "Usage: steno convert CHECKPOINT|ZIP|DIR -o OUT [OPTION]...\n"
    "       steno convert CHECKPOINT|ZIP|DIR --name NAME [OPTION]...\n"
    "\n"
    "Reads a training checkpoint, without Python, and writes a directory of ONNX networks that\n"
    "stenod, steno transcribe and the project's own ONNX tools load. Code in a checkpoint is not\n"
    "run. Known: ESPnet2 (Transformer, Conformer, Longformer, Branchformer, contextual-block and\n"
    "recurrent encoders, CTC, Transformer and recurrent decoders and language models,\n"
    "transducers); NeMo (FastConformer and Conformer encoders, CTC, RNNT, TDT, Canary); WeNet\n"
    "(Transformer and Conformer encoders, CTC, U2 and U2++ decoders); icefall (Zipformer and\n"
    "Conformer, transducer and CTC; LSTM transducer; pretrained.pt or epoch-N.pt); Hugging Face\n"
    "(wav2vec2, hubert, wavlm, data2vec-audio with CTC; moonshine); OpenAI's Whisper (*.pt);\n"
    "networks that tell speakers apart (pyannote's segmentation, 3D-Speaker's CAM++).\n";

enum { OWN_FLAGS = 7 }; /* the others are icefall's */

/* Options of icefall's scripts, as rows of the command and as what they give. */
static void add_flags(struct cli_option *rows, struct steno_convert_flag *flags)
{
    for (int i = 0; i < STENO_ICEFALL_OPTIONS; i++) {
        const struct steno_icefall_option *o = &steno_icefall_options[i];
        flags[i] = (struct steno_convert_flag){.name = o->name + 2};
        rows[i] = (struct cli_option){o->name, CLI_TEXT, o->arg, &flags[i].value, 0, 0, o->about};
    }
}

/* What the command line says. */
struct conversion {
    const char *in, *out, *name;
    bool int8, bf16, quiet;
    const struct steno_convert_options *options;
    const char *what; /* the kind of checkpoint */
};

static void say(const struct conversion *c, const char *words, const char *about)
{
    if (!c->quiet)
        fprintf(stderr, "  %s%s\n", words, about);
}

/* Write the directory dir. Returns an exit code. */
static int write_to(struct conversion *c, const char *dir)
{
    const int64_t began = steno_now_ns();
    steno_err err = {0};
    char words[64];
    int n = 0, rc;
    say(c, "reading ", c->in);
    if (steno_convert(c->in, dir, c->options, &c->what, &err))
        return cli_fail(&err);
    snprintf(words, sizeof words, ", %.1f s", (double)(steno_now_ns() - began) * 1e-9);
    if (!c->quiet)
        fprintf(stderr, "  converted: %s%s\n", c->what, words);
    if (!c->int8 && !c->bf16)
        return EX_OK;
    rc = optimize_in_place(dir, c->int8 ? TO_INT8 : TO_BF16, c->quiet, &n);
    if (rc != EX_OK || n)
        return rc;
    (void)steno_fail(&err, STENO_ERR_INVAL,
                     "%s: %s has no ONNX networks whose weights could change",
                     c->int8 ? "--int8" : "--bf16", dir);
    return cli_fail(&err);
}

static int make_dir(const char *path)
{
    char part[STENO_PLACE_MAX];
    for (size_t i = 1, n = strlen(path); i <= n; i++) {
        if (path[i] && path[i] != '/')
            continue;
        snprintf(part, sizeof part, "%.*s", (int)i, path);
        if (mkdir(part, 0755) && errno != EEXIST) {
            fprintf(stderr, "steno: %s: %s\n", part, strerror(errno));
            return EX_CANTCREAT;
        }
    }
    return EX_OK;
}

/* Write the model NAME of a directory of models: beside its place, then into it as a whole. */
static int write_named(struct conversion *c, char place[STENO_PLACE_MAX])
{
    char models[STENO_PLACE_MAX], stage[STENO_PLACE_MAX];
    int rc;
    if (c->out)
        snprintf(models, sizeof models, "%s", c->out);
    else if (!steno_place_models(models, 0))
        return cli_usage("convert: no directory of models: set STENO_DATA, or give -o");
    if (!steno_catalogue_harmless(c->name) ||
        snprintf(place, STENO_PLACE_MAX, "%s/%s", models, c->name) >= STENO_PLACE_MAX ||
        snprintf(stage, sizeof stage, "%s/.%s.new", models, c->name) >= STENO_PLACE_MAX)
        return cli_usage("convert: --name %s: a name has letters, digits and ._+- only", c->name);
    if (!access(place, F_OK)) {
        fprintf(stderr, "steno: %s is there already\n", place);
        return EX_CANTCREAT;
    }
    rc = make_dir(models);
    if (rc == EX_OK)
        rc = write_to(c, stage);
    if (rc == EX_OK && rename(stage, place)) {
        fprintf(stderr, "steno: %s: %s\n", place, strerror(errno));
        rc = EX_CANTCREAT;
    }
    if (rc != EX_OK && fetch_remove(models, c->name, NULL)) /* the stage */
        fprintf(stderr, "steno: %s: cannot be removed\n", stage);
    return rc;
}

static int convert_and_tell(struct conversion *c)
{
    char place[STENO_PLACE_MAX];
    int rc;
    if (!c->in || (!c->out && !c->name))
        return cli_usage("convert needs a checkpoint and -o or --name");
    if (c->int8 && c->bf16)
        return cli_usage("convert: --int8 excludes --bf16");
    rc = cli_readable(c->in);
    if (rc == EX_OK)
        rc = c->name ? write_named(c, place) : write_to(c, c->out);
    if (rc == EX_OK && !c->quiet)
        printf("%s: %s, written to %s\n", c->in, c->what, c->name ? place : c->out);
    return rc;
}

int cli_convert(int argc, char **argv)
{
    struct conversion c = {.what = ""};
    struct steno_convert_flag flags[OWN_FLAGS + STENO_ICEFALL_OPTIONS] = {
        {"layout", NULL},    {"chunk-size", NULL}, {"left-chunks", NULL},    {"decoder", NULL},
        {"streaming", NULL}, {"lookahead", NULL},  {"local-attention", NULL}};
    const struct cli_option own[] = {
        {"-o", CLI_TEXT, "OUT", &c.out, 0, 0,
         "directory to write; with --name the directory of models"},
        {"--name", CLI_TEXT, "NAME", &c.name, 0, 0,
         "the model's name: its directory in OUT, or without -o where fetched\n"
         "models are, so that --model NAME finds it"},
        {"--int8", CLI_FLAG, NULL, &c.int8, 0, 0,
         "fewer nodes and 8-bit weights, as steno optimize --precision int8"},
        {"--bf16", CLI_FLAG, NULL, &c.bf16, 0, 0,
         "fewer nodes and bf16 weights, as steno optimize --precision bf16"},
        {"--quiet", CLI_FLAG, NULL, &c.quiet, 0, 0, "print errors only"},
        {"--chunk-size", CLI_TEXT, "N", &flags[1].value, 0, 0,
         "WeNet, and causal models of icefall: frames of a chunk (16);\n"
         "-1: whole utterances"},
        {"NeMo", CLI_HEADING, NULL, NULL, 0, 0, NULL},
        {"--decoder", CLI_TEXT, "D", &flags[3].value, 0, 0,
         "transducer or ctc, of a hybrid model (transducer)"},
        {"--streaming", CLI_TEXT, "yes|no", &flags[4].value, 0, 0,
         "with caches, chunk by chunk; the default is yes if the model\n"
         "was trained for it"},
        {"--lookahead", CLI_TEXT, "N", &flags[5].value, 0, 0,
         "frames after the present one that attention sees, for a model\n"
         "trained with several"},
        {"--local-attention", CLI_TEXT, "N", &flags[6].value, 0, 0,
         "attention sees N frames before and N behind (NeMo's 128), so that\n"
         "work grows with the length of a recording, not its square"},
        {"WeNet", CLI_HEADING, NULL, NULL, 0, 0, NULL},
        {"--layout", CLI_TEXT, "L", &flags[0].value, 0, 0,
         "wenet (encoder, CTC and decoder, for attention rescoring;\n"
         "the default) or sherpa (one network with CTC)"},
        {"--left-chunks", CLI_TEXT, "N", &flags[2].value, 0, 0,
         "chunks before it that attention sees (4); -1: all, with wenet"},
        {"icefall", CLI_HEADING, NULL, NULL, 0, 0, NULL},
    };
    enum { OWN = sizeof own / sizeof *own };
    struct cli_option options[OWN + STENO_ICEFALL_OPTIONS + 1] = {{0}};
    const struct steno_convert_options convert_options = {flags, sizeof flags / sizeof *flags};
    int n, rc;
    memcpy(options, own, sizeof own);
    add_flags(options + OWN, flags + OWN_FLAGS);
    c.options = &convert_options;
    rc = cli_parse(argc, argv, usage, options, &c.in, 1, &n);
    if (rc != EX_OK)
        return rc;
    return convert_and_tell(&c);
}
