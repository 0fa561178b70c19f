/* The page at "/", made from page.html: recordings and the microphone with any model, examples for
 * programs. It loads nothing from elsewhere. */
#ifndef STENO_SERVER_PAGE_H
#define STENO_SERVER_PAGE_H

extern const char steno_page[];

#endif
