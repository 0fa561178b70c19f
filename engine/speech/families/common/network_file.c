#include "speech/families/common/network_file.h"

#include <stdlib.h>
#include <string.h>

#include "base/path.h"

bool steno_network_file_is_int8(const char *name)
{
    return strstr(name, ".int8.") || strstr(name, "_int8.") || strstr(name, "_uint8.") ||
           strstr(name, "_quantized.");
}

/* An ending of transformers.js with which a name goes on. */
static bool is_known_ending(const char *s)
{
    static const char *const known[] = {"_int8.onnx", "_uint8.onnx", "_quantized.onnx",
                                        "_q4.onnx",   "_q4f16.onnx", "_fp16.onnx"};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (!strcmp(s, known[i]))
            return true;
    return false;
}

/* How well a name fits: 0 not at all. */
static int fit(const char *name, const char *stem, bool int8)
{
    const size_t n = strlen(stem);
    const char next = strncmp(name, stem, n) == 0 ? name[n] : 'a';
    if ((next >= 'a' && next <= 'z') || !steno_path_ends(name, ".onnx") ||
        (next == '_' && !is_known_ending(name + n)))
        return 0;
    if (strstr(name, ".fp16") || strstr(name, "_fp16"))
        return 1;
    if (next == '_' && strstr(name, "_q4"))
        return 2;
    return steno_network_file_is_int8(name) == int8 ? 4 : 3;
}

struct wanted {
    const char *stem;
    bool int8;
};

/* Of names that fit alike, the shortest. */
static int rank_network(const char *name, const void *arg)
{
    const struct wanted *w = arg;
    const int fits = fit(name, w->stem, w->int8);
    return fits ? fits * 4096 - (int)strlen(name) : 0;
}

steno_status steno_network_file_find(char **out, const char *dir, const char *stem, bool int8,
                                     steno_err *err)
{
    const struct wanted w = {stem, int8};
    return steno_path_find(out, dir, rank_network, &w, NULL, err);
}

steno_status steno_network_file_head(steno_onnx_head **out, const char *dir, const char *file,
                                     steno_err *err)
{
    char *path = steno_path_join(dir, file);
    steno_status st = path ? steno_onnx_head_open(out, path, err)
                           : steno_fail(err, STENO_ERR_NOMEM, "%s: out of memory", dir);
    free(path);
    return st;
}

steno_onnx_head *steno_network_file_peek(const char *dir, const char *stem)
{
    steno_onnx_head *h = NULL;
    char *file = NULL;
    if (!steno_network_file_find(&file, dir, stem, false, NULL) && file &&
        steno_network_file_head(&h, dir, file, NULL))
        h = NULL;
    free(file);
    return h;
}

bool steno_network_file_is(const char *dir, const char *stem, bool (*is)(const steno_onnx_head *h))
{
    steno_onnx_head *h = steno_network_file_peek(dir, stem);
    const bool yes = h && is(h);
    steno_onnx_head_close(h);
    return yes;
}
