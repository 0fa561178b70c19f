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
/* How alike two names are: the number of equal first letters and, of the rest, of equal last ones.
 * Below 3: not alike. */
size_t steno_list_likeness(const char *a, size_t n, const char *b);
/* The same in percent of the letters of both. From STENO_LIST_ALIKE on one may be meant by the
 * other, however long the names are. */
#define STENO_LIST_ALIKE 60
size_t steno_list_likeness_percent(const char *a, const char *b);
/* The item that a misspelt one most likely means, the first of several; n 0: none is alike. */
struct steno_list_item steno_list_similar(const char *list, const char *text);

#endif
