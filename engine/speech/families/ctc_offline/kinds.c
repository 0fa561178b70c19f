#include "speech/families/ctc_offline/kinds.h"

#include <float.h>
#include <string.h>

#include "speech/families/common/metadata.h"
#include "speech/features/logmel.h"

#define SUBSAMPLING 4 /* where nothing is said */

/* FireRedASR's and sherpa-onnx's are the same. */
static struct steno_fbank_options fire_red_front(bool sherpa)
{
    struct steno_fbank_options o = steno_fbank_kaldi(STENO_CTC_OFFLINE_RATE, 80);
    (void)sherpa;
    o.scale = 32768;
    return o;
}

/* sherpa-onnx's alone: librosa's filters over Kaldi's frames. */
static struct steno_fbank_options dolphin_front(bool sherpa)
{
    struct steno_fbank_options o = steno_fbank_nemo(STENO_CTC_OFFLINE_RATE, 80);
    (void)sherpa;
    o.length_ms = 31.25;
    return o;
}

/* sherpa-onnx adds a pre-emphasis to the training's, and has another floor. */
static struct steno_fbank_options medasr_front(bool sherpa)
{
    struct steno_fbank_options o = steno_logmel_lasr();
    if (sherpa) {
        o.preemph = 0.97F;
        o.floor = FLT_EPSILON;
    }
    return o;
}

/* Kaldi's cepstra with as many as filters ("hires"). */
static struct steno_fbank_options telespeech_front(bool sherpa)
{
    struct steno_fbank_options o = steno_fbank_kaldi(STENO_CTC_OFFLINE_RATE, 40);
    (void)sherpa;
    o.scale = 32768;
    o.low = 40;
    o.high = 7800;
    return o;
}

static const struct steno_ctc_offline_kind kinds[] = {
    {.type = "fire-red-asr-2-ctc",
     .title = "FireRedASR",
     .languages = "zh en",
     .front = fire_red_front,
     .trained = true,
     .mean = "cmvn_mean",
     .factor = "cmvn_inv_stddev"},
    {.type = "dolphin",
     .title = "Dolphin",
     .languages = "",
     .front = dolphin_front,
     .mean = "mean",
     .factor = "invstd"},
    {.type = "medasr_ctc",
     .title = "MedASR",
     .languages = "en",
     .front = medasr_front,
     .trained = true},
    {.type = "telespeech_ctc",
     .title = "TeleSpeech",
     .languages = "zh",
     .front = telespeech_front,
     .lifter = 22,
     .frames_first = true},
};

const struct steno_ctc_offline_kind *steno_ctc_offline_kind_of(const steno_onnx_head *h)
{
    const char *type = steno_onnx_head_meta(h, "model_type");
    for (size_t i = 0; type && i < sizeof kinds / sizeof *kinds; i++)
        if (strcmp(type, kinds[i].type) == 0)
            return &kinds[i];
    return NULL;
}

steno_status steno_ctc_offline_meta_read(struct steno_ctc_offline_meta *out,
                                         const steno_onnx_head *h, const char *file, steno_err *err)
{
    struct steno_ctc_offline_meta m = {.kind = steno_ctc_offline_kind_of(h),
                                       .subsampling = SUBSAMPLING};
    const struct steno_metadata_number want[] = {
        {"vocab_size", 2, 1 << 20, &m.vocab, false},
        {"subsampling_factor", 1, 64, &m.subsampling, false}};
    steno_status st;
    if (!m.kind)
        return steno_fail(err, STENO_ERR_FORMAT, "%s: metadata model_type is none of this family",
                          file);
    st = steno_metadata_read(h, want, sizeof want / sizeof *want, file, err);
    if (!st && m.kind->mean)
        st = steno_metadata_cmvn(h, m.kind->mean, m.kind->factor, file, m.kind->front(false).bins,
                                 &m.cmvn, err);
    if (!st)
        *out = m;
    return st;
}
