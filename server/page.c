#include "server/page.h"

#include "page.inc" /* made by the Makefile from page.html */
