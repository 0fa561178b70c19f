/* The page at "/": what this server is, its endpoints, an upload form and a microphone button. It
 * loads nothing from elsewhere. */
#ifndef STENO_SERVER_PAGE_H
#define STENO_SERVER_PAGE_H

extern const char steno_page[];

#endif
