/* Lists in headers and settings: items with commas, blanks or tabs between them. Pure. */
#ifndef STENO_BASE_LIST_H
#define STENO_BASE_LIST_H

#include <stdbool.h>
#include <stddef.h>

/* An item, in the list's own text; n 0: the list is over. */
struct steno_list_item {
    const char *p;
    size_t n;
};

/* The first item of list. The next one is that of item.p + item.n. */
struct steno_list_item steno_list_next(const char *list);
/* Whether an item is text. Upper and lower case differ. */
bool steno_list_is(struct steno_list_item item, const char *text);
/* Whether text is one of the items. */
bool steno_list_holds(const char *list, const char *text);

#endif
