// Code around the statements of a loss, which `loss_source.rs` inserts.

typedef long long Index;

// Tests on the CPU have one lane per warp.
#ifndef WARP
#define WARP 32
#endif
#define ALL 0xffffffffu
#define MASKED -1e9f
#define INFINITE __int_as_float(0x7f800000)
#define NOT_A_NUMBER __int_as_float(0x7fffffff)

// The result is NaN if either argument is.
__device__ float larger(float a, float b) { return a >= b || a != a ? a : b; }
__device__ float smaller(float a, float b) { return a <= b || a != a ? a : b; }
__device__ float plus(float a, float b) { return a + b; }
__device__ float sigmoid(float x) { return 1.0f / (1.0f + expf(-x)); }
__device__ float softplus(float x) { return x > 20.0f ? x : log1pf(expf(x)); }
__device__ float relu(float x) { return x < 0.0f ? 0.0f : x; }

// Reductions over all threads of a row. It has WARPS warps; each thread computes every (WARP * WARPS)th column.
#if WARPS == 1
#define OVER_ROW(name, combine) \
    __device__ float name(float x) { \
        for (int other = WARP / 2; other > 0; other /= 2) x = combine(x, __shfl_xor_sync(ALL, x, other)); \
        return x; \
    }
#else
#define OVER_ROW(name, combine) \
    __device__ float name(float x) { \
        __shared__ float of_warps[WARPS]; \
        for (int other = WARP / 2; other > 0; other /= 2) x = combine(x, __shfl_xor_sync(ALL, x, other)); \
        if (threadIdx.x % WARP == 0) of_warps[threadIdx.x / WARP] = x; \
        __syncthreads(); \
        x = of_warps[0]; \
        for (int warp = 1; warp < WARPS; ++warp) x = combine(x, of_warps[warp]); \
        __syncthreads(); \
        return x; \
    }
#endif
OVER_ROW(sum_of_row, plus)
OVER_ROW(max_of_row, larger)

#define KEPT (IN_REGISTERS * (32 / WARP))

// Loops over all columns of a thread. Short rows of short losses are in registers, which requires unrolled loops.
#define COLUMN (threadIdx.x + (Index)k * (WARP * WARPS))
#if IN_REGISTERS > 0
#define EACH \
    _Pragma("unroll") for (int k = 0; k < KEPT; ++k) \
        if (float score = scores[k]; true) \
            if (bool present = score != MASKED; true)
#else
#define EACH \
    _Pragma("unroll 1") for (int k = 0; COLUMN < columns; ++k) \
        if (float score = negative[COLUMN]; true) \
            if (bool present = score != MASKED; true)
#endif

// Replaces the scores of `rows` positives and of their `columns` negatives by gradients. Adds losses, violators and
// gradients of positives to `losses`, `violators` and `gradients`.
// `fused.rs` sets the number of threads of a block, which must not exceed the registers.
extern "C" __global__ void __launch_bounds__(WARPS == 1 ? 4 * WARP : WARP * WARPS) loss(
    float* positives, float* negatives, const float* weights, Index rows, Index columns,
    double* losses, double* violators, double* gradients PARAMETERS
) {
    double sum_of_losses = 0.0, sum_of_gradients = 0.0;
    int sum_of_violators = 0;
    Index first = (Index)blockIdx.x * blockDim.y + threadIdx.y;
    for (Index row = first; row < rows; row += (Index)gridDim.x * blockDim.y) {
        float* negative = negatives + row * columns;
        float positive = positives[row];
#if IN_REGISTERS > 0
        float scores[KEPT];
        _Pragma("unroll") for (int k = 0; k < KEPT; ++k)
            scores[k] = COLUMN < columns ? negative[COLUMN] : MASKED;
#endif
        EACH { sum_of_violators += present && score > positive; }
        STATEMENTS
        float weight = weights ? weights[row] : 1.0f;
        EACH {
            GRADIENTS
            if (COLUMN < columns) negative[COLUMN] = present ? NEGATIVE * weight : 0.0f;
        }
#if WARPS > 1
        // Other warps may not have read it yet.
        __syncthreads();
#endif
        if (threadIdx.x == 0) {
            float gradient = POSITIVE * weight;
            positives[row] = gradient;
            sum_of_losses += LOSS * weight;
            sum_of_gradients += gradient;
        }
    }
    for (int other = WARP / 2; other > 0; other /= 2)
        sum_of_violators += __shfl_xor_sync(ALL, sum_of_violators, other);
    if (threadIdx.x % WARP == 0) atomicAdd(violators, (double)sum_of_violators);
    if (threadIdx.x == 0) {
        atomicAdd(losses, sum_of_losses);
        atomicAdd(gradients, sum_of_gradients);
    }
}
