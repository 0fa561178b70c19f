#include "speech/families/common/part.h"

#include <stdlib.h>
#include <string.h>

#include "base/path.h"
#include "speech/families/common/network_file.h"
#include "speech/families/common/precision.h"

/* The same network in ONNX Runtime's own format; *out stays NULL if there is none. */
static steno_status find_ort(char **out, const char *dir, const char *stem, steno_err *err)
{
    char name[256];
    snprintf(name, sizeof name, "%s.ort", stem);
    if (!steno_path_readable(dir, name))
        return STENO_OK;
    *out = strdup(name);
    return *out ? STENO_OK : steno_fail(err, STENO_ERR_NOMEM, "%s: out of memory", dir);
}

/* A file in ONNX Runtime's own format counts as not quantized. */
static bool is_quantized(const char *dir, const char *name)
{
    steno_onnx_head *h = NULL;
    const bool is = !steno_network_file_head(&h, dir, name, NULL) && steno_onnx_head_quantized(h);
    steno_onnx_head_close(h);
    return is;
}

struct steno_network_options steno_part_options(const struct steno_family_open *o)
{
    return (struct steno_network_options){.cpu = o->cpu,
                                          .cache_dir = steno_cache_dir(),
                                          .observer = o->observer,
                                          .opt_level = o->plain ? 0 : -1,
                                          .precision = o->precision};
}

static steno_status open_part(struct steno_part_file *out, const struct steno_family_open *o,
                              const char *stem, bool quantized, bool last_row, steno_err *err)
{
    struct steno_network_options opt = steno_part_options(o);
    struct steno_part_file p = {0};
    char *path = NULL;
    steno_status st = steno_network_file_find(&p.name, o->dir, stem, quantized, err);
    if (!st && !p.name)
        st = find_ort(&p.name, o->dir, stem, err);
    if (!st && !p.name)
        st = steno_fail(err, STENO_ERR_IO, "%s: there is no %s*.onnx", o->dir, stem);
    if (!st && !(path = steno_path_join(o->dir, p.name)))
        st = steno_fail(err, STENO_ERR_NOMEM, "%s: out of memory", o->dir);
    if (!st)
        st = steno_choose_precision(o->precision, o->cpu, false, false, &opt.precision, err);
    opt.last_row = last_row;
    if (!st)
        st = steno_network_open(&p.net, path, &opt, err);
    free(path);
    if (!st)
        p.quantized = is_quantized(o->dir, p.name);
    if (st)
        steno_part_file_close(&p);
    else
        *out = p;
    return st;
}

steno_status steno_part_file_open(struct steno_part_file *out, const struct steno_family_open *o,
                                  const char *stem, bool quantized, steno_err *err)
{
    return open_part(out, o, stem, quantized, false, err);
}

steno_status steno_part_decoder_open(struct steno_part_file *out, const struct steno_family_open *o,
                                     const char *stem, bool quantized, steno_err *err)
{
    return open_part(out, o, stem, quantized, true, err);
}

steno_status steno_part_made_open(steno_network **out, const struct steno_family_open *o,
                                  const struct steno_graph_source *source, bool blocks,
                                  steno_err *err)
{
    struct steno_network_options opt = steno_part_options(o);
    steno_status st =
        steno_choose_precision(o->precision, o->cpu, blocks, blocks, &opt.precision, err);
    opt.source = source;
    return st ? st : steno_network_open(out, o->dir, &opt, err);
}

void steno_part_file_close(struct steno_part_file *p)
{
    steno_network_close(p->net);
    free(p->name);
    *p = (struct steno_part_file){0};
}
