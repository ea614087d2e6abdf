/* SPDX-License-Identifier: Apache-2.0
 *
 * Tokens: that those of one key grow over all of its lives. Gateways claim a key that they found
 * absent; a claim is finished, and its record goes (forget, redirect, expiry and sweep), so that a
 * save that was loaded before finds the key absent, as its load did. How to run it: README.md.
 *
 *   load the key | read what counts removals | draw a token
 *   save: lock | look: absent still? | compare what counts removals, and the age of the token | commit
 *   removal: count it, if the record is young | commit
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

/* Zero: it stands in the assertions, so that the checker names the property that broke. */
byte property_u;

mtype = { idle, loaded, counted, drawn, locked, looked, owns };

byte row;                       /* the token of the key's record; 0: absent */
byte tokens;                    /* the last one that was drawn */
byte removals;
byte locker;                    /* of the key: gateway + 1 */
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

/* Whoever removes: it holds the record, and not the key. The record that it counts is the one that
 * it removes. */
proctype Removes() {
    bit counts;
end:
    do
    :: d_step { row != 0 && !counts && M != M_LATE ->
            removals = (young(row) -> removals + 1 : removals); counts = 1 }
    :: d_step { row != 0 && counts -> row = 0; counts = 0 }
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
        :: n < GATEWAYS -> gate[n].phase = idle; run Claims(n); n++
        :: else -> break
        od;
        n = 0;
        run Removes()
    }
}
