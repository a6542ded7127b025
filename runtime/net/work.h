/* The work buffers of the backend (docs/schedule.md, section 2), and the queue that computes. */
#ifndef ZR_NET_WORK_H
#define ZR_NET_WORK_H

#include "net/net.h"

/* Allocates the work buffers into net->constant, and sets the streams of net and zero and the
 * scratch of products and collectives. The caller releases. */
ZL_NODISCARD zl_status zr_work_build(zr_net *net, zl_err *err);
/* The queue; the buffers go with net->constant. Nothing may compute any more. */
void zr_work_release(zr_net *net);

#endif
