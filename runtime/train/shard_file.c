#define _DEFAULT_SOURCE /* fsync */
#include "train/shard_file.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "train/shard_layout.h"
#include "zeroledger/bytes.h"

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "files are little-endian, as memory is");

uint64_t zr_checksum(uint64_t sum, const void *bytes, uint64_t count)
{
    const unsigned char *p = bytes;
    while (count > 0) {
        uint64_t word = 0;
        const uint64_t n = zl_min(count, sizeof word);
        memcpy(&word, p, n);
        /* Each step can be undone, in the sum and in the word; the constant is SplitMix64's. */
        sum = (sum ^ word) * 0xbf58476d1ce4e5b9U;
        sum ^= sum >> 32;
        p += n;
        count -= n;
    }
    return sum;
}

/* ---- writing */

typedef struct sink {
    const char *path;
    int fd;
    zr_piece *piece;
    uint64_t held; /* bytes in the piece */
    uint64_t bytes;
    uint64_t sum;
} sink;

static zl_status failed(const char *path, zl_err *err)
{
    return zl_fail(err, ZL_E_RESOURCE, "%.200s: %s", path, strerror(errno));
}

static zl_status flush(sink *s, zl_err *err)
{
    const unsigned char *p = s->piece->byte;
    s->sum = zr_checksum(s->sum, p, s->held);
    while (s->held > 0) {
        const ssize_t put = write(s->fd, p, s->held);
        if (put < 0 && errno == EINTR) {
            continue;
        }
        if (put <= 0) {
            return failed(s->path, err);
        }
        p += put;
        s->held -= (uint64_t)put;
        s->bytes += (uint64_t)put;
    }
    return ZL_OK;
}

/* Room for at least one more word. */
static zl_status make_room(sink *s, uint64_t count, zl_err *err)
{
    return s->held + count > sizeof s->piece->byte ? flush(s, err) : ZL_OK;
}

static zl_status put(sink *s, const void *bytes, uint64_t count, zl_err *err)
{
    ZL_TRY(make_room(s, count, err));
    memcpy(s->piece->byte + s->held, bytes, count);
    s->held += count;
    return ZL_OK;
}

static zl_status put_elements(sink *s, const zr_zero *zero, const unsigned char *from,
                              uint64_t bytes, zl_err *err)
{
    for (uint64_t done = 0; done < bytes;) {
        ZL_TRY(make_room(s, sizeof(uint64_t), err));
        const uint64_t n = zl_min(bytes - done, sizeof s->piece->byte - s->held);
        ZL_TRY(zr_did(zr_copy_out(s->piece->byte + s->held, from + done, n, zero->stream),
                      "copy_out", err));
        s->held += n;
        done += n;
    }
    return ZL_OK;
}

static zl_status put_unit(sink *s, const zr_shard_args *args, uint64_t u, zl_err *err)
{
    const zr_zero *zero = args->zero;
    const uint64_t shard = zero->store[u].unit->shard;
    for (unsigned part = 0; part < zr_part_count(zero); part++) {
        const uint64_t size = zl_dtype_size(zr_part_dtype(zero, (zr_part)part));
        const void *from = zr_part_at(zero, u, (zr_part)part, zl_mul(zero->rank, shard));
        if (from == NULL) {
            return zl_fail(err, ZL_E_BUG, "unit %d has no part %u to save", (int)u, part);
        }
        ZL_TRY(put_elements(s, zero, from, zl_mul(shard, size), err));
    }
    return ZL_OK;
}

static zl_status put_all(sink *s, const zr_shard_args *args, zl_err *err)
{
    const zr_shard_head head = zr_shard_head_of(args);
    ZL_TRY(put(s, &head, sizeof head, err));
    for (uint64_t u = 0; u < head.units; u++) {
        const zr_shard_row row = zr_shard_row_of(args, u);
        ZL_TRY(put(s, &row, sizeof row, err));
    }
    for (uint64_t u = 0; u < head.units; u++) {
        ZL_TRY(put_unit(s, args, u, err));
    }
    ZL_TRY(flush(s, err));
    const uint64_t sum = s->sum;
    ZL_TRY(put(s, &sum, sizeof sum, err));
    ZL_TRY(flush(s, err));
    s->sum = sum;
    return ZL_OK;
}

zl_status zr_shard_write(const char *path, const zr_shard_args *args, zr_piece *piece,
                         uint64_t *bytes, uint64_t *checksum, zl_err *err)
{
    sink s = {.path = path, .piece = piece, .sum = ZR_CHECKSUM_START};
    s.fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (s.fd < 0) {
        return failed(path, err);
    }
    zl_status status = put_all(&s, args, err);
    if (status == ZL_OK && fsync(s.fd) != 0) {
        status = failed(path, err);
    }
    if (close(s.fd) != 0 && status == ZL_OK) {
        status = failed(path, err);
    }
    if (status == ZL_OK) {
        *bytes = s.bytes;
        *checksum = s.sum;
    }
    return status;
}

/* ---- reading */

/* Without a path in the message: the callers put it there. */
static zl_status read_at(int fd, void *to, uint64_t count, uint64_t offset, zl_err *err)
{
    unsigned char *p = to;
    while (count > 0) {
        const ssize_t got = pread(fd, p, count, (off_t)offset);
        if (got < 0 && errno == EINTR) {
            continue;
        }
        if (got <= 0) {
            return zl_fail(err, ZL_E_INPUT, "%s",
                           got == 0 ? "the file is cut off" : strerror(errno));
        }
        p += got;
        count -= (uint64_t)got;
        offset += (uint64_t)got;
    }
    return ZL_OK;
}

/* The checksum of the first `count` bytes. */
static zl_status sum_of(int fd, zr_piece *piece, uint64_t count, uint64_t *out, zl_err *err)
{
    uint64_t sum = ZR_CHECKSUM_START;
    for (uint64_t at = 0; at < count;) {
        const uint64_t n = zl_min(count - at, sizeof piece->byte);
        ZL_TRY(read_at(fd, piece->byte, n, at, err));
        sum = zr_checksum(sum, piece->byte, n);
        at += n;
    }
    *out = sum;
    return ZL_OK;
}

static zl_status check_sum(int fd, zr_piece *piece, uint64_t bytes, uint64_t expected, zl_err *err)
{
    uint64_t sum = 0;
    uint64_t written = 0;
    const uint64_t end = bytes - sizeof written;
    ZL_TRY(sum_of(fd, piece, end, &sum, err));
    ZL_TRY(read_at(fd, &written, sizeof written, end, err));
    if (sum != written) {
        return zl_fail(err, ZL_E_INPUT, "damaged: its checksum does not fit its content");
    }
    return sum == expected
               ? ZL_OK
               : zl_fail(err, ZL_E_INPUT, "not the file that manifest.json names: other checksum");
}

static zl_status check_rows(int fd, const zr_shard_args *args, zl_err *err)
{
    for (uint64_t u = 0; u < args->zero->units; u++) {
        const zr_shard_row wanted = zr_shard_row_of(args, u);
        zr_shard_row row;
        ZL_TRY(read_at(fd, &row, sizeof row, sizeof(zr_shard_head) + u * sizeof row, err));
        if (memcmp(&row, &wanted, sizeof row) != 0) {
            return zl_fail(err, ZL_E_INPUT, "unit %d has not this model's elements", (int)u);
        }
    }
    return ZL_OK;
}

static zl_status check_open(int fd, const zr_shard_args *args, zr_piece *piece, uint64_t checksum,
                            zl_err *err)
{
    const zr_shard_head wanted = zr_shard_head_of(args);
    zr_shard_head head;
    const off_t size = lseek(fd, 0, SEEK_END);
    ZL_TRY(read_at(fd, &head, sizeof head, 0, err));
    ZL_TRY(zr_shard_head_known(&head, err));
    if (size < 0 || (uint64_t)size != wanted.bytes) {
        return zl_fail(err, ZL_E_INPUT, "%lld bytes long, and this model makes it %llu",
                       (long long)size, (unsigned long long)wanted.bytes);
    }
    ZL_TRY(check_sum(fd, piece, wanted.bytes, checksum, err));
    ZL_TRY(zr_shard_head_same(&head, &wanted, err));
    return check_rows(fd, args, err);
}

static zl_status open_for_reading(const char *path, int *fd, zl_err *err)
{
    *fd = open(path, O_RDONLY | O_CLOEXEC);
    return *fd >= 0 ? ZL_OK : zl_fail(err, ZL_E_INPUT, "%s", strerror(errno));
}

zl_status zr_shard_check(const char *path, const zr_shard_args *args, zr_piece *piece,
                         uint64_t checksum, zl_err *err)
{
    int fd;
    zl_err found = {.status = ZL_OK};
    zl_status status = open_for_reading(path, &fd, &found);
    if (status == ZL_OK) {
        status = check_open(fd, args, piece, checksum, &found);
        close(fd);
    }
    return status == ZL_OK ? ZL_OK : zl_fail(err, status, "%.200s: %s", path, found.text);
}

/* Bytes [offset, offset + bytes) of the file, to `to`. */
static zl_status get_elements(int fd, const zr_zero *zero, zr_piece *piece, uint64_t offset,
                              uint64_t bytes, unsigned char *to, zl_err *err)
{
    for (uint64_t done = 0; done < bytes;) {
        const uint64_t n = zl_min(bytes - done, sizeof piece->byte);
        ZL_TRY(read_at(fd, piece->byte, n, zl_add(offset, done), err));
        ZL_TRY(zr_did(zr_copy_in(to + done, piece->byte, n, zero->stream), "copy_in", err));
        done += n;
    }
    return ZL_OK;
}

/* What the file and this rank have in common of unit u, whose elements begin at `offset`. */
static zl_status get_unit(int fd, const zr_shard_args *args, zr_piece *piece, uint64_t u,
                          uint64_t offset, zl_err *err)
{
    const zr_zero *zero = args->zero;
    const zr_range range = zr_shard_common(args, u);
    const uint64_t shard = zr_shard_row_of(args, u).shard;
    for (unsigned part = 0; part < zr_part_count(zero) && range.begin < range.end; part++) {
        const uint64_t size = zl_dtype_size(zr_part_dtype(zero, (zr_part)part));
        const uint64_t before = range.begin - zl_mul(args->rank, shard);
        void *to = zr_part_at(zero, u, (zr_part)part, range.begin);
        if (to == NULL) {
            return zl_fail(err, ZL_E_BUG, "unit %d has no part %u to load", (int)u, part);
        }
        ZL_TRY(get_elements(fd, zero, piece, zl_add(offset, zl_mul(before, size)),
                            zl_mul(range.end - range.begin, size), to, err));
        offset = zl_add(offset, zl_mul(shard, size));
    }
    return ZL_OK;
}

static zl_status get_all(int fd, const zr_shard_args *args, zr_piece *piece, zl_err *err)
{
    for (uint64_t u = 0; u < args->zero->units; u++) {
        ZL_TRY(get_unit(fd, args, piece, u, zr_shard_offset(args, u), err));
    }
    return ZL_OK;
}

zl_status zr_shard_read(const char *path, const zr_shard_args *args, zr_piece *piece, zl_err *err)
{
    bool wanted = false;
    for (uint64_t u = 0; u < args->zero->units && !wanted; u++) {
        const zr_range range = zr_shard_common(args, u);
        wanted = range.begin < range.end;
    }
    if (!wanted) {
        return ZL_OK;
    }
    int fd;
    zl_err found = {.status = ZL_OK};
    zl_status status = open_for_reading(path, &fd, &found);
    if (status == ZL_OK) {
        status = get_all(fd, args, piece, &found);
        close(fd);
    }
    return status == ZL_OK ? ZL_OK : zl_fail(err, status, "%.200s: %s", path, found.text);
}
