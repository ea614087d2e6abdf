/* SPDX-License-Identifier: Apache-2.0
 *
 * Groups: `load` reads rows without a lock, core decides, `save` compares and writes. The group of
 * an operation is its record and the identity of its `once` value: saved whole or not at all. Two
 * client keys, one once value, three attempts that load and save between each other's. A load reads
 * the rows one by one, as a store without snapshots would (SNAP). How to run it: README.md.
 *
 *   load key | load value, holder | draw a token | save: all as loaded? write all : conflict
 */

/* ---- what is checked: chosen with spin -D ---------------------------------------------------- */
#ifndef ATTEMPTS
#define ATTEMPTS 3
#endif
#ifndef SNAP
#define SNAP 0                  /* 1: a load reads all rows at one moment */
#endif
#ifndef F
#define F 1              /* owners that release, fail, or are redirected: effect not done */
#endif
#ifndef EXP
#define EXP 1                   /* settled records that expire, and are swept */
#endif

/* Mutants: each breaks one rule, and the checker must notice. */
#ifndef M
#define M 0
#endif
#define M_BLIND    1     /* a save does not compare */
#define M_HALVES   2     /* a group is saved row by row: what compares is written */
#define M_KEEP     3     /* after a conflict the same decision is saved against the new rows */
#define M_TOLD     4     /* the result of one group is told to the whole batch */
#define M_TOKEN    5     /* the token is drawn before the load, and not looked at */
#define M_ROWID    6     /* versions begin anew with a row, and its id is not compared */
/* Rules that stand behind another one: taken away alone, the model is clean. */
#define M_EARLY    7     /* the token is drawn before the load; not above the last: a conflict */
#define M_WRITTEN  8     /* only rows that are written are compared */

#define NIL 2                   /* no holder */

/* Zero: they stand in the assertions, so that the checker names the property that broke. */
byte property_a, property_f, property_t, property_u;

mtype = { absent, live, released, complete, failed };
mtype = { idle, read, loaded, owns, done };

typedef Row {
    mtype st;
    byte token;                 /* a row's id is its first token */
    byte id;
    byte version
}
Row rec[2];                     /* by key */
byte holder = NIL;              /* of the value: the key of a record */
byte held_version;
byte tokens;                    /* the store's counter */

typedef Try {
    mtype phase;
    Row own;                    /* as loaded */
    Row other;                  /* the holder's record, where it is another */
    byte holder;
    byte held_version;
    byte drawn;
    byte token
}
Try try[ATTEMPTS];
byte faults = F;
byte expires = EXP;
byte life;                      /* ghost: of the value */
byte effects[3];                /* ghost: by life */

inline copy(to, from) {
    to.st = from.st; to.token = from.token; to.id = from.id; to.version = from.version
}
inline clear(row) { row.st = absent; row.token = 0; row.id = 0; row.version = 0 }
inline changed(row) { row.version++ }

inline leave(to) {
    /* A token that nobody has seen is as if it had not been drawn: fewer states. */
    tokens = (to == idle && try[i].drawn != 0 && try[i].drawn == tokens -> tokens - 1 : tokens);
    try[i].phase = to; try[i].holder = NIL; try[i].held_version = 0; try[i].drawn = 0;
    clear(try[i].own); clear(try[i].other)
}

#define o (1 - k)
#define same(a, b) (a.version == b.version && (a.id == b.id || M == M_ROWID))
#define own_same   (same(rec[k], try[i].own))
#define other_same (try[i].holder != o || same(rec[o], try[i].other))
#define value_same (holder == try[i].holder && held_version == try[i].held_version)
/* Which rows the decision writes: its own always; the value unless it holds it already; the
 * holder's record where that ends with it. */
#define takes_value (try[i].holder != k)
#define ends_holder (try[i].holder == o && try[i].other.st == released)
#define all_same \
    (M == M_BLIND || M == M_KEEP && try[i].token != 0 || \
     (own_same && (other_same || (M == M_WRITTEN && !ends_holder)) && \
      (value_same || (M == M_WRITTEN && !takes_value))))

/* Decided from what was loaded (the contract's table): whether it acquires. */
#define decides_own   (try[i].own.st == absent || try[i].own.st == released)
#define decides_value (try[i].holder == NIL || try[i].holder == k || \
                       try[i].other.st == absent || try[i].other.st == released || \
                       try[i].other.st == failed)
#define acquires (decides_own && decides_value)

inline read_value() {
    try[i].holder = holder; try[i].held_version = held_version;
    if
    :: holder == o -> copy(try[i].other, rec[o])
    :: else
    fi;
    try[i].phase = loaded
}
inline write_own() {
    assert(rec[k].st != live || property_t);
    assert(try[i].drawn > rec[k].token || property_u);
    if
    :: rec[k].st == absent ->
        rec[k].id = try[i].drawn; rec[k].version = (M == M_ROWID -> 1 : tokens)
    :: else -> changed(rec[k])
    fi;
    rec[k].st = live; rec[k].token = try[i].drawn
}
inline write_value() {
    if
    :: takes_value -> holder = k; held_version++
    :: else
    fi
}
inline write_other() {
    if
    :: ends_holder -> clear(rec[o])
    :: else
    fi
}
inline own_it() {
    try[i].token = try[i].drawn;
    assert(rec[k].token == try[i].token || property_f);
    leave(owns)
}

proctype Attempt(byte i; byte k) {
end:
    do
    :: try[i].phase == done -> break
    :: d_step { try[i].phase == idle && (M == M_TOKEN || M == M_EARLY) && try[i].drawn == 0 &&
            tokens < 6 ->
            tokens++; try[i].drawn = tokens }
    :: d_step { try[i].phase == idle && (try[i].drawn != 0 || (M != M_TOKEN && M != M_EARLY)) ->
            copy(try[i].own, rec[k]); try[i].phase = read;
            if :: SNAP -> read_value() :: else fi }
    :: d_step { try[i].phase == read && !SNAP -> read_value() }
    :: d_step { try[i].phase == loaded && !acquires &&
            (try[i].own.st == complete || try[i].own.st == failed) -> leave(done) }  /* replayed */
    :: d_step { try[i].phase == loaded && !acquires && decides_own &&
            try[i].other.st == complete -> leave(done) }                        /* duplicate */
    :: d_step { try[i].phase == loaded && !acquires && (try[i].own.st == live ||
            (decides_own && try[i].other.st == live)) -> leave(idle) }          /* in progress */
    :: d_step { try[i].phase == loaded && acquires && try[i].drawn == 0 ->
            tokens++; try[i].drawn = tokens }
    :: d_step { try[i].phase == loaded && acquires && try[i].drawn != 0 &&
            M != M_TOKEN && try[i].drawn <= try[i].own.token -> leave(idle) }   /* a conflict */
    :: d_step { try[i].phase == loaded && acquires && try[i].drawn != 0 &&
            (M == M_TOKEN || try[i].drawn > try[i].own.token) ->
            if
            :: all_same -> write_own(); write_value(); write_other(); own_it()
            :: !all_same && M == M_HALVES && own_same ->        /* and so it holds no value */
                write_own(); own_it()
            :: !all_same && M == M_KEEP -> try[i].token = 1
            :: !all_same && M == M_TOLD -> own_it()
            :: !all_same && M != M_KEEP && M != M_TOLD && !(M == M_HALVES && own_same) ->
                leave(idle)
            fi }

    /* ---- owner ---- */
    :: d_step { try[i].phase == owns && rec[k].token == try[i].token && rec[k].st == live ->
            effects[life]++;
            assert(effects[life] <= 1 || property_a);
            rec[k].st = complete; changed(rec[k]);
            try[i].token = 0; leave(done) }
    :: d_step { try[i].phase == owns && faults > 0 && rec[k].token == try[i].token &&
            rec[k].st == live ->
            faults--;
            if
            :: rec[k].st = released; changed(rec[k])
            :: rec[k].st = failed; changed(rec[k])
            :: clear(rec[k]);                   /* a redirect: the record goes, with its value */
                if :: holder == k -> holder = NIL; held_version++ :: else fi
            fi;
            try[i].token = 0; leave(idle) }
    :: d_step { try[i].phase == owns && !(rec[k].token == try[i].token && rec[k].st == live) ->
            try[i].token = 0; leave(idle) }
    od
}

/* What is settled expires, and is swept at once: an absent row has nothing to compare but that. */
proctype Sweep() {
end:
    do
    :: d_step { expires > 0 && rec[0].st == complete ->
            expires--; clear(rec[0]);
            if :: holder == 0 -> holder = NIL; held_version++; life++ :: else fi }
    :: d_step { expires > 0 && rec[1].st == complete ->
            expires--; clear(rec[1]);
            if :: holder == 1 -> holder = NIL; held_version++; life++ :: else fi }
    od
}

init {
    byte n;
    atomic {
        rec[0].st = absent; rec[1].st = absent;
        do
        :: n < ATTEMPTS ->
            try[n].phase = idle; try[n].holder = NIL; try[n].own.st = absent;
            try[n].other.st = absent; n++
        :: else -> break
        od;
        n = 0;
        run Attempt(0, 0); run Attempt(1, 1);
        if :: ATTEMPTS > 2 -> run Attempt(2 % ATTEMPTS, 0) :: else fi;
        run Sweep()
    }
}
