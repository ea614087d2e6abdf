/* SPDX-License-Identifier: Apache-2.0
 *
 * Sent: store time without a load. A process estimates it as what the store's clock said in an
 * earlier batch, and what has passed by its own clock since. One record, two processes that claim
 * without a load, and take over with one. What is checked is when a first byte may leave, and how
 * long a dead owner's lease goes on. How to run it: README.md.
 *
 *   batch:    send | the store reads its clock | answer     estimate: what it read + since the sending
 *   claim:    start own clock, lease_until := estimate + lease | insert
 *   takeover: start own clock | load: the store's clock is behind lease_until? | save
 *
 * Time is what is left of each span, in ticks; all clocks go at one pace, so that an estimate stays
 * as far from the store's time as it was. Beats are in beats.pml: here they are late.
 */

/* ---- what is checked: chosen with spin -D ---------------------------------------------------- */
#ifndef L
#define L 3                     /* a lease, in ticks */
#endif
#ifndef R
#define R 2                     /* from a sending to its answer at most, in ticks */
#endif
#ifndef F
#define F 1                     /* processes that are killed */
#endif
#ifndef BYSTORE
#define BYSTORE 0               /* 1: the store adds the lease to its own clock when it inserts */
#endif

/* Mutants: each breaks one rule, and the checker must notice. */
#ifndef M
#define M 0
#endif
#define M_FROMANSWER 1   /* the estimate counts from the answer */
#define M_AHEAD      2   /* a load whose clock is behind the estimate judges by the estimate */
#define M_LATESTART  3   /* the own clock starts when the claim is answered */

/* Zero: they stand in the assertions, so that the checker names the property that broke. */
byte property_k, property_l;

mtype = { idle, claims, loads, saves, owns, sent, dead };

typedef Record {
    byte holder;                /* process + 1; 0: absent */
    byte until                  /* left of lease_until, by the store's clock */
}
Record rec;

typedef Process {
    mtype phase;
    byte ahead;                 /* the estimate is so much more than the store's time, */
    byte behind;                /* or, for a mutant, less */
    byte clock;                 /* left by its own clock: it may send */
    byte until;                 /* left of the lease_until that it writes */
    bit moved                   /* the record has another version since its load */
}
Process process[2];
byte faults = F;
byte overdue;                   /* ghost: ticks since the holder died */

#define mine (rec.holder == p + 1)
#define less(x) x = (x > 0 -> x - 1 : 0)
#define judged_by (M == M_AHEAD -> process[p].ahead : 0)

inline leave() {
    process[p].phase = idle; process[p].clock = 0; process[p].until = 0; process[p].moved = 0
}
inline changed() {
    process[0].moved = (process[0].phase == saves);
    process[1].moved = (process[1].phase == saves);
    overdue = 0
}
inline acquire() {
    rec.holder = p + 1; rec.until = process[p].until; changed();
    process[p].clock = (M == M_LATESTART -> L : process[p].clock);
    process[p].until = 0; process[p].moved = 0; process[p].phase = owns
}
inline give_back() {
    if
    :: mine -> rec.holder = 0; rec.until = 0; changed()
    :: else
    fi;
    leave()
}

proctype Runs(byte p) {
end:
    do
    :: process[p].phase == dead -> break
    /* A batch read the clock: so long behind its sending, and so long before its answer. */
    :: d_step { process[p].phase == idle && process[p].ahead + process[p].behind < R ->
            process[p].ahead++ }
    :: d_step { process[p].phase == idle && process[p].ahead + process[p].behind < R ->
            process[p].behind++ }
    :: d_step { process[p].phase == idle -> process[p].ahead = 0; process[p].behind = 0 }

    /* A claim without a load: decided | inserted. */
    :: d_step { process[p].phase == idle ->
            process[p].clock = L;
            process[p].until = (M == M_FROMANSWER -> L - process[p].behind : L + process[p].ahead);
            process[p].phase = claims }
    :: d_step { process[p].phase == claims ->
            if
            :: rec.holder == 0 ->
                process[p].until = (BYSTORE -> L : process[p].until);
                acquire()
            :: else -> leave()                                  /* it met a record: loads */
            fi }

    /* A takeover: own clock | load | save. */
    :: d_step { process[p].phase == idle && rec.holder != 0 ->
            process[p].clock = L; process[p].phase = loads }
    :: d_step { process[p].phase == loads ->
            if
            :: rec.holder != 0 && rec.until <= judged_by ->
                process[p].until = L + judged_by; process[p].phase = saves
            :: else -> leave()
            fi }
    :: d_step { process[p].phase == saves ->
            if
            :: process[p].moved -> leave()                      /* a conflict */
            :: else -> acquire()
            fi }

    /* The first byte, as the last act before the write; then its answer, or it is too late. */
    :: d_step { process[p].phase == owns && process[p].clock > 0 ->
            assert(mine || property_k);
            process[p].phase = sent }
    :: d_step { process[p].phase == owns && process[p].clock == 0 -> give_back() }
    :: d_step { process[p].phase == sent -> give_back() }

    :: d_step { faults > 0 -> faults--; leave(); process[p].phase = dead }
    od
}

proctype Clock() {
end:
    do
    :: d_step { true ->
            less(rec.until);
            less(process[0].clock); less(process[0].until);
            less(process[1].clock); less(process[1].until);
            overdue = (rec.holder != 0 && process[(rec.holder - 1) % 2].phase == dead &&
                       overdue <= L + R -> overdue + 1 : overdue);
            /* A lease ends at most one lease, and a round trip, after its owner's death. */
            assert(overdue <= L + R || rec.until == 0 || property_l) }
    od
}

init {
    atomic {
        process[0].phase = idle; process[1].phase = idle;
        run Runs(0); run Runs(1); run Clock()
    }
}
