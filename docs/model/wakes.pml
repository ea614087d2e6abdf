/* SPDX-License-Identifier: Apache-2.0
 *
 * Wakes: a begin waits for a record that another committer of its process ends, since it leads there
 * by its once value, as a bound key, or by a former name. One record; its committer, which claims
 * and ends it; another committer with the begins that lead to it. How to run it: README.md.
 *
 *   begins:  take what was handed over: those that wait are queued | take the queue | load | report:
 *            the record has ended: told; else it waits
 *   record's: save the end, commit | hand it over, where the other one has begins of the kind
 *
 * A begin waits until somebody wakes it: a look at the store now and then is for other processes.
 */

/* ---- what is checked: chosen with spin -D ---------------------------------------------------- */
#ifndef BEGINS
#define BEGINS 2
#endif
#ifndef LIVES
#define LIVES 2                 /* of the record: it goes, and another attempt claims it */
#endif
#ifndef U
#define U 1                     /* saves that end unsure */
#endif

/* Mutants: each breaks one rule, and the checker must notice. */
#ifndef M
#define M 0
#endif
#define M_DIRECT   1     /* whoever ends a record looks through the other one's waiters himself */
#define M_LATEFLAG 2     /* a begin counts as one of the kind once it waits */
#define M_EARLY    3     /* a record is handed over before its end is committed */
#define M_ALREADY  4     /* an end that was unsure, and is found stored, is not handed over */
#define M_DROPS    5     /* what is handed over during a batch is looked at before its report */

mtype = { absent, live, complete };
mtype = { idle, gathered, loaded, ended, unsure };

mtype record;
byte lives = LIVES;
byte unsures = U;
bit late;                       /* an end that was unsure may be done */

typedef Begin { bit queued; bit taken; bit waits; bit told }
Begin begin[BEGINS];
mtype batch;                    /* of the begins' committer */
bit saw_live;
bit inbox;                      /* the record was handed over */
mtype ends;                     /* what the record's committer is about */

#define is_any(field) (begin[0].field || begin[1 % BEGINS].field || begin[BEGINS - 1].field)
/* Whether a record that ends is handed over. */
#define is_wanted (is_any(waits) || (is_any(taken) && M != M_LATEFLAG))

inline wake() {
    n = 0;
    do
    :: n < BEGINS ->
        begin[n].queued = begin[n].queued || begin[n].waits; begin[n].waits = 0; n++
    :: else -> break
    od;
    n = 0
}
inline hand_over() {
    if
    :: M == M_DIRECT -> wake()
    :: M != M_DIRECT && is_wanted -> inbox = 1
    :: else
    fi
}

/* It has no end but to be told. */
proctype Client(byte i) {
    begin[i].queued = 1;
    begin[i].told
}

proctype Begins() {
    byte n;
end:
    do
    :: d_step { batch == idle && inbox -> inbox = 0; wake() }
    :: d_step { M == M_DROPS && batch == loaded && inbox -> inbox = 0; wake() }
    :: d_step { batch == idle && !inbox && is_any(queued) ->
            n = 0;
            do
            :: n < BEGINS -> begin[n].taken = begin[n].queued; begin[n].queued = 0; n++
            :: else -> break
            od;
            n = 0;
            batch = gathered }
    :: d_step { batch == gathered -> saw_live = (record == live); batch = loaded }
    :: d_step { batch == loaded ->
            n = 0;
            do
            :: n < BEGINS ->
                begin[n].waits = begin[n].waits || (begin[n].taken && saw_live);
                begin[n].told = begin[n].told || (begin[n].taken && !saw_live);
                begin[n].taken = 0; n++
            :: else -> break
            od;
            n = 0;
            saw_live = 0; batch = idle }
    od
}

proctype Ends() {
    byte n;
end:
    do
    :: d_step { ends == idle && record != live && lives > 0 ->
            lives--; record = live }
    :: d_step { ends == idle && record == live && M == M_EARLY -> hand_over(); ends = ended }
    :: d_step { ends == ended && record == live && M == M_EARLY -> record = complete; ends = idle }
    :: d_step { ends == idle && record == live && M != M_EARLY -> record = complete; ends = ended }
    :: d_step { ends == ended && M != M_EARLY -> hand_over(); ends = idle }
    /* Unsure: it was committed, or will be, or not; it is repeated until it is sure. */
    :: atomic { ends == idle && record == live && M != M_EARLY && unsures > 0 ->
            unsures--;
            if
            :: record = complete
            :: late = 1
            :: skip
            fi;
            ends = unsure }
    :: d_step { late -> late = 0; record = (record == live -> complete : record) }
    :: d_step { ends == unsure ->
            late = 0;
            ends = (record == complete && M == M_ALREADY -> idle : ended);
            record = complete }
    od
}

init {
    byte n;
    atomic {
        record = live; batch = idle; ends = idle;
        do
        :: n < BEGINS -> run Client(n); n++
        :: else -> break
        od;
        n = 0;
        run Begins(); run Ends()
    }
}
