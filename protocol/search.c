#include "protocol/search.h"

#include <stddef.h>
#include <string.h>

#include "protocol/query.h"

static const struct option {
    const char *name;
    unsigned bit;
    size_t offset;
    double min, max;
} options[] = {
#define AT(member) offsetof(struct steno_search_options, member)
    {"ctc_weight", STENO_SEARCH_CTC_WEIGHT, AT(ctc_weight), 0, 1},
    {"lm_weight", STENO_SEARCH_LM_WEIGHT, AT(lm_weight), 0, 100},
    {"penalty", STENO_SEARCH_PENALTY, AT(penalty), -100, 100},
    {"maxlenratio", STENO_SEARCH_MAX_LEN, AT(max_len_ratio), -1e6, 100},
    {"minlenratio", STENO_SEARCH_MIN_LEN, AT(min_len_ratio), -1e6, 100},
    {"pre_beam", STENO_SEARCH_PRE_BEAM, AT(pre_beam_ratio), 0, 1000},
#undef AT
};
#define OPTIONS (sizeof options / sizeof *options)

static double *place(struct steno_search_options *s, const struct option *o)
{
    return (double *)(void *)((char *)s + o->offset);
}

static const struct option *find(const char *name, size_t n)
{
    for (size_t i = 0; i < OPTIONS; i++)
        if (strlen(options[i].name) == n && !memcmp(options[i].name, name, n))
            return &options[i];
    return NULL;
}

bool steno_search_is_option(const char *name)
{
    return find(name, strlen(name)) != NULL;
}

static steno_status unknown(const char *name, steno_err *err)
{
    return steno_fail(err, STENO_ERR_INVAL, "unknown option '%.40s', known are " STENO_SEARCH_NAMES,
                      name);
}

steno_status steno_search_set(struct steno_search_options *s, const char *name, double value,
                              steno_err *err)
{
    const struct option *o = find(name, strlen(name));
    if (!o)
        return unknown(name, err);
    if (!(value >= o->min && value <= o->max))
        return steno_fail(err, STENO_ERR_INVAL, "%s: %.12g is outside %g..%g", o->name, value,
                          o->min, o->max);
    *place(s, o) = value;
    s->set |= o->bit;
    return STENO_OK;
}

steno_status steno_search_set_text(struct steno_search_options *s, const char *name,
                                   const char *value, steno_err *err)
{
    const struct option *o = find(name, strlen(name));
    double v;
    steno_status st =
        o ? steno_query_double(o->name, value, o->min, o->max, &v, err) : unknown(name, err);
    return st ? st : steno_search_set(s, name, v, err);
}

/* One "NAME=VALUE" without blanks around. */
static steno_status read_pair(struct steno_search_options *s, int *beam, const char *p, size_t n,
                              steno_err *err)
{
    char pair[64], *equals;
    if (n >= sizeof pair)
        return steno_fail(err, STENO_ERR_INVAL, "'%.40s' is longer than any option", p);
    memcpy(pair, p, n);
    pair[n] = '\0';
    equals = strchr(pair, '=');
    if (!equals)
        return steno_fail(err, STENO_ERR_INVAL, "'%s' is not NAME=VALUE", pair);
    *equals = '\0';
    if (!strcmp(pair, "beam"))
        return steno_query_int("beam", equals + 1, 0, STENO_MAX_BEAM, beam, err);
    return steno_search_set_text(s, pair, equals + 1, err);
}

steno_status steno_search_read_list(struct steno_search_options *s, int *beam, const char *list,
                                    steno_err *err)
{
    for (const char *p = list; *p;) {
        size_t n;
        steno_status st;
        p += strspn(p, ", \t");
        n = strcspn(p, ", \t");
        if (!n)
            break;
        st = read_pair(s, beam, p, n, err);
        if (st)
            return st;
        p += n;
    }
    return STENO_OK;
}

void steno_search_complete(struct steno_search_options *io,
                           const struct steno_search_options *defaults)
{
    struct steno_search_options d = *defaults;
    for (size_t i = 0; i < OPTIONS; i++)
        if (!(io->set & options[i].bit) && (d.set & options[i].bit)) {
            *place(io, &options[i]) = *place(&d, &options[i]);
            io->set |= options[i].bit;
        }
}
