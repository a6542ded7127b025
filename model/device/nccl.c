/* Device memory of NCCL 2.28: src/init.cc, src/channel.cc, src/transport/p2p.cc,
 * src/include/alloc.h of NVIDIA/nccl. With cuMem, its default, every device buffer is rounded up to
 * 2 MiB. */
#include "zeroledger/bytes.h"
#include "zeroledger/device.h"

/* A channel's arrays: peers, the same shared among communicators, the ring's ranks. Each is small,
 * so it takes one granule. */
static const uint64_t channel_bytes = 3 * (UINT64_C(2) << 20);
/* One direction of a ring: 9,637,888 bytes with the receiver (a head of 4,096, LL 524,288, LL128
 * 4,915,200, Simple 4,194,304), in granules 10 MiB, and one granule with the sender. */
static const uint64_t connection_bytes = UINT64_C(12) << 20;

static uint64_t power_of_two(uint64_t least)
{
    uint64_t power = 1;
    while (power < least) {
        power = zl_mul(power, 2);
    }
    return power;
}

zl_nccl zl_nccl_capped(uint64_t rings, uint64_t own, uint64_t cap)
{
    const uint64_t left = cap == 0 ? rings : zl_min(rings, cap);
    return (zl_nccl){.rings = left, .pairs = power_of_two(left), .own = own};
}

uint64_t zl_nccl_communicator_bytes(const zl_nccl *nccl)
{
    return zl_add(zl_mul(channel_bytes, zl_max(nccl->rings, nccl->pairs)), nccl->own);
}

uint64_t zl_nccl_ring_bytes(const zl_nccl *nccl)
{
    return zl_mul(connection_bytes, nccl->rings);
}
