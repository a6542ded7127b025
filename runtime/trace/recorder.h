/* The recording of one process: a text file, an event a line, each line one write(2). A process
 * that is killed loses nothing that was recorded, threads need no lock, and a forked child, which
 * is another process, writes nothing. Used inside other people's programs: only the C library, no
 * heap.
 *
 * The first word of a line says what it is; times are nanoseconds of CLOCK_MONOTONIC; keys,
 * contexts and handles are hexadecimal; DEV is a device, or "-" for memory that is none of a
 * device's. A name is the rest of the line.
 *
 *     zltrace 1 PID TIME SECONDS-SINCE-1970 HOST NAME   the process; always the first line
 *     driver VERSION                                    of CUDA, 13000 for 13.0
 *     owner ID NAME                                     a shared object; ids count from 0
 *     context TIME DEV CONTEXT FREE TOTAL NAME          what the device says first; its name
 *     close TIME CONTEXT                                the context goes, with all that is its own
 *     alloc TIME DEV CONTEXT OWNER CALL KEY BYTES
 *     free TIME KEY
 *     create TIME DEV OWNER CALL HANDLE BYTES           physical memory; one reference
 *     retain TIME HANDLE ADDRESS                        one more, to what is mapped there
 *     release TIME HANDLE
 *     map TIME ADDRESS BYTES HANDLE
 *     unmap TIME ADDRESS BYTES
 *     pool TIME DEV POOL RESERVED                       a pool holds that much now
 *     before TIME CALL-ID DEV FREE                      a call begins whose bytes only the device
 * knows load TIME CALL-ID DEV CONTEXT OWNER CALL KEY FREE and ends unload TIME KEY fail TIME DEV
 * OWNER CALL BYTES RESULT             an allocation that the driver refused mark TIME DEV FREE
 * TOTAL SETTLED AUTOMATIC NAME   SETTLED 0: another thread was allocating broken REASON nothing is
 * recorded, and why end TIME LINES                                    the process ended by itself;
 * lines before this
 */
#ifndef ZR_RECORDER_H
#define ZR_RECORDER_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#define ZR_RECORDING_SUFFIX ".zltrace"

typedef struct zr_recorder {
    int fd;    /* -1: none */
    pid_t pid; /* of the process that opened it */
    dev_t device;
    ino_t inode;
    _Atomic uint64_t lines;
} zr_recorder;

/* Creates HOST-PID-N.zltrace in the folder, N the first that is free, and writes its first line.
 * False if that is impossible; the recorder is then a closed one. */
bool zr_recorder_open(zr_recorder *recorder, const char *folder);
/* Appends a line; a newline is added, others become '?'. Does nothing on a closed recorder, in a
 * child, and if somebody else has put another file in place of the recorder's. Keeps errno. */
void zr_recorder_line(zr_recorder *recorder, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* Whether this process, and not its parent, opened it. */
bool zr_recorder_ours(const zr_recorder *recorder);
/* The last line. */
void zr_recorder_end(zr_recorder *recorder);

/* Nanoseconds of CLOCK_MONOTONIC. */
uint64_t zr_recorder_now(void);

#endif
