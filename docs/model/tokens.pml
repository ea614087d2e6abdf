/* SPDX-License-Identifier: Apache-2.0
 *
 * Tokens: that those of one key grow over all of its lives. Gateways claim a key that they found
 * absent; a claim is finished, and its record goes (forget, redirect, expiry and sweep), so that a
 * save that was loaded before finds the key absent, as its load did. How to run it: README.md.
 *
 *   load the key | read what counts removals | draw a token
 *   save: lock | look: absent still? | compare what counts removals, and the age of the token | commit
 *   removal: count it, if the record is young | commit
 *   takeover: load the record | draw | it has its version still: commit; it locks no key
 *
 *   claim without a load, one transaction: lock | look: absent? | draw | insert, commit
 *
 * Young is what is among the last W tokens of the store.
 */

/* ---- what is checked: chosen with spin -D ---------------------------------------------------- */
#ifndef GATEWAYS
#define GATEWAYS 3
#endif
#ifndef W
#define W 2                     /* tokens that are young */
#endif
#ifndef PAIRS
#define PAIRS 0                 /* gateways, of these, that claim without a load */
#endif
#ifndef TAKES
#define TAKES 0                 /* takeovers */
#endif
#define TOKENS 6                /* of the store */

/* Mutants: each breaks one rule, and the checker must notice. */
#ifndef M
#define M 0
#endif
#define M_BLIND  1       /* a save does not compare */
#define M_AFTER  2       /* a load reads what counts removals behind its token */
#define M_BEFORE 3       /* a save compares it before it looks at the key */
#define M_LATE   4       /* a removal is counted once it is committed */
#define M_OLD    5       /* a save does not look how old its token is */
#define M_DRAWFIRST 6    /* a claim without a load draws before it locks */
#define M_DRAWLOOK  7    /* behind its lock, and before it looks at the key */

/* Zero: it stands in the assertions, so that the checker names the property that broke. */
byte property_u;

mtype = { idle, loaded, counted, drawn, locked, looked, owns, taking };

byte row;                       /* the token of the key's record; 0: absent */
byte tokens;                    /* the last one that was drawn */
byte removals;
byte locker;                    /* of the key: gateway + 1 */
bit held;                       /* the row, by whoever removes it */
byte high;                      /* ghost: the highest token that the key ever had */
byte uncounted;                 /* M_LATE: removals that are committed */

typedef Gateway {
    mtype phase;
    byte token;
    byte seen                   /* removals, as its load read them */
}
Gateway gate[GATEWAYS];

#define young(token) (token + W > tokens)
#define fits (M == M_BLIND || \
              (removals == gate[i].seen && (young(gate[i].token) || M == M_OLD)))

inline leave() { gate[i].phase = idle; gate[i].token = 0; gate[i].seen = 0 }
inline let_go() { locker = 0; leave() }
inline draw() { tokens++; gate[i].token = tokens }
inline claim() {
    assert(gate[i].token > high || property_u);
    row = gate[i].token;
    high = (row > high -> row : high);
    locker = 0; gate[i].phase = owns; gate[i].seen = 0
}

proctype Claims(byte i) {
end:
    do
    :: d_step { gate[i].phase == idle && tokens < TOKENS && row == 0 -> gate[i].phase = loaded }
    :: d_step { gate[i].phase == loaded && M != M_AFTER ->
            gate[i].seen = removals; gate[i].phase = counted }
    :: d_step { gate[i].phase == counted && M != M_AFTER && tokens < TOKENS ->
            draw(); gate[i].phase = drawn }
    :: d_step { gate[i].phase == loaded && M == M_AFTER && tokens < TOKENS ->
            draw(); gate[i].phase = counted }
    :: d_step { gate[i].phase == counted && M == M_AFTER ->
            gate[i].seen = removals; gate[i].phase = drawn }
    :: d_step { gate[i].phase == drawn && locker == 0 -> locker = i + 1; gate[i].phase = locked }
    :: d_step { gate[i].phase == locked && M != M_BEFORE ->
            if
            :: row == 0 -> gate[i].phase = looked
            :: else -> let_go()                                 /* a conflict */
            fi }
    :: d_step { gate[i].phase == looked && M != M_BEFORE ->
            if
            :: fits -> claim()
            :: else -> let_go()                                 /* a conflict */
            fi }
    :: d_step { gate[i].phase == locked && M == M_BEFORE ->
            if
            :: fits -> gate[i].phase = looked
            :: else -> let_go()
            fi }
    :: d_step { gate[i].phase == looked && M == M_BEFORE ->
            if
            :: row == 0 -> claim()
            :: else -> let_go()
            fi }
    :: d_step { gate[i].phase == owns && row != gate[i].token -> leave() }
    od
}

/* The lock and the insert are of one transaction: whoever inserts a row of the key holds its lock. */
proctype Pairs(byte i) {
end:
    do
    :: d_step { gate[i].phase == idle && tokens < TOKENS ->
            gate[i].phase = (M == M_DRAWFIRST -> drawn : loaded);
            if
            :: M == M_DRAWFIRST -> draw()
            :: else
            fi }
    :: d_step { (gate[i].phase == loaded || gate[i].phase == drawn) && locker == 0 ->
            locker = i + 1; gate[i].phase = locked }
    :: d_step { gate[i].phase == locked && M != M_DRAWLOOK ->
            if
            :: row != 0 -> let_go()                             /* it met a record */
            :: row == 0 -> gate[i].phase = looked
            fi }
    :: d_step { gate[i].phase == locked && M == M_DRAWLOOK ->
            if
            :: tokens < TOKENS -> draw(); gate[i].phase = counted
            :: else -> let_go()
            fi }
    :: d_step { gate[i].phase == looked ->
            if
            :: M == M_DRAWFIRST -> gate[i].phase = counted
            :: M != M_DRAWFIRST && tokens < TOKENS -> draw(); gate[i].phase = counted
            :: else -> let_go()
            fi }
    :: d_step { gate[i].phase == counted ->
            if
            :: row == 0 -> claim()
            :: else -> let_go()
            fi }
    :: d_step { gate[i].phase == owns && row != gate[i].token -> leave() }
    od
}

/* The record goes on under a new token: what was released, or has lapsed. */
proctype Takes() {
    byte seen, token, takes;
    takes = TAKES;
end:
    do
    :: d_step { seen == 0 && row != 0 && takes > 0 -> seen = row; takes-- }
    :: d_step { seen != 0 && token == 0 && tokens < TOKENS -> tokens++; token = tokens }
    :: d_step { token != 0 ->
            if
            :: row == seen && !held ->
                assert(token > high || property_u);
                row = token; high = (row > high -> row : high)
            :: else                                             /* a conflict */
            fi;
            seen = 0; token = 0 }
    od
}

/* Whoever removes: it holds the record, and not the key. The record that it counts is the one that
 * it removes. */
proctype Removes() {
end:
    do
    :: d_step { row != 0 && !held && M != M_LATE ->
            removals = (young(row) -> removals + 1 : removals); held = 1 }
    :: d_step { row != 0 && held -> row = 0; held = 0 }
    :: d_step { row != 0 && M == M_LATE ->
            uncounted = (young(row) -> uncounted + 1 : uncounted); row = 0 }
    :: d_step { uncounted > 0 -> uncounted--; removals++ }
    :: d_step { tokens < TOKENS -> tokens++ }                   /* for another key */
    od
}

init {
    byte n;
    atomic {
        do
        :: n < GATEWAYS ->
            gate[n].phase = idle;
            if
            :: n < GATEWAYS - PAIRS -> run Claims(n)
            :: else -> run Pairs(n)
            fi;
            n++
        :: else -> break
        od;
        n = 0;
        run Removes(); run Takes()
    }
}
