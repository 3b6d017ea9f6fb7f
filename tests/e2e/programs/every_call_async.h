/* Part of every_call.c: asynchronous I/O. */
/* Waits for an asynchronous operation and answers its result. */
static long waited(struct aiocb *block)
{
    const struct aiocb *blocks[] = {block};
    const struct aiocb64 *blocks64[] = {(struct aiocb64 *)block};
    while (aio_error(block) == EINPROGRESS)
        MUST(aio_suspend(blocks, 1, NULL) == 0 && aio_suspend64(blocks64, 1, NULL) == 0);
    return aio_error64(blocks64[0]) ? -1 : aio_return(block);
}
#define WAITED(kind, submitted, block) MOVED(kind, (submitted) == 0 ? waited(block) : -1)

static void asynchronous(void)
{
    int fd = (int)DID(OPEN, open("async", O_RDWR | O_CREAT | O_TRUNC, 0600));
    struct aiocb a = {.aio_fildes = fd, .aio_buf = block, .aio_nbytes = 100, .aio_offset = 0};
    struct aiocb64 b = {.aio_fildes = fd, .aio_buf = block, .aio_nbytes = 200, .aio_offset = 100};
    WAITED(WRITE, aio_write(&a), &a);
    WAITED(WRITE, aio_write64(&b), (struct aiocb *)&b);
    WAITED(READ, aio_read(&a), &a);
    WAITED(READ, aio_read64(&b), (struct aiocb *)&b);
    WAITED(SYNC, aio_fsync(O_SYNC, &a), &a);
    WAITED(SYNC, aio_fsync64(O_DSYNC, &b), (struct aiocb *)&b);
    a.aio_offset = 250; /* to the end: short */
    WAITED(READ, aio_read(&a), &a);
    MUST(aio_read(&a) == 0); /* its result is not fetched before the block is used anew */
    while (aio_error(&a) == EINPROGRESS)
        ;
    MOVED(READ, 50);
    WAITED(READ, aio_read(&a), &a);
    MUST(aio_return(&a) == 50); /* asked once more: no operation */
    struct aiocb refused = {.aio_fildes = open("async", O_WRONLY), .aio_buf = block, .aio_nbytes = 10};
    calls[OPEN]++;
    MUST(aio_read(&refused) != 0 || waited(&refused) == -1);
    MUST(aio_return(&refused) == -1 || errno);
    errors++;
    DID(CLOSE, close(refused.aio_fildes));

    struct aiocb parts[3] = {{.aio_fildes = fd, .aio_buf = block, .aio_nbytes = 10, .aio_lio_opcode = LIO_WRITE, .aio_offset = 1000},
                             {.aio_fildes = fd, .aio_buf = block, .aio_nbytes = 20, .aio_lio_opcode = LIO_READ},
                             {.aio_fildes = fd, .aio_lio_opcode = LIO_NOP}};
    struct aiocb *list[] = {&parts[0], NULL, &parts[1], &parts[2]};
    MUST(lio_listio(LIO_WAIT, list, 4, NULL) == 0);
    MOVED(WRITE, 10), MOVED(READ, 20); /* done; their results are not fetched */
    struct aiocb64 *list64[] = {(struct aiocb64 *)&parts[0], (struct aiocb64 *)&parts[1]};
    MUST(lio_listio(99, list, 4, NULL) == -1 && errno == EINVAL); /* none is begun, nor found again in the next list */
    MUST(lio_listio64(LIO_NOWAIT, list64, 2, NULL) == 0);
    while (aio_error(&parts[0]) == EINPROGRESS || aio_error(&parts[1]) == EINPROGRESS)
        ;
    MOVED(WRITE, aio_return64(list64[0])), MOVED(READ, aio_return64(list64[1]));

    /* libaio's, which is not linked: under watch they are there all the same. */
    int (*io_submit)(aio_context_t, long, struct iocb **) = (int (*)(aio_context_t, long, struct iocb **))dlsym(RTLD_DEFAULT, "io_submit");
    int (*io_getevents)(aio_context_t, long, long, struct io_event *, struct timespec *) =
        (int (*)(aio_context_t, long, long, struct io_event *, struct timespec *))dlsym(RTLD_DEFAULT, "io_getevents");
    int (*io_pgetevents)(aio_context_t, long, long, struct io_event *, struct timespec *, sigset_t *) =
        (int (*)(aio_context_t, long, long, struct io_event *, struct timespec *, sigset_t *))dlsym(RTLD_DEFAULT, "io_pgetevents");
    MUST(io_submit && io_getevents && io_pgetevents);
    if (failed_at)
        return;
    aio_context_t context = 0;
    MUST(syscall(SYS_io_setup, 8, &context) == 0);
    struct iovec piece = {block, 60};
    struct iocb blocks[4] = {{.aio_fildes = (uint32_t)fd, .aio_lio_opcode = IOCB_CMD_PWRITE, .aio_buf = (uintptr_t)block, .aio_nbytes = 70},
                             {.aio_fildes = (uint32_t)fd, .aio_lio_opcode = IOCB_CMD_PREAD, .aio_buf = (uintptr_t)(block + 100), .aio_nbytes = 30},
                             {.aio_fildes = (uint32_t)fd, .aio_lio_opcode = IOCB_CMD_PREADV, .aio_buf = (uintptr_t)&piece, .aio_nbytes = 1},
                             {.aio_fildes = (uint32_t)fd, .aio_lio_opcode = IOCB_CMD_PWRITEV, .aio_buf = (uintptr_t)&piece, .aio_nbytes = 1}};
    struct iocb *handed[] = {&blocks[0], &blocks[1], &blocks[2], &blocks[3]};
    struct io_event events[4];
    MUST(io_submit(context, 4, handed) == 4);
    MUST(io_getevents(context, 2, 2, events, NULL) == 2 && io_pgetevents(context, 2, 2, events + 2, NULL, NULL) == 2);
    for (int i = 0; i < 4; i++)
        MOVED(events[i].obj == (uintptr_t)&blocks[0] || events[i].obj == (uintptr_t)&blocks[3] ? WRITE : READ, events[i].res);
    blocks[1].aio_lio_opcode = 99;
    MUST(io_submit(context, 2, handed) == 1); /* the second one is refused, and is no operation */
    MUST(io_getevents(context, 1, 1, events, NULL) == 1);
    MOVED(WRITE, events[0].res);
    blocks[0].aio_fildes = 999;
    MUST(io_submit(context, 1, handed) == -EBADF); /* of no file */
    blocks[0].aio_fildes = (uint32_t)fd;
    handed[1] = (struct iocb *)8; /* no memory of ours */
    MUST(io_submit(context, 2, handed) == 1 && io_getevents(context, 1, 1, events, NULL) == 1);
    MOVED(WRITE, events[0].res);
    MUST(io_submit(context, 1, handed + 1) == -EFAULT && io_submit(context, 1, (struct iocb **)8) == -EFAULT);
    MUST(syscall(SYS_io_destroy, context) == 0);
    DID(CLOSE, close(fd));
}
