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

steno_status steno_nemo_write_decoder(const struct steno_nemo_arch *a,
                                      const struct steno_make_weights *w, const char *path,
                                      steno_err *err)
{
    struct steno_graph *g = NULL;
    const steno_status st = steno_nemo_build_decoder(a, w, &g, err);
    return st ? st : steno_make_save(g, path, NULL, err);
}

steno_status steno_nemo_write_joiner(const struct steno_nemo_arch *a,
                                     const struct steno_make_weights *w, const char *path,
                                     steno_err *err)
{
    struct steno_graph *g = NULL;
    const steno_status st = steno_nemo_build_joiner(a, w, &g, err);
    return st ? st : steno_make_save(g, path, NULL, err);
}

steno_status steno_nemo_write_aed_encoder(const struct steno_nemo_arch *a,
                                          const struct steno_make_weights *w, const char *path,
                                          steno_err *err)
{
    struct steno_graph *g = NULL;
    const steno_status st = steno_nemo_build_aed_encoder(a, w, &g, err);
    return st ? st : steno_make_save(g, path, NULL, err);
}

steno_status steno_nemo_write_aed_decoder(const struct steno_nemo_arch *a,
                                          const struct steno_make_weights *w, const char *path,
                                          steno_err *err)
{
    struct steno_graph *g = NULL;
    const steno_status st = steno_nemo_build_aed_decoder(a, w, &g, err);
    return st ? st : steno_make_save(g, path, NULL, err);
}
