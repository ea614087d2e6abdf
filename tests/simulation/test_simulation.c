/* SPDX-License-Identifier: Apache-2.0 */
/* Runs the simulation and says how often each rare state was reached; a state that never was fails
 * the test. SIM_SEED=n runs one seed, SIM_STEPS=n so many steps. */
#include "sim.h"

#include <stdio.h>
#include <stdlib.h>

#ifdef PAWL_SANITIZED /* fewer, which reach all states nevertheless */
#define FIRST_SEED 22
#define SEEDS 8
#define STEPS_EACH UINT64_C(150000)
#else
#define FIRST_SEED 1
#define SEEDS 20
#define STEPS_EACH UINT64_C(500000)
#endif

static uint64_t from_environment(const char *name, uint64_t otherwise)
{
    const char *text = getenv(name);
    return text ? strtoull(text, NULL, 10) : otherwise;
}

static void run(const struct sim_config *config, uint64_t steps, uint64_t *reached)
{
    struct sim *sim = sim_new(config);
    while (sim->step < steps)
        sim_step(sim);
    for (int i = 0; i < SIM_RARES; i++)
        reached[i] += sim->reached[i];
    sim_free(sim);
}

int main(void)
{
    static const char *const names[SIM_RARES] = {
#define X(name, text) text,
        SIM_RARE(X) SIM_ONCE_RARE(X) SIM_PARTICIPANT_RARE(X)
#undef X
    };
    uint64_t reached[SIM_RARES] = {0};
    uint64_t steps = from_environment("SIM_STEPS", STEPS_EACH);
    uint64_t first = from_environment("SIM_SEED", FIRST_SEED);
    uint64_t seeds = getenv("SIM_SEED") ? 1 : from_environment("SIM_SEEDS", SEEDS);
    for (uint64_t seed = first; seed < first + seeds; seed++) {
        run(&(struct sim_config){.seed = seed}, steps, reached);
        run(&(struct sim_config){.seed = seed, .once = true}, steps, reached);
        if (seed % 4 == 0)
            run(&(struct sim_config){.seed = seed, .participants = true}, steps, reached);
    }
    int missing = 0;
    for (int i = 0; i < SIM_RARES; i++) {
        printf("%10llu  %s\n", (unsigned long long)reached[i], names[i]);
        missing += reached[i] == 0;
    }
    if (missing > 0)
        printf("%d states were never reached: the run says less than it should\n", missing);
    return missing > 0 && !getenv("SIM_SEED");
}
