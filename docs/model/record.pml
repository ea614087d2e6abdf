/* SPDX-License-Identifier: Apache-2.0
 *
 * The idempotency record's life (the contract, "Record and decision"), with the `unknown:` policies
 * of "HTTP gateway" and the participant of "Inside the application's own transaction": N attempts
 * at one (tenant, rule, key), two gateways, one store, one upstream, at most F faults in any order.
 * How to run it, and what it showed: README.md. scripts/model runs all of it.
 *
 *   client+fiber (Attempt) --begin/complete/release/...--> Committer(g) --commit--> durable record
 *            |                                                                          ^
 *            `------ request s ------> Upstream (effect counter) ---- participant ------'
 */

/* ---- what is checked: chosen with spin -D ---------------------------------------------------- */
#define RETRY 1                 /* `unknown:` */
#define HOLD  2
#define PROBE 3
#define PART  4                 /* participant upstream */
#ifndef POLICY
#define POLICY HOLD
#endif

#define PLAIN 0                 /* executes whatever arrives */
#define DEDUP 1                 /* executes once per key */
#define FENCE 2                /* refuses a token lower than one it saw (in a request or a probe) */
#ifndef CHANGE                  /* with POLICY=RETRY: HOLD or PROBE, which the rule says at some */
#define CHANGE 0                /* begins instead, as its config changes */
#endif
#ifndef UPSTREAM
#define UPSTREAM PLAIN
#endif

#ifndef N
#define N 3                     /* attempts */
#endif
#ifndef F
#define F 2                    /* fault budget: crash, stall, lost answer, transient, store error */
#endif
#ifndef FORGET
#define FORGET 0                /* 1: `keys forget` may hit the record once, whatever its state */
#endif
#if POLICY == PROBE || CHANGE == PROBE  /* T: more than the acquisitions there can be; at most 9 */
#define T (2 * F + 3 + 2 * FORGET)
#else
#define T (F + 3 + FORGET)
#endif

#ifndef REDIRECT
#define REDIRECT 0             /* 1: the upstream may redirect (301, 307, 308): not done, elsewhere */
#endif

#ifndef TRIES
#define TRIES 0                /* 1: an owner may send twice under its token, the first one gone */
#endif

#ifndef STALL
#define STALL 1              /* a lease may lapse although its owner lives (pause, store cut off) */
#endif
#ifndef QUIET
#define QUIET 1             /* rule Q: "it did not happen" is trusted only when none is in flight */
#endif
#ifndef SENDCHECK
#define SENDCHECK 1             /* rule S: owner sends only under a live lease. 0 no check, 1 check,
                                   2 check, but the owner may be paused between check and send */
#endif
#ifndef LIES
#define LIES 0             /* 1: a transient answer may come although the effect happened or will */
#endif
#ifndef RULE_L
#define RULE_L 0           /* rule L: under hold and probe a transient answer counts as no answer */
#endif
#ifndef FAILS
#define FAILS 1                /* 1: the upstream may say no for good (4xx, no effect): `failed` */
#endif
#ifndef REAPPLY
#define REAPPLY 1               /* 1: a batch whose commit answer was lost may be applied again */
#endif
#ifndef TTL
#define TTL 0                 /* 1: a settled or released record may expire once, for a new life */
#endif
#ifndef AMNESIA
#define AMNESIA 0              /* 1: a DEDUP upstream loses the key when the record expires */
#endif
#ifndef KEEP_NO
#define KEEP_NO 1               /* 1: a DEDUP upstream remembers also that it said no */
#endif
#ifndef ONCE
#define ONCE 1                  /* property (a) is asserted */
#endif
#ifndef DURABLE
#define DURABLE 1               /* property (f) is asserted */
#endif
#ifndef OTHER
#define OTHER 1                 /* the last attempt may carry another payload */
#endif
#ifndef OPERATOR
#define OPERATOR 1
#endif
#ifndef HOLD_ENDS
#define HOLD_ENDS 0            /* 1: a hold has an end (`unknown: {hold: DURATION}`) */
#endif
#ifndef KEYTIME
#define KEYTIME 0              /* 1: the key says when it was made, and is too old at some time */
#endif

/* Mutants: each breaks one rule, and the checker must notice. */
#ifndef M
#define M 0
#endif
#define M_EARLY     1           /* results are told before the commit returned */
#define M_NOTOKEN   2           /* writes do not check the token */
#define M_REUSE     3           /* the token restarts when a record is deleted */
#define M_STALETELL 4           /* an owner whose complete did not count tells its own answer */
#define M_CANCEL    5           /* a client's disconnect releases the record */
#define M_MEMCLAIM  6           /* a claim need not be durable (against invariant 3) */
#define M_RESOLVE   7           /* the operator's resolve does not name the token it looked at */
#define M_OWNPROBE  8           /* the owner probes under the token of its own lost request */
#define M_HASHLAST  9           /* mismatch is checked after the lease, not first */
#define M_EXPIREANY 10          /* a pending or unknown record expires, too */
#define M_ERRFREE   11          /* an owner whose complete met a store error releases the record */
#define M_MEMRANGE  12          /* as 6, but a crash does not make the tokens repeat */
#define M_REWRITE   13          /* the last token may write a settled record once more */
#define M_FAILFREE  14          /* a `failed` record is taken for a released one */
#define M_KEEPTOKEN 15          /* `forget` writes no new token */
#define M_STRANGER  16          /* a begin applied again does not know its own claim */
#define M_NEWTOKEN  17          /* a begin applied again takes its own claim over */
#define M_BLIND     18          /* a begin applied again writes its claim without looking */
#define M_SAMEID    19          /* the next begin of an attempt carries the old attempt id */
#define M_VERDICT   20          /* a begin applied again forgets that its claim was for a probe */
#define M_PASS      21          /* an attempt whose begin met a store error forwards all the same */
#define M_RESEND    22          /* an exchange whose bytes went out may acquire once more */
#define M_TWOCOMMIT 23          /* the doubt is stored first, and the probe acquired after it */
#define M_DROPDOUBT 24          /* a redirect deletes the record although an earlier try is in doubt */
#define M_BORN      25          /* a record may be expired when it is completed */
#define M_LAXAGAIN  26          /* what was released in doubt is run again under any policy */
#define M_DOUBTWASH 27          /* a release clears the doubt of an earlier try */
#define M_TRYWASH   28          /* a later try that was not done undoes the doubt of an earlier one */
#define M_TRYSTRICT 29          /* a second try follows one in doubt under any policy */
#define M_ENDEARLY  30          /* a hold ends while a request may still be on its way */
#define M_COUNTLESS 31          /* the end of a hold is stored, and its count is not */
#define M_AGELESS   32          /* a key that is too old starts a life all the same */
#define M_SHORTLIFE 33          /* a record expires while its key is not yet too old */
#define M_SENDAGAIN 34          /* an exchange whose probe found nothing sends again by itself */
#define M_RECOUNT   35          /* its tries are counted anew after a probe */
#define in_memory (M == M_MEMCLAIM || M == M_MEMRANGE)

#define gw(a) ((a) & 1)         /* the gateway an attempt arrives at */
#define NOBODY 2

/* ---- the store ------------------------------------------------------------------------------- */
mtype = { absent, pending, complete, failed, unknown };
mtype = { none, live, lapsed };                                  /* lease */
mtype = { op_begin, op_complete, op_release, op_settle, op_doubt, op_hold, op_ask, op_lapse,
          op_drop, op_extend };
mtype = { idle, queued, applied, done };                         /* an operation's way */
mtype = { proceed, probe, mismatch, replay, in_progress, outcome_unknown, key_expired, ok, stored, stale,
          error, once_more };

typedef Record {
    mtype status; mtype lease; bit hash; byte token; byte outcome;
    byte next;                  /* the store's token counter */
    bit doubt;                  /* an earlier try may have had its effect; 0 unless DOUBTS */
    bit strict;                 /* its own policy is CHANGE's */
    byte ends;                  /* holds that ended, as counted in the store */
    byte serial;                /* ghost: which acquisition this really is; never repeats */
    bit life                    /* ghost: life of the key, before or after expiry or `forget` */
}
Record dur;                     /* what a crash leaves */
Record rec;                 /* what the open batch has made of it; equal to dur when none is open */
byte batch = NOBODY;            /* the gateway whose transaction holds the row */
#define settled(r) (r.status == complete || r.status == failed)
#define DOUBTS (REDIRECT || CHANGE != 0)

mtype opst[N] = idle; mtype opk[N] = op_begin; mtype res[N] = ok;
byte opout[N];                  /* outcome written, or replayed */
byte tok[N];                    /* token the attempt presents */
byte own[N];                  /* acquisition the attempt lives on, 0: none (ghost, and heartbeat) */
byte claim[N];               /* acquisition this very begin made: stands for the attempt id in it */
bit asks[N];                    /* that claim was for a probe */
bit strict[N];                  /* the rule says CHANGE at this begin */
bit spent[N];                   /* bytes of this exchange went out, and nothing cleared them */
bit ran[N];                     /* ghost: a request of this exchange had its effect */
byte sends[N];                  /* ghost, PROBE: how often this exchange sent */
bit waits[N];                   /* a duplicate that waits, */
bit waitlife[N];                /* ghost: in this life */
byte doubter;                   /* ghost, M_TWOCOMMIT: who stored a doubt and will ask, plus one */
bit trusts[N];                  /* forgotten under a live lease: its own clock still says so */
bit lifeof[N];                  /* life the attempt was decided in */
bit pay[N];
bool busy[N]; bool dead[N];
byte serial; byte faults = F; byte finished;
bit renewed;                    /* the key has begun its second life */
bit aged;                       /* KEYTIME: the key is too old by now */
bit forgotten;                  /* by `forget`, which may leave an owner of the first one */

/* ---- the upstream ---------------------------------------------------------------------------- */
mtype = { unsent, flying, gone };
mtype net[T] = unsent;          /* request of acquisition s */
byte who[T]; byte rtok[T];      /* its attempt, and the Idempotency-Token it carries */
bit rlife[T];                   /* life it was sent in */
bit stern[T];                   /* acquired under CHANGE */
bit mine[T];                    /* ghost: of the exchange that its attempt is in now */
byte ans[T];                    /* its answer, 0: none */
#define PROBED    16       /* the probe's representation of an outcome differs from the first one */
#define DECIDED   32            /* so does the operator's */
#define FAILED    64            /* outcome of a request that had, and will have, no effect */
#define TRANSIENT 200           /* 408, 425, 429, 5xx */
#define REFUSED   201           /* token too old (participant, fence) */
#define ELSEWHERE 202           /* 301, 307, 308 */
byte effects[2]; byte first[2]; /* per life: effect counter, from the last end of a hold on;
                                   outcome of the first effect */
byte effects_ever;              /* ghost, HOLD_ENDS: over all ends */
bit sternly[2];                 /* per life: a request acquired under CHANGE had its effect */
byte memory;                    /* DEDUP: the outcome kept under the key */
byte flights;                   /* how many are flying */
byte seen;                      /* FENCE: highest token seen */

/* ---- what was told --------------------------------------------------------------------------- */
byte told[2];                   /* per life: the outcome told */
byte bound[2];                  /* per life: payload forwarded, plus one */

inline spend() { faults > 0 -> faults-- }

inline persist() {              /* dur = rec */
    dur.status = rec.status; dur.lease = rec.lease; dur.hash = rec.hash; dur.token = rec.token;
    dur.outcome = rec.outcome; dur.next = rec.next; dur.serial = rec.serial; dur.life = rec.life;
    dur.doubt = rec.doubt; dur.strict = rec.strict; dur.ends = rec.ends
}
inline rollback() {             /* rec = dur */
    rec.status = dur.status; rec.lease = dur.lease; rec.hash = dur.hash; rec.token = dur.token;
    rec.outcome = dur.outcome; rec.next = dur.next; rec.serial = dur.serial; rec.life = dur.life;
    rec.doubt = dur.doubt; rec.strict = dur.strict; rec.ends = dur.ends
}

/* A hold that has an end counts as released from then on, and the end is counted in that commit.
 * It is far enough from the last moment somebody may have sent that nothing is on its way. What
 * comes after it is at most one effect more. */
#define hold_is_over(r) (HOLD_ENDS && (flights == 0 || M == M_ENDEARLY) && \
    (r.status == unknown || (r.status == pending && r.lease == lapsed)))
inline end_hold() {
    rec.status = pending; rec.lease = none; rec.doubt = 0;
    rec.ends = (M == M_COUNTLESS -> rec.ends : rec.ends + 1);
    effects[rec.life] = 0
}

/* The record lives on the claim that this same begin, with this attempt id, made before. */
#define claimed(a) (claim[a] != 0 && rec.serial == claim[a] && rec.status == pending && \
                    rec.lease != none)

/* The stricter one of the record's policy and of the rule's at this begin. */
#define repeats(a) ((POLICY == RETRY || POLICY == PART) && !strict[a] && !rec.strict)
#define probes(a) (POLICY == PROBE || (CHANGE == PROBE && strict[a]))
#define holds(a) (!repeats(a) && !probes(a))
/* Whether a begin that meets what was released asks first. */
#define in_question(a) (CHANGE != 0 && rec.doubt && !repeats(a) && M != M_LAXAGAIN)

/* Every acquisition takes a new token ("Words"). */
inline acquire(a, verdict) {
    assert(!claimed(a));                                         /* (g) */
    assert(verdict != proceed || !waits[a] || waitlife[a] == rec.life || forgotten);     /* (i) */
    assert(verdict != probe || doubter == 0 || doubter == a + 1);                        /* (j) */
    assert(!KEYTIME || rec.life == 0 || forgotten);                                      /* (t) */
    doubter = (doubter == a + 1 -> 0 : doubter);
    rec.doubt = (rec.lease == lapsed || verdict == probe -> DOUBTS : rec.doubt);
    rec.strict = (verdict == proceed -> strict[a] : rec.strict || strict[a]);
    serial++;
    assert(serial < T);
    if
    :: M == M_REUSE -> rec.token++
    :: M == M_MEMRANGE -> rec.token = serial
    :: else -> rec.next++; rec.token = rec.next
    fi;
    rec.serial = serial; rec.status = pending; rec.lease = live; rec.hash = pay[a];
    own[a] = serial; claim[a] = serial; tok[a] = rec.token; res[a] = verdict;
    asks[a] = (verdict == probe)
}

/* A begin whose commit answer was lost, applied again: nothing was sent under its token yet, so
 * nobody needs to ask whether it still holds, only whether the claim is still the record's. */
inline resume(a) {
    assert(rec.token == tok[a] || M == M_SAMEID);                /* (g) */
    tok[a] = rec.token; rec.lease = live; own[a] = rec.serial;
    res[a] = ((asks[a] && M != M_VERDICT) -> probe : proceed)
}
inline force(a) {               /* the mutant M_BLIND */
    rec.serial = claim[a]; rec.status = pending; rec.lease = live; rec.hash = pay[a];
    rec.token = tok[a]; rec.next = (rec.next > tok[a] -> rec.next : tok[a]);
    own[a] = claim[a]; res[a] = (asks[a] -> probe : proceed)
}

/* The decision table of "Record and decision", line by line. An exchange that is spent acquires
 * nothing: where the table says proceed or ask, it is told that the outcome is unknown. A key that
 * is too old starts no life; of one that lives its age is not asked. */
#define is_spent(a) (spent[a] && M != M_RESEND)
#define too_old (KEYTIME && aged && M != M_AGELESS)
inline decide(a) {
    lifeof[a] = rec.life;
    if
    :: hold_is_over(rec) && rec.hash == pay[a] && !claimed(a) -> end_hold()
    :: true
    fi;
    if
    :: M == M_BLIND && claim[a] != 0 -> force(a)
    :: claimed(a) && M != M_STRANGER && M != M_NEWTOKEN && M != M_BLIND -> resume(a)
    :: claimed(a) && M == M_NEWTOKEN -> acquire(a, proceed)
    :: else ->
        if
        :: rec.status == absent && is_spent(a) -> res[a] = outcome_unknown
        :: rec.status == absent && !is_spent(a) && too_old -> res[a] = key_expired
        :: rec.status == absent && !is_spent(a) && !too_old -> acquire(a, proceed)
        :: rec.status != absent && rec.hash != pay[a] && !(M == M_HASHLAST && rec.status == pending)
            -> res[a] = mismatch
        :: rec.status != absent && (rec.hash == pay[a] ||
                                    (M == M_HASHLAST && rec.status == pending)) ->
            if
            :: rec.status == failed && M == M_FAILFREE -> acquire(a, proceed)
            :: settled(rec) && !(rec.status == failed && M == M_FAILFREE) ->
                res[a] = replay; opout[a] = rec.outcome
            :: rec.status == unknown && !(probes(a) && !is_spent(a)) -> res[a] = outcome_unknown
            :: rec.status == unknown && probes(a) && !is_spent(a) -> acquire(a, probe)
            :: rec.status == pending && rec.lease == live ->
                assert(!claimed(a));                             /* (g): it would wait for itself */
                res[a] = in_progress
            :: rec.status == pending && rec.lease != live && is_spent(a) &&
               !(holds(a) && (rec.lease == lapsed || in_question(a))) ->
                res[a] = outcome_unknown
            :: rec.status == pending && rec.lease == none && !in_question(a) && !is_spent(a) ->
                acquire(a, proceed)
            :: rec.status == pending && (rec.lease == lapsed ||
                                         (rec.lease == none && in_question(a))) &&
               (!is_spent(a) || holds(a)) ->
                if
                :: repeats(a) -> acquire(a, proceed)
                :: probes(a) -> acquire(a, probe)
                :: holds(a) -> rec.strict = (rec.strict || strict[a]);
                    rec.status = unknown; rec.lease = none; res[a] = outcome_unknown
                fi
            fi
        fi
    fi;
    waits[a] = (res[a] == in_progress);
    waitlife[a] = (res[a] == in_progress && rec.life)
}

/* Invariants 2 and 10: a write with an old token changes nothing, the last owner's late word counts
 * until somebody acquires. A row that `forget` hid may lie there until it is swept, so that only
 * its token keeps the old owner out. */
#define open_to(r, t) (r.token == (t) && (!settled(r) || M == M_REWRITE))
inline write(a) {
    if
    :: opk[a] == op_ask && !claimed(a) -> tok[a] = opout[a]
    :: else
    fi;
    if
    :: opk[a] == op_ask && claimed(a) -> resume(a)               /* applied again */
    :: opk[a] == op_ask && !claimed(a) && open_to(rec, tok[a]) -> acquire(a, probe)
    :: opk[a] == op_ask && !claimed(a) && !open_to(rec, tok[a]) -> res[a] = stale
    :: opk[a] != op_ask && (open_to(rec, tok[a]) || (M == M_NOTOKEN && !settled(rec) && rec.status != absent)) ->
        assert(rec.serial == own[a]);                            /* (c) */
        res[a] = ok;
        if
        :: opk[a] == op_complete -> rec.lease = none; rec.outcome = opout[a]; rec.doubt = 0;
            rec.status = ((opout[a] & FAILED) -> failed : complete)
        :: opk[a] == op_release -> rec.status = pending; rec.lease = none;
            rec.doubt = (M == M_DOUBTWASH -> 0 : rec.doubt)
        :: opk[a] == op_settle -> rec.status = pending; rec.lease = none; rec.doubt = 0
        :: opk[a] == op_doubt && rec.status != unknown ->
            rec.status = pending; rec.lease = none; rec.doubt = DOUBTS
        :: opk[a] == op_doubt && rec.status == unknown -> rec.doubt = DOUBTS
        :: opk[a] == op_hold -> rec.status = unknown; rec.lease = none; rec.doubt = DOUBTS
        :: opk[a] == op_drop && rec.doubt && M != M_DROPDOUBT ->
            rec.status = pending; rec.lease = none
        :: opk[a] == op_drop && (!rec.doubt || M == M_DROPDOUBT) -> /* a token is used up */
            bound[rec.life] = (rec.doubt -> bound[rec.life] : 0);
            rec.next++; rec.token = rec.next; rec.serial = serial; rec.doubt = 0;
            rec.strict = 0; rec.status = absent; rec.lease = none; rec.hash = 0; rec.outcome = 0
        :: opk[a] == op_lapse && rec.status == pending -> rec.lease = lapsed; doubter = a + 1
        :: opk[a] == op_lapse && rec.status == unknown -> skip
        :: opk[a] == op_extend && rec.lease == lapsed -> rec.lease = live
        :: opk[a] == op_extend && rec.lease != lapsed -> skip
        fi
    :: opk[a] != op_ask && !(open_to(rec, tok[a]) ||
                             (M == M_NOTOKEN && !settled(rec) && rec.status != absent)) ->
        if                      /* repeated with the same token: what is stored is the answer */
        :: opk[a] == op_complete && rec.token == tok[a] && settled(rec) ->
            res[a] = stored; opout[a] = rec.outcome
        :: else -> res[a] = stale
        fi
    fi
}

#define takes(a) ((a) < N && opst[a] == queued && gw(a) == g)

/* The batch is over; its fibers are woken, or (`once_more`) it waits to be applied again. */
inline settle(g, verdict) {
    i = 0;
    do
    :: i < N ->
        if
        :: opst[i] == applied && gw(i) == g ->
            if
            :: verdict == once_more -> opst[i] = queued
            :: else -> opst[i] = done
            fi;
            if
            :: verdict == ok
            :: else ->
                if
                :: opk[i] == op_begin -> own[i] = 0
                :: else
                fi;
                res[i] = error
            fi
        :: else
        fi;
        i++
    :: else -> break
    od;
    i = 0; batch = NOBODY
}

/* One committer per gateway: a batch is one transaction (invariant 3). */
proctype Committer(byte g)
{
    byte i;
end:
    do
    :: atomic {
        (batch == NOBODY || batch == g) && (takes(0) || takes(1) || takes(2)) ->
        if
        :: takes(0) -> i = 0
        :: takes(1) -> i = 1
        :: takes(2) -> i = 2
        fi;
        batch = g;
        if
        :: opk[i] == op_begin -> decide(i)
        :: else -> write(i)
        fi;
        opst[i] = applied; i = 0
       }
    :: atomic { batch == g -> persist(); settle(g, ok) }
    :: atomic {                 /* the connection broke: whether it was committed, nobody knows */
        batch == g && faults > 0 -> faults--;
        if
        :: persist()
        :: rollback()
        fi;
        if
        :: settle(g, error)
        :: REAPPLY -> settle(g, once_more)
        fi
       }
    od
}

/* Invariant 6: store time. A lease without heartbeat lapses; a live owner's only by a fault. */
#define beats(a) ((a) < N && own[(a) % N] == dur.serial)
#define released(r) (r.status == pending && r.lease == none)
#define awake(a) ((a) >= N || !waits[(a) % N])
proctype Clock()
{
end:
    do
    :: atomic {
        batch == NOBODY && dur.status == pending && dur.lease == live &&
        (!(beats(0) || beats(1) || beats(2)) || (STALL && faults > 0)) ->
        if
        :: !(beats(0) || beats(1) || beats(2))
        :: else -> faults--
        fi;
        dur.lease = lapsed; rec.lease = lapsed
       }
    :: atomic { batch == NOBODY && hold_is_over(dur) -> end_hold(); persist() }
    :: atomic { KEYTIME && !aged && batch == NOBODY -> aged = 1 }
    :: atomic {               /* expiry deletes the record; the key's next use is a new operation */
        TTL && !renewed && batch == NOBODY && dur.status != absent &&
        (!KEYTIME || aged || M == M_SHORTLIFE) &&               /* as old as its key may be */
        ((awake(0) && awake(1) && awake(2)) || M == M_BORN) && /* kept until who waits was told */
        (settled(dur) || released(dur) || M == M_EXPIREANY) ->
        renewed = 1;
        if
        :: settled(dur) || released(dur) -> rec.life = 1
        :: else                                                  /* the same operation goes on */
        fi;
        if
        :: AMNESIA -> memory = 0
        :: else
        fi;
        rec.status = absent; rec.lease = none; rec.hash = 0; rec.outcome = 0;
        rec.token = 0; rec.doubt = 0; rec.strict = 0; persist()
       }
    od
}

/* Invariant 5: kill -9 of a gateway. Queued operations die with it, an open batch may have made it;
 * requests in flight live on. Restart is immediate: a slow one adds nothing. */
proctype Killer()
{
    byte g; byte i;
end:
    do
    :: atomic {
        faults > 0 && finished < N -> faults--;
        if
        :: g = 0
        :: g = 1
        fi;
        if
        :: batch == g ->
            if
            :: persist()
            :: rollback()
            fi;
            batch = NOBODY
        :: else
        fi;
        i = 0;
        do
        :: i < N ->
            if
            :: gw(i) == g && busy[i] -> dead[i] = true; own[i] = 0; opst[i] = idle
            :: else
            fi;
            i++
        :: else -> break
        od;
        i = 0; g = 0
       }
    od
}

/* ---- the gateway: one fiber per attempt, and its client, who retries until told an outcome --- */
inline submit(a, kind, out) {
    atomic { opk[a] = kind; opout[a] = out; opst[a] = queued; busy[a] = true }
}
#define told_early(a) (opst[a] == applied && \
    (M == M_EARLY || (in_memory && opk[a] == op_begin && res[a] == proceed)))
inline answered(a) {
    atomic { opst[a] == done || told_early(a) -> opst[a] = idle }
}
/* The begin has ended, and with it the life of its attempt id. */
inline begun(a) {
    atomic {
        opst[a] == done || told_early(a) -> opst[a] = idle;
        assert(res[a] != error || claim[a] == 0 || net[claim[a]] == unsent);     /* (f): its 503 */
        asks[a] = 0;
        if
        :: M == M_PASS && res[a] == error && claim[a] != 0 -> own[a] = claim[a]; res[a] = proceed
        :: else
        fi;
        if
        :: M == M_SAMEID
        :: else -> claim[a] = 0
        fi
    }
}
inline forgets(a) {             /* all that an attempt knows */
    own[a] = 0; tok[a] = 0; opout[a] = 0; trusts[a] = 0; asks[a] = 0; busy[a] = false;
    strict[a] = 0;
    if
    :: CHANGE != 0 -> strict[a] = 1                             /* the rule that it comes under */
    :: skip
    fi;
    if
    :: M == M_SAMEID
    :: else -> claim[a] = 0
    fi
}
/* The client was told, or its gateway died: its next request is a new exchange. */
inline new_exchange(a) {
    spent[a] = 0; ran[a] = 0; waits[a] = 0; waitlife[a] = 0; sends[a] = 0; tried = 0;
    doubter = (doubter == a + 1 -> 0 : doubter);
    j = 0;
    do
    :: j < T -> mine[j] = (who[j] == a -> 0 : mine[j]); j++
    :: else -> break
    od;
    j = 0
}
inline tell(a, o) {             /* an outcome leaves for the client */
    assert(!DURABLE || dur.life != lifeof[a] || (dur.outcome == o && settled(dur) &&
           (dur.status == failed) == ((o & FAILED) != 0)));      /* (f) */
    assert(told[lifeof[a]] == 0 || told[lifeof[a]] == o);        /* (b) */
    told[lifeof[a]] = o;
    assert(!ONCE || !(o & FAILED) || effects[lifeof[a]] == 0)    /* (a) */
}
#define conclusive(life) (!QUIET || flights == 0 || first[life] != 0)
#define lease_is_mine(a) (dur.status == pending && dur.lease == live && dur.serial == own[a])
#define doubtful(o) (o == 0 || (o == TRANSIENT && RULE_L && (POLICY == HOLD || POLICY == PROBE)))

#define not_done(o) (o == TRANSIENT && !doubtful(o))
#define may_try(a) (TRIES && POLICY != PART && !tried && net[own[a]] == gone)
#define keeps (doubted && M != M_TRYWASH)
#define may_repeat(a) (repeats(a) || M == M_TRYSTRICT)

proctype Attempt(byte a)
{
    byte o;                     /* the answer in hand */
    byte j;
    bit tried;                  /* a second time in this exchange */
    bit doubted;                /* an earlier try under it may have had its effect */
again:
    atomic { forgets(a); o = 0; doubted = 0 };
    {
        submit(a, op_begin, 0);
        begun(a);
        if
        :: atomic { res[a] == mismatch ->
            assert(REDIRECT || dur.life != lifeof[a] ||          /* (f); a redirect takes it back */
                   (dur.status != absent && dur.hash != pay[a]));
            goto stop }
        :: atomic { res[a] == replay -> tell(a, opout[a]); goto stop }
        :: res[a] == key_expired -> goto stop                   /* another key: another operation */
        :: atomic { res[a] == in_progress -> busy[a] = false };
            !(dur.status == pending && dur.lease == live) -> goto again
        :: atomic { res[a] == in_progress -> busy[a] = false; new_exchange(a) };     /* time over */
            !(dur.status == pending && dur.lease == live) -> goto again
        :: atomic { res[a] == outcome_unknown -> busy[a] = false; new_exchange(a) };
            dur.status != unknown -> goto again
        :: atomic { res[a] == error -> new_exchange(a) };       /* 503, effect not started */
            goto again
        :: res[a] == probe -> goto ask
        :: res[a] == proceed -> skip
        fi;

        /* forward */
    send:
        if
        :: SENDCHECK == 2 && lease_is_mine(a) -> skip
        :: SENDCHECK != 2 -> skip
        :: SENDCHECK == 2 && !lease_is_mine(a) && !keeps -> goto give_back
        :: SENDCHECK == 2 && !lease_is_mine(a) && keeps -> goto doubt
        fi;
        if
        :: atomic { SENDCHECK != 1 || lease_is_mine(a) || trusts[a] ->
            assert(dur.life != lifeof[a] || dur.serial >= own[a] || in_memory);         /* (f) */
            assert(bound[lifeof[a]] == 0 || bound[lifeof[a]] == pay[a] + 1);            /* (d) */
            bound[lifeof[a]] = pay[a] + 1; trusts[a] = 0; rlife[own[a]] = lifeof[a];
            stern[own[a]] = strict[a]; sends[a] = sends[a] + (POLICY == PROBE);
            assert(sends[a] <= 1 + TRIES);                                              /* (n) */
            net[own[a]] = flying; flights++; who[own[a]] = a; rtok[own[a]] = tok[a];
            spent[a] = 1; mine[own[a]] = 1 }
        :: SENDCHECK == 1 && !lease_is_mine(a) && !keeps -> goto give_back /* nothing was sent */
        :: SENDCHECK == 1 && !lease_is_mine(a) && keeps -> goto doubt
        :: atomic { !keeps && faults > 0 -> faults--; goto give_back } /* refused: nothing sent */
        :: atomic { keeps && faults > 0 -> faults--; goto doubt }
        fi;

        /* wait for the answer */
    wait:
        if
        :: atomic { ans[own[a]] != 0 -> o = ans[own[a]]; ans[own[a]] = 0 }
        :: atomic { net[own[a]] == gone && ans[own[a]] == 0 -> o = 0 }     /* connection reset */
        :: atomic { net[own[a]] == flying && faults > 0 -> faults--; o = 0 }       /* timeout */
        :: atomic { dur.status == pending && dur.lease == lapsed && dur.serial == own[a] && STALL };
            submit(a, op_extend, 0);                           /* awake again: the late heartbeat */
            answered(a);
            goto wait
        :: atomic { M == M_CANCEL && faults > 0 -> faults--; goto give_back }
        fi;
        if
        :: atomic { o == REFUSED ->                            /* read what the record says */
            spent[a] = keeps; sends[a] = (sends[a] -> sends[a] - 1 : 0); goto again }
        :: atomic { may_try(a) && (o == TRANSIENT || (o == 0 && may_repeat(a))) ->
            tried = 1; doubted = (o == 0); spent[a] = doubted; o = 0; goto send }
        :: atomic { not_done(o) && !keeps -> spent[a] = 0; sends[a] = 0; tried = 0; goto give_back }
        :: atomic { o == ELSEWHERE && !keeps -> spent[a] = 0; sends[a] = 0; tried = 0 };
            submit(a, op_drop, 0);
            answered(a);
            goto again
        :: doubtful(o) || (keeps && (not_done(o) || o == ELSEWHERE)) ->
    doubt:
            o = 0;
            if
            :: (POLICY == RETRY || POLICY == PART) && !strict[a] -> submit(a, op_doubt, 0)
            :: POLICY == HOLD || (CHANGE == HOLD && strict[a]) -> submit(a, op_hold, 0)
            :: (POLICY == PROBE && M != M_OWNPROBE && M != M_TWOCOMMIT) ||
               (CHANGE == PROBE && strict[a]) -> submit(a, op_ask, tok[a])
            :: POLICY == PROBE && M == M_OWNPROBE -> goto ask
            :: POLICY == PROBE && M == M_TWOCOMMIT -> submit(a, op_lapse, 0)
            fi;
            answered(a);
            if
            :: res[a] == probe -> atomic { claim[a] = 0; asks[a] = 0; goto ask }
            :: atomic { res[a] == ok && M == M_TWOCOMMIT -> spent[a] = 0; sends[a] = 0; goto again }
            :: atomic { res[a] == ok && M != M_TWOCOMMIT -> new_exchange(a); goto again } /* told */
            :: res[a] != ok && res[a] != probe -> goto again
            fi
        :: o != 0 && o != REFUSED && o != TRANSIENT && o != ELSEWHERE -> goto keep
        fi;

    ask:                        /* probe: 2xx is the outcome, 404 releases, all else leaves it */
        if
        :: atomic { conclusive(lifeof[a]) ->
            if
            :: UPSTREAM == FENCE && tok[a] < seen -> goto again
            :: else ->
                if
                :: UPSTREAM == FENCE -> seen = tok[a]
                :: else
                fi;
                o = (first[lifeof[a]] -> first[lifeof[a]] | PROBED : 0)
            fi }
        :: atomic { spend(); new_exchange(a); goto again }       /* it settled nothing: told */
        fi;
        if
        :: o != 0 -> goto keep
        :: else -> skip
        fi;
        submit(a, op_settle, 0);                 /* only this clears what this exchange has sent */
        answered(a);
        atomic {
            if
            :: res[a] != ok || !spent[a]                /* it asked about another one's request */
            :: res[a] == ok && spent[a] && M != M_SENDAGAIN -> new_exchange(a)  /* told: released */
            :: res[a] == ok && spent[a] && M == M_SENDAGAIN -> spent[a] = 0
            :: res[a] == ok && spent[a] && TRIES && !tried -> spent[a] = 0; tried = 1
            :: res[a] == ok && spent[a] && M == M_RECOUNT -> spent[a] = 0; tried = 0
            fi;
            goto again };

    give_back:
        submit(a, op_release, 0);
        answered(a);
        goto again;

    keep:                      /* invariant 3: durable before the first byte of the answer leaves */
        submit(a, op_complete, o);
        answered(a);
        if
        :: atomic { res[a] == ok -> tell(a, o); goto stop }
        :: atomic { res[a] == stored && M != M_STALETELL -> tell(a, opout[a]); goto stop }
        :: atomic { (res[a] == stale || res[a] == stored) && M == M_STALETELL ->
            tell(a, o); goto stop }
        :: res[a] == stale && M != M_STALETELL -> goto again     /* answer what the record says */
        :: res[a] == error && M != M_ERRFREE -> goto keep        /* until ok, stored or stale */
        :: res[a] == error && M == M_ERRFREE -> goto give_back
        fi
    } unless { atomic { dead[a] -> dead[a] = false; new_exchange(a); goto again } };
stop:
    atomic { forgets(a); strict[a] = 0; claim[a] = 0; o = 0; dead[a] = false; new_exchange(a);
             finished++ }
}

/* ---- the upstream ---------------------------------------------------------------------------- */
/* The life that request s belongs to. After an expiry its client's operation goes on, and the late
 * request is that operation's; after `forget` it is what the person chose to forget, and after the
 * end of a hold what its config accepts: a look may find the effect of before, and settle. */
#define of(s) ((forgotten || HOLD_ENDS) -> rlife[s] : lifeof[who[s]])
inline effect(s) {
    effects[of(s)]++;
    sternly[of(s)] = sternly[of(s)] || stern[s];
    assert(effects[of(s)] <= 1 || !sternly[of(s)]);                                      /* (w) */
    effects_ever = effects_ever + HOLD_ENDS;
    assert(!HOLD_ENDS || effects_ever <= 1 + rec.life + rec.ends);                       /* (z) */
    assert(!ONCE || (effects[of(s)] <= 1 && !(told[of(s)] & FAILED)));                  /* (a) */
    assert(!ONCE || !mine[s] || !ran[who[s]]);                                           /* (h) */
    ran[who[s]] = (mine[s] -> 1 : ran[who[s]]);
    if
    :: effects[of(s)] > 2 -> effects[of(s)] = 2
    :: else
    fi;
    if
    :: first[of(s)] == 0 -> first[of(s)] = s
    :: else
    fi
}
inline execute(s) {             /* the answer is s, another one for every execution */
    if
    :: POLICY == PART ->        /* one transaction: check the token, do it, complete the record */
        if
        :: open_to(dur, rtok[s]) ->
            assert(dur.serial == s);                             /* (c) */
            effect(s); ans[s] = s;
            rec.status = complete; rec.lease = none; rec.outcome = s; persist()
        :: else -> ans[s] = REFUSED
        fi
    :: POLICY != PART && UPSTREAM == PLAIN -> effect(s); ans[s] = s
    :: POLICY != PART && UPSTREAM == DEDUP && memory == 0 -> effect(s); memory = s; ans[s] = s
    :: POLICY != PART && UPSTREAM == DEDUP && memory != 0 -> ans[s] = memory
    :: POLICY != PART && UPSTREAM == FENCE && rtok[s] < seen -> ans[s] = REFUSED
    :: POLICY != PART && UPSTREAM == FENCE && rtok[s] >= seen ->
        seen = rtok[s]; effect(s); ans[s] = s
    fi
}
inline refuse(s) {              /* it will not do this: a final 4xx, and no effect */
    ans[s] = s | FAILED;
    if
    :: UPSTREAM == DEDUP && KEEP_NO -> memory = s | FAILED
    :: UPSTREAM == FENCE -> seen = rtok[s]
    :: else
    fi
}
#define may_refuse(s) (FAILS && !(POLICY == PART && !open_to(dur, rtok[s])) && \
    !(UPSTREAM == DEDUP && memory != 0) && !(UPSTREAM == FENCE && rtok[s] < seen))
#define arrives(s) ((s) < T && net[(s) % T] == flying)
#define awaited(s) (own[who[s]] == s)
proctype Upstream()
{
    byte s;
end:
    do
    :: atomic {
        (POLICY != PART || batch == NOBODY) &&
        flights > 0 ->
        if
        :: arrives(1) -> s = 1 :: arrives(2) -> s = 2 :: arrives(3) -> s = 3 :: arrives(4) -> s = 4
        :: arrives(5) -> s = 5 :: arrives(6) -> s = 6 :: arrives(7) -> s = 7 :: arrives(8) -> s = 8
        fi;
        if
        :: execute(s); net[s] = gone
        :: may_refuse(s) -> refuse(s); net[s] = gone
        :: !awaited(s) -> net[s] = gone                          /* never received */
        :: faults > 0 -> faults--; net[s] = gone                /* the same, while somebody waits */
        :: faults > 0 && awaited(s) -> faults--; ans[s] = TRANSIENT; net[s] = gone
        :: REDIRECT && faults > 0 && awaited(s) -> faults--; ans[s] = ELSEWHERE; net[s] = gone
        :: LIES && faults > 0 && awaited(s) -> faults--;
           execute(s); ans[s] = TRANSIENT; net[s] = gone
        :: LIES && faults > 0 && awaited(s) -> faults--; ans[s] = TRANSIENT /* and executes later */
        fi;
        if
        :: net[s] == gone -> flights--
        :: else
        fi;
        if
        :: !awaited(s) -> ans[s] = 0
        :: else
        fi;
        s = 0
       }
    od
}

/* ---- the operator: looks at the upstream, later acts (`pawl keys resolve`, `forget`) --------- */
/* Who holds a live lease by its own clock goes on believing so: nobody tells it of `forget`. */
#define trusting(a) ((a) < N && own[(a) % N] != 0 && own[(a) % N] == dur.serial && \
                     dur.status == pending && dur.lease == live)
inline forget() {
    renewed = 1; forgotten = 1;
    trusts[0] = trusting(0); trusts[1] = trusting(1);
    if
    :: N > 2 -> trusts[2 % N] = trusting(2)
    :: else
    fi;
    if
    :: M == M_KEEPTOKEN
    :: M == M_REUSE -> rec.token = 0
    :: M != M_KEEPTOKEN && M != M_REUSE -> rec.next++; rec.token = rec.next
    fi;
    rec.serial = 0; rec.life = 1; rec.doubt = 0; rec.strict = 0;
    rec.status = absent; rec.lease = none; rec.hash = 0; rec.outcome = 0; persist()
}
proctype Operator()
{
    byte t; byte o;
end:
    do
    :: atomic { OPERATOR && dur.status == unknown && conclusive(dur.life) ->
        t = dur.token;
        o = (first[dur.life] -> first[dur.life] | DECIDED : 0) };
       atomic { batch == NOBODY ->
        if
        :: dur.status == unknown && (dur.token == t || M == M_RESOLVE) ->
            if
            :: o != 0 -> rec.status = complete; rec.outcome = o
            :: o == 0 -> rec.status = pending                    /* released */
            :: o == 0 && FAILS -> rec.status = failed; rec.outcome = FAILED | DECIDED
            fi;
            rec.lease = none; rec.doubt = 0; persist()
        :: else
        fi;
        t = 0; o = 0 }
    :: atomic { FORGET && !renewed && batch == NOBODY && dur.status != absent -> forget() }
    od
}

init {
    atomic {
        dur.status = absent; dur.lease = none; rollback();
        if
        :: pay[N - 1] = 0
        :: OTHER -> pay[N - 1] = 1
        fi;
        run Committer(0); run Committer(1); run Clock(); run Killer(); run Upstream();
        if
        :: OPERATOR || FORGET -> run Operator()
        :: else
        fi;
        run Attempt(0); run Attempt(1);
        if
        :: N > 2 -> run Attempt(2 % N)
        :: else
        fi
    }
}

#ifdef LIVE
ltl answered_all { <> (finished == N) }                          /* (e), with weak fairness */
#endif
