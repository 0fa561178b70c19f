#include "tools/convert/nemo_graphs.h"

#include "tools/convert/make.h"

steno_status steno_nemo_write_encoder(const struct steno_nemo_arch *a,
                                      const struct steno_make_weights *w, const char *head,
                                      const char *path, steno_err *err)
{
    struct steno_graph *g = NULL;
    const steno_status st = steno_nemo_build_encoder(a, w, head, &g, err);
    return st ? st : steno_make_save(g, path, NULL, err);
}

steno_status steno_nemo_write(steno_nemo_builder *build, const struct steno_nemo_arch *a,
                              const struct steno_make_weights *w, const char *path, steno_err *err)
{
    struct steno_graph *g = NULL;
    const steno_status st = build(a, w, &g, err);
    return st ? st : steno_make_save(g, path, NULL, err);
}
