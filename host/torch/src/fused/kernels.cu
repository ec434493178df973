// Kernels of a training step that are the same for every model. Rows are stored one after the other; offsets count
// rows.

typedef long long Index;

// Tests on the CPU have one lane per warp.
#ifndef WARP
#define WARP 32
#endif
#define ALL 0xffffffffu

// Positions of a batch's sums, as in `sums.rs`: losses of both sides, their violators, the regulariser, gradients of
// positives' scores, and the number of rows whose gradient is not finite.
#define LOSS_LHS 0
#define LOSS_RHS 1
#define REGULARIZER 4
#define POSITIVE_GRADIENTS 5
#define NOT_FINITE 6

__device__ bool is_finite(float x) { return fabsf(x) <= 3.402823466e38f; }

// Returns whether gradients may be applied: the loss and its gradients are finite.
__device__ bool may_apply(const double* sums) {
    double loss = sums[LOSS_LHS] + sums[LOSS_RHS] + sums[REGULARIZER];
    return fabs(loss) <= 1.7976931348623157e308 && fabs(sums[POSITIVE_GRADIENTS]) <= 1.7976931348623157e308;
}

__device__ float sum_of_warp(float x) {
    for (int other = WARP / 2; other > 0; other /= 2) x += __shfl_xor_sync(ALL, x, other);
    return x;
}

// Applies row-Adagrad to `count` rows, one warp each. Rows and accumulators are written to the rows `ids` of the target
// tables. Without `ids` they are updated in place, and the gradients are set to zero for the next slice.
extern "C" __global__ void update_rows(
    float* rows, float* accumulators, float* gradients, Index count, Index dimension, float lr, float epsilon,
    const Index* ids, float* to_rows, float* to_accumulators, double* sums
) {
    Index row = (Index)blockIdx.x * blockDim.y + threadIdx.y;
    if (row >= count || !may_apply(sums)) return;
    float* of = rows + row * dimension;
    float* gradient = gradients + row * dimension;
    float squares = 0.0f;
    for (Index i = threadIdx.x; i < dimension; i += WARP) squares += gradient[i] * gradient[i];
    float before = accumulators[row];
    float after = before + sum_of_warp(squares) / (float)dimension;
    bool finite = is_finite(after);
    float step = finite ? -lr / (sqrtf(after) + epsilon) : 0.0f;
    Index to = ids ? ids[row] : row;
    float* target = to_rows + to * dimension;
    for (Index i = threadIdx.x; i < dimension; i += WARP) {
        // Where a gradient is not finite, not even its product with zero may be added.
        target[i] = step == 0.0f ? of[i] : of[i] + gradient[i] * step;
        if (!ids) gradient[i] = 0.0f;
    }
    if (threadIdx.x == 0) {
        to_accumulators[to] = finite ? after : before;
        if (!finite) atomicAdd(&sums[NOT_FINITE], 1.0);
    }
}

// Applies Adagrad to the parameters of `count` relations, which are the rows `ids` of all parameters.
extern "C" __global__ void update_parameters(
    const float* gradients, Index count, Index width, float lr, float epsilon,
    const Index* ids, float* values, float* accumulators, double* sums
) {
    Index at = (Index)blockIdx.x * blockDim.x + threadIdx.x;
    if (at >= count * width) return;
    Index place = ids[at / width] * width + at % width;
    float gradient = gradients[at];
    float after = accumulators[place] + gradient * gradient;
    if (!is_finite(after)) {
        atomicAdd(&sums[NOT_FINITE], 1.0);
    } else if (may_apply(sums)) {
        accumulators[place] = after;
        values[place] -= lr * gradient / (sqrtf(after) + epsilon);
    }
}

// Computes the scores of positives: inner products of `count` pairs of rows, one warp each.
extern "C" __global__ void score_positives(
    const float* queries, const float* candidates, Index count, Index dimension, float* scores
) {
    Index row = (Index)blockIdx.x * blockDim.y + threadIdx.y;
    if (row >= count) return;
    float sum = 0.0f;
    for (Index i = threadIdx.x; i < dimension; i += WARP)
        sum += queries[row * dimension + i] * candidates[row * dimension + i];
    sum = sum_of_warp(sum);
    if (threadIdx.x == 0) scores[row] = sum;
}

// Backward pass of score_positives: adds the gradients of both rows to those that are there.
extern "C" __global__ void differentiate_positives(
    const float* queries, const float* candidates, Index count, Index dimension, const float* gradients,
    float* of_queries, float* of_candidates
) {
    Index row = (Index)blockIdx.x * blockDim.y + threadIdx.y;
    if (row >= count) return;
    float gradient = gradients[row];
    for (Index at = row * dimension + threadIdx.x; at < (row + 1) * dimension; at += WARP) {
        of_queries[at] += gradient * candidates[at];
        of_candidates[at] += gradient * queries[at];
    }
}

// Applies an operator to rows. They are looked up at `places`, or taken in order without it. `relations` has the place
// of each row's parameters; without it, all rows use the first ones. Diagonal and translation have one parameter
// vector, complex_diagonal has real and imaginary parts.

#define DIAGONAL 0
#define TRANSLATION 1
#define COMPLEX_DIAGONAL 2
#define NONE 3

// One warp computes one row.
extern "C" __global__ void transform(
    Index kind, const float* x, const Index* places, Index count, Index dimension, const Index* relations,
    const float* first, const float* second, float* y
) {
    Index row = (Index)blockIdx.x * blockDim.y + threadIdx.y;
    if (row >= count) return;
    Index half = dimension / 2;
    Index width = kind == COMPLEX_DIAGONAL ? half : dimension;
    Index relation = kind != NONE && relations ? relations[row] : 0;
    const float* of = x + (places ? places[row] : row) * dimension;
    float* to = y + row * dimension;
    for (Index i = threadIdx.x; i < width; i += WARP) {
        if (kind == NONE) {
            to[i] = of[i];
        } else if (kind == DIAGONAL) {
            to[i] = of[i] * first[relation * width + i];
        } else if (kind == TRANSLATION) {
            to[i] = of[i] + first[relation * width + i];
        } else {
            float re = first[relation * width + i], im = second[relation * width + i];
            to[i] = of[i] * re - of[half + i] * im;
            to[half + i] = of[i] * im + of[half + i] * re;
        }
    }
}

// Backward pass of transform, from `gradients` of its results. Gradients of parameters are added to their sums.
// Gradients of rows are added to `of_rows` if the rows were looked up; without it they replace `gradients`. A block
// computes ROWS rows, a thread one coordinate of them; the thread adds its sum for a parameter when the relation
// changes.
#define ROWS 16

__device__ void give(float* gradients, float* of_rows, Index at, Index to, float gradient) {
    if (of_rows) atomicAdd(&of_rows[to], gradient);
    else gradients[at] = gradient;
}

extern "C" __global__ void transform_back(
    Index kind, const float* x, const Index* places, Index count, Index dimension, const Index* relations,
    const float* first, const float* second, float* gradients, float* of_rows, float* of_first, float* of_second
) {
    Index half = dimension / 2;
    Index width = kind == COMPLEX_DIAGONAL ? half : dimension;
    Index start = (Index)blockIdx.x * ROWS;
    Index end = start + ROWS < count ? start + ROWS : count;
    for (Index i = threadIdx.x; i < width; i += blockDim.x) {
        Index parameter = -1;
        float sum_first = 0.0f, sum_second = 0.0f, re = 0.0f, im = 0.0f;
        for (Index row = start; row < end; ++row) {
            Index now = kind == NONE ? -1 : (relations ? relations[row] : 0) * width + i;
            if (now != parameter) {
                if (parameter >= 0) {
                    atomicAdd(&of_first[parameter], sum_first);
                    if (kind == COMPLEX_DIAGONAL) atomicAdd(&of_second[parameter], sum_second);
                }
                parameter = now;
                sum_first = sum_second = 0.0f;
                re = first[now];
                im = kind == COMPLEX_DIAGONAL ? second[now] : 0.0f;
            }
            Index at = row * dimension + i, of = (places ? places[row] : row) * dimension + i;
            float g = gradients[at];
            if (kind == NONE) {
                give(gradients, of_rows, at, of, g);
            } else if (kind == DIAGONAL) {
                sum_first += g * x[of];
                give(gradients, of_rows, at, of, g * re);
            } else if (kind == TRANSLATION) {
                sum_first += g;
                give(gradients, of_rows, at, of, g);
            } else {
                float h = gradients[at + half];
                sum_first += g * x[of] + h * x[of + half];
                sum_second += h * x[of] - g * x[of + half];
                give(gradients, of_rows, at, of, g * re + h * im);
                give(gradients, of_rows, at + half, of + half, h * re - g * im);
            }
        }
        if (parameter >= 0) {
            atomicAdd(&of_first[parameter], sum_first);
            if (kind == COMPLEX_DIAGONAL) atomicAdd(&of_second[parameter], sum_second);
        }
    }
}
