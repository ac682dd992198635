/* Columns of tall matrices. */

#include "kernels.h"

#define AHEAD 24 /* rows that are fetched before they are needed, because they are far apart in memory */

/* out[i, j] = X[rows[i], j] factor[j] - shift[j] for n rows and p columns; rows may be NULL: all in their order.
   Rows of X lie p numbers apart, those of out `width`. */
WIDE EXPORT int anchortm_scaled_rows(
    int64_t n, int64_t p, int64_t width, const double *X, const int64_t *rows, const double *factor,
    const double *shift, double *out
) {
    for (int64_t i = 0; i < n; i++) {
        if (rows && i + AHEAD < n) {
            const double *next = X + rows[i + AHEAD] * p;
            for (int64_t j = 0; j < p; j += 8) __builtin_prefetch(next + j);
            __builtin_prefetch(next + p - 1);
        }
        const double *x = X + (rows ? rows[i] : i) * p;
        double *own = out + i * width;
        for (int64_t j = 0; j < p; j++) own[j] = x[j] * factor[j] - shift[j];
    }
    return 0;
}

/* out = X - centre for n rows of p columns; low and high become the smallest and the largest value of each column, if
   these are beyond what they were. */
WIDE EXPORT int anchortm_centred(
    int64_t n, int64_t p, const double *X, const double *centre, double *low, double *high, double *out
) {
    for (int64_t i = 0; i < n; i++) {
        const double *x = X + i * p;
        double *own = out + i * p;
        for (int64_t j = 0; j < p; j++) {
            low[j] = x[j] < low[j] ? x[j] : low[j];
            high[j] = x[j] > high[j] ? x[j] : high[j];
            own[j] = x[j] - centre[j];
        }
    }
    return 0;
}
