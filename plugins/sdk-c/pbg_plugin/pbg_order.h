/* Helpers for bucket orders: partitions of buckets, and partition loads of plans. */
#ifndef PBG_ORDER_H
#define PBG_ORDER_H

#include "pbg_plugin.h"

#include <stdlib.h>

typedef exports_pbg_plugin_bucket_order_pass_t pbg_pass_t;
typedef exports_pbg_plugin_bucket_order_bucket_t pbg_bucket_t;

/* Partition traffic of a plan. */
typedef struct pbg_traffic {
    uint64_t loads; /* number of partitions loaded into the buffer */
    uint64_t swaps; /* number of loads that evicted another partition: the "swaps" of the literature */
    uint64_t bytes; /* bytes loaded */
} pbg_traffic_t;

/* Returns the number of edges of a bucket. */
static inline uint64_t pbg_edges_of(const pbg_pass_t *pass, pbg_bucket_t bucket) {
    return pass->edges.ptr[(size_t)bucket.lhs * pass->rhs_partitions + bucket.rhs];
}

/* Returns the number of partitions that two buckets share, which can stay in the buffer. */
static inline unsigned pbg_in_common(const pbg_pass_t *pass, pbg_bucket_t a, pbg_bucket_t b) {
    if (!pass->shared) return (a.lhs == b.lhs) + (a.rhs == b.rhs);
    bool lhs = b.lhs == a.lhs || b.lhs == a.rhs, rhs = b.rhs == a.lhs || b.rhs == a.rhs;
    return lhs + (b.rhs != b.lhs && rhs);
}

/* Returns the number of partitions: those of one side if shared, otherwise those of both. */
static inline uint32_t pbg_partitions(const pbg_pass_t *pass) {
    return pass->lhs_partitions + (pass->shared ? 0 : pass->rhs_partitions);
}

/* Returns the bytes read when a partition is loaded; 0 if it always stays in memory. Partitions are numbered below
   `pbg_partitions`, left ones first. */
static inline uint64_t pbg_bytes(const pbg_pass_t *pass, uint32_t partition) {
    uint32_t left = pass->lhs_partitions;
    return partition < left ? pass->lhs_bytes.ptr[partition] : pass->rhs_bytes.ptr[partition - left];
}

/* Writes the partitions that a bucket needs in the buffer and returns their number, without those that always stay
   in memory; none for a bucket without edges. */
static inline size_t pbg_needs(const pbg_pass_t *pass, pbg_bucket_t bucket, uint32_t needed[2]) {
    if (!pbg_edges_of(pass, bucket)) return 0;
    uint32_t rhs = pass->shared ? bucket.rhs : pass->lhs_partitions + bucket.rhs;
    size_t count = 0;
    if (pbg_bytes(pass, bucket.lhs)) needed[count++] = bucket.lhs;
    if (rhs != bucket.lhs && pbg_bytes(pass, rhs)) needed[count++] = rhs;
    return count;
}

/* Returns the position in the plan, from `at` on, of the next use of a partition; `count` if there is none. */
static inline size_t pbg_next_use(const pbg_pass_t *pass, const pbg_bucket_t *plan, size_t count, size_t at,
                                  uint32_t partition) {
    for (; at < count; at++) {
        uint32_t needed[2];
        size_t needs = pbg_needs(pass, plan[at], needed);
        for (size_t i = 0; i < needs; i++) {
            if (needed[i] == partition) return at;
        }
    }
    return count;
}

/* Counts the loads of a plan of `count` buckets as the host does: the partition whose next use is furthest away is
   evicted (Belady 1966). Returns false if there is not enough memory. */
static inline bool pbg_traffic(const pbg_pass_t *pass, const pbg_bucket_t *plan, size_t count, pbg_traffic_t *answer) {
    uint32_t partitions = pbg_partitions(pass), right = pass->shared ? 0 : pass->lhs_partitions;
    bool *resident = (bool *)calloc(partitions, sizeof *resident);
    if (!resident) return false;
    size_t held = 0;
    for (size_t i = 0; i < pass->resident_lhs.len; i++, held++) resident[pass->resident_lhs.ptr[i]] = true;
    for (size_t i = 0; i < pass->resident_rhs.len; i++, held++) resident[pass->resident_rhs.ptr[i] + right] = true;
    *answer = (pbg_traffic_t){0, 0, 0};
    for (size_t at = 0; at < count; at++) {
        uint32_t needed[2];
        size_t needs = pbg_needs(pass, plan[at], needed);
        for (size_t i = 0; i < needs; i++) {
            if (resident[needed[i]]) continue;
            uint32_t evicted = partitions;
            size_t latest = 0;
            for (uint32_t other = 0; other < partitions; other++) {
                if (!resident[other] || other == needed[0] || other == needed[needs - 1]) continue;
                size_t next = pbg_next_use(pass, plan, count, at + 1, other);
                if (evicted == partitions || next > latest) evicted = other, latest = next;
            }
            if (held >= pass->buffer_partitions && evicted < partitions) {
                resident[evicted] = false;
                held--;
                answer->swaps++;
            }
            resident[needed[i]] = true;
            held++;
            answer->loads++;
            answer->bytes += pbg_bytes(pass, needed[i]);
        }
    }
    free(resident);
    return true;
}

#endif
