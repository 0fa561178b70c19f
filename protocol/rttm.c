#include "protocol/rttm.h"

#include <string.h>

#include "protocol/json_text.h"
#include "protocol/then.h"

static steno_status put_name(struct steno_buf *out, const char *name)
{
    steno_status st = *name ? STENO_OK : steno_buf_puts(out, "_");
    for (; !st && *name; name++) {
        const unsigned char c = (unsigned char)*name;
        st = steno_buf_add(out, c <= ' ' || c == 0x7f ? "_" : name, 1);
    }
    return st;
}

steno_status steno_rttm_write(struct steno_buf *out, const char *name,
                              const struct steno_turn *turn, size_t n, const char *const *names)
{
    steno_status st = STENO_OK;
    for (size_t i = 0; !st && i < n; i++) {
        st = steno_buf_puts(out, "SPEAKER ");
        THEN(st, put_name(out, name));
        THEN(st, steno_buf_printf(out, " 1 %.3f %.3f <NA> <NA> ", turn[i].start,
                                  turn[i].end - turn[i].start));
        if (!st)
            st = names && names[turn[i].speaker]
                     ? put_name(out, names[turn[i].speaker])
                     : steno_buf_printf(out, "SPEAKER_%02d", turn[i].speaker);
        THEN(st, steno_buf_puts(out, " <NA> <NA>\n"));
    }
    return st;
}

steno_status steno_turns_json_write(struct steno_buf *out, const char *name, double duration,
                                    int speakers, const struct steno_turn *turn, size_t n,
                                    const char *const *names)
{
    steno_status st =
        steno_json_printf(out, "{\"file\":%s,\"duration\":%.3f,\"speakers\":%d,\"turns\":[", name,
                          duration, speakers);
    for (size_t i = 0; !st && i < n; i++) {
        const char *who = names ? names[turn[i].speaker] : NULL;
        st = steno_buf_printf(out, "%s{\"start\":%.3f,\"end\":%.3f,\"speaker\":%d%s", i ? "," : "",
                              turn[i].start, turn[i].end, turn[i].speaker + 1,
                              who ? ",\"name\":" : "");
        if (!st && who)
            st = steno_json_put_string(out, who, strlen(who));
        THEN(st, steno_buf_puts(out, "}"));
    }
    return st ? st : steno_buf_puts(out, "]}\n");
}
