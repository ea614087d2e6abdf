/* SPDX-License-Identifier: Apache-2.0
 *
 * Moved: what the names of a rule are made of (its identity) changes while gateways serve it. Two
 * operations, two identities, two names: the name that one identity gives to an operation is what
 * the other one calls the other operation. How to run it: README.md.
 *
 *   change: look for records | lock, next := new, epoch + 1 | look again | identity := next, epoch + 1
 *                                                                        | or next := none, epoch + 1
 *   load:   look at the name | compare the epoch that it was named by; a response is replayed
 *   save:   lock | compare it again | look at the name again, commit
 *   of another epoch: read the identity; another one, or one that is about to change: 503
 *
 * A change waits for saves that hold their lock, and they for it (src/store/tables/terms.h).
 */

/* ---- what is checked: chosen with spin -D ---------------------------------------------------- */
#ifndef GATEWAYS
#define GATEWAYS 2
#endif
#ifndef CHANGES
#define CHANGES 2               /* reloads to the other identity that are tried */
#endif
#ifndef LIVES
#define LIVES 1                 /* records that go by their time */
#endif

/* Mutants: each breaks one rule, and the checker must notice. */
#ifndef M
#define M 0
#endif
#define M_BLIND  1       /* a save does not compare the epoch */
#define M_BEFORE 2       /* it compares it before it holds its lock */
#define M_UNSEEN 3       /* a change does not look for records */
#define M_ONCE   4       /* a change looks once, and before other gateways know of it */
#define M_POLL   5       /* gateways read the identity now and then, and no save compares */
#define M_OWNER  6       /* the end of an owner compares, too */
#define M_GOES   7       /* a gateway that has another identity goes on under its own */
#define M_EARLY  8       /* a load compares before it looks at the name */
#define M_STALE  9       /* a change ends one that another gateway began anew */

#define NONE 2
#define name_of(operation, made_by) (operation ^ made_by)

/* Zero: they stand in the assertions, so that the checker names the property that broke. */
byte property_a, property_f, property_o;

mtype = { idle, named, looks, loaded, compared, locked, judged, owns, sent };
mtype = { steady, looked, told, sure };

/* The store. */
byte identity;
byte next = NONE;
byte epoch;
byte saves;                     /* that hold their lock */
byte record[2];                 /* by name: operation + 1; 0: absent */
bit done[2];                    /* it has its response */

typedef Gateway {
    byte config;                /* identity */
    byte known;                 /* epoch */
    bit moved;                  /* it answers 503 */
    mtype change;
    byte told_at;               /* the epoch from which on others know of it */
    mtype phase;                /* of the one attempt that it has at a time */
    bit op;
    bit by;                     /* identity that named it */
    byte seen;                  /* whose response its load found: operation + 1; 0: nobody's */
    byte under                  /* epoch that it was named by */
}
Gateway gate[GATEWAYS];
byte changes = CHANGES;
byte lives = LIVES;
byte effects[2];                /* ghost: by operation, since its record last went */

#define its_name name_of(gate[g].op, gate[g].by)
#define fits (M == M_BLIND || M == M_POLL || gate[g].under == epoch)
#define is_empty (record[0] == 0 && record[1] == 0)
#define other (1 - gate[g].config)

inline leave() { gate[g].phase = idle; gate[g].op = 0; gate[g].by = 0;
    gate[g].under = 0; gate[g].seen = 0 }

inline learn() {
    gate[g].known = epoch;
    gate[g].moved = (M != M_GOES && (identity != gate[g].config || next != NONE))
}

inline look() { gate[g].seen = (done[its_name] -> record[its_name] : 0) }

inline refuse() { learn(); leave() }                            /* decided again, or 503 */

inline compare(then) {
    if
    :: fits -> gate[g].phase = then
    :: else -> refuse()
    fi
}

inline adopt() {
    gate[g].config = other; gate[g].known = epoch; gate[g].moved = 0; gate[g].change = steady
}

proctype Serves(byte g) {
end:
    do
    :: d_step { gate[g].phase == idle && !gate[g].moved ->
            gate[g].by = gate[g].config; gate[g].under = gate[g].known; gate[g].op = 0;
            gate[g].phase = named }
    :: d_step { gate[g].phase == idle && !gate[g].moved ->
            gate[g].by = gate[g].config; gate[g].under = gate[g].known; gate[g].op = 1;
            gate[g].phase = named }
    :: d_step { gate[g].phase == named && M != M_EARLY -> look(); gate[g].phase = looks }
    :: d_step { gate[g].phase == looks && M != M_EARLY -> compare(loaded) }
    :: d_step { gate[g].phase == named && M == M_EARLY -> compare(looks) }
    :: d_step { gate[g].phase == looks && M == M_EARLY -> look(); gate[g].phase = loaded }
    :: d_step { gate[g].phase == loaded && gate[g].seen != 0 ->     /* a replay */
            assert(gate[g].seen == gate[g].op + 1 || property_f);
            leave() }
    :: d_step { gate[g].phase == loaded && gate[g].seen == 0 ->
            if
            :: M == M_BEFORE -> compare(compared)
            :: else -> gate[g].phase = compared
            fi }
    :: d_step { gate[g].phase == compared -> saves++; gate[g].phase = locked }
    :: d_step { gate[g].phase == locked ->
            if
            :: M == M_BEFORE || fits -> gate[g].phase = judged
            :: else -> saves--; refuse()
            fi }
    :: d_step { gate[g].phase == judged ->
            saves--;
            if
            :: record[its_name] == 0 ->
                record[its_name] = gate[g].op + 1; done[its_name] = 0; gate[g].phase = owns
            :: else -> leave()                                  /* a conflict: decided again */
            fi }
    :: d_step { gate[g].phase == owns ->
            effects[gate[g].op]++;
            assert(effects[gate[g].op] < 2 || property_a);
            gate[g].phase = sent }
    :: d_step { gate[g].phase == sent ->                        /* the owner's end */
            done[its_name] = (M != M_OWNER || gate[g].under == epoch);
            assert(done[its_name] || property_o);
            leave() }
    :: d_step { M == M_POLL && gate[g].known != epoch -> learn() }
    od
}

/* Nothing is known of a change whose process died but what it has stored. */
proctype Changes(byte g) {
end:
    do
    :: d_step { gate[g].change == steady && changes > 0 ->
            changes--;
            if
            :: identity == other && next == NONE -> adopt()
            :: identity == other && next != NONE && saves == 0 ->   /* begun, and never ended */
                next = NONE; epoch++; adopt()
            :: identity != other && (is_empty || M == M_UNSEEN) ->
                gate[g].change = (M == M_ONCE -> sure : looked)
            :: else                                             /* refused */
            fi }
    :: d_step { gate[g].change == looked && saves == 0 ->
            if
            :: identity != other ->
                next = other; epoch++; gate[g].told_at = epoch; gate[g].change = told
            :: else -> gate[g].change = steady                  /* another one was first */
            fi }
    :: d_step { gate[g].change == told && (is_empty || M == M_UNSEEN) -> gate[g].change = sure }
    :: d_step { gate[g].change == told && !is_empty && M != M_UNSEEN && saves == 0 ->
            if
            :: gate[g].told_at == epoch -> next = NONE; epoch++
            :: else
            fi;
            gate[g].told_at = 0; gate[g].change = steady }
    :: d_step { gate[g].change == told -> gate[g].told_at = 0; gate[g].change = steady }
    :: d_step { gate[g].change == sure && saves == 0 ->
            if
            :: gate[g].told_at == epoch || (M == M_STALE && next == other) || M == M_ONCE ->
                identity = other; next = NONE; epoch++; adopt()
            :: else -> gate[g].change = steady
            fi;
            gate[g].told_at = 0 }
    od
}

/* A record's time is over: its operation may be made again. */
proctype Time() {
end:
    do
    :: d_step { lives > 0 && record[0] != 0 && done[0] ->
            lives--; effects[record[0] - 1] = 0; record[0] = 0; done[0] = 0 }
    :: d_step { lives > 0 && record[1] != 0 && done[1] ->
            lives--; effects[record[1] - 1] = 0; record[1] = 0; done[1] = 0 }
    od
}

init {
    byte n;
    atomic {
        do
        :: n < GATEWAYS -> gate[n].phase = idle; gate[n].change = steady;
            run Serves(n); run Changes(n); n++
        :: else -> break
        od;
        n = 0;
        run Time()
    }
}
