#include "base/list.h"

#include <string.h>

#define BETWEEN ", \t"

struct steno_list_item steno_list_next(const char *list)
{
    list += strspn(list, BETWEEN);
    return (struct steno_list_item){list, strcspn(list, BETWEEN)};
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
