/* SPDX-License-Identifier: Apache-2.0 */
#include "webhook/service.h"

#include "base/check.h"
#include "base/crypto/random.h"
#include "base/mem.h"
#include "webhook/delivery.h"
#include "webhook/endpoints/declaration.h"
#include "webhook/endpoints/unserved.h"
#include "webhook/fanout.h"
#include "webhook/handler.h"

#define POLL_US CLOCK_US_PER_S
#define SWEEP_US (INT64_C(60) * CLOCK_US_PER_S)
#define FIBERS_BESIDE 16 /* those of deliveries are as many as may be under way */
#define PAGES_AT_ONCE 16 /* of events, between two looks at what else there is to do */

struct webhook_service {
    struct service base;
    struct store *store;
    struct courier *courier;
    struct webhook_sender sender;
    struct delivery_counts counts;
    struct webhook_handler handler;
    const struct courier_kind *kinds[2];
    struct webhook_plan *plan;   /* in force */
    struct webhook_plan *next;   /* to be declared, and then in force; NULL: none */
    bool is_declared;            /* the plan in force is */
    struct webhook_plan *former; /* declared before it; NULL: what it took out is retired */
    struct roster *told_by;      /* of the fan-out's step: a delivery may replace the plan's */
    struct declaration declaration;
    struct census census;
    struct unserved unserved;
    int64_t roster_version; /* of the census with which the registry was read last */
    int64_t tend_at;        /* boot time */
    int64_t since;          /* store time at which it began to look */
    struct parker *fanout;  /* of the fiber that makes tasks; NULL: it has ended */
    int at_work;            /* fibers that need the declaration: the last to end takes it back */
    bool is_woken;          /* since it began to look: its store took the parker's wake */
    int64_t refresh_at;     /* boot time */
    int64_t sweep_at;
    struct loop_post wake_post;
    atomic_bool waking;
};

/* ---- in the loop ---- */

/* Nothing is told before this process has declared what it serves, nor while an endpoint is left
 * out that is not known. */
static bool may_fan_out(const struct webhook_service *service)
{
    return !service->base.draining && service->is_declared && service->plan->roster->is_whole;
}

/* Where the roster has moved, endpoints that commands made may have, too. */
static enum store_status refresh_all(struct webhook_service *service)
{
    struct parker *parker = fiber_parker();
    enum store_status status = census_refresh(&service->census, service->store, parker);
    int64_t version = service->census.head.row.version;
    if (status != STORE_DONE || version == service->roster_version)
        return status;
    status = webhook_plan_refresh(service->plan, service->store, parker);
    if (status == STORE_DONE)
        service->roster_version = version;
    return status;
}

static enum store_status gather_audience(void *argument, struct arena *arena,
                                         struct audience *ret_audience)
{
    struct webhook_service *service = argument;
    CHECK(!service->told_by && service->is_declared);
    *ret_audience = (struct audience){0};
    enum store_status status = refresh_all(service);
    if (status != STORE_DONE || !service->plan->roster->is_whole)
        return status;
    service->told_by = roster_ref(service->plan->roster);
    return audience_make(arena, service->told_by, &service->census,
                         service->plan->wanted.webhooks.keep_us, ret_audience)
               ? STORE_DONE
               : STORE_NO_MEMORY;
}

/* Makes tasks until there is no new event; of a backlog a part, as this process must also say that
 * it lives, and take another plan. */
static void fan_out(struct webhook_service *service)
{
    bool more = true, made = false;
    enum store_status status = STORE_DONE;
    for (int i = 0; i < PAGES_AT_ONCE && status == STORE_DONE && more && may_fan_out(service);
         i++) {
        const struct fanout fanout = {service->store, fiber_parker(), gather_audience, service};
        size_t n = 0;
        status = fanout_step(&fanout, &n, &more);
        made = made || n > 0;
        roster_unref(service->told_by);
        service->told_by = NULL;
    }
    service->is_woken |= status == STORE_DONE && more && may_fan_out(service);
    if (made)
        courier_wake(service->courier);
}

static void sweep_events(struct webhook_service *service)
{
    bool more = clock_boot_us() >= service->sweep_at;
    if (more)
        service->sweep_at = clock_after(clock_boot_us(), SWEEP_US);
    while (more && !service->base.draining) {
        const struct fanout fanout = {.store = service->store, .parker = fiber_parker()};
        if (fanout_sweep(&fanout, &more) != STORE_DONE)
            return;
    }
}

/* What nobody serves is looked for every now and then, and shown as it was read. */
static void tend_unserved(struct webhook_service *service)
{
    if (!service->is_declared)
        return;
    struct roster *roster = roster_ref(service->plan->roster);
    const struct unserved_look look = {fiber_parker(), &service->census, roster, service->since,
                                       service->plan->wanted.roster_gone_us};
    if (clock_boot_us() >= service->tend_at &&
        unserved_tend(&service->unserved, &look) == STORE_DONE)
        service->tend_at = clock_after(clock_boot_us(), CENSUS_EVERY_US);
    unserved_show(&service->unserved, &look);
    roster_unref(roster);
}

static void refresh_registry(struct webhook_service *service)
{
    if (clock_boot_us() < service->refresh_at)
        return;
    struct parker *parker = fiber_parker();
    enum store_status status = webhook_plan_refresh(service->plan, service->store, parker);
    if (status == STORE_DONE)
        status = census_refresh(&service->census, service->store, parker);
    if (status != STORE_DONE)
        return;
    delivery_counts_show(&service->counts, service->plan->roster);
    service->refresh_at = clock_after(clock_boot_us(), POLL_US);
    tend_unserved(service);
}

/* ---- what this process serves ---- */

static void put_plan_in_force(struct webhook_service *service, struct webhook_plan *plan)
{
    struct webhook_plan *old = service->plan;
    service->plan = plan;
    service->refresh_at = service->roster_version = 0;
    courier_wake(service->courier);
    if (service->former)
        webhook_plan_unref(old); /* which was not declared */
    else
        service->former = old;
}

/* What the config before took along, once this one is declared. */
static void retire_plan(struct webhook_service *service)
{
    if (!service->former || !service->is_declared ||
        declaration_retire(&service->declaration, service->former, service->plan) != STORE_DONE)
        return;
    webhook_plan_unref(service->former);
    service->former = NULL;
}

/* Once the registry knows its endpoints: one that it does not know counts as removed. */
static bool declare_plan(struct webhook_service *service, struct webhook_plan *plan)
{
    return webhook_plan_refresh(plan, service->store, fiber_parker()) == STORE_DONE &&
           declaration_make(&service->declaration, plan) == STORE_DONE;
}

/* A store that does not take the declaration now stops no config: it is declared later, and nothing
 * is fanned out here before. */
static void take_next_plan(struct webhook_service *service)
{
    struct webhook_plan *next = service->next;
    service->next = NULL;
    service->is_declared = declare_plan(service, next);
    put_plan_in_force(service, next);
    retire_plan(service);
    service_taken(&service->base);
}

static void declare_processes(struct webhook_service *service)
{
    if (service->next)
        take_next_plan(service);
    else if (!service->is_declared)
        service->is_declared = declare_plan(service, service->plan);
    else if (declaration_beat(&service->declaration) == STORE_CONFLICT)
        service->is_declared = false;
    retire_plan(service);
}

static void leave_service(struct webhook_service *service)
{
    CHECK(service->at_work > 0);
    if (--service->at_work == 0)
        declaration_end(&service->declaration);
}

static void run_fanout(void *argument)
{
    struct webhook_service *service = argument;
    service->fanout = fiber_parker();
    service->since = store_now(service->store);
    CHECK(!service->is_declared && !service->former);
    declare_processes(service);
    service_taken(&service->base);
    while (!service->base.draining) {
        service->is_woken = false;
        declare_processes(service);
        refresh_registry(service);
        fan_out(service);
        sweep_events(service);
        if (!service->base.draining && !service->is_woken)
            service->fanout->park(service->fanout, clock_after(clock_boot_us(), POLL_US));
    }
    service->fanout = NULL;
    leave_service(service);
}

/* States are known before the first delivery. */
static void run_webhook_courier(void *argument)
{
    struct webhook_service *service = argument;
    struct webhook_plan *plan = webhook_plan_ref(service->plan);
    while (!service->base.draining &&
           webhook_plan_refresh(plan, service->store, fiber_parker()) != STORE_DONE)
        fiber_sleep_until(clock_after(clock_boot_us(), POLL_US));
    webhook_plan_unref(plan);
    (void)courier_run(service->courier, COURIER_FOLLOW);
    leave_service(service);
}

static void wake_fanout(struct webhook_service *service)
{
    service->is_woken = true;
    if (service->fanout)
        parker_wake(service->fanout);
}

static void take_wake(void *argument)
{
    struct webhook_service *service = argument;
    atomic_store(&service->waking, false);
    wake_fanout(service);
    courier_wake(service->courier);
}

/* ---- as a service ---- */

static void take_webhook_plan(void *owner, void *plan)
{
    struct webhook_service *service = owner;
    CHECK(plan && !service->next);
    service->next = plan;
    wake_fanout(service);
}

static void start_drain(void *owner)
{
    struct webhook_service *service = owner;
    wake_fanout(service);
    courier_drain(service->courier);
}

static void drop_plan(void *plan)
{
    webhook_plan_unref(plan);
}

static void webhook_service_fini(void *owner)
{
    struct webhook_service *service = owner;
    CHECK(!service->next);
    webhook_plan_unref(service->plan);
    webhook_plan_unref(service->former);
    courier_free(service->courier);
    delivery_counts_fini(&service->counts);
    census_fini(&service->census);
    unserved_fini(&service->unserved);
}

static const struct service_kind webhook_service_kind = {
    .name = "pawl-courier",
    .size = sizeof(struct webhook_service),
    .max_fibers = LANES_OVERALL + FIBERS_BESIDE,
    .fibers = {{"fanout", run_fanout}, {"courier", run_webhook_courier}},
    .take = take_webhook_plan,
    .drain = start_drain,
    .drop = drop_plan,
    .fini = webhook_service_fini,
};

static bool fill_service_plan(struct webhook_service *service, const struct webhook_wanted *wanted)
{
    service->sender = (struct webhook_sender){.store = service->store,
                                              .census = &service->census,
                                              .plan = &service->plan,
                                              .counts = &service->counts};
    webhook_sender_init(&service->sender);
    service->handler = (struct webhook_handler){
        .store = service->store, .census = &service->census, .plan = &service->plan};
    webhook_handler_init(&service->handler);
    service->kinds[0] = &service->sender.kind;
    service->kinds[1] = &service->handler.kind;
    const struct courier_config config = {.store = service->store,
                                          .kinds = service->kinds,
                                          .n_kinds = COUNT_OF(service->kinds),
                                          .owner = (int64_t)(random_u64() >> 1) | 1};
    service->courier = courier_new(&config);
    service->plan = webhook_plan_new(wanted);
    return service->courier && service->plan;
}

/* The first plan is declared as every other: it is in force once that was tried. */
struct service *webhook_service_start(struct store *store, struct log *log,
                                      const struct webhook_wanted *wanted)
{
    struct webhook_service *service = service_new(&webhook_service_kind);
    if (!service)
        return NULL;
    service->store = store;
    service->declaration.store = store;
    service->census = census_make();
    unserved_init(&service->unserved, store, log);
    delivery_counts_init(&service->counts);
    service->at_work = 2;
    service->wake_post = (struct loop_post){.run = take_wake, .argument = service};
    return service_start(&service->base, fill_service_plan(service, wanted));
}

bool webhook_service_prepare(struct service *base, const struct webhook_wanted *wanted)
{
    return service_prepare(base, webhook_plan_new(wanted));
}

/* ---- from any thread ---- */

static struct webhook_service *service_of(struct service *base)
{
    CHECK(base->kind == &webhook_service_kind);
    return (struct webhook_service *)base;
}

void webhook_service_wake(struct service *base)
{
    struct webhook_service *service = service_of(base);
    if (!atomic_exchange(&service->waking, true))
        loop_post(base->loop, &service->wake_post);
}

void webhook_service_write_series(struct service *base, struct buf *page)
{
    struct webhook_service *service = service_of(base);
    courier_write_series(service->courier, page);
    delivery_counts_write(&service->counts, page);
    unserved_write(&service->unserved, page);
}
