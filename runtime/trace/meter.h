/* What one process holds, by who asked for it: fed the events of its recording in their order, it
 * keeps running totals and peaks. No clock, no device, no file.
 *
 *     zr_meter meter = {0};
 *     zr_meter_owner(&meter, 0, "libnccl.so.2");
 *     zr_meter_create(&meter, 100, &(zr_asked){.device = 0, .call = "cuMemCreate"}, handle, bytes);
 *     zr_meter_mark(&meter, 200, &(zr_look){.device = 0, .available = a, .total = b}, "warm");
 *     if (meter.status == ZL_OK) { ... meter.row[0].peak ... }
 *     zr_meter_release(&meter);
 *
 * Every byte of a row is a byte of its device, and the rows of a device add up to what is traced:
 *   physical memory (cuMemCreate) lives until no handle and no mapping is left;
 *   cuMemAlloc takes whole granules of 2 MiB, shared by small allocations whose addresses are in
 *     the same one: what is not asked for is the row "(granule)";
 *   a pool holds more than was asked of it: what it holds besides is the row "(pool)";
 *   modules and arrays are as large as the device says that it shrank;
 *   the context is what was in use when it was first seen, other processes included: "(context)".
 * Host memory, managed memory and memory imported from others are of no device: rows of device -1.
 */
#ifndef ZR_METER_H
#define ZR_METER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "trace/map.h"
#include "zeroledger/error.h"

enum { ZR_NO_DEVICE = -1, ZR_DEVICES_MAX = 64, ZR_CALL_SIZE = 48, ZR_MARK_SIZE = 64 };

/* Owners that are no shared object; those of a recording have smaller numbers. */
enum { ZR_OWNER_CONTEXT = 1 << 20, ZR_OWNER_POOL, ZR_OWNER_GRANULE };

/* Bytes of one owner by one function of the driver on one device. */
typedef struct zr_row {
    int device;
    uint32_t owner;
    char call[ZR_CALL_SIZE]; /* "cuMemAlloc" */
    uint64_t now;            /* bytes */
    uint64_t peak;           /* its own */
    uint64_t at_peak;        /* when the device's traced bytes were at their peak */
    uint64_t live;           /* allocations */
    uint64_t made;           /* allocations, ever */
} zr_row;

typedef struct zr_traced_device {
    bool present;
    bool looked; /* the device has told what is in use */
    char name[64];
    uint64_t total;  /* bytes of the device */
    uint64_t traced; /* bytes now: the sum of its rows */
    uint64_t peak;
    uint64_t peak_time;
    uint64_t used_peak; /* largest that a mark saw in use */
    zr_map granules;    /* number of live allocations in each */
    uint64_t granule_bytes;
    uint64_t alloc_bytes; /* asked for, of what is in granules */
    zr_map pools;         /* bytes that each holds */
    uint64_t pool_bytes;
    uint64_t pool_asked; /* bytes asked for, of what is in pools */
} zr_traced_device;

/* What a row was at a mark. */
typedef struct zr_row_then {
    uint64_t bytes;
    uint64_t live;
} zr_row_then;

typedef struct zr_mark_seen {
    uint64_t time;
    int device;
    char name[ZR_MARK_SIZE];
    bool automatic; /* the program did not ask for it */
    bool settled;   /* nobody took or gave memory while the device was asked */
    uint64_t used;  /* bytes of the device, by everybody */
    uint64_t traced;
    size_t first; /* its rows are then[first] to then[first + rows - 1] */
    size_t rows;
} zr_mark_seen;

/* A row's bytes from a moment on. */
typedef struct zr_point {
    uint64_t time;
    size_t row;
    uint64_t bytes;
} zr_point;

typedef struct zr_refusal {
    uint64_t time;
    int device;
    uint32_t owner;
    char call[ZR_CALL_SIZE];
    uint64_t bytes;
    uint64_t result; /* CUresult */
} zr_refusal;

/* Zeroed: nothing has happened. The holder releases it. */
typedef struct zr_meter {
    zl_status status; /* ZL_E_RESOURCE: memory ran out, and nothing here is complete */
    char **owner;     /* (owners); an element may be NULL */
    size_t owners, owner_room;
    zr_traced_device device[ZR_DEVICES_MAX];
    zr_row *row;
    size_t rows, row_room;
    zr_mark_seen *mark;
    size_t marks, mark_room;
    zr_row_then *then;
    size_t thens, then_room;
    zr_point *point;
    size_t points, point_room;
    zr_refusal *refusal;
    size_t refusals, refusal_room;
    uint64_t allocations; /* events of each sort */
    uint64_t releases;
    uint64_t unknown; /* releases of what was never seen to be taken */
    struct zr_item *item;
    size_t items, item_room;
    zr_map address, handle, object, mapping; /* key to item */
    zr_map begun;                            /* call to item */
} zr_meter;

/* Who asks for memory, how, and where. */
typedef struct zr_asked {
    int device;
    uint64_t context; /* with which it dies; 0: with none */
    uint32_t owner;
    const char *call;
} zr_asked;

/* What a device says. */
typedef struct zr_look {
    int device;
    uint64_t available;
    uint64_t total;
    bool automatic;
    bool settled;
} zr_look;

void zr_meter_release(zr_meter *meter);
/* "(unknown)" for an owner that was never named. */
const char *zr_meter_owner_name(const zr_meter *meter, uint32_t owner);

/* Each of these is a line of a recording, see recorder.h; time in nanoseconds. Texts are copied.
 * Devices are -1 to ZR_DEVICES_MAX - 1. */
void zr_meter_owner(zr_meter *meter, uint32_t id, const char *name);
void zr_meter_context(zr_meter *meter, uint64_t time, const zr_look *look, uint64_t context,
                      const char *name);
void zr_meter_close(zr_meter *meter, uint64_t time, uint64_t context);
void zr_meter_alloc(zr_meter *meter, uint64_t time, const zr_asked *asked, uint64_t address,
                    uint64_t bytes);
void zr_meter_free(zr_meter *meter, uint64_t time, uint64_t address);
void zr_meter_create(zr_meter *meter, uint64_t time, const zr_asked *asked, uint64_t handle,
                     uint64_t bytes);
void zr_meter_retain(zr_meter *meter, uint64_t time, uint64_t handle, uint64_t address);
void zr_meter_drop(zr_meter *meter, uint64_t time, uint64_t handle);
void zr_meter_map(zr_meter *meter, uint64_t time, uint64_t address, uint64_t bytes,
                  uint64_t handle);
void zr_meter_unmap(zr_meter *meter, uint64_t time, uint64_t address, uint64_t bytes);
void zr_meter_pool(zr_meter *meter, uint64_t time, int device, uint64_t pool, uint64_t reserved);
void zr_meter_before(zr_meter *meter, uint64_t call_id, int device, uint64_t available);
void zr_meter_load(zr_meter *meter, uint64_t time, uint64_t call_id, const zr_asked *asked,
                   uint64_t object, uint64_t available);
void zr_meter_unload(zr_meter *meter, uint64_t time, uint64_t object);
void zr_meter_refused(zr_meter *meter, uint64_t time, const zr_asked *asked, uint64_t bytes,
                      uint64_t result);
void zr_meter_mark(zr_meter *meter, uint64_t time, const zr_look *look, const char *name);
/* The mark of that time is settled, whatever its look said. */
void zr_meter_settled(zr_meter *meter, uint64_t time);

#endif
