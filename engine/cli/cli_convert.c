/* steno convert: write a model directory from a training checkpoint. */
#include "cli/options.h"

#include "convert/convert.h"
#include "convert/icefall.h"

#include <stdio.h>
#include <string.h>
#include <sysexits.h>

static const char usage[] =
    "Usage: steno convert CHECKPOINT|ZIP|DIR -o OUT\n"
    "\n"
    "Reads a training checkpoint, without Python, and writes a directory of ONNX networks that\n"
    "stenod, steno transcribe and the project's own ONNX tools load. Code in a checkpoint is not\n"
    "run. Known: ESPnet2 (Transformer and Conformer encoders, CTC, Transformer decoder and\n"
    "language model); NeMo (FastConformer and Conformer encoders, CTC, RNNT, TDT); WeNet\n"
    "(Transformer and Conformer encoders, CTC, U2 and U2++ decoders); icefall (Zipformer\n"
    "transducer and CTC, pretrained.pt or epoch-N.pt).\n";

enum { OWN_FLAGS = 6 }; /* the others are icefall's */

/* Options of icefall's scripts, as rows of the command and as what they give. */
static void add_flags(struct cli_option *rows, struct steno_convert_flag *flags)
{
    for (int i = 0; i < STENO_ICEFALL_OPTIONS; i++) {
        const struct steno_icefall_option *o = &steno_icefall_options[i];
        flags[i] = (struct steno_convert_flag){.name = o->name + 2};
        rows[i] = (struct cli_option){o->name, CLI_TEXT, o->arg, &flags[i].value, 0, 0, o->about};
    }
}

int cli_convert(int argc, char **argv)
{
    const char *in = NULL, *out = NULL, *what = "";
    struct steno_convert_flag flags[OWN_FLAGS + STENO_ICEFALL_OPTIONS] = {
        {"layout", NULL},  {"chunk-size", NULL}, {"left-chunks", NULL},
        {"decoder", NULL}, {"streaming", NULL},  {"lookahead", NULL}};
    const struct cli_option own[] = {
        {"-o", CLI_TEXT, "OUT", &out, 0, 0, "directory to write"},
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
        {"WeNet", CLI_HEADING, NULL, NULL, 0, 0, NULL},
        {"--layout", CLI_TEXT, "L", &flags[0].value, 0, 0,
         "sherpa (one network with CTC, the default) or wenet (encoder,\n"
         "CTC and decoder, for attention rescoring)"},
        {"--left-chunks", CLI_TEXT, "N", &flags[2].value, 0, 0,
         "chunks before it that attention sees (4); -1: all, with wenet"},
        {"icefall", CLI_HEADING, NULL, NULL, 0, 0, NULL},
    };
    enum { OWN = sizeof own / sizeof *own };
    struct cli_option options[OWN + STENO_ICEFALL_OPTIONS + 1] = {{0}};
    const struct steno_convert_options convert = {flags, sizeof flags / sizeof *flags};
    steno_err err = {0};
    int n, rc;
    memcpy(options, own, sizeof own);
    add_flags(options + OWN, flags + OWN_FLAGS);
    rc = cli_parse(argc, argv, usage, options, &in, 1, &n);
    if (rc != EX_OK)
        return rc < 0 ? EX_OK : rc;
    if (!in || !out)
        return cli_usage("convert needs a checkpoint and -o");
    rc = cli_readable(in);
    if (rc != EX_OK)
        return rc;
    if (steno_convert(in, out, &convert, &what, &err))
        return cli_fail(&err);
    printf("%s: %s, written to %s\n", in, what, out);
    return EX_OK;
}
