#include "server/http/api_text.h"

#include "api_text.inc" /* made by the Makefile from docs/ */
