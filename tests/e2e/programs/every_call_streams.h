/* Part of every_call.c: stdio. */
static void streams(void)
{
    FILE *f = GOT(OPEN, fopen("s", "w+"));
    MOVED(WRITE, fwrite(block, 1, 500, f));
    MOVED(WRITE, 5 * (long)fwrite_unlocked(block, 5, 30, f));
    MOVED(WRITE, fputs("a line\n", f) < 0 ? -1 : 7);
    MOVED(WRITE, fputs_unlocked("another\n", f) < 0 ? -1 : 8);
    OLD(int, putc, int, FILE *);
    OLD(int, _IO_putc, int, FILE *);
    OLD(int, putc_unlocked, int, FILE *);
    OLD(int, fputc_unlocked, int, FILE *);
    int (*puts_one[])(int, FILE *) = {fputc, putc, _IO_putc, putc_unlocked, fputc_unlocked};
    for (int i = 0; i < 5; i++)
        MOVED(WRITE, puts_one[i]('1' + i, f) == EOF ? -1 : 1);
    MOVED(WRITE, fprintf(f, " %d %s", 42, "words"));
    MOVED(WRITE, by_list(vfprintf, f, " %d", 77));
    OLD(int, __fprintf_chk, FILE *, int, const char *, ...);
    OLD(int, __vfprintf_chk, FILE *, int, const char *, va_list);
    MOVED(WRITE, __fprintf_chk(f, 1, " %d", 78));
    MOVED(WRITE, checked_by_list(__vfprintf_chk, f, " %d\n", 79));
    rewind(f);
    char *line = NULL;
    size_t room = 0;
    MOVED(READ, fread(block, 1, 500, f));
    MOVED(READ, 5 * (long)fread_unlocked(block, 5, 30, f));
    MOVED(READ, getline(&line, &room, f));
    OLD(ssize_t, __getdelim, char **, size_t *, int, FILE *);
    MOVED(READ, getdelim(&line, &room, 'n', f));
    MOVED(READ, __getdelim(&line, &room, 'r', f));
    fpos_t place;
    fpos64_t place64;
    fgetpos(f, &place);
    fgetpos64(f, &place64);
    char text[100];
    OLD(char *, __fgets_chk, char *, size_t, int, FILE *);
    OLD(char *, __fgets_unlocked_chk, char *, size_t, int, FILE *);
    MOVED(READ, fgets(text, 100, f) ? (long)strlen(text) : -1);
    MOVED(READ, fgets_unlocked(text, 3, f) ? (long)strlen(text) : -1);
    MOVED(READ, __fgets_chk(text, sizeof text, 3, f) ? (long)strlen(text) : -1);
    MUST(fsetpos(f, &place) == 0 && fsetpos64(f, &place64) == 0);
    MOVED(READ, __fgets_unlocked_chk(text, sizeof text, 3, f) ? (long)strlen(text) : -1);
    OLD(int, getc, FILE *);
    OLD(int, _IO_getc, FILE *);
    OLD(int, getc_unlocked, FILE *);
    OLD(int, fgetc_unlocked, FILE *);
    int (*gets_one[])(FILE *) = {fgetc, getc, _IO_getc, getc_unlocked, fgetc_unlocked};
    for (int i = 0; i < 5; i++)
        MOVED(READ, gets_one[i](f) == EOF ? -1 : 1);
    OLD(size_t, __fread_chk, void *, size_t, size_t, size_t, FILE *);
    OLD(size_t, __fread_unlocked_chk, void *, size_t, size_t, size_t, FILE *);
    MUST(fseek(f, 10, SEEK_SET) == 0 && fseeko(f, 20, SEEK_SET) == 0 && fseeko64(f, 0, SEEK_SET) == 0);
    MOVED(READ, __fread_chk(block, sizeof block, 1, 10, f));
    MOVED(READ, __fread_unlocked_chk(block, sizeof block, 1, 10, f));
    /* A line with zero bytes in it, and at its end a failure's mark that is an old one. */
    f = freopen("zero", "w+", f);
    DID(CLOSE, 0), GOT(OPEN, f);
    MOVED(WRITE, fwrite("a\0b\nc\0d", 1, 7, f));
    rewind(f);
    MOVED(READ, fgets(text, 100, f) ? 4 : -1);
    MOVED(READ, fgets(text, 100, f) ? 3 : -1);
    MOVED(READ, fgets(text, 100, f) ? -1 : 0);
    f = freopen64("s", "r", f);
    DID(CLOSE, 0), GOT(OPEN, f);
    errno = 0;
    MUST(fputc('x', f) == EOF && errno);
    errors++;
    MOVED(READ, fread(block, 1, sizeof block, f)); /* to the end: short, but no failure, although the mark stands */
    DID(CLOSE, fclose(f));
    free(line);

    f = GOT(OPEN, fopen64("numbers", "w"));
    MOVED(WRITE, fprintf(f, "11 22 33 44 55 66 77 88 99 11 22 33"));
    DID(CLOSE, fclose(f));
    OLD(int, vfscanf, FILE *, const char *, va_list);
    OLD(int, fscanf, FILE *, const char *, ...);
    OLD(int, __isoc99_vfscanf, FILE *, const char *, va_list);
    OLD(int, __isoc99_fscanf, FILE *, const char *, ...);
    OLD(int, __isoc23_vfscanf, FILE *, const char *, va_list);
    OLD(int, __isoc23_fscanf, FILE *, const char *, ...);
    int (*lists[])(FILE *, const char *, va_list) = {vfscanf, __isoc99_vfscanf, __isoc23_vfscanf};
    int (*scans[])(FILE *, const char *, ...) = {fscanf, __isoc99_fscanf, __isoc23_fscanf};
    f = GOT(OPEN, fopen("numbers", "r"));
    int value, first = 1;
    for (int i = 0; i < 3; i++) {
        if (lists[i])
            MOVED(READ, by_list(lists[i], f, "%d", &value) == 1 ? 3 - first : -1), first = 0;
        if (scans[i])
            MOVED(READ, scans[i](f, "%d", &value) == 1 ? 3 : -1);
    }
    DID(CLOSE, fclose(f));
    FILE *nameless[] = {tmpfile(), tmpfile64()}; /* elsewhere, where nothing is watched */
    MUST(nameless[0] && nameless[1] && fputs("x", nameless[0]) >= 0 && fclose(nameless[0]) == 0 && fclose(nameless[1]) == 0);

    int fd = (int)DID(OPEN, open("printed", O_RDWR | O_CREAT | O_TRUNC, 0600));
    OLD(int, __dprintf_chk, int, int, const char *, ...);
    OLD(int, __vdprintf_chk, int, int, const char *, va_list);
    MOVED(WRITE, dprintf(fd, "%d", 12345));
    MOVED(WRITE, list_to(vdprintf, fd, "%d", 123));
    MOVED(WRITE, __dprintf_chk(fd, 1, "%d", 12));
    MOVED(WRITE, checked_list_to(__vdprintf_chk, fd, "%d", 1));
    DID(CLOSE, close(fd));
}

/* Standard output and input put on files; the real output comes back at the end. */
static void standard_streams(void)
{
    fflush(stdout);
    int kept = fcntl(1, F_DUPFD, 300);
    int fd = (int)DID(OPEN, open("out", O_RDWR | O_CREAT | O_TRUNC, 0600));
    MUST(dup2(fd, 1) == 1);
    OLD(int, __printf_chk, int, const char *, ...);
    OLD(int, __vprintf_chk, int, const char *, va_list);
    OLD(int, putchar, int);
    OLD(int, putchar_unlocked, int);
    MOVED(WRITE, puts("12 34") < 0 ? -1 : 6);
    MOVED(WRITE, putchar('5') == EOF ? -1 : 1);
    MOVED(WRITE, putchar_unlocked('6') == EOF ? -1 : 1);
    MOVED(WRITE, printf(" %d ", 77));
    MOVED(WRITE, list_for(vprintf, "%d ", 88));
    MOVED(WRITE, __printf_chk(1, "%d ", 99));
    MOVED(WRITE, checked_list_for(__vprintf_chk, 1, "%d ", 10));
    fflush(stdout);
    MUST(dup2(kept, 1) == 1 && close(kept) == 0);
    DID(CLOSE, close(fd));
    FILE *in = freopen("out", "r", stdin);
    GOT(OPEN, in);
    OLD(int, getchar, void);
    OLD(int, getchar_unlocked, void);
    MOVED(READ, getchar() == '1' ? 1 : -1);
    MOVED(READ, getchar_unlocked() == '2' ? 1 : -1);
    OLD(int, vscanf, const char *, va_list);
    OLD(int, scanf, const char *, ...);
    OLD(int, __isoc99_vscanf, const char *, va_list);
    OLD(int, __isoc99_scanf, const char *, ...);
    OLD(int, __isoc23_vscanf, const char *, va_list);
    OLD(int, __isoc23_scanf, const char *, ...);
    int (*lists[])(const char *, va_list) = {vscanf, __isoc99_vscanf, __isoc23_vscanf};
    int (*scans[])(const char *, ...) = {scanf, __isoc99_scanf, __isoc23_scanf};
    int value;
    for (int i = 0; i < 3; i++) {
        if (lists[i])
            MOVED(READ, list_for(lists[i], "%d", &value) == 1 ? 3 : -1);
        if (scans[i])
            MOVED(READ, scans[i]("%d", &value) == 1 ? 3 : -1);
    }
    DID(CLOSE, fclose(stdin));
}
