/* steno model fetch, list and remove: models of the catalogue on this machine. */
#ifndef STENO_CLI_STORE_H
#define STENO_CLI_STORE_H

/* True if the word is one of these three commands. */
int cli_store_has(const char *word);
/* Run one: argv[1] is its word. Returns an exit code. */
int cli_store(int argc, char **argv);

#endif
