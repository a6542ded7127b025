/* The connections of a meeting after it: who notices that a rank has died, and tells the others.
 * Rank 0 has one to every other rank, the others one to rank 0.
 *
 * A thread looks at them. It ends the process, with the exit code of the rank that failed, as soon
 * as a connection breaks or brings the news; a rank that died without telling why is named by rank
 * 0, with what it was doing (rank 0 itself by rank 1). The kernel of a machine that has gone
 * answers no more, which breaks its connections within 20 seconds. Private to meeting.c.
 */
#ifndef ZR_COMM_VIGIL_H
#define ZR_COMM_VIGIL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "comm/meeting.h"
#include "zeroledger/error.h"

typedef enum zr_note_kind {
    ZR_NOTE_HELLO = 1, /* rank, and an exit code if it cannot take part */
    ZR_NOTE_BYTES,     /* rank 0's bytes follow */
    ZR_NOTE_DOING,     /* rank, step, beacon */
    ZR_NOTE_FAILED,    /* rank, exit code */
    ZR_NOTE_BYE        /* rank: has finished */
} zr_note_kind;

typedef struct zr_note {
    uint32_t magic; /* set when it is sent */
    uint32_t kind;
    uint32_t rank;
    uint32_t value;
    uint32_t more;
} zr_note;

bool zr_note_send(int fd, const zr_note *note);
/* False as well for something that is no note, or none within so many seconds. */
bool zr_note_receive(int fd, zr_note *note, double seconds);
bool zr_bytes_receive(int fd, void *bytes, size_t size);

typedef struct zr_vigil zr_vigil;

/* NULL: out of memory. The caller frees. */
zr_vigil *zr_vigil_new(uint64_t rank, uint64_t ranks);
/* Closes the connections. */
void zr_vigil_free(zr_vigil *vigil);
/* Takes over the connection to a rank; false if there is one already. */
bool zr_vigil_add(zr_vigil *vigil, uint64_t rank, int fd);
/* Gives every other rank the bytes. */
ZL_NODISCARD zl_status zr_vigil_send(zr_vigil *vigil, const void *bytes, size_t size, zl_err *err);
/* Tells every other rank that a rank has failed. */
void zr_vigil_end(zr_vigil *vigil, uint64_t rank, int code);

/* Starts the thread; everything below needs it. */
ZL_NODISCARD zl_status zr_vigil_begin(zr_vigil *vigil, zl_err *err);
void zr_vigil_show(zr_vigil *vigil, const zr_activity *activity);
void zr_vigil_fail(zr_vigil *vigil, int code);
void zr_vigil_leave(zr_vigil *vigil);

#endif
