/* Implements <math.h> of this folder. */
#include <math.h>
#include <stdint.h>

/* The natural logarithm of two in two parts: a high part whose multiples are exact, and the rest. */
#define LN2_HIGH 0x1.62e42feep-1
#define LN2_LOW 0x1.a39ef35793c76p-33

static uint64_t bits_of(double x) {
    union { double number; uint64_t bits; } both = {.number = x};
    return both.bits;
}

static double number_of(uint64_t bits) {
    union { uint64_t bits; double number; } both = {.bits = bits};
    return both.number;
}

double sqrt(double x) { return __builtin_sqrt(x); }
double fabs(double x) { return __builtin_fabs(x); }
double floor(double x) { return __builtin_floor(x); }
double ceil(double x) { return __builtin_ceil(x); }
double trunc(double x) { return __builtin_trunc(x); }
double rint(double x) { return __builtin_rint(x); }
double copysign(double x, double y) { return __builtin_copysign(x, y); }

double round(double x) {
    double whole = trunc(x);
    return fabs(x - whole) >= 0.5 ? whole + copysign(1.0, x) : whole;
}

double fmin(double x, double y) { return isnan(x) || y < x ? y : x; }
double fmax(double x, double y) { return isnan(x) || y > x ? y : x; }

/* Two to a whole power from -1022 to 1023. */
static double power_of_two(int exponent) {
    return number_of((uint64_t)(exponent + 1023) << 52);
}

/* e^r - 1 for |r| up to half of ln 2: Taylor's series, whose next term is below 1e-18. */
static double small_expm1(double r) {
    double sum = 0.0;
    for (int n = 14; n > 0; n--) sum = r * (1.0 + sum) / n;
    return sum;
}

double exp(double x) {
    if (isnan(x) || x > 709.8) return x > 0 ? HUGE_VAL : x;
    if (x < -746.0) return 0.0;
    int times = (int)rint(x / M_LN2);
    double low = (x - times * LN2_HIGH) - times * LN2_LOW;
    double grown = 1.0 + small_expm1(low);
    /* In two steps, for subnormal results and results near the largest number. */
    int half = times / 2;
    return grown * power_of_two(half) * power_of_two(times - half);
}

double expm1(double x) {
    return fabs(x) < 0.34 ? small_expm1(x) : exp(x) - 1.0;
}

double log(double x) {
    if (isnan(x) || x < 0.0) return NAN;
    if (x == 0.0) return -HUGE_VAL;
    if (isinf(x)) return x;
    int exponent = 0;
    if (x < 0x1p-1022) {
        x *= 0x1p54;
        exponent = -54;
    }
    exponent += (int)(bits_of(x) >> 52) - 1023;
    double part = number_of((bits_of(x) & 0xfffffffffffffULL) | 0x3ff0000000000000ULL);
    if (part > 1.4142135623730951) {
        part *= 0.5;
        exponent++;
    }
    /* ln part = 2 artanh s, whose series ends where a term is below 1e-19. */
    double s = (part - 1.0) / (part + 1.0), square = s * s, sum = 0.0;
    for (int n = 23; n > 1; n -= 2) sum = square * (1.0 / n + sum);
    return exponent * LN2_HIGH + (exponent * LN2_LOW + 2.0 * s * sum + 2.0 * s);
}

double log1p(double x) {
    double sum = 1.0 + x;
    /* Add the rounding error of the sum. */
    return sum == 1.0 ? x : isinf(sum) || sum <= 0.0 ? log(sum) : log(sum) * (x / (sum - 1.0));
}

double log2(double x) { return log(x) / M_LN2; }
double log10(double x) { return log(x) / 2.30258509299404568402; }

double tanh(double x) {
    if (fabs(x) > 22.0) return copysign(1.0, x);
    double grown = expm1(2.0 * x);
    return grown / (grown + 2.0);
}

/* The fractional bits of 2 / pi. */
static const uint32_t TWO_OVER_PI[37] = {
    0xa2f9836e, 0x4e441529, 0xfc2757d1, 0xf534ddc0, 0xdb629599, 0x3c439041, 0xfe5163ab,
    0xdebbc561, 0xb7246e3a, 0x424dd2e0, 0x06492eea, 0x09d1921c, 0xfe1deb1c, 0xb129a73e,
    0xe88235f5, 0x2ebb4484, 0xe99c7026, 0xb45f7e41, 0x3991d639, 0x835339f4, 0x9c845f8b,
    0xbdf9283b, 0x1ff897ff, 0xde05980f, 0xef2f118b, 0x5a0a6d1f, 0x6d367ecf, 0x27cb09b7,
    0x4f463f66, 0x9e5fea2d, 0x7527bac7, 0xebe5f17b, 0x3d0739f7, 0x8a5292ea, 0x6bfb5fb1,
    0x1f8d5d08, 0x56033046,
};

/* The quarter turns of a positive angle modulo 4, and the rest of it, which is between -pi / 4 and
   pi / 4. Bits of 2 / pi that make whole turns are left out, so no angle is too large. */
static unsigned quarter_turns(double angle, double *rest) {
    int exponent = (int)(bits_of(angle) >> 52) - 1075;
    uint64_t whole = (bits_of(angle) & 0xfffffffffffffULL) | 0x10000000000000ULL;
    int first = exponent < 34 ? 0 : (exponent - 2) / 32;
    /* The lowest word comes first. */
    uint32_t product[10] = {0};
    for (int i = 0; i < 7; i++) {
        uint64_t word = TWO_OVER_PI[first + 6 - i];
        uint64_t low = product[i] + word * (uint32_t)whole;
        uint64_t high = (low >> 32) + product[i + 1] + word * (whole >> 32);
        product[i] = (uint32_t)low;
        product[i + 1] = (uint32_t)high;
        product[i + 2] = (uint32_t)(high >> 32);
    }
    int point = 32 * (first + 7) - exponent, at = point / 32, beside = point % 32;
    uint64_t around = (uint64_t)product[at + 1] << 32 | product[at];
    unsigned turns = (unsigned)(around >> beside) & 3;
    uint32_t mask = ((uint32_t)1 << beside) - 1;
    uint32_t half = beside ? (uint32_t)1 << (beside - 1) : (uint32_t)1 << 31;
    int above = (product[beside ? at : at - 1] & half) != 0;
    double part = 0.0;
    for (uint64_t i = 0, carry = 1; i <= (uint64_t)at; i++) {
        if (above) carry += (uint32_t)~product[i];
        uint32_t word = above ? (uint32_t)carry : product[i];
        carry >>= 32;
        part = i < (uint64_t)at ? (part + word) * 0x1p-32 : (part + (word & mask)) * power_of_two(-beside);
    }
    *rest = (above ? -part : part) * (M_PI / 2.0);
    return turns + (unsigned)above;
}

/* Returns the sine of an angle plus a number of quarter turns. Taylor's series end where a term is
   below 1e-18. */
static double turned_sine(double angle, unsigned turns) {
    double rest = fabs(angle), sum = 0.0;
    int behind = signbit(angle) && !(turns & 1);
    if (!isfinite(angle)) return NAN;
    if (rest > 0.785) turns += quarter_turns(rest, &rest);
    double square = rest * rest;
    for (int n = turns & 1 ? 18 : 17; n > 1; n -= 2) sum = -square / (n * (n - 1)) * (1.0 + sum);
    double found = turns & 1 ? 1.0 + sum : rest + rest * sum;
    return (turns >> 1 & 1) != (unsigned)behind ? -found : found;
}

double sin(double x) { return turned_sine(x, 0); }
double cos(double x) { return turned_sine(x, 1); }

double cbrt(double x) {
    if (x == 0.0 || !isfinite(x)) return x;
    double root = exp(log(fabs(x)) / 3.0);
    /* A Newton step, since the logarithm has lost some bits. */
    root -= (root - fabs(x) / (root * root)) / 3.0;
    return copysign(root, x);
}

/* Computes a whole power of x by repeated multiplication. */
static double multiplied(double x, unsigned times) {
    double product = 1.0;
    for (; times; times >>= 1, x *= x) {
        if (times & 1) product *= x;
    }
    return product;
}

double pow(double x, double y) {
    if (y == 0.0 || x == 1.0) return 1.0;
    int whole = trunc(y) == y;
    if (whole && fabs(y) <= 64.0) {
        double product = multiplied(x, (unsigned)fabs(y));
        return y < 0.0 ? 1.0 / product : product;
    }
    if (x < 0.0 && !whole && !isinf(y)) return NAN;
    int odd = whole && fabs(y) < 0x1p53 && fabs(trunc(y / 2.0) * 2.0 - y) == 1.0;
    double size = fabs(x) == 1.0 ? 1.0 : exp(y * log(fabs(x)));
    return signbit(x) && odd ? -size : size;
}

float sqrtf(float x) { return __builtin_sqrtf(x); }
float fabsf(float x) { return __builtin_fabsf(x); }
float floorf(float x) { return __builtin_floorf(x); }
float ceilf(float x) { return __builtin_ceilf(x); }
float fminf(float x, float y) { return (float)fmin(x, y); }
float fmaxf(float x, float y) { return (float)fmax(x, y); }
float expf(float x) { return (float)exp(x); }
float logf(float x) { return (float)log(x); }
float powf(float x, float y) { return (float)pow(x, y); }
float tanhf(float x) { return (float)tanh(x); }
float sinf(float x) { return (float)sin(x); }
float cosf(float x) { return (float)cos(x); }
float cbrtf(float x) { return (float)cbrt(x); }
