/* The part of <math.h> that formulas need; there is no C library in the sandbox. */
#ifndef PBG_MATH_H
#define PBG_MATH_H

#define INFINITY (__builtin_inff())
#define NAN (__builtin_nanf(""))
#define HUGE_VAL (__builtin_inf())
#define M_PI 3.14159265358979323846
#define M_E 2.71828182845904523536
#define M_LN2 0.69314718055994530942
#define isnan(x) __builtin_isnan(x)
#define isinf(x) __builtin_isinf(x)
#define isfinite(x) __builtin_isfinite(x)
#define signbit(x) __builtin_signbit(x)

/* Instructions of the sandbox. */
double sqrt(double x);
double fabs(double x);
double floor(double x);
double ceil(double x);
double trunc(double x);
double rint(double x);
double round(double x);
double fmin(double x, double y);
double fmax(double x, double y);
double copysign(double x, double y);

/* Accurate to about the last two bits, unless stated otherwise. */
double exp(double x);
double expm1(double x);
double log(double x);
double log1p(double x);
double log2(double x);
double log10(double x);
double tanh(double x);
double sin(double x);
double cos(double x);
double cbrt(double x);
/* Whole exponents up to 64 use repeated multiplication; for others the relative error is below 1e-13. */
double pow(double x, double y);

float sqrtf(float x);
float fabsf(float x);
float floorf(float x);
float ceilf(float x);
float fminf(float x, float y);
float fmaxf(float x, float y);
float expf(float x);
float logf(float x);
float powf(float x, float y);
float tanhf(float x);
float sinf(float x);
float cosf(float x);
float cbrtf(float x);

#endif
