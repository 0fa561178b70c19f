/* The page at "/": what this server is, its endpoints, a form and a microphone. No external parts.
 */
#ifndef STENO_SERVER_PAGE_H
#define STENO_SERVER_PAGE_H

extern const char steno_page[];

#endif
