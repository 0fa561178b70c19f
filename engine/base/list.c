#include "base/list.h"

#include <string.h>

static bool is_between(char c)
{
    return c == ',' || c == ' ' || c == '\t';
}

struct steno_list_item steno_list_next(const char *list)
{
    size_t n = 0;
    while (is_between(*list))
        list++;
    while (list[n] && !is_between(list[n]))
        n++;
    return (struct steno_list_item){list, n};
}

bool steno_list_is(struct steno_list_item item, const char *text)
{
    return item.n == strlen(text) && !memcmp(item.p, text, item.n);
}

bool steno_list_holds(const char *list, const char *text)
{
    struct steno_list_item it = steno_list_next(list);
    while (it.n && !steno_list_is(it, text))
        it = steno_list_next(it.p + it.n);
    return it.n > 0;
}

size_t steno_list_likeness(const char *a, size_t n, const char *b)
{
    const size_t m = strlen(b), most = n < m ? n : m;
    size_t first = 0, last = 0;
    while (first < most && a[first] == b[first])
        first++;
    while (last < most - first && a[n - 1 - last] == b[m - 1 - last])
        last++;
    return first + last;
}

size_t steno_list_likeness_percent(const char *a, const char *b)
{
    const size_t n = strlen(a), m = strlen(b);
    return n + m ? 200 * steno_list_likeness(a, n, b) / (n + m) : 100;
}

struct steno_list_item steno_list_similar(const char *list, const char *text)
{
    struct steno_list_item best = {list, 0};
    size_t most = 2;
    for (struct steno_list_item it = steno_list_next(list); it.n;
         it = steno_list_next(it.p + it.n)) {
        const size_t alike = steno_list_likeness(it.p, it.n, text);
        best = alike > most ? it : best;
        most = alike > most ? alike : most;
    }
    return best;
}
