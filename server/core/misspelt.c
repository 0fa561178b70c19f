/* Environment variables that are meant for us and misspelt. */
#define _GNU_SOURCE /* environ */
#include "server/core/config.h"

#include <string.h>
#include <unistd.h>

#define NAME_MAX_LETTERS 63

static int least(int a, int b)
{
    return a < b ? a : b;
}

/* Edits from one name to the other: a letter more, less or other, or two that changed places
 * (optimal string alignment). */
static int count_edits(const char *a, const char *b)
{
    unsigned char d[NAME_MAX_LETTERS + 1][NAME_MAX_LETTERS + 1];
    const size_t n = strlen(a), m = strlen(b);
    for (size_t i = 0; i <= n; i++)
        for (size_t k = 0; k <= m; k++) {
            int best = (int)(i ? k ? 255 : i : k);
            if (i && k) {
                best = least(d[i - 1][k], d[i][k - 1]) + 1;
                best = least(best, d[i - 1][k - 1] + (a[i - 1] != b[k - 1]));
            }
            if (i > 1 && k > 1 && a[i - 1] == b[k - 2] && a[i - 2] == b[k - 1])
                best = least(best, d[i - 2][k - 2] + 1);
            d[i][k] = (unsigned char)best;
        }
    return d[n][m];
}

/* Variables that our programs read beside those of settings. */
static const char *const others[] = {"STENO_ADMIN", "STENO_CACHE",  "STENO_CATALOGUE",
                                     "STENO_CPU",   "STENO_DATA",   "STENO_DECODE",
                                     "STENO_KEY",   "STENO_SERVER", "STENO_MODEL"};

/* Note that a variable is known. *least_edits: of the nearest one so far, which *meant is. */
static void compare_names(const char *name, const char *known, int *least_edits, char *meant,
                          size_t size)
{
    const int n = strlen(known) <= NAME_MAX_LETTERS ? count_edits(name, known) : 255;
    if (n >= *least_edits)
        return;
    *least_edits = n;
    snprintf(meant, size, "%s", known);
}

/* Whether a name is misspelt. *meant: the name that it is nearest to. */
static bool is_misspelt(const char *name, char *meant, size_t size)
{
    /* two edits of a short name make it another one */
    const int most = strlen(name) < sizeof "STENO_" + 6 ? 2 : 3;
    int least_edits = most;
    char made[NAME_MAX_LETTERS + 1];
    const char *known;
    for (size_t i = 0; *(known = steno_config_variable(i, made, sizeof made)); i++)
        compare_names(name, known, &least_edits, meant, size);
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        compare_names(name, others[i], &least_edits, meant, size);
    return least_edits && least_edits < most;
}

size_t steno_config_misspelt(void (*tell)(const char *message))
{
    size_t found = 0;
    for (char *const *e = environ; *e; e++) {
        char name[NAME_MAX_LETTERS + 1], meant[NAME_MAX_LETTERS + 1], message[256];
        const size_t n = strcspn(*e, "=");
        if (n >= sizeof name || strncmp(*e, "STENO_", 6))
            continue;
        snprintf(name, sizeof name, "%.*s", (int)n, *e);
        if (!is_misspelt(name, meant, sizeof meant))
            continue;
        snprintf(message, sizeof message, "environment variable %s: unknown; %s is known", name,
                 meant);
        tell(message);
        found++;
    }
    return found;
}
