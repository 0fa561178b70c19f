/* Metadata of exported networks, as the families nemo, wenet and ctc_offline read them: any head of
 * a file is read or refused with a message; accepted values are within their limits. */
/* covers: engine/speech/families/nemo/conf.c engine/speech/families/nemo/prompts.c */
/* covers: engine/speech/families/wenet/model.c */
/* covers: engine/speech/families/ctc_offline/kinds.c engine/speech/families/common/metadata.c */
#include <stdlib.h>
#include <string.h>

#include "speech/families/ctc_offline/kinds.h"
#include "speech/families/nemo/conf.h"
#include "speech/families/nemo/prompts.h"
#include "speech/families/wenet/model.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

static void check(steno_status st, const steno_err *err, bool fits)
{
    if (st ? !err->msg[0] : !fits)
        abort();
}

static void check_ctc_offline(const steno_onnx_head *h)
{
    float frame[128] = {0};
    struct steno_ctc_offline_meta m = {.cmvn = NULL};
    steno_err err = {0};
    const steno_status st = steno_ctc_offline_meta_read(&m, h, "fuzz", &err);
    check(st, &err, m.kind && m.vocab >= 0 && m.subsampling > 0 && m.subsampling <= 64);
    if (m.cmvn)
        steno_cmvn_apply(m.cmvn, frame, 1);
    steno_cmvn_close(m.cmvn);
}

static void check_prompts(const steno_onnx_head *h)
{
    struct steno_nemo_prompts p;
    steno_err err = {0};
    const steno_status st = steno_nemo_prompts_read(&p, h, "fuzz", &err);
    check(st, &err, p.highest >= p.automatic && p.highest < STENO_NEMO_PROMPTS);
    if (!st && (steno_nemo_prompts_find(&p, "de") > p.highest ||
                strlen(p.languages) >= sizeof p.languages))
        abort();
    steno_nemo_prompts_free(&p);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    steno_onnx_head *h = NULL;
    if (steno_onnx_head_parse(&h, data, n, "fuzz", NULL))
        return 0;
    for (int streaming = 0; streaming < 2; streaming++) {
        struct steno_nemo_conf c = {.streaming = streaming, .subsampling = 8};
        struct steno_wenet_meta w = {0};
        steno_err err = {0};
        steno_status st = steno_nemo_conf_metadata(&c, h, "fuzz", &err);
        check(st, &err,
              c.vocab > 0 && c.subsampling > 0 && (!streaming || c.shift <= c.window) &&
                  (!streaming || c.shift % c.subsampling == 0));
        st = steno_wenet_meta_read(&w, h, streaming, "fuzz", &err);
        check(st, &err, w.vocab > 0 && (!streaming || w.width % w.head == 0));
        w = (struct steno_wenet_meta){0};
        st = steno_wenet_runtime_meta_read(&w, h, "fuzz", &err);
        check(st, &err,
              w.vocab > 0 && w.width % w.head == 0 && w.sos < w.vocab && w.eos < w.vocab &&
                  w.reverse >= 0 && w.reverse <= 1 && w.chunk && (w.chunk > 0 || w.left < 0));
    }
    check_ctc_offline(h);
    check_prompts(h);
    steno_onnx_head_close(h);
    return 0;
}
