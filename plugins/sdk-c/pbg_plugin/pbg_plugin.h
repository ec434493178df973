/* Main header of pbg-host plugins in C: the generated bindings, and helpers. */
#ifndef PBG_PLUGIN_H
#define PBG_PLUGIN_H

#include "plugin.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Strings that are passed to the host are freed after the call, so pass copies. */

/* Fills the result of `describe`; the texts are copied. The functions below add parameters. */
void pbg_describe(exports_pbg_plugin_metadata_description_t *answer, const char *name,
                  const char *version, const char *summary);

/* Declare parameters. The host checks a configuration against them, bounds included. */
void pbg_declare_boolean(exports_pbg_plugin_metadata_description_t *answer, const char *name,
                         bool initial, const char *doc);
void pbg_declare_integer(exports_pbg_plugin_metadata_description_t *answer, const char *name,
                         int64_t initial, int64_t minimum, int64_t maximum, const char *doc);
void pbg_declare_number(exports_pbg_plugin_metadata_description_t *answer, const char *name,
                        double initial, double minimum, double maximum, const char *doc);

/* Return the value of a parameter among the `count` ones that `configure` gets. If it was
   declared with another type or not at all, the value is false or 0. */
bool pbg_boolean(const pbg_plugin_types_parameter_value_t *values, size_t count, const char *name);
int64_t pbg_integer(const pbg_plugin_types_parameter_value_t *values, size_t count,
                    const char *name);
double pbg_number(const pbg_plugin_types_parameter_value_t *values, size_t count,
                  const char *name);

/* Refuses with a text for the user: `return pbg_refuse(err, "...")`. Always returns false. */
bool pbg_refuse(plugin_string_t *err, const char *text);

/* Writes one line to the host's log. */
void pbg_log(pbg_plugin_log_level_t level, const char *text);

/* Returns the length of the run. wit/run.wit says in which functions it is known; in others all numbers are 1. */
pbg_plugin_run_run_length_t pbg_run_length(void);
/* Length of the run in a native test, in which `native.c` replaces the host. */
extern pbg_plugin_run_run_length_t pbg_native_run_length;
/* Returns the share of the run that is finished after `step` batches, from 0 to 1. */
double pbg_run_share(uint64_t step);

/* xoshiro256++, seeded through SplitMix64; gives the same numbers as the other SDKs. Everything
   random comes from the seed in the arguments. */
typedef struct pbg_rng {
    uint64_t state[4];
} pbg_rng;

pbg_rng pbg_rng_new(uint64_t seed);
uint64_t pbg_rng_next(pbg_rng *rng);
/* Returns a number below `bound`, each equally likely; `bound` must be at least 1. */
uint64_t pbg_rng_below(pbg_rng *rng, uint64_t bound);
/* Puts numbers in random order (Fisher and Yates). */
void pbg_rng_shuffle(pbg_rng *rng, uint32_t *items, size_t count);

#endif
