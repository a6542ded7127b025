/* Flash attention on tensor cores, one of the two versions that flash.cu chooses from. Private. */
#ifndef ZR_KERNEL_CUDA_FLASH_MMA_H
#define ZR_KERNEL_CUDA_FLASH_MMA_H

#include "kernel/kernel.h"

/* 16-bit types, heads of a multiple of 8 elements, pointers at multiples of 16 bytes. */
bool zr_flash_mma_takes(const zr_attn_args *args);

/* As zr_flash_forward and zr_flash_backward, for arguments that both checks have passed. */
ZL_NODISCARD zl_status zr_flash_mma_forward(const zr_attn_args *args, zr_stream *stream);
ZL_NODISCARD zl_status zr_flash_mma_backward(const zr_attn_args *args, zr_stream *stream);

#endif
