/* Sums over rows of a transformation model: log-likelihood, gradient, Hessian and residuals in one pass.

   Plain C: arrays in, sums out. The caller checks shapes and keeps the arrays alive. A function returns 0, or 1 if a row
   is outside the range where its formulas are safe; sums are then left as they were, and the caller takes another way.

   Rows are worked on in tiles, whose columns stay in the cache; loops over a tile have a fixed length, so that compilers
   use vectors of the width the processor has. */

#include "kernels.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define TILE 256 /* rows of a tile */
#define STRIDE (TILE + 8) /* from column to column of a tile: with a power of 2 they would share few places in the cache */
#define LANES 8
#define STEEPEST 700.0 /* exp of more overflows, of less is subnormal */

typedef double lanes __attribute__((vector_size(LANES * 8), may_alias));

/* the distributions whose values are known here; the numbers are also in rows.py */
enum { LOGISTIC_EXACT = 1, LOGISTIC_RIGHT, LOGISTIC_LEFT, LOGISTIC_SHARE, MINIMUM_EXACT, MINIMUM_RIGHT, POISSON, GAMMA };

/* exp(x) - 1 and exp(x) for |x| <= 708: x = n log 2 + f with |f| <= log(2) / 2, and the Taylor polynomial in f */
INLINE void exponentials(const double *x, double *less_one, double *e) {
    const double shift = 0x1.8p52; /* adding it rounds to an integer, which is then in the low bits */
    for (int i = 0; i < TILE; i++) {
        union { double number; int64_t bits; } power;
        double n = x[i] * 0x1.71547652b82fep0 + shift;
        power.number = n;
        n -= shift;
        double f = (x[i] - n * 0x1.62e42fefa3800p-1) - n * 0x1.ef35793c76730p-45;
        double p = 1.0 / 6227020800.0;
        p = p * f + 1.0 / 479001600.0;
        p = p * f + 1.0 / 39916800.0;
        p = p * f + 1.0 / 3628800.0;
        p = p * f + 1.0 / 362880.0;
        p = p * f + 1.0 / 40320.0;
        p = p * f + 1.0 / 5040.0;
        p = p * f + 1.0 / 720.0;
        p = p * f + 1.0 / 120.0;
        p = p * f + 1.0 / 24.0;
        p = p * f + 1.0 / 6.0;
        p = p * f + 0.5;
        p = f + f * f * p;
        power.bits = (int64_t)((uint64_t)(power.bits + 1023) << 52); /* 2^n */
        less_one[i] = power.number * p + (power.number - 1.0);
        e[i] = power.number * p + power.number;
    }
}

/* 2 atanh(s), by its series */
INLINE double twice_atanh(double s, int terms) {
    double q = s * s, p = 0.0;
    for (int k = terms; k > 0; k--) p = p * q + 1.0 / (2 * k + 1);
    return 2.0 * (s + s * (q * p));
}

/* log(1 + e) for 0 <= e <= 1 */
INLINE double log_one_plus(double e) { return twice_atanh(e / (2.0 + e), 16); }

/* log(x) of a normal number above 0 */
INLINE double logarithm(double x) {
    union { double number; int64_t bits; } m = { x };
    int64_t n = (m.bits - 0x3fe6a09e667f3bcdLL) >> 52; /* x = 2^n m with m between sqrt(1/2) and sqrt(2) */
    m.bits -= (int64_t)((uint64_t)n << 52);
    return (double)n * 0x1.62e42fefa39efp-1 + twice_atanh((m.number - 1.0) / (m.number + 1.0), 11);
}

/* The values of the rows of a tile: log-likelihood l, residual r = -l', its derivatives in h. */
typedef struct {
    double h[TILE], l[TILE], r[TILE], dr[TILE], d2r[TILE];
    double from[TILE], less_one[TILE], e[TILE], y[TILE]; /* intermediate, and the outcomes */
} values;

INLINE void logistic(values *t, int law) {
    for (int i = 0; i < TILE; i++) t->from[i] = -fabs(t->h[i]);
    exponentials(t->from, t->less_one, t->e);
    for (int i = 0; i < TILE; i++) {
        double h = t->h[i], e = t->e[i], large = 1.0 / (1.0 + e), small = e * large;
        double tanh_half = copysign(t->less_one[i] * large, h), logs = log_one_plus(e);
        double F = h >= 0.0 ? large : small, S = h >= 0.0 ? small : large, f = large * small;
        double low = h < 0.0 ? h : 0.0, high = h > 0.0 ? h : 0.0;
        if (law == LOGISTIC_EXACT) {
            t->l[i] = t->from[i] - 2.0 * logs;
            t->r[i] = tanh_half;
            t->dr[i] = 2.0 * f;
            t->d2r[i] = -2.0 * f * tanh_half;
            continue;
        }
        double y = law == LOGISTIC_SHARE ? t->y[i] : law == LOGISTIC_LEFT ? 1.0 : 0.0;
        t->l[i] = (y * low - (1.0 - y) * high) - logs;
        t->r[i] = (1.0 - y) * F - y * S;
        t->dr[i] = f;
        t->d2r[i] = -f * tanh_half;
    }
}

INLINE void exponential_rate(values *t, int law) {
    exponentials(t->h, t->less_one, t->e);
    for (int i = 0; i < TILE; i++) {
        double y = law == POISSON ? t->y[i] : law == MINIMUM_EXACT ? 1.0 : 0.0;
        t->l[i] = y * t->h[i] - t->e[i];
        t->r[i] = law == MINIMUM_EXACT ? t->less_one[i] : t->e[i] - y;
        t->dr[i] = t->e[i];
        t->d2r[i] = t->e[i];
    }
}

/* gamma outcomes y with mean exp(h) */
INLINE void exponential_ratio(values *t) {
    for (int i = 0; i < TILE; i++) t->from[i] = -t->h[i];
    exponentials(t->from, t->less_one, t->e);
    for (int i = 0; i < TILE; i++) {
        double ratio = t->y[i] * t->e[i];
        t->l[i] = -ratio - t->h[i];
        t->r[i] = 1.0 - ratio;
        t->dr[i] = ratio;
        t->d2r[i] = -ratio;
    }
}

/* The columns of some rows as rows of `out`, with zeros for rows that a tile lacks. */
INLINE void transpose(const double *C, int64_t rows, int64_t d, double *out) {
    for (int64_t r = 0; r < rows; r++)
        for (int64_t j = 0; j < d; j++) out[j * STRIDE + r] = C[r * d + j];
    for (int64_t j = 0; j < d && rows < TILE; j++) memset(out + j * STRIDE + rows, 0, sizeof(double) * (TILE - rows));
}

/* h += columns' v */
INLINE void combine(const double *columns, int64_t d, const double *v, double *h) {
    for (int64_t j = 0; j < d; j++)
        for (int i = 0; i < TILE; i++) h[i] += v[j] * columns[j * STRIDE + i];
}

#define AT(from, i) (*(const lanes *)((from) + (i)))

INLINE double total(const lanes *x) {
    double sum = 0.0;
    for (int i = 0; i < LANES; i++) sum += (*x)[i];
    return sum;
}

INLINE double total_of(const double *x) {
    lanes sum = { 0 };
    for (int i = 0; i < TILE; i += LANES) sum += AT(x, i);
    return total(&sum);
}

/* gradient += columns r */
INLINE void add_gradient(const double *columns, int64_t d, const double *r, double *gradient) {
    for (int64_t j = 0; j < d; j++) {
        lanes sum = { 0 };
        for (int i = 0; i < TILE; i += LANES) sum += AT(r, i) * AT(columns + j * STRIDE, i);
        gradient[j] += total(&sum);
    }
}

/* H += columns diag(w) columns', at least its upper triangle; d is a multiple of 4 */
INLINE void add_gram(const double *columns, int64_t d, const double *w, double *H) {
    for (int64_t a = 0; a < d; a += 2)
        for (int64_t b = a & ~(int64_t)3; b < d; b += 4) {
            lanes first[4] = { { 0 } }, second[4] = { { 0 } };
            for (int i = 0; i < TILE; i += LANES) {
                lanes x = AT(w, i) * AT(columns + a * STRIDE, i), y = AT(w, i) * AT(columns + (a + 1) * STRIDE, i);
                for (int c = 0; c < 4; c++) {
                    lanes z = AT(columns + (b + c) * STRIDE, i);
                    first[c] += x * z;
                    second[c] += y * z;
                }
            }
            for (int c = 0; c < 4; c++) {
                H[a * d + b + c] += total(first + c);
                H[(a + 1) * d + b + c] += total(second + c);
            }
        }
}

/* hessian (d x d) += the upper triangle of H (size x size), mirrored */
INLINE void add_triangle(const double *H, int64_t size, int64_t n, double *hessian, int64_t d) {
    for (int64_t i = 0; i < n; i++)
        for (int64_t j = i; j < n; j++) {
            hessian[i * d + j] += H[i * size + j];
            if (j > i) hessian[j * d + i] += H[i * size + j];
        }
}

INLINE int64_t padded(int64_t d) { return (d + 3) & ~(int64_t)3; }

/* A matrix whose rows are worked on, and what is summed with it. */
typedef struct {
    int64_t d, size; /* of its columns, and of these filled up */
    double *columns, *gradient, *gram;
} sums;

INLINE int64_t room(int64_t d) { return padded(d) * (STRIDE + padded(d) + 8); }

INLINE sums make(int64_t d, double *space) {
    int64_t size = padded(d);
    sums made = { d, size, space, space + size * STRIDE, space + size * (STRIDE + 8) };
    return made;
}

/* The sum of w log(S v) over a tile, with its derivatives' sums: gradient -w S / (S v), Hessian w S S' / (S v)^2. */
INLINE int tile_of_logs(sums *s, const double *v, const double *w, int64_t rows, int derivatives, double *sum) {
    double slope[TILE] __attribute__((aligned(64))) = { 0 }, logs[TILE] __attribute__((aligned(64)));
    combine(s->columns, s->d, v, slope);
    for (int64_t i = rows; i < TILE; i++) slope[i] = 1.0;
    double least = 1.0, most = 1.0;
    for (int i = 0; i < TILE; i++) {
        least = slope[i] < least ? slope[i] : least;
        most = slope[i] > most ? slope[i] : most;
    }
    double sanity = total_of(slope);
    if (!(least > 1e-290 && most < 1e290 && sanity == sanity)) return 1;
    for (int i = 0; i < TILE; i++) logs[i] = w[i] * logarithm(slope[i]);
    *sum += total_of(logs);
    if (derivatives) {
        for (int i = 0; i < TILE; i++) {
            double inverse = 1.0 / slope[i];
            slope[i] = -w[i] * inverse;
            logs[i] = w[i] * inverse * inverse;
        }
        add_gradient(s->columns, s->d, slope, s->gradient);
        add_gram(s->columns, s->size, logs, s->gram);
    }
    return 0;
}

/* The weights of the rows of a tile, with their sign; 0 for rows that it lacks. */
INLINE void weigh(const double *weights, double sign, int64_t start, int64_t rows, double *w) {
    for (int64_t i = 0; i < rows; i++) w[i] = weights ? sign * weights[start + i] : sign;
    for (int64_t i = rows; i < TILE; i++) w[i] = 0.0;
}

/* One kind of rows with one end each: the log-likelihood with weights and sign, and for each row weighted r (and dr).
   With a gradient also that of -loglik, and its Hessian with the curvature of r along `bend`.
   C is n x d; S, if any, are the n x k derivative rows of exact outcomes; offset, y, weights and bend may be NULL. */
WIDE EXPORT int anchortm_one_end(
    int64_t law, int64_t n, int64_t d, int64_t k, const double *C, const double *S, const double *offset, const double *y,
    const double *weights, double sign, const double *v, const double *bend, double *loglik, double *r, double *dr,
    double *gradient, double *hessian
) {
    int64_t size = room(d) + room(k);
    double *space = aligned_alloc(64, sizeof(double) * size);
    if (!space) return 1;
    memset(space, 0, sizeof(double) * size);
    sums whole = make(d, space), slopes = make(k, space + room(d));
    values t __attribute__((aligned(64)));
    double w[TILE] __attribute__((aligned(64)));
    double sum = 0.0;
    int failed = 0;
    for (int64_t start = 0; start < n && !failed; start += TILE) {
        int64_t rows = n - start < TILE ? n - start : TILE;
        transpose(C + start * d, rows, d, whole.columns);
        memset(t.h, 0, sizeof t.h);
        if (offset) memcpy(t.h, offset + start, sizeof(double) * rows);
        combine(whole.columns, d, v, t.h);
        double furthest = 0.0, sanity = total_of(t.h);
        for (int i = 0; i < TILE; i++) furthest = fabs(t.h[i]) > furthest ? fabs(t.h[i]) : furthest;
        if (!(furthest < STEEPEST && sanity == sanity)) {
            failed = 1;
            break;
        }
        memset(t.y, 0, sizeof t.y);
        if (y) memcpy(t.y, y + start, sizeof(double) * rows);
        if (law == LOGISTIC_EXACT) logistic(&t, LOGISTIC_EXACT);
        else if (law == LOGISTIC_RIGHT) logistic(&t, LOGISTIC_RIGHT);
        else if (law == LOGISTIC_LEFT) logistic(&t, LOGISTIC_LEFT);
        else if (law == LOGISTIC_SHARE) logistic(&t, LOGISTIC_SHARE);
        else if (law == MINIMUM_EXACT) exponential_rate(&t, MINIMUM_EXACT);
        else if (law == MINIMUM_RIGHT) exponential_rate(&t, MINIMUM_RIGHT);
        else if (law == POISSON) exponential_rate(&t, POISSON);
        else if (law == GAMMA) exponential_ratio(&t);
        else failed = 1;
        weigh(weights, sign, start, rows, w);
        for (int i = 0; i < TILE; i++) {
            t.l[i] *= w[i];
            t.r[i] *= w[i];
            t.dr[i] *= w[i];
        }
        sum += total_of(t.l);
        if (r) memcpy(r + start, t.r, sizeof(double) * rows);
        if (dr) memcpy(dr + start, t.dr, sizeof(double) * rows);
        if (gradient) {
            add_gradient(whole.columns, d, t.r, whole.gradient);
            for (int64_t i = 0; bend && i < rows; i++) t.dr[i] += w[i] * t.d2r[i] * bend[start + i];
            add_gram(whole.columns, whole.size, t.dr, whole.gram);
        }
        if (S) {
            transpose(S + start * k, rows, k, slopes.columns);
            failed |= tile_of_logs(&slopes, v, w, rows, gradient != NULL, &sum);
        }
    }
    if (!failed) {
        *loglik = sum;
        for (int64_t j = 0; gradient && j < d; j++) gradient[j] += whole.gradient[j] + (S && j < k ? slopes.gradient[j] : 0.0);
        if (gradient) add_triangle(whole.gram, whole.size, d, hessian, d);
        if (gradient && S) add_triangle(slopes.gram, slopes.size, k, hessian, d);
    }
    free(space);
    return failed;
}

/* The sum of weights log(S v) over n rows of k columns; with a gradient also the derivatives of minus that sum. */
WIDE EXPORT int anchortm_log_slopes(
    int64_t n, int64_t k, const double *S, const double *weights, double sign, const double *v, double *loglik,
    double *gradient, double *hessian
) {
    double *space = aligned_alloc(64, sizeof(double) * room(k));
    if (!space) return 1;
    memset(space, 0, sizeof(double) * room(k));
    sums slopes = make(k, space);
    double w[TILE] __attribute__((aligned(64))), sum = 0.0;
    int failed = 0;
    for (int64_t start = 0; start < n && !failed; start += TILE) {
        int64_t rows = n - start < TILE ? n - start : TILE;
        weigh(weights, sign, start, rows, w);
        transpose(S + start * k, rows, k, slopes.columns);
        failed = tile_of_logs(&slopes, v, w, rows, gradient != NULL, &sum);
    }
    if (!failed) {
        *loglik = sum;
        for (int64_t j = 0; gradient && j < k; j++) gradient[j] += slopes.gradient[j];
        if (gradient) add_triangle(slopes.gram, slopes.size, k, hessian, k);
    }
    free(space);
    return failed;
}

/* gradient += C' r and hessian += C' diag(w) C, for n rows of d columns. */
WIDE EXPORT int anchortm_add_gram(
    int64_t n, int64_t d, const double *C, const double *r, const double *w, double *gradient, double *hessian
) {
    double *space = aligned_alloc(64, sizeof(double) * room(d));
    if (!space) return 1;
    memset(space, 0, sizeof(double) * room(d));
    sums whole = make(d, space);
    double own[2][TILE] __attribute__((aligned(64)));
    for (int64_t start = 0; start < n; start += TILE) {
        int64_t rows = n - start < TILE ? n - start : TILE;
        transpose(C + start * d, rows, d, whole.columns);
        memset(own, 0, sizeof own);
        memcpy(own[0], r + start, sizeof(double) * rows);
        memcpy(own[1], w + start, sizeof(double) * rows);
        add_gradient(whole.columns, d, own[0], whole.gradient);
        add_gram(whole.columns, whole.size, own[1], whole.gram);
    }
    for (int64_t j = 0; j < d; j++) gradient[j] += whole.gradient[j];
    add_triangle(whole.gram, whole.size, d, hessian, d);
    free(space);
    return 0;
}

/* sums (a row of `stride` numbers for each group) += the weighted rows bounds[k] .. bounds[k + 1] of the n x d matrix C */
WIDE EXPORT void anchortm_group_sums(
    int64_t groups, int64_t d, int64_t stride, const int64_t *bounds, const double *w, const double *C, double *sums
) {
    for (int64_t g = 0; g < groups; g++) {
        double *sum = sums + g * stride;
        for (int64_t i = bounds[g]; i < bounds[g + 1]; i++)
            for (int64_t j = 0; j < d; j++) sum[j] += w[i] * C[i * d + j];
    }
}
