/* Checkpoints of networks that tell speakers apart, in torch.save's older form, which has no
 * checksums: each is refused with a message, or the written network opens, or is refused as a model
 * would be. */
/* covers: engine/tools/convert/speakers.c engine/tools/convert/speakers_pyannote.c */
/* covers: engine/tools/convert/speakers_campplus.c */
#include "tools/convert/bundle.h"
#include "tools/convert/sources.h"
#include "folder.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static bool open_and_remove(const char *name)
{
    steno_network *net = NULL;
    steno_err err = {0};
    char path[128];
    if (access(folder_path(path, name), F_OK))
        return false;
    if (steno_network_open(&net, path, &(struct steno_network_options){0}, &err) && !err.msg[0])
        abort();
    steno_network_close(net);
    unlink(path);
    return true;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char path[128];
    steno_err err = {0};
    bool first, second;
    if (size > 65536)
        return 0;
    folder_make();
    folder_write("x.pt", data, size);
    const struct steno_bundle b = {.path = folder_path(path, "x.pt")};
    if (!steno_source_speakers.probe(&b))
        return 0;
    const steno_status st = steno_source_speakers.convert(&b, folder, NULL, &err);
    first = open_and_remove("segmentation.onnx");
    second = open_and_remove("embedding.onnx");
    if (st ? !err.msg[0] : first == second)
        abort();
    return 0;
}
