/* How ranks that know nothing of each other get their first common bytes, those of rank 0, and how
 * they learn later that one of them has died.
 *
 * Ranks of our own launcher find the bytes in a file in memory that it shares with them, and it
 * ends them all when one dies. Others meet at rank 0, which listens on MASTER_ADDR and MASTER_PORT
 * as torchrun names them; under Slurm without these on the first node of the step. Their
 * connections stay: a thread of each rank watches them, and ends its process when another rank has
 * failed, even while the process waits for a device that waits for that rank.
 *
 *     ZL_TRY(zr_meet(rank, ranks, &id, sizeof id, &meeting, err));
 *     ... train ...
 *     zr_meeting_leave(meeting);
 */
#ifndef ZR_COMM_MEETING_H
#define ZR_COMM_MEETING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "zeroledger/error.h"

/* Where the launcher says its file is. */
#define ZR_BOARD_VARIABLE "ZR_BOARD"

typedef struct zr_meeting zr_meeting;

/* bytes: written by rank 0, filled in for all others. Nodes may start three minutes apart. *out
 * stays NULL where a launcher watches; else the caller leaves. */
ZL_NODISCARD zl_status zr_meet(uint64_t rank, uint64_t ranks, void *bytes, size_t size,
                               zr_meeting **out, zl_err *err);

/* Instead of zr_meet: this rank cannot take part and has said why, so that the others need not wait
 * for it. After zr_meet it does nothing: they know. */
void zr_meeting_decline(uint64_t rank, uint64_t ranks, int code);

/* What this rank is doing, for the others to say if it dies: two words in memory that may change at
 * any time, and what turns them into words of English. */
typedef struct zr_activity {
    const volatile uint32_t *step;
    const volatile uint32_t *beacon;
    void (*words)(uint32_t step, uint32_t beacon, char *text, size_t size);
} zr_activity;
void zr_meeting_show(zr_meeting *meeting, const zr_activity *activity);

/* This rank has failed and has said why: ends the others, with that exit code. */
void zr_meeting_fail(zr_meeting *meeting, int code);
/* This rank has finished. Frees the meeting; NULL is fine. */
void zr_meeting_leave(zr_meeting *meeting);

/* The first name of a Slurm node list, "gpu[003-007,12],login": gpu003. False if it has none or it
 * does not fit. */
bool zr_meeting_first_host(const char *list, char *host, size_t size);

#endif
