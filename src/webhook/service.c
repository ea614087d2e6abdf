/* SPDX-License-Identifier: Apache-2.0 */
#include "webhook/service.h"

#include "base/check.h"
#include "base/mem.h"
#include "base/random.h"
#include "base/thread.h"
#include "fiber/fiber.h"
#include "webhook/delivery.h"
#include "webhook/fanout.h"
#include "webhook/handler.h"
#include <stdatomic.h>
#include <sys/eventfd.h>
#include <unistd.h>

#define POLL_US CLOCK_US_PER_S
#define SWEEP_US (INT64_C(60) * CLOCK_US_PER_S)
#define FIBERS_BESIDE 16 /* those of deliveries are as many as may be under way */

struct webhook_service {
    struct store *store;
    struct loop *loop;
    struct thread thread;
    struct courier *courier;
    struct webhook_sender sender;
    struct told told;
    struct webhook_handler handler;
    const struct courier_kind *kinds[2];
    struct webhook_plan *plan; /* in force */
    struct webhook_plan *next; /* prepared */
    struct parker *fanout;     /* of the fiber that makes tasks; NULL: it has ended */
    bool is_woken;             /* since it began to look: its store took the parker's wake */
    int64_t refresh_at;        /* boot time */
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

/* Without endpoints there is nobody to tell: another process, or the next config, may have some, so
 * events stay new. Nor is one left out that is not known. */
static bool may_fan_out(const struct webhook_service *service)
{
    const struct roster *roster = service->plan->roster;
    return !service->draining && roster->is_whole && roster->n > 0;
}

/* Makes tasks until there is no new event. */
static void fan_out(struct webhook_service *service)
{
    bool more = true, made = false;
    enum store_status status = STORE_DONE;
    while (status == STORE_DONE && more && may_fan_out(service)) {
        struct roster *roster = roster_ref(service->plan->roster);
        const struct fanout fanout = {service->store, fiber_parker(), roster,
                                      service->plan->wanted.webhooks.keep_us};
        size_t n = 0;
        status = fanout_step(&fanout, &n, &more);
        made = made || n > 0;
        roster_unref(roster);
    }
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

static void refresh(struct webhook_service *service)
{
    if (clock_boot_us() < service->refresh_at)
        return;
    struct webhook_plan *plan = webhook_plan_ref(service->plan);
    if (webhook_plan_refresh(plan, service->store, fiber_parker()) == STORE_DONE) {
        told_show(&service->told, plan->roster);
        service->refresh_at = clock_after(clock_boot_us(), POLL_US);
    }
    webhook_plan_unref(plan);
}

static void run_fanout(void *argument)
{
    struct webhook_service *service = argument;
    service->fanout = fiber_parker();
    while (!service->draining) {
        service->is_woken = false;
        refresh(service);
        fan_out(service);
        sweep(service);
        if (!service->draining && !service->is_woken)
            service->fanout->park(service->fanout, clock_after(clock_boot_us(), POLL_US));
    }
    service->fanout = NULL;
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
    webhook_plan_unref(service->plan);
    service->plan = service->next;
    service->next = NULL;
    service->refresh_at = 0;
    wake_fanout(service);
    courier_wake(service->courier);
    atomic_store(&service->reloading, false);
    parker_wake(&service->reloaded.parker);
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
}

/* ---- on the main thread ---- */

static void drop(struct webhook_service *service)
{
    webhook_plan_unref(service->plan);
    webhook_plan_unref(service->next);
    courier_free(service->courier);
    loop_free(service->loop);
    if (service->ended >= 0)
        close(service->ended);
    thread_parker_fini(&service->reloaded);
    told_fini(&service->told);
    mem_free(service);
}

static bool prepare(struct webhook_service *service, const struct webhook_wanted *wanted)
{
    service->sender = (struct webhook_sender){
        .store = service->store, .plan = &service->plan, .told = &service->told};
    webhook_sender_init(&service->sender);
    service->handler = (struct webhook_handler){.store = service->store, .plan = &service->plan};
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

struct webhook_service *webhook_service_start(struct store *store,
                                              const struct webhook_wanted *wanted)
{
    struct webhook_service *service = mem_zalloc(1, sizeof *service);
    if (!service)
        return NULL;
    service->store = store;
    thread_parker_init(&service->reloaded);
    told_init(&service->told);
    if (prepare(service, wanted) && fiber_spawn(service->loop, "fanout", run_fanout, service) &&
        fiber_spawn(service->loop, "courier", run_courier, service) &&
        thread_start(&service->thread, "pawl-courier", run_thread, service))
        return service;
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
    while (atomic_load(&service->reloading))
        service->reloaded.parker.park(&service->reloaded.parker, CLOCK_NEVER);
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
