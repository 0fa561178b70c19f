#include "speech/store/package_index.h"

#include "base/hex.h"
#include "formats/json.h"

#include <string.h>
#include <strings.h>

/* Copy n bytes of a link without its fragment; HTML's character references are replaced where
 * `html`. */
static steno_status copy_link(char out[STENO_PACKAGE_LINK], const char *s, size_t n, bool html,
                              steno_err *err)
{
    static const struct {
        const char *name;
        char c;
    } references[] = {{"&amp;", '&'}, {"&quot;", '"'}, {"&#39;", '\''},
                      {"&lt;", '<'},  {"&gt;", '>'},   {"&#x27;", '\''}};
    size_t at = 0;
    for (size_t i = 0; i < n && s[i] != '#'; i++) {
        char c = s[i];
        if (html && c == '&')
            for (size_t k = 0; k < sizeof references / sizeof references[0]; k++) {
                size_t len = strlen(references[k].name);
                if (n - i < len || strncasecmp(s + i, references[k].name, len))
                    continue;
                c = references[k].c;
                i += len - 1;
                break;
            }
        if (at + 1 >= STENO_PACKAGE_LINK || (unsigned char)c < 0x20)
            return steno_fail(err, STENO_ERR_FORMAT, "the package index has an impossible link");
        out[at++] = c;
    }
    out[at] = '\0';
    return at ? STENO_OK : steno_fail(err, STENO_ERR_FORMAT, "the package index has an empty link");
}

static steno_status from_json(const char *page, size_t n, const char *file,
                              char out[STENO_PACKAGE_LINK], steno_err *err)
{
    steno_json *json = NULL;
    const struct steno_json_node *files;
    steno_status st = steno_json_parse(&json, page, n, "the package index", err);
    if (st)
        return st == STENO_ERR_NOMEM ? st : STENO_ERR_FORMAT;
    files = steno_json_get(steno_json_root(json), "files");
    st = steno_fail(err, STENO_ERR_INVAL, "the package index does not have %s", file);
    if (files && files->kind == STENO_JSON_LIST)
        for (const struct steno_json_node *f = files->first; f; f = f->next) {
            const char *name = steno_json_text(steno_json_get(f, "filename"));
            const char *url = steno_json_text(steno_json_get(f, "url"));
            if (!name || strcmp(name, file) || !url)
                continue;
            st = copy_link(out, url, strlen(url), false, err);
            break;
        }
    steno_json_close(json);
    return st;
}

/* Check that the last part of a link's path, percent-decoded, is this file. */
static bool names(const char *link, const char *file)
{
    size_t end = strcspn(link, "?#"), at = end;
    while (at && link[at - 1] != '/')
        at--;
    for (; at < end; at++, file++) {
        char c = link[at];
        if (c == '%' && at + 2 < end && steno_hex(link[at + 1]) >= 0 &&
            steno_hex(link[at + 2]) >= 0) {
            c = (char)(steno_hex(link[at + 1]) << 4 | steno_hex(link[at + 2]));
            at += 2;
        }
        if (c != *file)
            return false;
    }
    return !*file;
}

/* Find the value of the next href after *at, of an anchor or of anything else. False when there is
 * none. */
static bool next_href(const char *page, size_t n, size_t *at, const char **value, size_t *len)
{
    static const char attribute[] = "href=";
    const size_t width = sizeof attribute - 1;
    for (size_t i = *at; i + width < n; i++) {
        char quote = page[i + width];
        const char *from, *to;
        if (strncasecmp(page + i, attribute, width))
            continue;
        from = page + i + width + 1;
        if (quote != '"' && quote != '\'')
            continue;
        to = memchr(from, quote, n - (size_t)(from - page));
        if (!to)
            return false;
        *value = from;
        *len = (size_t)(to - from);
        *at = (size_t)(to - page);
        return true;
    }
    return false;
}

static steno_status from_html(const char *page, size_t n, const char *file,
                              char out[STENO_PACKAGE_LINK], steno_err *err)
{
    char link[STENO_PACKAGE_LINK];
    const char *value = NULL;
    size_t at = 0, len = 0;
    while (next_href(page, n, &at, &value, &len)) {
        if (copy_link(link, value, len, true, NULL) || !names(link, file))
            continue;
        memcpy(out, link, strlen(link) + 1);
        return STENO_OK;
    }
    return steno_fail(err, STENO_ERR_INVAL, "the package index does not have %s", file);
}

steno_status steno_package_link(const char *page, size_t n, const char *file,
                                char out[STENO_PACKAGE_LINK], steno_err *err)
{
    size_t at = 0;
    while (at < n && memchr(" \t\r\n", page[at], 4))
        at++;
    if (at < n && page[at] == '{')
        return from_json(page, n, file, out, err);
    if (at < n && page[at] == '<')
        return from_html(page, n, file, out, err);
    return steno_fail(err, STENO_ERR_FORMAT, "the package index gives neither HTML nor JSON");
}
