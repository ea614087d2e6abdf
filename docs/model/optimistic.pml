/* SPDX-License-Identifier: Apache-2.0
 *
 * Optimistic claims: a begin of which nothing is known is saved without a load. One key, attempts
 * each of a committer of its own, which has a mark; beside them whoever binds the key to another
 * record, holds its lock for a moment, settles its record, removes it, or changes what names are
 * made of. Tokens are in tokens.pml, time in sent.pml. How to run it: README.md.
 *
 *   claim: lock, hold the terms | compare them, look: absent? | insert, mark, commit
 *     |      `- held by another: load     `- it leads somewhere: load
 *     `- unsure: write the mark, then load; what is not there then never will be
 *   load: settled: replayed | another's: in progress | its own: owns | absent: save
 *   save: lock | as it was loaded? insert, mark, commit | locked: in progress
 *
 * A lock is of a transaction, and ends with it; each step sees what was committed before it.
 */

/* ---- what is checked: chosen with spin -D ---------------------------------------------------- */
#ifndef ATTEMPTS
#define ATTEMPTS 2
#endif
#ifndef U
#define U 1                     /* claims without a load that end unsure */
#endif
#ifndef GOES
#define GOES 2                  /* records, and bound keys, that go */
#endif
#ifndef EPOCHS
#define EPOCHS 1                /* changes of what names are made of */
#endif

/* Mutants: each breaks one rule, and the checker must notice. */
#ifndef M
#define M 0
#endif
#define M_ONESTATEMENT 1 /* lock and look are one statement, whose look is older than its lock */
#define M_LOCKEDISTOLD 2 /* a claim whose lock is held is told as in progress */
#define M_UNHELD       3 /* a claim does not hold the terms that it compares */
#define M_UNFENCED     4 /* behind what was unsure the mark is not written before the load, */
#define M_FENCELAST    5 /* or behind it */
#define M_EXACT        6 /* the mark has to be as it was last seen committed */
#define M_BLINDMARK    7 /* a claim without a load does not compare it */
#define M_ASKED        8 /* what was asked for is counted, and not what was written */
/* A rule that stands behind another one: taken away alone, the model is clean. */
#define M_REPEATED     9 /* what was unsure is claimed without a load again, behind its mark */

#define NONE 7                  /* nobody's */
#define STRANGER 8              /* among those who lock */
#define BINDER 9

/* Zero: they stand in the assertions, so that the checker names the property that broke. */
byte property_a, property_b, property_c, property_i, property_m, property_n, property_y;

mtype = { absent, live, complete };
mtype = { away, queued, sent, locked, inserts, unsure, loads, decided, saves, owns, ends, done };

/* The store. */
mtype row;
byte by = NONE;                 /* whose claim it is */
bit bound;                      /* the key leads to another's record, which is complete */
byte locker = NONE;             /* of the key */
byte holds;                     /* transactions that hold the terms */
byte epoch;                     /* of the terms */
byte mark[ATTEMPTS];
byte pending;                   /* as the committers count it */

typedef Act {
    mtype phase;
    byte under;                 /* epoch that it was decided under */
    bit again;                  /* it is to load */
    bit open;                   /* a claim of it was unsure, and its mark not written since */
    bit moved;                  /* something went since its load */
    byte low;                   /* the mark as last seen committed, */
    byte high;                  /* and as last sent */
    byte life;                  /* ghost: of the key, when it was claimed */
    bit steady                  /* ghost: since it came the key was settled */
}
Act act[ATTEMPTS];

/* What was unsure and is still on its way; it may be in the middle, and hold its locks. */
typedef Late { bit is; bit holds; byte under; byte low; byte high }
Late late[ATTEMPTS];

byte unsures = U;
byte goes = GOES;
byte epochs = EPOCHS;
byte resolves = 1;              /* by an operator */
bit binds;                      /* somebody has loaded the key, to bind it */
bit binds_moved;
byte life;                      /* ghost: of the key */
byte effects[GOES + ATTEMPTS + 1];

#define settled (row == complete || bound)
#define is_free (row == absent && !bound)
#define marked(i, low, high) \
    (mark[i] >= low && (M == M_EXACT -> mark[i] == low : mark[i] <= high))

inline leave(i) {
    act[i].phase = done; act[i].again = 0; act[i].open = 0; act[i].moved = 0; act[i].under = 0;
    act[i].steady = 0
}
/* It has ended: nobody looks after what it holds any more. */
inline end_(i) {
    assert(!(row == live && by == i) || property_n);
    if
    :: M == M_FENCELAST && act[i].open -> act[i].phase = ends
    :: else -> leave(i)
    fi
}
inline told_in_progress(i) {
    assert(!act[i].steady || property_i);
    end_(i)
}
inline unlock(who) { locker = (locker == who -> NONE : locker) }
inline release_terms() { holds = (M == M_UNHELD -> holds : holds - 1) }
inline went() {
    byte n;
    n = 0;
    do
    :: n < ATTEMPTS -> act[n].moved = (act[n].phase == decided || act[n].phase == saves);
        act[n].steady = 0; n++
    :: else -> break
    od;
    n = 0;
    binds_moved = binds
}
inline go() { row = absent; by = NONE; life++; went() }
inline count(n) {
    pending = pending + n;
    assert(pending == (row == live) || property_c)
}
/* The claim of `i` is committed. */
inline insert(i, was_under) {
    assert(was_under == epoch || property_m);
    row = live; by = i; act[i].life = life;
    assert(!bound || property_b)
}

proctype Attempt(byte i) {
    do
    :: act[i].phase == done -> break
    :: d_step { act[i].phase == away -> act[i].steady = settled; act[i].phase = queued }

    /* ---- a claim without a load: one transaction ---- */
    :: d_step { act[i].phase == queued && !act[i].again && M != M_ONESTATEMENT ->
            act[i].phase = sent }
    :: d_step { act[i].phase == queued && !act[i].again && M == M_ONESTATEMENT ->
            if
            :: act[i].under == epoch && is_free -> act[i].phase = sent
            :: else -> act[i].again = 1; act[i].under = epoch
            fi }
    :: d_step { act[i].phase == queued && act[i].again -> act[i].phase = loads }
    :: d_step { act[i].phase == sent && locker != NONE ->
            if
            :: M == M_LOCKEDISTOLD -> told_in_progress(i)
            :: else -> act[i].again = 1; act[i].phase = loads
            fi }
    :: d_step { act[i].phase == sent && locker == NONE ->
            locker = i; holds = (M == M_UNHELD -> 0 : holds + 1);
            act[i].phase = (M == M_ONESTATEMENT -> inserts : locked) }
    :: d_step { act[i].phase == locked ->
            if
            :: act[i].under == epoch && is_free -> act[i].phase = inserts
            :: else ->
                unlock(i); release_terms(); act[i].again = 1; act[i].under = epoch;
                act[i].phase = loads;
                if
                :: M == M_ASKED -> count(1)
                :: else
                fi
            fi }
    :: d_step { act[i].phase == inserts && row != absent ->             /* M_ONESTATEMENT */
            unlock(i); release_terms(); act[i].again = 1; act[i].phase = loads }
    :: d_step { act[i].phase == inserts && row == absent ->
            assert(marked(i, act[i].low, act[i].high) || property_y);
            insert(i, act[i].under); count(1);
            act[i].high++; mark[i] = act[i].high; act[i].low = act[i].high;
            unlock(i); release_terms();
            act[i].phase = owns }
    /* No response comes: it was committed, was not, or will be. */
    :: atomic { act[i].phase == inserts && row == absent && unsures > 0 ->
            unsures--; act[i].high++; act[i].open = 1; act[i].again = 1;
            if
            :: insert(i, act[i].under); count(1); mark[i] = act[i].high;
                unlock(i); release_terms()
            :: unlock(i); release_terms()
            :: late[i].is = 1; late[i].under = act[i].under; late[i].low = act[i].low;
                late[i].high = act[i].high;
                if
                :: late[i].holds = 1
                :: unlock(i); release_terms()
                fi
            fi;
            act[i].phase = (M == M_FENCELAST || M == M_UNFENCED -> loads : unsure) }
    /* The mark is written: it waits for a transaction that has written it. */
    :: d_step { act[i].phase == unsure || act[i].phase == ends ->
            assert(marked(i, act[i].low, act[i].high) || property_y);
            act[i].high++; mark[i] = act[i].high; act[i].low = act[i].high; act[i].open = 0;
            if
            :: act[i].phase == ends -> leave(i)
            :: act[i].phase == unsure && M == M_REPEATED -> act[i].again = 0; act[i].phase = queued
            :: else -> act[i].phase = loads
            fi }

    /* ---- load, save ---- */
    :: d_step { act[i].phase == loads ->
            act[i].under = epoch; act[i].moved = 0;
            if
            :: settled -> end_(i)                                       /* replayed */
            :: row == live && by == i -> act[i].phase = owns
            :: row == live && by != i -> told_in_progress(i)
            :: is_free -> act[i].phase = decided
            fi }
    :: d_step { act[i].phase == decided -> end_(i) }                    /* its client has left */
    :: d_step { act[i].phase == decided && locker != NONE -> told_in_progress(i) }
    :: d_step { act[i].phase == decided && locker == NONE ->
            locker = i; holds++; act[i].phase = saves }
    :: d_step { act[i].phase == saves ->
            if
            :: is_free && !act[i].moved && act[i].under == epoch ->
                assert(marked(i, act[i].low, act[i].high) || property_y);
                insert(i, act[i].under); count(1);
                act[i].high++; mark[i] = act[i].high; act[i].low = act[i].high;
                act[i].open = 0; act[i].phase = owns
            :: else -> act[i].phase = loads                             /* a conflict */
            fi;
            unlock(i); holds-- }

    /* ---- owner ---- */
    :: d_step { act[i].phase == owns ->
            effects[act[i].life]++;
            assert(effects[act[i].life] <= 1 || property_a);
            /* A finish compares the row's version, token, status and owner. */
            if
            :: row == live && by == i -> row = complete; by = NONE; count(-1)
            :: else
            fi;
            if
            :: M == M_ASKED -> assert(pending == (row == live) || property_c)
            :: else
            fi;
            leave(i) }
    :: d_step { act[i].phase == owns && row == live && by == i && goes > 0 ->   /* redirected */
            goes--; go(); count(-1); leave(i) }
    od
}

/* What was unsure is done after all, as a whole: it compares as it would have then. */
proctype Landing(byte i) {
end:
    do
    :: d_step { late[i].is && (late[i].holds || locker == NONE) && is_free &&
            late[i].under == epoch &&
            (marked(i, late[i].low, late[i].high - 1) || M == M_BLINDMARK) ->
            insert(i, late[i].under); count(1); mark[i] = late[i].high;
            assert(act[i].phase != done || property_n);
            if
            :: late[i].holds -> unlock(i); release_terms()
            :: else
            fi;
            late[i].is = 0; late[i].holds = 0; late[i].under = 0; late[i].low = 0;
            late[i].high = 0 }
    :: d_step { late[i].is ->                                           /* it never was */
            if
            :: late[i].holds -> unlock(i); release_terms()
            :: else
            fi;
            late[i].is = 0; late[i].holds = 0; late[i].under = 0; late[i].low = 0;
            late[i].high = 0 }
    od
}

proctype Others() {
end:
    do
    /* An operator settles what runs; what is settled goes. */
    :: d_step { resolves > 0 && row == live -> resolves--; row = complete; by = NONE; count(-1) }
    :: d_step { goes > 0 && row == complete -> goes--; go() }
    :: d_step { goes > 0 && bound -> goes--; bound = 0; life++; went() }
    /* Load, lock, save: the key leads to the record of a once value from now on. */
    :: d_step { !binds && is_free && locker != BINDER -> binds = 1; binds_moved = 0 }
    :: d_step { binds && locker == NONE -> locker = BINDER }
    :: d_step { binds && locker == BINDER ->
            if
            :: is_free && !binds_moved -> bound = 1
            :: else                                                     /* a conflict */
            fi;
            assert(!(bound && row != absent) || property_b);
            locker = NONE; binds = 0; binds_moved = 0 }
    /* An application's transaction that ends without a record, or a gateway's with a replay. */
    :: d_step { locker == NONE -> locker = STRANGER }
    :: d_step { locker == STRANGER -> locker = NONE }
    /* Whoever changes the terms waits for those that hold them; no record is left then. */
    :: d_step { epochs > 0 && holds == 0 && is_free -> epochs--; epoch++ }
    od
}

init {
    byte n;
    atomic {
        row = absent;
        do
        :: n < ATTEMPTS -> act[n].phase = away; run Attempt(n); run Landing(n); n++
        :: else -> break
        od;
        n = 0;
        run Others()
    }
}
