/* SPDX-License-Identifier: Apache-2.0 */
#include "sim.h"

struct life *life_of(struct sim *sim, int rule, int64_t row)
{
    int of = sim->once ? rule - rule % SIM_KEYS : rule; /* a record may have several keys */
    struct life *lives = sim->lives[of];
    size_t newest = sim->newest_life[of];
    for (size_t i = 0; i < SIM_LIVES; i++)
        if (lives[(newest - i) % SIM_LIVES].row == row)
            return &lives[(newest - i) % SIM_LIVES];
    struct life *life = &lives[++sim->newest_life[of] % SIM_LIVES];
    *life = (struct life){.row = row};
    return life;
}

/* What has just failed is likely to be overloaded. */
static enum flight_end draw_end(struct sim *sim, bool probe, bool failed)
{
    if (failed && !probe && sim_below(sim, 3) == 0)
        return FLIGHT_TRANSIENT;
    uint64_t n = sim_below(sim, 100);
    if (n < 66)
        return FLIGHT_ANSWERED;
    if (n < 76)
        return FLIGHT_ANSWER_LOST;
    if (n < 86)
        return FLIGHT_LOST;
    if (n < 91)
        return probe ? FLIGHT_LOST : FLIGHT_TRANSIENT;
    if (n < 94 && sim->once)
        return FLIGHT_REFUSED;
    if (n < 94)
        return probe ? FLIGHT_LOST : FLIGHT_ELSEWHERE;
    return FLIGHT_BAD_GATEWAY;
}

/* Most requests are quick; some take as long as the rule's settle time allows for. */
int64_t upstream_delay(struct sim *sim, int rule)
{
    if (sim_below(sim, 10) < 7)
        return (int64_t)sim_below(sim, 60) * MS;
    return (int64_t)sim_below(sim, (uint64_t)sim_rule(sim, rule)->delay_most);
}

void upstream_send(struct sim *sim, size_t at)
{
    struct actor *actor = &sim->actors[at];
    struct flight *flight = sim->flights;
    while (flight < sim->flights + SIM_FLIGHTS && flight->used)
        flight++;
    SIM_CHECK(sim, flight < sim->flights + SIM_FLIGHTS);
    int64_t token = actor->attempt.token;
    SIM_HOLDS(sim, SIM_DURABLE, token > 0 && token < sim->read.token);
    *flight = (struct flight){.used = true,
                              .probe = actor->probing,
                              .end = draw_end(sim, actor->probing, actor->doubted),
                              .rule = actor->rule,
                              .row = actor->row,
                              .token = token,
                              .strict = !record_repeats(actor->attempt.begin.unknown),
                              .arrive_at = sim->boot + upstream_delay(sim, actor->rule),
                              .actor = at,
                              .serial = ++actor->serial,
                              .arrival = actor->arrival};
    if (!actor->probing && sim->mutant != SIM_MUTANT_RESEND)
        actor->attempt.begin.spent = true;
}

/* Invariants (a) and (h): an operation has its effect at most once in a life of its key, and one
 * client request at most one effect, whatever becomes of its record. (w): what was sent under hold
 * or probe leans on no upstream that dedupes. */
void upstream_execute(struct sim *sim, const struct flight *flight)
{
    struct life *life = life_of(sim, flight->rule, flight->row);
    life->strict |= flight->strict;
    SIM_HOLDS(sim, SIM_ONE_EFFECT, life->effects == life->before || !life->strict);
    sim->reached[SIM_HOLD_ENDED_DONE] += life->before > 0;
    if (sim_rule(sim, flight->rule)->upstream == UPSTREAM_DEDUPE && life->effects > 0) {
        sim->reached[SIM_DEDUPED]++;
        return;
    }
    life->effects++;
    SIM_HOLDS(sim, SIM_LEFT, !life->dropped);
    SIM_HOLDS(sim, SIM_ONE_EFFECT, life->effects == life->before + 1 && !life->refused);
    if (sim->once)
        once_effect(sim, flight);
    struct actor *actor = &sim->actors[flight->actor];
    if (actor->arrival != flight->arrival)
        return;
    actor->effects++;
    SIM_HOLDS(sim, SIM_ONE_EFFECT, actor->effects == 1);
}

/* Who dedupes remembers that it refused, and refuses nothing that is at work. */
static bool is_refused(struct sim *sim, const struct flight *flight, struct life *life)
{
    if (life->refused)
        return true;
    if (flight->end != FLIGHT_REFUSED || life->effects > 0)
        return false;
    for (size_t i = 0; i < SIM_FLIGHTS; i++) {
        const struct flight *other = &sim->flights[i];
        if (other->used && other->row == flight->row && !other->probe)
            return false;
    }
    life->refused = true;
    sim->reached[SIM_ONCE_REFUSED]++;
    return true;
}

static enum answer serve_post(struct sim *sim, const struct flight *flight, struct life *life)
{
    if (flight->end == FLIGHT_TRANSIENT)
        return ANSWER_NOT_DONE;
    if (flight->end == FLIGHT_ELSEWHERE)
        return ANSWER_ELSEWHERE;
    if (is_refused(sim, flight, life))
        return ANSWER_REFUSED;
    upstream_execute(sim, flight);
    return flight->end == FLIGHT_BAD_GATEWAY ? ANSWER_DOUBT : ANSWER_DONE;
}

static enum answer serve_get(const struct flight *flight, const struct life *life)
{
    if (flight->end == FLIGHT_BAD_GATEWAY)
        return ANSWER_DOUBT;
    return life->effects > 0 ? ANSWER_DONE : ANSWER_NOT_FOUND;
}

static enum answer serve(struct sim *sim, const struct flight *flight)
{
    struct life *life = life_of(sim, flight->rule, flight->row);
    if (sim_rule(sim, flight->rule)->upstream == UPSTREAM_FENCE) {
        if (flight->token < life->fence) {
            sim->reached[SIM_FENCED]++;
            return ANSWER_FENCED;
        }
        life->fence = flight->token;
    }
    return flight->probe ? serve_get(flight, life) : serve_post(sim, flight, life);
}

static bool goes_to_participant(const struct sim *sim, const struct flight *flight)
{
    return sim->participant && flight->end != FLIGHT_TRANSIENT && flight->end != FLIGHT_ELSEWHERE;
}

static void arrive(struct sim *sim, struct flight *flight)
{
    enum answer answer = ANSWER_NONE;
    bool lost = flight->end == FLIGHT_LOST;
    if (!lost && goes_to_participant(sim, flight) && !participant_serve(sim, flight, &answer))
        return;
    flight->used = false;
    if (lost)
        return;
    if (answer == ANSWER_NONE)
        answer = serve(sim, flight);
    struct actor *actor = &sim->actors[flight->actor];
    bool awaited = actor->phase == ACTOR_EXCHANGE && actor->serial == flight->serial;
    if (!awaited && !flight->probe)
        sim->reached[SIM_LATE_FLIGHT]++;
    if (!awaited || flight->end == FLIGHT_ANSWER_LOST)
        return;
    actor->answer = answer;
    /* Now and then the owner is slow to do something about it; it matters most where a look's date
     * is at stake. */
    bool matters = sim->mutant == SIM_MUTANT_LOOK_MISDATED && flight->probe;
    if (sim_below(sim, 20) == 0 || matters)
        actor->not_before = sim->boot + (int64_t)sim_below(sim, 4 * SECOND);
}

void upstream_move(struct sim *sim)
{
    for (size_t i = 0; i < SIM_FLIGHTS; i++)
        if (sim->flights[i].used && sim->flights[i].arrive_at <= sim->boot)
            arrive(sim, &sim->flights[i]);
}
