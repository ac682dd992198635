/* Sums over bins of covariates, and the rows on either side of a split, for trees on histograms. */

#include <math.h>
#include <string.h>

#include "kernels.h"

typedef double pair __attribute__((vector_size(16)));
typedef double quad __attribute__((vector_size(32)));

enum { BINS = 256 };

/* Sums of gradients, of rows and, if there are any, of curvatures, each of shape (p, n_bins).
   codes has shape (p, n); rows are m of its columns, or NULL for all of them; gradient and curvature have m numbers.
   Rows are added one after the other, so that the sums are those of NumPy to the last bit. */
EXPORT void anchortm_bin_sums(int64_t p, int64_t n, int64_t m, int64_t n_bins, const uint8_t *codes, const int64_t *rows,
                              const double *gradient, const double *curvature, double *sums) {
    for (int64_t j = 0; j < p; j++) {
        const uint8_t *code = codes + j * n;
        double *G = sums + j * n_bins, *N = G + p * n_bins, *C = N + p * n_bins;
        if (curvature) {
            quad cell[BINS];
            memset(cell, 0, sizeof cell);
            for (int64_t i = 0; i < m; i++)
                cell[code[rows ? rows[i] : i]] += (quad){gradient[i], 1.0, curvature[i], 0.0};
            for (int64_t b = 0; b < n_bins; b++) G[b] = cell[b][0], N[b] = cell[b][1], C[b] = cell[b][2];
        } else {
            pair cell[BINS];
            memset(cell, 0, sizeof cell);
            for (int64_t i = 0; i < m; i++) cell[code[rows ? rows[i] : i]] += (pair){gradient[i], 1.0};
            for (int64_t b = 0; b < n_bins; b++) G[b] = cell[b][0], N[b] = cell[b][1];
        }
    }
}

/* The rows whose code is at most cut, and the others, in their order. Both arrays have room for one row more. */
EXPORT void anchortm_split_rows(int64_t m, const uint8_t *code, const int64_t *rows, int64_t cut, int64_t *low,
                                int64_t *high) {
    for (int64_t i = 0; i < m; i++) {
        int64_t row = rows ? rows[i] : i, is_low = code[row] <= cut;
        *low = *high = row; /* one of them is overwritten by the next row */
        low += is_low;
        high += 1 - is_low;
    }
}

/* The number of edges below each x, by a search in which nothing branches; numbers x are stride doubles apart. */
EXPORT void anchortm_bin(int64_t n, int64_t stride, const double *x, int64_t n_edges, const double *edges,
                         uint8_t *codes) {
    double padded[BINS];
    for (int64_t k = 0; k < BINS; k++) padded[k] = k < n_edges ? edges[k] : INFINITY;
    for (int64_t i = 0; i < n; i++) {
        double own = x[i * stride];
        int64_t code = 0;
        for (int64_t step = BINS / 2; step; step /= 2) code += -(int64_t)(padded[code + step - 1] < own) & step;
        codes[i] = (uint8_t)code;
    }
}
