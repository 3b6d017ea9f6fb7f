/* Programs whose calls cannot be seen. */
#ifndef UNSEEN_H
#define UNSEEN_H
#include "preload.h"

/* Why the program's calls will not be seen (TP_STATIC, TP_PRIVILEGED, TP_FOREIGN); 0 where they will be, where it is no program, and
 * where that cannot be told. Touches errno. */
int unseen_reason(int directory, const char *path);
/* Leaves the record; `path` is absolute. Keeps errno. */
void unseen_record(int reason, const char *path);
/* A program is about to be run, or was: told of where its calls will not be seen. `directory`: that a relative path starts from, -1 where it
 * is not known. Keep errno. */
void runs(int directory, const char *path);
/* The same with a command's name, which is looked for along $PATH as the C library does it. */
void runs_command(int directory, const char *name);
#endif
