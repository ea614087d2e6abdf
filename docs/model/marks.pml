/* SPDX-License-Identifier: Apache-2.0
 *
 * Marks: how a gateway notices that the store lost what it had acknowledged. Gateways write to
 * a primary; a standby applies what was committed there in order, and may lag. It is promoted while
 * the old primary may go on: from then on each gateway's connections lead to either. How to run it:
 * README.md.
 *
 *   a save, one transaction: the gateway's row is in [low, high]? | write | row := value | commit
 *
 * low is the value of the last save that it saw committed, high that of the last one that it sent:
 * those between were unsure, and each of them may have been the last. Of a row that it did not make
 * yet low is 0, and so is what is read where there is no row.
 *
 * While a stranger holds the row, a save makes another one, and only reads the held one.
 *
 * With TOGETHER they are two sessions of one gateway. Each shows the other what it last saw
 * committed, which a save reads, too: that row, at least that value. What was lacking
 * then is compared no more, and the next save says so: from then on the store is closed. It may say
 * so in vain, where somebody else changes the same: until it is said the session acknowledges
 * nothing, and what it shows stays as it was.
 */

/* ---- what is checked: chosen with spin -D ---------------------------------------------------- */
#ifndef WRITES
#define WRITES 3                /* saves of each gateway */
#endif
#ifndef LAG
#define LAG 2                   /* commits that the standby may lack */
#endif
#ifndef SYNC
#define SYNC 0                  /* a save is acknowledged once the standby has it */
#endif
#ifndef SPLIT
#define SPLIT 1                 /* the old primary goes on */
#endif
#ifndef GATEWAYS
#define GATEWAYS 1
#endif
#ifndef HOLDS
#define HOLDS 0                 /* strangers hold rows, and there are empty saves */
#endif
#ifndef TOGETHER
#define TOGETHER 0              /* two sessions of one gateway */
#endif
#ifndef LIVES
#define LIVES 3                 /* marks of one gateway: at its start, and each new one */
#endif

/* Mutants: each breaks one rule, and the checker must notice. */
#ifndef M
#define M 0
#endif
#define M_BLIND  1       /* a save does not compare */
#define M_LOOK   2       /* it compares what it read before its transaction */
#define M_SHARED 3       /* one row for both gateways */
#define M_SAME   4       /* a save leaves the value as it is */
#define M_APART  5       /* the row is written in a transaction behind that of the save */
#define M_UPSERT 6       /* no row is as good as the right one */
#define M_SURE   7       /* an unsure save does not count as one that may have been committed */
#define M_DONE   8       /* it counts as committed */
#define M_SWEEP  9       /* a mark goes while its gateway writes */
#define M_AWAY   10      /* a gateway that was away longer than its mark is kept compares all the same */
#define M_REUSE  11      /* a gateway that starts again goes on with the mark of the one before */
#define M_HELD   12      /* another mark takes the place of one under which a save is unsure */
#define M_NEWER  13      /* an empty save does not compare the held mark */
#define M_DRAWN  14      /* the store draws the value: at least the last one that was seen is good */
#define M_ALONE  15      /* a session does not compare the other's mark */
#define M_HIDES  16      /* one that notices shows nothing from then on, not only once that is said */
#define M_NEVER  17      /* what it lacked of the other's counts as lost whatever comes later */
#define M_STALE  18      /* the other's mark counts however long that one was away */
#define M_SHOWS  19      /* one that says it in vain shows its new mark */
#define M_ENDS   20      /* one that says it in vain acknowledges */

/* Zero: they stand in the assertions, so that the checker names the property that broke. */
byte property_x, property_y;

mtype = { idle, looked, waits, marks };

typedef Node {
    byte mark[GATEWAYS * LIVES];
    byte drawn;                 /* M_DRAWN */
    byte has[GATEWAYS];         /* ghost: a bit for each save of a gateway */
    byte said[GATEWAYS]         /* ghost: those of which the closed store says that they are lost */
}
Node node[2];
bit promoted;
chan wal = [LAG] of { byte, byte, byte, byte };    /* gateway, row, value, save */

typedef Save {
    byte to; byte row; byte low; byte high; byte value; byte number;
    byte held_row; byte held_low; byte held_high;   /* held_low 0: none is held */
    byte other_row; byte other_low;                 /* 0: none is shown */
    bit tells
}

typedef Gateway {
    mtype phase;
    bit at;                     /* the node that its connections lead to */
    bit away;                   /* for six days it saw no save of its own committed */
    bit old;                    /* its mark is a week old */
    bit good;                   /* M_LOOK */
    byte life;
    byte low;
    byte high;
    byte held_row;
    byte held_low;
    byte held_high;
    byte shown_row;             /* to the other session */
    byte shown_low;
    bit shown_old;              /* six days ago */
    byte lost_row;              /* what the other one showed when this one noticed */
    byte lost_low;
    bit tells;                  /* it noticed, and did not yet see that said */
    bit vain;                   /* its next save says so in vain */
    byte saves;
    byte acked;                 /* ghost: the saves that it saw committed */
    byte excused;               /* ghost: those that it sent before it noticed, or started */
    byte gone;                  /* ghost: before it started, or before the mark that it shows */
    byte told;                  /* ghost: saves that acknowledge nothing, as they say so */
    byte earlier                /* ghost: before it started */
}
Gateway gate[GATEWAYS];
Save save[GATEWAYS];            /* under way */
Save late[GATEWAYS];            /* unsure: done later, or never; number 0: none */

#define row_of(i) (M == M_SHARED -> 0 : i * LIVES + gate[i].life)
#define is_missing(i, n) (((gate[i].acked | gate[i].told) & ~gate[i].excused & ~node[n].has[i]) != 0)
#if TOGETHER
#define other(i) (1 - i)
#else
#define other(i) i
#endif
#define is_missing_shown(i, n) (TOGETHER && ((gate[i].acked | gate[i].told) & ~gate[i].gone & ~node[n].has[i]) != 0)
#define is_missing_unsaid(i, n) \
    ((gate[i].acked & ~gate[i].earlier & ~node[n].has[i] & ~node[n].said[i]) != 0)
/* It may not acknowledge there. */
#define lacks(i, n) \
    (TOGETHER -> is_missing_unsaid(i, n) || \
        (is_missing_unsaid(other(i), n) && !gate[other(i)].shown_old) : is_missing(i, n))
#define fits_other(s) (s.other_low == 0 || node[s.to].mark[s.other_row] >= s.other_low)
#define fits_held(s) \
    (s.held_low == 0 || (node[s.to].mark[s.held_row] >= s.held_low && \
                         node[s.to].mark[s.held_row] <= s.held_high))
#define fits(s) \
    (M == M_BLIND || M == M_LOOK || (M == M_UPSERT && node[s.to].mark[s.row] == 0) || \
     (M == M_DRAWN && node[s.to].mark[s.row] >= s.low) || \
     (node[s.to].mark[s.row] >= s.low && \
      (node[s.to].mark[s.row] <= s.high || M == M_SHARED) && fits_held(s) && fits_other(s)))
/* Behind a commit that the standby has to get: the old primary waits for it, or runs ahead. */
#define may_commit(s) (s.to == 1 || promoted || nfull(wal))

inline commit(i, s) {
    if
    :: M == M_SHARED -> s.value = node[s.to].mark[s.row] + 1
    :: M == M_SAME -> s.value = 1
    :: M == M_DRAWN -> node[s.to].drawn++; s.value = node[s.to].drawn
    :: M == M_APART -> s.value = node[s.to].mark[s.row]
    :: else -> skip
    fi;
    gate[i].old = 0;
    node[s.to].mark[s.row] = s.value;
    node[s.to].has[i] = node[s.to].has[i] | (1 << s.number);
    if
    :: TOGETHER && s.tells ->
        node[s.to].said[i] = gate[i].acked & ~node[s.to].has[i];
        node[s.to].said[other(i)] = gate[other(i)].acked & ~node[s.to].has[other(i)]
    :: else -> skip
    fi;
    if
    :: s.to == 0 && !promoted -> wal!i, s.row, s.value, s.number
    :: else -> skip
    fi
}

inline let_go(i) { gate[i].held_row = 0; gate[i].held_low = 0; gate[i].held_high = 0 }

inline forget_mark(i) {
    gate[i].excused = (2 << gate[i].saves) - 1;
    gate[i].low = 0;
    gate[i].high = 0;
    let_go(i)
}

inline show_mark(i) {
    if
    :: TOGETHER && (!gate[i].tells || M == M_SHOWS) ->
        gate[i].shown_row = row_of(i); gate[i].shown_low = gate[i].low; gate[i].shown_old = 0;
        gate[i].gone = gate[i].excused
    :: else -> skip
    fi
}

/* What the gateway reports to its clients from now on, it has seen committed here. */
inline acknowledge(i, s) {
    if
    :: gate[i].tells && M != M_ENDS -> gate[i].told = gate[i].told | (1 << s.number)
    :: else ->
        assert(!lacks(i, s.to) || property_x);
        gate[i].acked = gate[i].acked | node[s.to].has[i];
        gate[i].told = 0
    fi;
    gate[i].low = s.value;
    gate[i].high = s.value;
    let_go(i);
    show_mark(i);
    if
    :: TOGETHER && s.tells -> gate[i].tells = 0
    :: else -> skip
    fi;
    gate[i].away = 0;
    gate[i].phase = (M == M_APART -> marks : idle)
}

/* The save was rolled back, as a mark is not there: the other session's, or its own. */
inline notice(i, s) {
    if
    :: fits_other(s) ->
        assert(is_missing(i, s.to) || (gate[i].away && M != M_AWAY) || property_y);
        forget_mark(i);
        gate[i].life++;
        gate[i].away = 0;
        gate[i].old = 0
    :: else ->
        assert(is_missing_shown(other(i), s.to) || property_y);
        gate[i].lost_row = s.other_row;
        gate[i].lost_low = (M == M_NEVER -> 255 : s.other_low)
    fi;
    if
    :: M == M_HIDES -> gate[i].shown_row = 0; gate[i].shown_low = 0
    :: else -> skip
    fi;
    gate[i].tells = TOGETHER;
    gate[i].phase = idle
}

/* But what it knows to be lost, and what may have been swept. */
inline compare_other(i) {
    if
    :: TOGETHER && M != M_ALONE && (!gate[other(i)].shown_old || M == M_STALE) &&
        (gate[i].lost_row != gate[other(i)].shown_row || gate[i].lost_low < gate[other(i)].shown_low) ->
        save[i].other_row = gate[other(i)].shown_row;
        save[i].other_low = gate[other(i)].shown_low
    :: else -> save[i].other_row = 0; save[i].other_low = 0
    fi
}

inline compare_mark(i) {
    save[i].to = gate[i].at;
    save[i].row = row_of(i);
    save[i].low = gate[i].low;
    save[i].high = gate[i].high;
    save[i].held_row = gate[i].held_row;
    save[i].held_low = gate[i].held_low;
    save[i].held_high = gate[i].held_high;
    save[i].tells = gate[i].tells && !gate[i].vain;
    gate[i].vain = 0;
    compare_other(i)
}

/* An empty save: what was unsure, and is there, is acknowledged. */
inline see(i) {
    compare_mark(i);
    save[i].held_low = (M == M_NEWER -> 0 : save[i].held_low);
    if
    :: !fits(save[i]) -> notice(i, save[i])
    :: else ->
        assert(!lacks(i, save[i].to) || property_x);
        gate[i].acked = gate[i].acked | node[save[i].to].has[i];
        if
        :: node[save[i].to].mark[save[i].row] > gate[i].low ->
            gate[i].low = node[save[i].to].mark[save[i].row];
            show_mark(i)
        :: else -> skip
        fi
    fi
}

/* A held row in whose place another one came that is not there yet stays the held one. */
inline move(i) {
    if
    :: gate[i].low > 0 ->
        gate[i].held_row = row_of(i);
        gate[i].held_low = gate[i].low;
        gate[i].held_high = gate[i].high
    :: else -> skip
    fi;
    gate[i].life++;
    gate[i].low = 0;
    gate[i].high = 0
}

inline make_save(i) {
    gate[i].saves++;
    compare_mark(i);
    save[i].value = gate[i].saves;
    save[i].number = gate[i].saves
}

inline copy(to_, from_) {
    to_.to = from_.to; to_.row = from_.row; to_.low = from_.low; to_.high = from_.high;
    to_.value = from_.value; to_.number = from_.number;
    to_.held_row = from_.held_row; to_.held_low = from_.held_low;
    to_.held_high = from_.held_high; to_.tells = from_.tells;
    to_.other_row = from_.other_row; to_.other_low = from_.other_low
}

inline drop(s) {
    s.to = 0; s.row = 0; s.low = 0; s.high = 0; s.value = 0; s.number = 0;
    s.held_row = 0; s.held_low = 0; s.held_high = 0; s.tells = 0; s.other_row = 0; s.other_low = 0
}

/* Nobody knows whether it was committed. */
inline doubt(i, s) {
    if
    :: M == M_SURE -> skip
    :: M == M_DONE -> gate[i].low = s.value; gate[i].high = s.value
    :: else -> gate[i].high = s.value
    fi;
    gate[i].phase = idle
}

inline start(i) {
    forget_mark(i);
    gate[i].life = (M == M_REUSE -> gate[i].life : gate[i].life + 1);
    gate[i].shown_row = 0; gate[i].shown_low = 0; gate[i].shown_old = 0;
    gate[i].lost_row = 0; gate[i].lost_low = 0;
    gate[i].tells = 0; gate[i].vain = 0; gate[i].told = 0; gate[i].gone = gate[i].excused; gate[i].earlier = gate[i].excused;
    gate[i].away = 0; gate[i].old = 0; gate[i].phase = idle
}

#define may_save(i) (gate[i].saves < WRITES && gate[i].life < LIVES - 1)

proctype Writes(byte i) {
end:
    do
    /* A response comes. */
    :: d_step { gate[i].phase == idle && may_save(i) && M != M_LOOK &&
            (gate[i].at == 1 || promoted || nfull(wal)) ->
            make_save(i);
            if
            :: !fits(save[i]) -> notice(i, save[i])
            :: fits(save[i]) && SYNC && save[i].to == 0 && !promoted ->
                commit(i, save[i]); gate[i].phase = waits
            :: else -> commit(i, save[i]); acknowledge(i, save[i])
            fi }
    :: d_step { gate[i].phase == waits && empty(wal) && !promoted -> acknowledge(i, save[i]) }
    :: d_step { gate[i].phase == waits -> doubt(i, save[i]) }
    /* Somebody else changes what a save that says so compares. */
    :: d_step { TOGETHER && gate[i].phase == idle && may_save(i) && gate[i].tells -> gate[i].vain = 1 }
    /* None comes: it was not committed, or will be. */
    :: d_step { gate[i].phase == idle && may_save(i) && M != M_LOOK ->
            make_save(i); doubt(i, save[i]);
            if
            :: late[i].number == 0 -> copy(late[i], save[i])
            :: else -> skip
            fi }
    :: d_step { late[i].number != 0 -> drop(late[i]) }
    :: d_step { late[i].number != 0 && may_commit(late[i]) && fits(late[i]) ->
            commit(i, late[i]); drop(late[i]) }
    /* What was unsure is looked at, a stranger holds the row: not for a week. */
    :: d_step { HOLDS && gate[i].phase == idle && may_save(i) && gate[i].low != gate[i].high &&
            !gate[i].away && (gate[i].at == 1 || promoted || !SYNC || empty(wal)) ->
            see(i) }
    :: d_step { HOLDS && gate[i].phase == idle && may_save(i) && gate[i].high > 0 &&
            !gate[i].away && (gate[i].low == gate[i].high || M == M_HELD) ->
            move(i) }
    /* The connection leads elsewhere. */
    :: d_step { gate[i].phase != waits && promoted && gate[i].at == 0 -> gate[i].at = 1 }
    :: d_step { gate[i].phase != waits && promoted && SPLIT && gate[i].at == 1 -> gate[i].at = 0 }
    /* It ends, and starts again: what it knew has gone. */
    :: d_step { may_save(i) && gate[i].saves > 0 && (!TOGETHER || may_save(other(i))) ->
            start(i);
            if
            :: TOGETHER -> start(other(i))
            :: else -> skip
            fi }
    /* A week passes. */
    :: d_step { gate[i].phase == idle && !gate[i].old && may_save(i) ->
            gate[i].away = 1; gate[i].old = 1; gate[i].shown_old = TOGETHER }
    :: d_step { (gate[i].old || M == M_SWEEP) && empty(wal) && node[gate[i].at].mark[row_of(i)] > 0 ->
            node[gate[i].at].mark[row_of(i)] = 0;
            if
            :: gate[i].at == 0 && !promoted -> node[1].mark[row_of(i)] = 0
            :: else -> skip
            fi }
    /* Mutants. */
    :: d_step { M == M_LOOK && gate[i].phase == idle && may_save(i) ->
            gate[i].good = node[gate[i].at].mark[row_of(i)] >= gate[i].low &&
                node[gate[i].at].mark[row_of(i)] <= gate[i].high;
            gate[i].phase = looked }
    :: d_step { M == M_LOOK && gate[i].phase == looked &&
            (gate[i].at == 1 || promoted || nfull(wal)) ->
            make_save(i);
            if
            :: gate[i].good -> commit(i, save[i]); acknowledge(i, save[i])
            :: else -> forget_mark(i); gate[i].life++; gate[i].away = 0; gate[i].old = 0;
                gate[i].phase = idle
            fi;
            gate[i].good = 0 }
    :: d_step { M == M_APART && gate[i].phase == marks &&
            (gate[i].at == 1 || promoted || nfull(wal)) ->
            if
            :: node[gate[i].at].mark[row_of(i)] != gate[i].low -> gate[i].low = 255
            :: else ->
                node[gate[i].at].mark[row_of(i)] = gate[i].saves;
                if
                :: gate[i].at == 0 && !promoted -> wal!i, row_of(i), gate[i].saves, 0
                :: else -> skip
                fi;
                gate[i].low = gate[i].saves
            fi;
            gate[i].high = gate[i].low;
            gate[i].phase = idle }
    od
}

proctype Standby() {
    byte i, row, value, number;
end:
    do
    :: d_step { !promoted && nempty(wal) ->
            wal?i, row, value, number;
            node[1].mark[row] = value;
            node[1].drawn = (M == M_DRAWN -> value : 0);
            node[1].has[i] = node[1].has[i] | (1 << number);
            i = 0; row = 0; value = 0; number = 0 }
    :: d_step { !promoted ->
            promoted = 1;
            do
            :: nempty(wal) -> wal?i, row, value, number
            :: empty(wal) -> break
            od;
            i = 0; row = 0; value = 0; number = 0 }
    od
}

init {
    byte n;
    atomic {
        do
        :: n < GATEWAYS -> gate[n].phase = idle; run Writes(n); n++
        :: else -> break
        od;
        n = 0;
        run Standby()
    }
}
