/* What all kernels share. */

#ifndef ANCHORTM_KERNELS_H
#define ANCHORTM_KERNELS_H

#include <stdint.h>

#ifdef __FAST_MATH__
#error "NaN, infinities and the order of sums matter: compile without -ffast-math"
#endif

#define INLINE static inline __attribute__((always_inline))
#define EXPORT __attribute__((visibility("default")))

/* WIDE functions are compiled for several widths of vectors; the processor chooses when the library is loaded. */
#if defined(ANCHORTM_WIDE) && defined(__x86_64__) && defined(__gnu_linux__)
#define WIDE __attribute__((target_clones("avx512f", "avx2,fma", "default")))
#else
#define WIDE
#endif

#endif
