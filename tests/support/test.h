/* What every test program begins with: cmocka.h wants these headers before it. */
#ifndef STENO_TESTS_SUPPORT_TEST_H
#define STENO_TESTS_SUPPORT_TEST_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#endif
