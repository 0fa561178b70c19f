#include "tools/convert/convert.h"

#include "tools/convert/bundle.h"
#include "tools/convert/espnet.h"
#include "tools/convert/hf.h"
#include "tools/convert/icefall.h"
#include "tools/convert/nemo.h"
#include "tools/convert/output.h"
#include "tools/convert/speakers.h"
#include "tools/convert/wenet.h"
#include "tools/convert/whisper.h"

#include <string.h>

const char *steno_convert_flag(const struct steno_convert_options *o, const char *name)
{
    for (int i = 0; i < o->n_flags; i++)
        if (o->flag[i].value && !strcmp(o->flag[i].name, name))
            return o->flag[i].value;
    return NULL;
}

/* The kinds of checkpoint; the first whose probe knows the files is taken. A file that is no ZIP
 * archive comes as a bundle without members: b->path says where it is. */
static const struct source {
    const char *name;
    bool (*probe)(const struct steno_bundle *b);
    bool (*takes)(const char *flag); /* NULL: no flag */
    steno_status (*convert)(const struct steno_bundle *b, const char *out,
                            const struct steno_convert_options *o, steno_err *err);
    const char *known; /* for the message that lists them */
} sources[] = {
    {"ESPnet2", steno_convert_espnet_probe, NULL, steno_convert_espnet,
     "ESPnet2 models (a ZIP archive or directory with meta.yaml, or with config.yaml and one "
     "*.pth)"},
    {"Hugging Face", steno_convert_hf_probe, NULL, steno_convert_hf,
     "Hugging Face models of wav2vec2, hubert, wavlm, data2vec-audio, moonshine (a directory "
     "with config.json, model.safetensors or pytorch_model.bin)"},
    {"WeNet", steno_convert_wenet_probe, steno_convert_wenet_takes, steno_convert_wenet,
     "WeNet models (a directory or archive with train.yaml, units.txt and final.pt)"},
    /* before icefall, which takes every file of torch.save */
    {"OpenAI's Whisper", steno_convert_whisper_probe, NULL, steno_convert_whisper,
     "OpenAI's Whisper (*.pt)"},
    {"speaker networks", steno_convert_speakers_probe, NULL, steno_convert_speakers,
     "networks that tell speakers apart: pyannote's segmentation, 3D-Speaker's CAM++ (*.bin, *.pt, "
     "or a directory with one or both)"},
    {"icefall", steno_convert_icefall_probe, steno_convert_icefall_takes, steno_convert_icefall,
     "icefall's Zipformer, Conformer and LSTM (pretrained.pt or epoch-N.pt, or a directory with "
     "one)"},
    {"NeMo", steno_convert_nemo_probe, steno_convert_nemo_takes, steno_convert_nemo,
     "NeMo models (a .nemo archive, or a directory with model_config.yaml and "
     "model_weights.ckpt)"},
};
#define N_SOURCES (sizeof sources / sizeof *sources)

static steno_status unknown(const char *in, steno_err *err)
{
    char known[300 * N_SOURCES] = "";
    for (size_t i = 0; i < N_SOURCES; i++) {
        strncat(known, i ? "; " : "", sizeof known - strlen(known) - 1);
        strncat(known, sources[i].known, sizeof known - strlen(known) - 1);
    }
    return steno_fail(err, STENO_ERR_UNSUPPORTED,
                      "%s: not a checkpoint that can be converted; known are %s", in, known);
}

static steno_status check_request(const struct source *s, const char *out,
                                  const struct steno_convert_options *o, steno_err *err)
{
    for (int i = 0; i < o->n_flags; i++)
        if (o->flag[i].value && !(s->takes && s->takes(o->flag[i].name)))
            return steno_fail(err, STENO_ERR_INVAL, "--%s: checkpoints of %s take no such option",
                              o->flag[i].name, s->name);
    return strlen(out) > STENO_OUTPUT_DIR
               ? steno_fail(err, STENO_ERR_INVAL, "a path of %zu bytes", strlen(out))
               : STENO_OK;
}

steno_status steno_convert(const char *in, const char *out, const struct steno_convert_options *o,
                           const char **what, steno_err *err)
{
    struct steno_bundle b;
    const struct source *s = NULL;
    steno_status st = steno_bundle_open(&b, in, err);
    if (st == STENO_ERR_IO || st == STENO_ERR_NOMEM)
        return st;
    for (size_t i = 0; i < N_SOURCES && !s; i++)
        if (sources[i].probe(&b))
            s = &sources[i];
    if (s) {
        *what = s->name;
        st = check_request(s, out, o, err);
        st = st ? st : s->convert(&b, out, o, err);
    } else {
        st = unknown(in, err);
    }
    steno_bundle_close(&b);
    return st;
}
