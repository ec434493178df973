/* Implements the helpers of pbg_plugin.h. */
#include "pbg_plugin.h"

#include <stdlib.h>
#include <string.h>

typedef exports_pbg_plugin_metadata_description_t description;
typedef exports_pbg_plugin_metadata_parameter_t parameter;

void pbg_describe(description *answer, const char *name, const char *version,
                  const char *summary) {
    plugin_string_dup(&answer->name, name);
    plugin_string_dup(&answer->version, version);
    plugin_string_dup(&answer->summary, summary);
    answer->parameters.ptr = NULL;
    answer->parameters.len = 0;
    answer->fallback.is_some = false;
}

static parameter *declare(description *answer, uint8_t kind, const char *name, const char *doc) {
    size_t count = answer->parameters.len + 1;
    parameter *all = realloc(answer->parameters.ptr, count * sizeof(parameter));
    if (!all) abort();
    answer->parameters.ptr = all;
    answer->parameters.len = count;
    parameter *added = &all[count - 1];
    plugin_string_dup(&added->name, name);
    plugin_string_dup(&added->doc, doc);
    added->kind.tag = kind;
    return added;
}

void pbg_declare_boolean(description *answer, const char *name, bool initial, const char *doc) {
    uint8_t kind = EXPORTS_PBG_PLUGIN_METADATA_PARAMETER_KIND_BOOLEAN;
    declare(answer, kind, name, doc)->kind.val.boolean = initial;
}

void pbg_declare_integer(description *answer, const char *name, int64_t initial, int64_t minimum,
                         int64_t maximum, const char *doc) {
    uint8_t kind = EXPORTS_PBG_PLUGIN_METADATA_PARAMETER_KIND_INTEGER;
    exports_pbg_plugin_metadata_integer_parameter_t value = {
        initial, {true, minimum}, {true, maximum}};
    declare(answer, kind, name, doc)->kind.val.integer = value;
}

void pbg_declare_number(description *answer, const char *name, double initial, double minimum,
                        double maximum, const char *doc) {
    uint8_t kind = EXPORTS_PBG_PLUGIN_METADATA_PARAMETER_KIND_NUMBER;
    exports_pbg_plugin_metadata_number_parameter_t value = {
        initial, {true, minimum}, {true, maximum}};
    declare(answer, kind, name, doc)->kind.val.number = value;
}

/* Returns the value with a name; NULL if there is none. */
static const pbg_plugin_types_value_t *value_of(const pbg_plugin_types_parameter_value_t *values,
                                                size_t count, const char *name) {
    size_t length = strlen(name);
    for (size_t at = 0; at < count; at++) {
        const plugin_string_t *known = &values[at].name;
        if (known->len == length && !memcmp(known->ptr, name, length)) return &values[at].value;
    }
    return NULL;
}

bool pbg_boolean(const pbg_plugin_types_parameter_value_t *values, size_t count, const char *name) {
    const pbg_plugin_types_value_t *value = value_of(values, count, name);
    return value && value->tag == PBG_PLUGIN_TYPES_VALUE_BOOLEAN && value->val.boolean;
}

int64_t pbg_integer(const pbg_plugin_types_parameter_value_t *values, size_t count,
                    const char *name) {
    const pbg_plugin_types_value_t *value = value_of(values, count, name);
    return value && value->tag == PBG_PLUGIN_TYPES_VALUE_INTEGER ? value->val.integer : 0;
}

double pbg_number(const pbg_plugin_types_parameter_value_t *values, size_t count,
                  const char *name) {
    const pbg_plugin_types_value_t *value = value_of(values, count, name);
    return value && value->tag == PBG_PLUGIN_TYPES_VALUE_NUMBER ? value->val.number : 0;
}

bool pbg_refuse(plugin_string_t *err, const char *text) {
    plugin_string_dup(err, text);
    return false;
}

void pbg_log(pbg_plugin_log_level_t level, const char *text) {
    plugin_string_t line;
    plugin_string_set(&line, text);
    pbg_plugin_log_write(level, &line);
}

pbg_plugin_run_run_length_t pbg_run_length(void) {
    pbg_plugin_run_run_length_t length;
    pbg_plugin_run_length(&length);
    return length;
}

double pbg_run_share(uint64_t step) {
    uint64_t batches = pbg_run_length().batches;
    return step < batches ? (double)step / (double)batches : 1.0;
}

static uint64_t rotated(uint64_t x, int by) { return x << by | x >> (64 - by); }

pbg_rng pbg_rng_new(uint64_t seed) {
    pbg_rng rng;
    for (int i = 0; i < 4; i++) {
        seed += 0x9e3779b97f4a7c15u;
        uint64_t z = seed;
        z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
        z = (z ^ z >> 27) * 0x94d049bb133111ebu;
        rng.state[i] = z ^ z >> 31;
    }
    return rng;
}

uint64_t pbg_rng_next(pbg_rng *rng) {
    uint64_t *s = rng->state;
    uint64_t result = rotated(s[0] + s[3], 23) + s[0];
    uint64_t t = s[1] << 17;
    s[2] ^= s[0];
    s[3] ^= s[1];
    s[1] ^= s[2];
    s[0] ^= s[3];
    s[2] ^= t;
    s[3] = rotated(s[3], 45);
    return result;
}

/* Computes the 128-bit product of two numbers in halves, since there is no library with __multi3. */
static uint64_t product(uint64_t a, uint64_t b, uint64_t *high) {
    uint64_t a0 = (uint32_t)a, a1 = a >> 32, b0 = (uint32_t)b, b1 = b >> 32;
    uint64_t low = a0 * b0;
    uint64_t mid = a1 * b0 + (low >> 32);
    uint64_t mid2 = a0 * b1 + (uint32_t)mid;
    *high = a1 * b1 + (mid >> 32) + (mid2 >> 32);
    return mid2 << 32 | (uint32_t)low;
}

/* Lemire's method. */
uint64_t pbg_rng_below(pbg_rng *rng, uint64_t bound) {
    if (bound == 0) abort();
    for (;;) {
        uint64_t high, low = product(pbg_rng_next(rng), bound, &high);
        if (low >= bound || low >= (0 - bound) % bound) return high;
    }
}

void pbg_rng_shuffle(pbg_rng *rng, uint32_t *items, size_t count) {
    for (size_t end = count; end-- > 1;) {
        size_t other = (size_t)pbg_rng_below(rng, end + 1);
        uint32_t kept = items[end];
        items[end] = items[other];
        items[other] = kept;
    }
}
