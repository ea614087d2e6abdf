/* SPDX-License-Identifier: Apache-2.0
 *
 * Unsure commits: `save` did not come back, and nobody knows whether it was done, nor whether it
 * still will be. One key, two attempts whose process lives and beats (a lease that nobody looks
 * after never lapses), an operator. A step is one load or one save; a client may leave at any time.
 * How to run it: README.md.
 *
 *   queued --load--> decided --save--> ok: told     conflict: load again
 *     |                          `---> unsure: applied again, whoever has left; then released
 *     `--- client leaves: withdrawn
 */

/* ---- what is checked: chosen with spin -D ---------------------------------------------------- */
#ifndef U
#define U 2                     /* saves that end unsure */
#endif
#ifndef LATE
#define LATE 1                  /* 1: what was unsure may be done later, unless the row has moved */
#endif
#ifndef STALL
#define STALL 1                 /* leases that lapse although the owner lives */
#endif
#ifndef EXP
#define EXP 1                   /* records that expire */
#endif
#ifndef FORGETS
#define FORGETS 1               /* 1: an operator forgets what is settled, once, naming no token */
#endif

/* Mutants: each breaks one rule, and the checker must notice. */
#ifndef M
#define M 0
#endif
#define M_WITHDRAW  1    /* an unsure begin may be withdrawn */
#define M_LOOK      2    /* whose client has left is looked at, and not applied again */
#define M_KEEP      3    /* and what it acquired then is not released */
#define M_ANYBODYS  4    /* and whoever's lease stands there is released */
#define M_DONE      5    /* unsure is told as done */
#define M_NEWID     6    /* applied again under a new attempt id */
#define M_EXPIRED   7    /* a finish that is repeated after the record expired is stale */
#define M_ACT       8    /* an operator's act carries no attempt id */
#define M_SWEEP     9    /* what has expired is swept while a save of it is unsure */

#define NONE  2                 /* nobody's */
#define OPER  2                 /* the operator, among the attempts */

/* Zero: they stand in the assertions, so that the checker names the property that broke. */
byte property_n, property_o, property_p, property_q, property_r, property_s;

mtype = { absent, live, lapsed, released, complete };
mtype = { queued, decided, unsure, owns, finishes, gives, done };

typedef Row {
    mtype st;
    byte id;                    /* the attempt id of its claim: an attempt; NONE: of another */
    byte renewed;               /* acquisitions so far: the token, and the version with `st` */
    bit gone                    /* it has expired, and still lies there */
}
Row row;

typedef Act {
    mtype phase;
    mtype writes;               /* what the save makes of the row; absent: it writes nothing */
    bit moved;                  /* the row has another version since the load */
    bit left;                   /* its client has */
    bit open;                   /* a save of it was unsure: it may stand there */
    bit stranger;               /* M_NEWID: the claim that stands there bears another id */
    byte token;
    bit stored                  /* ghost: its outcome was */
}
Act act[2];

/* What was unsure and is still on its way: the write, as it was decided. */
typedef Late { bit is; mtype writes; byte id; bit moved }
Late late[2];

byte unsures = U;
byte stalls = STALL;
byte expires = EXP;
byte forgets = FORGETS;
bit forget_open;                /* the operator's act was unsure */
byte forgot;                    /* ghost: what it has forgotten */
bit audited;                    /* its attempt id stands in the audit */
byte swept = NONE;              /* ghost: whose expired record was */

#define gone_ (row.st == absent || row.gone)
#define my_token (row.id == i && row.renewed == act[i].token)
#define claimed (row.id == i && !act[i].stranger && (row.st == live || row.st == lapsed))

inline touched() {
    act[0].moved = 1; act[1].moved = 1; late[0].moved = 1; late[1].moved = 1
}

/* What the save of attempt `a` does to the row, now or late. */
inline write(a, what) {
    if
    :: what == live && row.id == a && (row.st == live || row.st == lapsed) &&
       !act[a].stranger ->
        row.st = live                                   /* its own claim, found again */
    :: what == live && !(row.id == a && (row.st == live || row.st == lapsed) &&
       !act[a].stranger) ->
        assert(row.id != a || (row.st != live && row.st != lapsed) || property_p);
        row.st = live; row.id = a; row.gone = 0; row.renewed++
    :: what == complete -> row.st = complete; act[a].stored = 1
    :: what == released -> row.st = released
    fi;
    touched()
}

inline settle() {               /* the save was done */
    write(i, act[i].writes);
    act[i].token = (act[i].writes == live -> row.renewed : act[i].token)
}
inline after() {
    act[i].phase = (act[i].writes == live -> (act[i].left -> gives : owns) : done);
    act[i].open = 0; act[i].writes = absent
}
/* It has ended: nobody looks after what it holds any more. */
inline end_() {
    assert(!(row.id == i && (row.st == live || row.st == lapsed)) || property_n);
    act[i].phase = done; act[i].left = 0; act[i].open = 0; act[i].token = 0;
    act[i].writes = absent; act[i].moved = 0; act[i].stranger = 0
}

proctype Attempt(byte i) {
    do
    :: act[i].phase == done -> break

    /* The client leaves. Only what is surely nowhere is withdrawn. */
    :: d_step { act[i].phase == queued && (!act[i].open || M == M_WITHDRAW) -> end_() }
    :: d_step { (act[i].phase == queued || act[i].phase == decided) && !act[i].left ->
            act[i].left = 1 }

    /* ---- begin ---- */
    :: d_step { act[i].phase == queued && M == M_LOOK && act[i].open && act[i].left && !claimed ->
            end_() }
    :: d_step { act[i].phase == queued && (claimed || gone_ || row.st == released ||
                                           row.st == lapsed) ->
            act[i].phase = decided; act[i].writes = live; act[i].moved = 0 }
    :: d_step { act[i].phase == queued && row.st == complete && !row.gone -> end_() } /* replayed */
    :: d_step { act[i].phase == queued && row.st == live && !claimed -> end_() } /* in progress */

    /* ---- owner ---- */
    :: d_step { act[i].phase == owns -> act[i].phase = finishes }
    :: d_step { act[i].phase == finishes && my_token && row.st != complete ->
            act[i].phase = decided; act[i].writes = complete; act[i].moved = 0 }
    :: d_step { act[i].phase == finishes && my_token && row.st == complete &&
            !(M == M_EXPIRED && row.gone) -> end_() }                           /* already: told */
    :: d_step { act[i].phase == finishes && (!my_token || (M == M_EXPIRED && row.gone)) ->
            assert(!((my_token || swept == i) && act[i].stored) || property_q);
            end_() }                                                            /* stale */

    /* ---- whose client has left gives back what it holds under its own attempt id ---- */
    :: d_step { act[i].phase == gives && M == M_KEEP -> end_() }
    :: d_step { act[i].phase == gives && M != M_KEEP && my_token && row.st != released ->
            act[i].phase = decided; act[i].writes = released; act[i].moved = 0 }
    :: d_step { act[i].phase == gives && M == M_ANYBODYS && row.st == live && !my_token ->
            act[i].phase = decided; act[i].writes = released; act[i].moved = 0 }
    :: d_step { act[i].phase == gives && M != M_KEEP && (!my_token || row.st == released) &&
            !(M == M_ANYBODYS && row.st == live) -> end_() }

    /* ---- save ---- */
    :: d_step { act[i].phase == decided && act[i].moved ->                      /* conflict */
            act[i].phase = (act[i].writes == live -> queued :
                           (act[i].writes == complete -> finishes : gives));
            act[i].writes = absent }
    :: d_step { act[i].phase == decided && !act[i].moved ->                     /* ok */
            assert(act[i].writes != released || row.id == i || property_r);
            settle();
            if
            :: act[i].writes == live -> after()
            :: else -> end_()
            fi }
    :: atomic { act[i].phase == decided && !act[i].moved && unsures > 0 ->      /* unsure */
            unsures--; act[i].open = 1;
            if
            :: settle()
            :: skip
            :: LATE && !late[0].is ->
                late[0].is = 1; late[0].writes = act[i].writes; late[0].id = i; late[0].moved = 0
            :: LATE && late[0].is && !late[1].is ->
                late[1].is = 1; late[1].writes = act[i].writes; late[1].id = i; late[1].moved = 0
            fi;
            act[i].stranger = (M == M_NEWID && act[i].writes == live);
            if
            :: M == M_DONE ->
                act[i].token = (act[i].writes == live -> row.renewed + !my_token : act[i].token);
                act[i].phase = unsure
            :: else ->
                act[i].phase = (act[i].writes == live -> queued :
                               (act[i].writes == complete -> finishes : gives));
                act[i].writes = absent
            fi }
    :: d_step { act[i].phase == unsure ->                                       /* M_DONE */
            assert(row.renewed >= act[i].token || act[i].writes != live || property_o);
            assert(act[i].stored || act[i].writes != complete || property_o);
            after() }
    od
}

/* What was unsure is done after all: the store compares as it would have then. */
proctype Landing(byte l) {
end:
    do
    :: d_step { late[l].is && !late[l].moved ->
            late[l].is = 0;
            write(late[l].id, late[l].writes);
            assert(row.id != late[l].id || act[late[l].id].phase != done ||
                   !(row.st == live || row.st == lapsed) || property_n);
            late[l].writes = absent; late[l].id = 0; late[l].moved = 0 }
    :: d_step { late[l].is ->                                                   /* it never was */
            late[l].is = 0; late[l].writes = absent; late[l].id = 0; late[l].moved = 0 }
    od
}

/* Leases that lapse, records that expire; another's request makes the key's next record. An
 * operator forgets a settled record, whatever its token, and has it done again while unsure. */
proctype Others() {
end:
    do
    :: d_step { stalls > 0 && row.st == live -> stalls--; row.st = lapsed; touched() }
    :: d_step { expires > 0 && row.st == complete && !row.gone -> expires--; row.gone = 1 }
    :: d_step { row.gone && row.st == complete && ((!act[0].open && !act[1].open) || M == M_SWEEP) ->
            swept = row.id; row.st = absent; row.id = NONE; row.gone = 0; touched() }
    :: d_step { (forgot > 0 || row.gone) && gone_ && row.renewed < 6 ->
            row.st = complete; row.id = NONE; row.gone = 0; row.renewed++; touched() }
    :: atomic { forgets > 0 && row.st == complete && !row.gone &&
            !(forget_open && audited && M != M_ACT) ->
            if
            :: true -> row.st = absent; row.id = NONE; forgot++; audited = 1; forgets = 0;
                forget_open = 0; touched()
            :: unsures > 0 -> unsures--; row.st = absent; row.id = NONE; forgot++; audited = 1;
                forget_open = 1; touched()
            :: unsures > 0 -> unsures--; forget_open = 1
            fi;
            assert(forgot <= 1 || property_s) }
    od
}

init {
    atomic {
        row.st = absent; row.id = NONE;
        act[0].phase = queued; act[1].phase = queued;
        act[0].writes = absent; act[1].writes = absent;
        late[0].writes = absent; late[1].writes = absent;
        run Attempt(0); run Attempt(1); run Landing(0); run Landing(1); run Others()
    }
}
