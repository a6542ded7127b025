#include "train/state.h"

/* The numbers of PyTorch's GradScaler: start, growth interval; factors 2 and 1/2. */
static const double START = 65536.0;
static const uint64_t INTERVAL = 2000;

zr_loss_scale zr_loss_scale_start(zl_precision precision, double first)
{
    const double value = first > 0.0 ? first : START;
    return (zr_loss_scale){.value = precision == ZL_PRECISION_FP16_MIXED ? value : 1.0};
}

void zr_loss_scale_after(zr_loss_scale *scale, zl_precision precision, bool overflow)
{
    if (precision != ZL_PRECISION_FP16_MIXED) {
        return;
    }
    if (overflow) {
        *scale = (zr_loss_scale){.value = scale->value / 2.0};
    } else if (++scale->good == INTERVAL) {
        *scale = (zr_loss_scale){.value = scale->value * 2.0};
    }
}
