/* SPDX-License-Identifier: Apache-2.0
 *
 * `unknown: participant`: the upstream completes the record in the transaction that holds the
 * effect. One key, two gateways' attempts, the participant's transactions, and an application that
 * begins and completes the same key by itself. What the participant stored is provisional: the
 * gateway may fill in headers and body, once, as long as nobody was told. A step is one load or one
 * save; a transaction that is open locks the key, and a save that meets it is told `locked`.
 * How to run it: README.md.
 *
 *   pending --participant commits--> provisional --gateway fills in--> frozen
 *                                         `--- replay (lapsed), release, doubt ------------^
 *   released --participant commits-----------------------------------> frozen
 */

/* ---- what is checked: chosen with spin -D ---------------------------------------------------- */
#ifndef ATTEMPTS
#define ATTEMPTS 2
#endif
#ifndef F
#define F 2                     /* faults: lost answer, 503, killed gateway, stall, rollback */
#endif
#ifndef APP
#define APP 1                   /* 1: an application's transaction may have the key, once */
#endif

/* Mutants: each breaks one rule, and the checker must notice. */
#ifndef M
#define M 0
#endif
#define M_FILLAFTER 1    /* a fill-in after a replay */
#define M_NOFREEZE  2    /* a replay of what is provisional does not freeze it */
#define M_DELETES   3    /* the gateway's release deletes what the participant stored */
#define M_TOLDEARLY 4    /* a replay is told although its freeze met a conflict */
#define M_TAKEOVER  5    /* what is provisional and lapsed is taken over, as what is pending */
#define M_OVERRIDES 6    /* where the status differs, the gateway's answer is stored */
#define M_LOCKED    7    /* a save that met a lock counts as saved */
#define M_CHECK     8    /* the participant looks at its token before it locks the row */
/* A rule that stands behind another one: taken away alone, the model is clean. */
#define M_UNFROZEN  9    /* the gateway's release or doubt leaves it provisional, though given up */

#define P  20            /* outcomes, by token: the participant's status and nothing more, */
#define FF 40            /* the same, filled in, */
#define D  60            /* an answer of another status */

#define FREE 100         /* nobody's transaction */
#define APPLICATION 101
#define T (F + 5)

/* Zero: they stand in the assertions, so that the checker names the property that broke. */
byte property_a, property_b, property_f, property_v;

mtype = { absent, pending, complete };
mtype = { idle, loaded, owns, sent, fills, gives, done };
mtype = { none, live, lapsed };
mtype = { acquire, freeze };
mtype = { nowhere, flying, inside, committed, ended };

typedef Row {
    mtype st;
    mtype lease;
    byte token;
    byte version;
    byte outcome;
    bit provisional
}
Row row;
byte lock = FREE;               /* the token whose transaction holds the row */
byte tokens;

typedef Try {
    mtype phase;
    mtype does;                 /* decided */
    byte token;
    byte version;               /* as loaded */
    byte outcome
}
Try try[ATTEMPTS];
typedef Request { mtype st; bit checked; bit differs }
Request net[T];                 /* by token */
byte faults = F;
bit app = APP;

byte effects;                   /* ghost */
byte told;                      /* ghost: the outcome that was told */

#define my try[i]
#define mine (row.token == my.token)
#define given_up (row.lease != live)

inline changed() { row.version++ }
inline tell(what) {
    assert((row.st == complete && row.outcome == what) || property_f);
    assert(told == 0 || told == what || property_b);
    assert(what < D || property_v);
    told = what
}
inline leave(to) {
    my.phase = to; my.does = 0; my.token = 0; my.version = 0; my.outcome = 0
}

proctype Attempt(byte i) {
    do
    :: my.phase == done -> break

    /* ---- begin: load, decide ---- */
    :: d_step { my.phase == idle && (row.st == absent || (row.st == pending && given_up)) ->
            my.phase = loaded; my.does = acquire; my.version = row.version }
    :: d_step { my.phase == idle && row.st == complete && !row.provisional ->
            tell(row.outcome); leave(done) }
    :: d_step { my.phase == idle && row.st == complete && row.provisional && given_up &&
            M != M_TAKEOVER ->
            my.phase = loaded; my.does = freeze; my.version = row.version;
            my.outcome = row.outcome }
    :: d_step { my.phase == idle && row.st == complete && row.provisional && given_up &&
            M == M_TAKEOVER ->
            my.phase = loaded; my.does = acquire; my.version = row.version }
    /* ---- save: locked is in progress, a conflict is decided again ---- */
    :: d_step { my.phase == loaded && lock != FREE && !(M == M_LOCKED && my.does == acquire) ->
            leave(idle) }
    :: d_step { my.phase == loaded && lock == FREE && row.version != my.version ->
            if
            :: M == M_TOLDEARLY && my.does == freeze ->
                assert(told == 0 || told == my.outcome || property_b);
                told = my.outcome; leave(done)
            :: else -> leave(idle)
            fi }
    :: d_step { my.phase == loaded && my.does == acquire &&
            ((lock == FREE && row.version == my.version) || (lock != FREE && M == M_LOCKED)) ->
            tokens++;
            assert(tokens < T);
            if
            :: lock == FREE ->
                row.st = pending; row.lease = live; row.token = tokens; row.outcome = 0;
                row.provisional = 0; changed()
            :: else
            fi;
            my.token = tokens; my.does = 0; my.version = 0; my.phase = owns }
    :: d_step { my.phase == loaded && my.does == freeze && lock == FREE &&
            row.version == my.version ->
            if
            :: M != M_NOFREEZE && M != M_FILLAFTER -> row.provisional = 0; changed()
            :: M == M_FILLAFTER -> changed()
            :: else
            fi;
            tell(row.outcome); leave(done) }

    /* ---- owner ---- */
    :: d_step { my.phase == owns ->
            assert(row.token >= my.token || property_f);
            net[my.token].st = flying; my.phase = sent }
    :: d_step { my.phase == sent && net[my.token].st == committed ->
            my.outcome = FF + my.token; my.phase = fills }
    :: d_step { my.phase == sent && net[my.token].st == committed && faults > 0 ->
            faults--; my.outcome = D + my.token; my.phase = fills }             /* another status */
    :: d_step { my.phase == sent && net[my.token].st == ended -> leave(idle) }  /* refused: token */
    :: d_step { my.phase == sent && faults > 0 -> faults--; my.phase = gives }  /* 503; no answer */
    :: d_step { my.phase == fills && lock == FREE && mine && row.st == complete &&
            row.provisional ->
            if
            :: my.outcome < D || M == M_OVERRIDES -> row.outcome = my.outcome
            :: else
            fi;
            row.provisional = 0; row.lease = none; changed();
            tell(row.outcome); leave(done) }
    :: d_step { my.phase == fills && lock == FREE && mine && row.st == complete &&
            !row.provisional -> tell(row.outcome); leave(done) }                /* already */
    :: d_step { my.phase == fills && lock == FREE && !(mine && row.st == complete) ->
            leave(idle) }                                                       /* stale */

    /* Release and doubt: repeated while the row is locked. */
    :: d_step { my.phase == gives && lock == FREE ->
            if
            :: mine && row.st == pending && row.lease != none -> row.lease = none; changed()
            :: mine && row.st == complete && row.provisional && M == M_DELETES ->
                row.st = pending; row.lease = none; row.outcome = 0; row.provisional = 0; changed()
            :: mine && row.st == complete && row.provisional && M != M_DELETES ->
                row.provisional = (M == M_UNFROZEN); row.lease = none; changed()
            :: else
            fi;
            leave(idle) }

    /* Killed: its lease lapses later. */
    :: d_step { my.phase != idle && my.phase != done && faults > 0 -> faults--; leave(idle) }
    od
}

#define beaten(a) (try[a].token == row.token && try[a].token != 0)

/* A lease lapses freely once its owner is gone, and as a fault while it lives. */
proctype Clock() {
end:
    do
    :: d_step { row.lease == live && !beaten(0) && !beaten(1) -> row.lease = lapsed }
    :: d_step { row.lease == live && (beaten(0) || beaten(1)) && faults > 0 ->
            faults--; row.lease = lapsed }
    od
}

#define open_for(t) (row.token == (t) && row.st == pending)

/* The participant's transaction for the request of token t: lock, look at the token; effect and
 * outcome together, or nothing. Where the gateway has given up nobody is left to fill it in. */
proctype Participant(byte t) {
end:
    do
    :: d_step { net[t].st == flying && M == M_CHECK && !net[t].checked && open_for(t) ->
            net[t].checked = 1 }
    :: d_step { net[t].st == flying && lock == FREE && (open_for(t) || net[t].checked) &&
            (M != M_CHECK || net[t].checked) ->
            lock = t; net[t].st = inside }
    :: d_step { net[t].st == flying && lock == FREE && !open_for(t) && !net[t].checked ->
            net[t].st = (row.token == t && row.st == complete -> committed : ended) }
    :: d_step { net[t].st == inside ->
            effects++;
            assert(effects <= 1 || property_a);
            row.st = complete; row.outcome = P + t; row.provisional = (row.lease != none);
            changed(); lock = FREE; net[t].st = committed }
    :: d_step { net[t].st == inside && faults > 0 ->                            /* rolled back */
            faults--; lock = FREE; net[t].st = ended }
    od
}

/* An application that begins the key in its own transaction: where there is no record, and nobody
 * else at it. Its outcome is whole at once. */
proctype Application() {
end:
    do
    :: d_step { app && lock == FREE && row.st == absent -> app = 0; lock = APPLICATION }
    :: d_step { lock == APPLICATION ->
            effects++;
            assert(effects <= 1 || property_a);
            tokens++; row.st = complete; row.lease = none; row.token = tokens; changed();
            row.outcome = FF + tokens; row.provisional = 0; lock = FREE }
    :: d_step { lock == APPLICATION -> lock = FREE }                            /* rolled back */
    od
}

init {
    byte n;
    atomic {
        row.st = absent; row.lease = none;
        do
        :: n < ATTEMPTS -> try[n].phase = idle; n++
        :: else -> break
        od;
        n = 0;
        do
        :: n < T -> net[n].st = nowhere; n++
        :: else -> break
        od;
        n = 1;
        do
        :: n < T -> run Participant(n); n++
        :: else -> break
        od;
        n = 0;
        run Attempt(0); run Attempt(1); run Clock(); run Application()
    }
}
