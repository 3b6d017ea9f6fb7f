/* Programs whose calls cannot be seen. */
#ifndef UNSEEN_H
#define UNSEEN_H
#include "preload.h"

/* Why the program's calls will not be seen (TP_STATIC, TP_PRIVILEGED, TP_FOREIGN); 0 where they will be, where it is no program, and
 * where that cannot be told. Touches errno. */
int unseen_reason(int directory, const char *path);
/* Leaves the record; `path` is absolute. Keeps errno. */
void unseen_record(int reason, const char *path);
#endif
