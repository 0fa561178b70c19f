/* The configuration of an espnet_onnx directory: config.yaml beside existing networks,
 * statistics and a vocabulary. Any bytes are refused with a message or give a configuration with
 * usable numbers. */
/* covers: engine/speech/families/espnet/conf.c engine/speech/families/espnet/files.c */
#include "speech/families/espnet/conf.h"
#include "tests/fuzz/folder.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

static void check(const struct steno_espnet_conf *c)
{
    if (!c->encoder.full && !c->encoder.quantized)
        abort();
    if (c->vocab < 1 || c->blank < 0 || c->blank >= c->vocab || c->rate < 1 || c->hop_length < 1 ||
        c->n_fft < 1 || c->bins < 1 || c->beam < 1)
        abort();
    for (int32_t i = 0; i < c->vocab; i++)
        if (!c->tokens[i])
            abort();
    if (c->streaming && (c->block < 1 || c->hop < 1 || c->look_ahead < 0))
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    static const char *const files[] = {"encoder.onnx", "decoder.onnx", "ctc.onnx",  "lm.onnx",
                                        "joint.onnx",   "att.onnx",     "stats.npz", "pe.npy"};
    struct steno_espnet_conf c;
    steno_err err = {0};
    steno_status st;
    if (!*folder) {
        folder_make();
        for (size_t i = 0; i < sizeof files / sizeof *files; i++)
            folder_write(files[i], "x", 1);
    }
    folder_write("config.yaml", data, n);
    st = steno_espnet_conf_open(&c, folder, &err);
    if (st && !err.msg[0])
        abort();
    if (!st)
        check(&c);
    steno_espnet_conf_close(&c);
    return 0;
}
