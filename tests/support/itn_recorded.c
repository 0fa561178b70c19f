#include "tests/support/itn_recorded.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "formats/gzip.h"
#include "tests/support/shared.h"
#include "tests/support/test.h"

bool itn_recorded_file(const char *folder, const char *name)
{
    char packed[128], path[256];
    size_t n, size = 0;
    void *out = NULL, *data;
    FILE *f;
    snprintf(packed, sizeof packed, "itn/wetext/%s.gz", name);
    data = steno_test_shared(packed, &n);
    if (!data)
        return false;
    assert_int_equal(steno_gzip_unpack(data, n, name, (size_t)1 << 26, &out, &size, NULL),
                     STENO_OK);
    snprintf(path, sizeof path, "%s/%s", folder, name);
    f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(out, 1, size, f), size);
    assert_int_equal(fclose(f), 0);
    free(out);
    free(data);
    return true;
}

bool itn_recorded_unpack(const char *folder, const char *language)
{
    char name[64];
    snprintf(name, sizeof name, "%s_itn_tagger.fst", language);
    if (!itn_recorded_file(folder, name))
        return false;
    snprintf(name, sizeof name, "%s_itn_verbalizer.fst", language);
    return itn_recorded_file(folder, name);
}

json_t *itn_recorded_rows(const char *language)
{
    char name[64];
    size_t n;
    json_t *rows = json_array();
    char *data;
    snprintf(name, sizeof name, "itn/pairs/%s.jsonl", language);
    data = steno_test_shared(name, &n);
    assert_non_null(data);
    for (size_t i = 0; i < n;) {
        const char *end = memchr(data + i, '\n', n - i);
        const size_t size = end ? (size_t)(end - data) - i : n - i;
        assert_int_equal(json_array_append_new(rows, json_loadb(data + i, size, 0, NULL)), 0);
        i += size + 1;
    }
    free(data);
    return rows;
}
