/* SPDX-License-Identifier: Apache-2.0 */
#include "webhook/service.h"

#include "base/check.h"
#include "base/mem.h"
#include "base/random.h"
#include "base/thread.h"
#include "fiber/fiber.h"
#include "webhook/declaration.h"
#include "webhook/delivery.h"
#include "webhook/fanout.h"
#include "webhook/handler.h"
#include "webhook/unserved.h"
#include <stdatomic.h>
#include <sys/eventfd.h>
#include <unistd.h>

#define POLL_US CLOCK_US_PER_S
#define SWEEP_US (INT64_C(60) * CLOCK_US_PER_S)
#define FIBERS_BESIDE 16 /* those of deliveries are as many as may be under way */
#define PAGES_AT_ONCE 16 /* of events, between two looks at what else there is to do */

struct webhook_service {
    struct store *store;
    struct loop *loop;
    struct thread thread;
    struct courier *courier;
    struct webhook_sender sender;
    struct told told;
    struct webhook_handler handler;
    const struct courier_kind *kinds[2];
    struct webhook_plan *plan;   /* in force */
    struct webhook_plan *next;   /* prepared */
    bool takes_next;             /* it is to be declared, and then in force */
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
    bool draining;
    struct loop_post reload_post, drain_post;
    atomic_bool reloading;
    struct thread_parker reloaded;
    struct loop_post wake_post;
    atomic_bool waking;
    int ended; /* eventfd */
    bool stopping;
};

/* ---- in the loop ---- */

/* Nothing is told before this process has declared what it serves, nor while an endpoint is left
 * out that is not known. */
static bool may_fan_out(const struct webhook_service *service)
{
    return !service->draining && service->is_declared && service->plan->roster->is_whole;
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

static enum store_status gather(void *argument, struct arena *arena, struct audience *ret_audience)
{
    struct webhook_service *service = argument;
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
        const struct fanout fanout = {service->store, fiber_parker(), gather, service};
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

static void sweep(struct webhook_service *service)
{
    bool more = clock_boot_us() >= service->sweep_at;
    if (more)
        service->sweep_at = clock_after(clock_boot_us(), SWEEP_US);
    while (more && !service->draining) {
        const struct fanout fanout = {.store = service->store, .parker = fiber_parker()};
        if (fanout_sweep(&fanout, &more) != STORE_DONE)
            return;
    }
}

/* What nobody serves is looked for every now and then, and shown as it was read. */
static void tend(struct webhook_service *service)
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

static void refresh(struct webhook_service *service)
{
    if (clock_boot_us() < service->refresh_at)
        return;
    struct parker *parker = fiber_parker();
    enum store_status status = webhook_plan_refresh(service->plan, service->store, parker);
    if (status == STORE_DONE)
        status = census_refresh(&service->census, service->store, parker);
    if (status != STORE_DONE)
        return;
    told_show(&service->told, service->plan->roster);
    service->refresh_at = clock_after(clock_boot_us(), POLL_US);
    tend(service);
}

/* ---- what this process serves ---- */

static void put_in_force(struct webhook_service *service, struct webhook_plan *plan)
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
static void retire(struct webhook_service *service)
{
    if (!service->former || !service->is_declared ||
        declaration_retire(&service->declaration, service->former, service->plan) != STORE_DONE)
        return;
    webhook_plan_unref(service->former);
    service->former = NULL;
}

/* To the main thread, which waits for it. */
static void tell_taken(struct webhook_service *service)
{
    atomic_store(&service->reloading, false);
    parker_wake(&service->reloaded.parker);
}

/* Once the registry knows its endpoints: one that it does not know counts as removed. */
static bool declare_plan(struct webhook_service *service, struct webhook_plan *plan)
{
    return webhook_plan_refresh(plan, service->store, fiber_parker()) == STORE_DONE &&
           declaration_make(&service->declaration, plan) == STORE_DONE;
}

/* A store that does not take the declaration now stops no config: it is declared later, and nothing
 * is fanned out here before. */
static void take_next(struct webhook_service *service)
{
    struct webhook_plan *next = service->next;
    service->next = NULL;
    service->takes_next = false;
    service->is_declared = declare_plan(service, next);
    put_in_force(service, next);
    retire(service);
    tell_taken(service);
}

static void declare(struct webhook_service *service)
{
    if (service->takes_next)
        take_next(service);
    else if (!service->is_declared)
        service->is_declared = declare_plan(service, service->plan);
    else if (declaration_beat(&service->declaration) == STORE_CONFLICT)
        service->is_declared = false;
    retire(service);
}

static void leave(struct webhook_service *service)
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
    declare(service);
    tell_taken(service);
    while (!service->draining) {
        service->is_woken = false;
        declare(service);
        refresh(service);
        fan_out(service);
        sweep(service);
        if (!service->draining && !service->is_woken)
            service->fanout->park(service->fanout, clock_after(clock_boot_us(), POLL_US));
    }
    service->fanout = NULL;
    leave(service);
}

/* States are known before the first delivery. */
static void run_courier(void *argument)
{
    struct webhook_service *service = argument;
    struct webhook_plan *plan = webhook_plan_ref(service->plan);
    while (!service->draining &&
           webhook_plan_refresh(plan, service->store, fiber_parker()) != STORE_DONE)
        fiber_sleep_until(clock_after(clock_boot_us(), POLL_US));
    webhook_plan_unref(plan);
    (void)courier_run(service->courier, COURIER_FOLLOW);
    leave(service);
}

static void wake_fanout(struct webhook_service *service)
{
    service->is_woken = true;
    if (service->fanout)
        parker_wake(service->fanout);
}

static void take_plan(void *argument)
{
    struct webhook_service *service = argument;
    service->takes_next = true;
    wake_fanout(service);
}

static void start_drain(void *argument)
{
    struct webhook_service *service = argument;
    service->draining = true;
    wake_fanout(service);
    courier_drain(service->courier);
}

static void run_thread(void *argument)
{
    struct webhook_service *service = argument;
    const uint64_t one = 1;
    loop_run(service->loop);
    ssize_t written = write(service->ended, &one, sizeof one);
    CHECK(written == sizeof one);
}

/* ---- from any thread ---- */

static void take_wake(void *argument)
{
    struct webhook_service *service = argument;
    atomic_store(&service->waking, false);
    wake_fanout(service);
    courier_wake(service->courier);
}

void webhook_service_wake(struct webhook_service *service)
{
    if (!atomic_exchange(&service->waking, true))
        loop_post(service->loop, &service->wake_post);
}

void webhook_service_write_series(struct webhook_service *service, struct buf *page)
{
    courier_write_series(service->courier, page);
    told_write(&service->told, page);
    unserved_write(&service->unserved, page);
}

/* ---- on the main thread ---- */

static void drop(struct webhook_service *service)
{
    webhook_plan_unref(service->plan);
    webhook_plan_unref(service->next);
    webhook_plan_unref(service->former);
    courier_free(service->courier);
    loop_free(service->loop);
    if (service->ended >= 0)
        close(service->ended);
    thread_parker_fini(&service->reloaded);
    told_fini(&service->told);
    census_fini(&service->census);
    unserved_fini(&service->unserved);
    mem_free(service);
}

static bool prepare(struct webhook_service *service, const struct webhook_wanted *wanted)
{
    service->sender = (struct webhook_sender){.store = service->store,
                                              .census = &service->census,
                                              .plan = &service->plan,
                                              .told = &service->told};
    webhook_sender_init(&service->sender);
    service->handler = (struct webhook_handler){
        .store = service->store, .census = &service->census, .plan = &service->plan};
    webhook_handler_init(&service->handler);
    service->kinds[0] = &service->sender.kind;
    service->kinds[1] = &service->handler.kind;
    const struct courier_config config = {.store = service->store,
                                          .kinds = service->kinds,
                                          .n_kinds = 2,
                                          .owner = (int64_t)(random_u64() >> 1) | 1};
    service->courier = courier_new(&config);
    service->plan = webhook_plan_new(wanted);
    service->loop = loop_new(LANES_OVERALL + FIBERS_BESIDE);
    service->ended = eventfd(0, EFD_CLOEXEC);
    service->wake_post = (struct loop_post){.run = take_wake, .argument = service};
    return service->courier && service->plan && service->loop && service->ended >= 0;
}

static void wait_until_taken(struct webhook_service *service)
{
    while (atomic_load(&service->reloading))
        service->reloaded.parker.park(&service->reloaded.parker, CLOCK_NEVER);
}

/* The first plan is declared as every other: it is in force once that was tried. */
struct webhook_service *webhook_service_start(struct store *store, struct log *log,
                                              const struct webhook_wanted *wanted)
{
    struct webhook_service *service = mem_zalloc(1, sizeof *service);
    if (!service)
        return NULL;
    service->store = store;
    service->declaration.store = store;
    service->census = census_make();
    unserved_init(&service->unserved, store, log);
    thread_parker_init(&service->reloaded);
    told_init(&service->told);
    atomic_store(&service->reloading, true);
    service->at_work = 2;
    if (prepare(service, wanted) && fiber_spawn(service->loop, "fanout", run_fanout, service) &&
        fiber_spawn(service->loop, "courier", run_courier, service) &&
        thread_start(&service->thread, "pawl-courier", run_thread, service)) {
        wait_until_taken(service);
        return service;
    }
    drop(service);
    return NULL;
}

bool webhook_service_prepare(struct webhook_service *service, const struct webhook_wanted *wanted)
{
    CHECK(!service->next);
    service->next = webhook_plan_new(wanted);
    return service->next;
}

void webhook_service_reload(struct webhook_service *service, bool keep)
{
    if (!keep) {
        webhook_plan_unref(service->next);
        service->next = NULL;
        return;
    }
    CHECK(service->next);
    atomic_store(&service->reloading, true);
    service->reload_post = (struct loop_post){.run = take_plan, .argument = service};
    loop_post(service->loop, &service->reload_post);
    wait_until_taken(service);
}

int webhook_service_drain(struct webhook_service *service)
{
    service->stopping = true;
    service->drain_post = (struct loop_post){.run = start_drain, .argument = service};
    loop_post(service->loop, &service->drain_post);
    loop_stop(service->loop);
    return service->ended;
}

void webhook_service_stop(struct webhook_service *service)
{
    if (!service->stopping)
        (void)webhook_service_drain(service);
    thread_join(&service->thread);
}

void webhook_service_free(struct webhook_service *service)
{
    drop(service);
}
