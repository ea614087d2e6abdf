/* SPDX-License-Identifier: Apache-2.0
 *
 * Beats: how long a lease lasts where its owner's process says "I live" in a row of its own, and
 * writes no record for it. One record, two processes, each with a row; `load` reads a record and
 * its owner's row, `save` compares the record alone: a beat in between is not seen. What is checked
 * is when a first byte may leave. How to run it: README.md.
 *
 *   Process(p): beat ---> row of its incarnation          lease ends at max(until, beat + lease)
 *               start own clock, load, save ---> record   first byte: by its own clock alone
 *
 * Time is what is left of each span, in ticks; a pause of a process is that others move first.
 */

/* ---- what is checked: chosen with spin -D ---------------------------------------------------- */
#ifndef L
#define L 2                     /* a lease, in ticks */
#endif
#ifndef F
#define F 1                     /* faults: a process is killed, and starts again */
#endif
#ifndef JUMP
#define JUMP 0                  /* 1: the store's clock may jump ahead, once */
#endif

/* Mutants: each breaks one rule, and the checker must notice. */
#ifndef M
#define M 0
#endif
#define M_SENDBEAT  1    /* the send check counts from the last beat */
#define M_UNTIL     2    /* the lapse ignores the record's own `lease_until` */
#define M_REVIVE    3    /* a record that was taken over still lives by its first owner's beats */
#define M_ROW       4    /* a process that starts again beats the row of the one that died */
#define M_NOBEAT    5    /* the lapse ignores the beats */
#define M_LATESTART 6    /* the own clock starts when begin returned */
#define M_EXTEND    7    /* an extend does not look whether the record is still its own */

#define ROWS   (2 + F)          /* incarnations */
#define NOBODY ROWS
#define less(x) x = (x > 0 -> x - 1 : 0)

/* Zero: they stand in the assertions, so that the checker names the property that broke. */
byte property_k, property_l, property_m;

mtype = { idle, begins, owns, extends, sent };

typedef Record {
    byte holder;                /* incarnation whose row counts for its lease; NOBODY: released */
    byte token;                 /* whose act's token it bears: p + 1; 0: nobody knows it any more */
    byte until;                 /* left of lease_until */
    byte by                     /* ghost: incarnation that really holds it */
}
Record rec;
byte beat[ROWS];                /* left of beat_at + lease, by incarnation */
bit dead[ROWS];
bit late[ROWS];          /* ghost: it let its beats lapse since it acquired */
byte overdue;                   /* ghost: ticks since the holder died */

typedef Act {                   /* of one process */
    mtype phase;
    byte me;                    /* its incarnation */
    byte clock;                 /* left by its own clock: it may send */
    byte beaten;                /* the same, counted from its last beat: for a mutant */
    bit stale;                  /* what load saw: it is another's now, */
    bit moved;                  /* the record has another version since, */
    byte until                  /* left of the store's time at load, plus a lease */
}
Act act[2];
byte incarnations = 2;
byte faults = F;
bit jumps = JUMP;

#define beats_left (M == M_NOBEAT -> 0 : beat[rec.holder % ROWS])
#define until_left (M == M_UNTIL -> 0 : rec.until)
#define lives (rec.holder != NOBODY && (beats_left > 0 || until_left > 0))
#define mine (rec.token == p + 1)
#define another_version act[0].moved = (act[0].phase == begins || act[0].phase == extends); \
                        act[1].moved = (act[1].phase == begins || act[1].phase == extends)

inline nothing(to) {
    act[p].phase = to; act[p].moved = 0; act[p].stale = 0; act[p].until = 0
}
inline leave() {
    nothing(idle); act[p].clock = 0; act[p].beaten = 0
}

inline free() {
    rec.holder = NOBODY; rec.by = NOBODY; rec.until = 0; rec.token = 0; overdue = 0;
    another_version
}

/* One process, and the one attempt that it has at a time. */
proctype Process(byte p) {
end:
    do
    /* The beat: its own row, and nothing else. */
    :: d_step { beat[act[p].me] < L ->
            beat[act[p].me] = L;
            act[p].beaten = (M == M_SENDBEAT && mine -> L : 0) }

    /* Begin: own clock, load | save. */
    :: d_step { act[p].phase == idle && !lives ->
            act[p].phase = begins; act[p].until = L; act[p].clock = L }
    :: d_step { act[p].phase == begins ->
            if
            :: act[p].moved -> leave()             /* conflict: decides again */
            :: !act[p].moved ->
                /* Who beats in time is not overtaken. */
                assert(rec.holder == NOBODY || dead[rec.by] || late[rec.by] || property_m);
                rec.holder = (M == M_REVIVE && rec.holder != NOBODY -> rec.holder : act[p].me);
                rec.by = act[p].me; late[act[p].me] = (beat[act[p].me] == 0); overdue = 0;
                rec.token = p + 1; rec.until = act[p].until;
                act[p].clock = (M == M_LATESTART -> L : act[p].clock);
                another_version;
                nothing(owns)
            fi }

    /* The first byte of a try, as the last act before the write. */
    :: d_step { act[p].phase == owns &&
            (act[p].clock > 0 || (M == M_SENDBEAT && act[p].beaten > 0)) ->
            assert(mine || property_k);
            act[p].phase = sent }
    :: d_step { act[p].phase == owns && act[p].clock == 0 ->           /* it gives it back */
            if
            :: mine -> free()
            :: else
            fi;
            leave() }

    /* Extend, before another try: own clock, load | save. It renews a lapsed lease, too. */
    :: d_step { (act[p].phase == owns || act[p].phase == sent) ->
            act[p].phase = extends; act[p].until = L; act[p].clock = 0;
            act[p].stale = !mine }
    :: d_step { act[p].phase == extends && act[p].stale && M != M_EXTEND -> leave() } /* stale */
    :: d_step { act[p].phase == extends && (!act[p].stale || M == M_EXTEND) ->
            if
            :: act[p].moved && M != M_EXTEND ->    /* conflict: decides again */
                act[p].moved = 0; act[p].until = L; act[p].stale = !mine
            :: else ->
                rec.until = act[p].until; act[p].clock = act[p].until;
                another_version;
                nothing(owns)
            fi }

    /* Its answer came. */
    :: d_step { act[p].phase == sent ->
            if
            :: mine -> free()
            :: else
            fi;
            leave() }

    /* kill -9, and a new process in its place. */
    :: d_step { faults > 0 ->
            faults--;
            rec.token = (mine -> 0 : rec.token);
            dead[act[p].me] = 1; late[act[p].me] = 0;
            leave();
            if
            :: M == M_ROW                       /* and so the row of the dead one goes on */
            :: else -> act[p].me = incarnations; incarnations++
            fi }
    od
}

/* Time. The own clock is not behind the store's: it started first, and they go at one pace. */
proctype Clock() {
    byte i;
end:
    do
    :: d_step { true ->
            i = 0;
            do
            :: i < ROWS ->
                late[i] = !dead[i] && (late[i] || beat[i] <= 1);
                less(beat[i]);
                i++
            :: else -> break
            od;
            i = 0;
            less(rec.until);
            less(act[0].clock); less(act[0].beaten); less(act[0].until);
            less(act[1].clock); less(act[1].beaten); less(act[1].until);
            overdue = (rec.holder != NOBODY && dead[rec.by] && overdue <= L ->
                       overdue + 1 : overdue);
            /* A lease ends at most one lease after its owner's death. */
            assert(overdue <= L || !lives || property_l) }
    :: d_step { jumps > 0 ->
            jumps--; rec.until = 0; act[0].until = 0; act[1].until = 0;
            i = 0;
            do
            :: i < ROWS -> beat[i] = 0; late[i] = 1; i++
            :: else -> break
            od;
            i = 0 }
    od
}

init {
    atomic {
        rec.holder = NOBODY; rec.by = NOBODY;
        act[0].phase = idle; act[1].phase = idle;
        act[0].me = 0; act[1].me = 1;
        run Process(0); run Process(1); run Clock()
    }
}
