/* SPDX-License-Identifier: Apache-2.0 */
#include "fiber/service.h"

#include "base/check.h"
#include "base/clock.h"
#include "base/mem.h"
#include <sys/eventfd.h>
#include <unistd.h>

/* ---- on the loop's thread ---- */

static void post_take(void *argument)
{
    struct service *service = argument;
    void *plan = service->next;
    service->next = NULL;
    service->kind->take(service, plan);
}

static void post_drain(void *argument)
{
    struct service *service = argument;
    service->draining = true;
    service->kind->drain(service);
}

static void run_service(void *argument)
{
    const struct service *service = argument;
    loop_run(service->loop);
    CHECK(eventfd_write(service->ended, 1) == 0);
}

void service_taken(struct service *service)
{
    CHECK(loop_current() == service->loop);
    atomic_store(&service->taking, false);
    parker_wake(&service->taken.parker);
}

/* ---- on the thread that starts it ---- */

static void service_close(struct service *service)
{
    loop_free(service->loop);
    if (service->ended >= 0)
        close(service->ended);
    thread_parker_fini(&service->taken);
    mem_free(service);
}

void *service_new(const struct service_kind *kind)
{
    CHECK(kind->size >= sizeof(struct service));
    struct service *service = mem_zalloc(1, kind->size);
    if (!service)
        return NULL;
    service->kind = kind;
    service->take = (struct loop_post){.run = post_take, .argument = service};
    service->drain = (struct loop_post){.run = post_drain, .argument = service};
    thread_parker_init(&service->taken);
    service->loop = loop_new(kind->max_fibers);
    service->ended = eventfd(0, EFD_CLOEXEC);
    if (service->loop && service->ended >= 0)
        return service;
    service_close(service);
    return NULL;
}

void service_free(void *owner)
{
    struct service *service = owner;
    service->kind->drop(service->next);
    service->kind->fini(service);
    service_close(service);
}

static void wait_until_taken(struct service *service)
{
    while (atomic_load(&service->taking))
        service->taken.parker.park(&service->taken.parker, CLOCK_NEVER);
}

/* A loop whose thread does not start holds fibers that cannot be taken back: the process ends. */
void *service_start(struct service *service, bool is_filled)
{
    const struct service_fiber *fibers = service->kind->fibers;
    if (!is_filled) {
        service_free(service);
        return NULL;
    }
    for (size_t i = 0; i < SERVICE_FIBERS_MAX && fibers[i].run; i++)
        CHECK(fiber_spawn(service->loop, fibers[i].name, fibers[i].run, service));
    atomic_store(&service->taking, true);
    CHECK(thread_start(&service->thread, service->kind->name, run_service, service));
    wait_until_taken(service);
    return service;
}

bool service_prepare(struct service *service, void *plan)
{
    CHECK(!service->next && !service->stopping);
    service->next = plan;
    return plan;
}

void service_reload(struct service *service, bool keep)
{
    if (!keep) {
        service->kind->drop(service->next);
        service->next = NULL;
        return;
    }
    CHECK(service->next);
    atomic_store(&service->taking, true);
    loop_post(service->loop, &service->take);
    wait_until_taken(service);
}

int service_drain(void *owner)
{
    struct service *service = owner;
    CHECK(!service->stopping);
    service->stopping = true;
    loop_post(service->loop, &service->drain);
    loop_stop(service->loop);
    return service->ended;
}

void service_stop(void *owner)
{
    struct service *service = owner;
    if (!service->stopping)
        (void)service_drain(service);
    thread_join(&service->thread);
}
