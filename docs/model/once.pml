/* SPDX-License-Identifier: Apache-2.0
 *
 * `once:` (the contract, "Identity"): a second identity on one route. Two client keys and one once
 * value, three attempts, one store, one upstream, at most F faults in any order. record.pml checks
 * the life of one record under one name: durability, send check, probes, hashes. Here a record may
 * have several names, a value changes hands, and the question is whether its effect still happens
 * once. A step of a process is one committed transaction. How to run it: README.md.
 *
 *   key 0 --.          .-- a value is held by at most one record, a key leads to at most one
 *   key 1 ----> record <-- once value
 */

/* ---- what is checked: chosen with spin -D ---------------------------------------------------- */
#define HOLD  1                 /* `unknown:` */
#define RETRY 2                 /* its upstream dedupes by key, as it must */
#ifndef POLICY
#define POLICY HOLD
#endif
#define REJECT 1                /* `once: {duplicate:}` */
#define REPLAY 2
#ifndef DUP
#define DUP REJECT
#endif
#ifndef F
#define F 2                     /* faults: crash, stall, lost answer, transient answer, 4xx */
#endif
#ifndef OTHER
#define OTHER 0                 /* 1: the second key comes with another payload */
#endif
#ifndef EXP
#define EXP 1                   /* 1: a key and the value may each expire, once */
#endif
#ifndef FORGET
#define FORGET 0                /* 1: `keys forget --force` may hit the holder, once */
#endif
#ifndef OPERATOR
#define OPERATOR 1
#endif

/* Mutants: each breaks one rule, and the checker must notice. */
#ifndef M
#define M 0
#endif
#define M_NODOUBT   1    /* taking over a lapsed record leaves no doubt behind */
#define M_TWOCOMMIT 2    /* key and value are taken in two transactions */
#define M_BLINDKEY  3    /* a released record whose value was taken goes on under its keys */
#define M_DOUBTFREE 4    /* a record released in doubt gives its value away */
#define M_NOBIND    5    /* who is told a holder's answer does not get its key bound */
#define M_DOUBTWASH 6    /* a later not-done answer clears the doubt of an earlier try */
#define M_OPENEND   7    /* the value expires while its record is pending or unknown */
/* Rules that stand behind another one: taken away alone, the model is clean. */
#define M_NOFENCE   8    /* a released record whose value was taken keeps its keys and its token */
#define M_REPROCEED 9    /* an exchange whose bytes are in doubt proceeds again */

#define ATTEMPTS 3
#define SLOTS    6              /* records: three names, three owners */
#define NIL      SLOTS
#define T        12             /* more than the acquisitions that can happen */
#define VALUE    2              /* index of the once value among the names */
#define FINAL_NO 20             /* an answer: its token; a final no: FINAL_NO + token; an */
#define BY_HAND  40             /* operator's: BY_HAND + token */

mtype = { live, lapsed, unknown, released, complete, failed };      /* a record's state; 0: none */
mtype = { idle, owner, expired, sent, done };       /* an attempt; expired: its own clock says so */

typedef Record {
    mtype st;
    byte token;
    bit doubt;
    byte out;                   /* what was stored as its answer */
    byte key;                   /* the key under which it is forwarded */
    bit payload;
}
typedef Try {
    mtype phase;
    byte slot;
    byte token;
    byte life;                  /* of the value, when it was acquired */
    byte key;                   /* forwarded under this one */
    bit spent;                  /* its bytes went out, and nobody knows what became of them */
}
typedef Flight {
    bit lying;                  /* not received yet */
    bit ran;
    byte key;
    byte life;
}

Record rec[SLOTS];
byte name[3];                   /* record of key 0, key 1, the value */
bit bound[2];                   /* payload that the key is compared by */
Try try[ATTEMPTS];
Flight net[T];                  /* by token: each acquisition sends at most once */
byte upstream[2];               /* RETRY: its answer by key; 0: it has none */
byte effects[3];                /* by life of the value */
byte told[2];                   /* by key, in this life of the key */
byte life = 0;
byte token = 1;
byte faults = F;
byte keys_expire = EXP;
byte value_expires = EXP;
byte forgets = FORGET;
byte n, s;

#define at_key     rec[name[k]]
#define holder     rec[name[VALUE]]
#define known      (name[k] != NIL && bound[k] == p)
#define held       (name[VALUE] != NIL)
#define holds      (name[VALUE] == name[k])
#define may_go_on  (!try[i].spent || M == M_REPROCEED)
#define own        rec[try[i].slot]
#define mine       (own.st != 0 && own.token == try[i].token)
#define open_(r)   (r.st == live || r.st == lapsed || r.st == unknown || r.st == released)
/* The key has no record that decides: none, or one that was released and lost its value since. */
#define look_up    (name[k] == NIL || \
                    (known && at_key.st == released && held && !holds && M != M_BLINDKEY))
#define in_doubt   (holder.st == lapsed || \
                    (holder.st == released && holder.doubt && M != M_DOUBTFREE))

/* Rows that nothing leads to any more, and hashes of keys that lead nowhere. */
inline clean() {
    s = 0;
    do
    :: s < SLOTS ->
        if
        :: name[0] != s && name[1] != s && name[2] != s &&
           try[0].slot != s && try[1].slot != s && try[2].slot != s ->
            rec[s].st = 0; rec[s].token = 0; rec[s].doubt = 0; rec[s].out = 0; rec[s].key = 0;
            rec[s].payload = 0
        :: else
        fi;
        s++
    :: else -> break
    od;
    if :: name[0] == NIL -> bound[0] = 0 :: else fi;
    if :: name[1] == NIL -> bound[1] = 0 :: else fi;
    s = 0; n = 0
}

inline leave(to) {
    try[i].phase = to; try[i].slot = NIL; try[i].token = 0; try[i].life = 0; try[i].key = 0;
    clean()
}

inline acquire(r) {
    assert(token < T);
    rec[r].doubt = rec[r].doubt || (rec[r].st == lapsed && M != M_NODOUBT);
    rec[r].st = live; rec[r].token = token; rec[r].out = 0;
    try[i].phase = owner; try[i].slot = r; try[i].token = token; try[i].life = life;
    try[i].key = rec[r].key;
    token++;
    clean()
}

inline first() {
    n = 0;
    do
    :: name[0] == n || name[1] == n || name[2] == n ||
       try[0].slot == n || try[1].slot == n || try[2].slot == n -> n++
    :: else -> break
    od;
    assert(n < SLOTS);
    rec[n].st = 0; rec[n].doubt = 0;
    name[k] = n; bound[k] = p; rec[n].key = k; rec[n].payload = p;
    if :: M != M_TWOCOMMIT -> name[VALUE] = n :: else fi;
    acquire(n)
}

/* The holder ends under all its names; its owner, if one is left, finds no record. */
inline end_holder() {
    s = name[VALUE];
    if :: name[0] == s -> name[0] = NIL :: else fi;
    if :: name[1] == s -> name[1] = NIL :: else fi;
    name[VALUE] = NIL;
    rec[s].st = 0; rec[s].doubt = 0; rec[s].out = 0; rec[s].token = 0
}

inline tell(answer) {
    assert(told[k] == 0 || told[k] == answer);                              /* property (b) */
    told[k] = answer
}

inline finish(state, answer) {
    if
    :: mine && open_(own) ->
        own.st = state; own.doubt = 0; own.out = answer;
        tell(answer);
        leave(done)
    :: mine && !open_(own) -> leave(idle)
    :: else -> try[i].spent = 1; leave(idle)
    fi
}

/* One client and its exchange: begins until it is told something final. */
proctype Attempt(byte i; byte k; bit p) {
    do
    :: try[i].phase == done -> break
    /* 409 outcome_unknown; the client's next request is a new exchange */
    :: atomic { try[i].phase == idle && try[i].spent -> try[i].spent = 0 }

    /* ---- begin: the key's own record ---- */
    :: d_step { try[i].phase == idle && name[k] != NIL && bound[k] != p -> leave(done) }
    :: d_step { try[i].phase == idle && known && (at_key.st == complete || at_key.st == failed) ->
            tell(at_key.out); leave(done) }
    :: d_step { try[i].phase == idle && known && at_key.st == lapsed && POLICY == HOLD ->
            at_key.st = unknown; at_key.doubt = 1 }
    :: d_step { try[i].phase == idle && known && at_key.st == lapsed && POLICY == RETRY &&
            may_go_on -> acquire(name[k]) }
    :: d_step { try[i].phase == idle && known && at_key.st == released && may_go_on &&
            (holds || M == M_BLINDKEY) -> acquire(name[k]) }
    :: d_step { try[i].phase == idle && known && at_key.st == released && may_go_on && !held ->
            name[VALUE] = name[k]; acquire(name[k]) }

    /* ---- begin: the holder of the value ---- */
    :: d_step { try[i].phase == idle && look_up && !held && may_go_on -> first() }
    :: d_step { try[i].phase == idle && look_up && held && holder.st == lapsed && POLICY == HOLD ->
            holder.st = unknown; holder.doubt = 1 }
    :: d_step { try[i].phase == idle && look_up && held && in_doubt && POLICY == RETRY &&
            holder.payload == p && may_go_on ->
            bound[k] = p; name[k] = name[VALUE]; acquire(name[VALUE]) }
    :: d_step { try[i].phase == idle && look_up && held && holder.st == released && !in_doubt &&
            may_go_on ->
            if :: M != M_NOFENCE && M != M_BLINDKEY -> end_holder() :: else fi;
            first() }
    :: d_step { try[i].phase == idle && look_up && held && holder.st == failed && may_go_on ->
            first() }
    :: d_step { try[i].phase == idle && look_up && held && holder.st == complete ->
            if
            :: DUP == REPLAY && holder.payload == p && M == M_NOBIND -> tell(holder.out)
            :: DUP == REPLAY && holder.payload == p && M != M_NOBIND ->
                tell(holder.out); bound[k] = p; name[k] = name[VALUE]
            :: else
            fi;
            leave(done) }

    /* ---- owner ---- */
    :: d_step { M == M_TWOCOMMIT && try[i].phase == owner && name[VALUE] != try[i].slot ->
            if
            :: !held || holder.st == failed -> name[VALUE] = try[i].slot
            :: held && holder.st != failed ->
                if :: mine -> own.st = released :: else fi;
                leave(idle)
            fi }
    :: d_step { try[i].phase == owner && ((mine && own.st == live) || own.st == 0) &&
            (M != M_TWOCOMMIT || name[VALUE] == try[i].slot) ->
            net[try[i].token].lying = 1; net[try[i].token].key = try[i].key;
            net[try[i].token].life = try[i].life;
            try[i].phase = sent }
    :: d_step { try[i].phase == owner && mine && open_(own) && faults > 0 ->  /* nothing was sent */
            faults--; own.st = released; leave(idle) }
    :: d_step { try[i].phase == expired && mine && open_(own) -> own.st = released; leave(idle) }
    :: d_step { (try[i].phase == owner || try[i].phase == expired) && !(mine && open_(own)) ->
            leave(idle) }
    :: d_step { try[i].phase == sent && net[try[i].token].ran ->
            n = try[i].token;
            if :: POLICY == RETRY -> n = upstream[try[i].key] :: else fi;
            finish(complete, n) }
    :: d_step { try[i].phase == sent && net[try[i].token].lying && faults > 0 -> /* not done */
            faults--; net[try[i].token].lying = 0;
            if
            :: mine && open_(own) -> own.st = released; own.doubt = own.doubt && M != M_DOUBTWASH
            :: else
            fi;
            leave(idle) }
    :: d_step { try[i].phase == sent && net[try[i].token].lying && faults > 0 &&
            (POLICY == HOLD || upstream[try[i].key] == 0) ->
            n = 0;
            do                              /* a dedupe upstream has one request of a key at work */
            :: n < T && net[n].lying && n != try[i].token && net[n].key == try[i].key -> break
            :: n == T -> break
            :: else -> n++
            od;
            if
            :: n == T || POLICY == HOLD ->
                faults--; net[try[i].token].lying = 0; n = FINAL_NO + try[i].token;
                if :: POLICY == RETRY -> upstream[try[i].key] = n :: else fi;
                finish(failed, n)
            :: else -> n = 0
            fi }
    :: d_step { try[i].phase == sent && faults > 0 ->                          /* answer lost */
            faults--; try[i].spent = 1;
            if
            :: mine && own.st == live ->
                own.doubt = 1;
                own.st = (POLICY == RETRY -> released : unknown)
            :: else
            fi;
            leave(idle) }
    :: d_step { (try[i].phase == owner || try[i].phase == expired || try[i].phase == sent) &&
            faults > 0 ->                                                           /* crash */
            faults--;
            if :: mine && own.st == live -> own.st = lapsed :: else fi;
            leave(idle) }
    :: d_step { (try[i].phase == owner || try[i].phase == sent) && mine && own.st == live &&
            faults > 0 ->                                                           /* stall */
            faults--; own.st = lapsed;
            if :: try[i].phase == owner -> try[i].phase = expired :: else fi }
    :: d_step { try[i].phase == sent && mine && own.st == lapsed -> own.st = live } /* extend */
    od
}

#define awaited(t) ((try[0].phase == sent && try[0].token == t) || \
                    (try[1].phase == sent && try[1].token == t) || \
                    (try[2].phase == sent && try[2].token == t))

/* One request, by the token that it carries: received sooner or later, or lost. */
proctype Request(byte t) {
end:
    do
    :: d_step { net[t].lying ->
            net[t].lying = 0; net[t].ran = 1;
            if
            :: POLICY == RETRY && upstream[net[t].key] != 0
            :: else ->
                effects[net[t].life]++;
                assert(effects[net[t].life] <= 1);                          /* property (a) */
                if :: POLICY == RETRY -> upstream[net[t].key] = t :: else fi
            fi }
    :: d_step { net[t].lying && faults > 0 && !awaited(t) -> faults--; net[t].lying = 0 }
    od
}

#define flies(t) (net[t].lying && t <= rec[j].token)
#define quiet (!(flies(1) || flies(2) || flies(3) || flies(4) || flies(5) || flies(6) || flies(7) || \
                 flies(8) || flies(9) || flies(10) || flies(11)))

/* An operator settles what is unknown, once nothing is on its way any more, by what the service did. */
proctype Operator(byte j) {
end:
    do
    :: d_step { OPERATOR && rec[j].st == unknown && quiet ->
            rec[j].doubt = 0;
            if
            :: effects[life] > 0 ->
                rec[j].st = complete;
                rec[j].out = (net[rec[j].token].ran -> rec[j].token : BY_HAND + rec[j].token)
            :: else -> rec[j].st = released
            fi }
    od
}

/* Expiry, and `keys forget`. */
proctype Others() {
end:
    do
    :: d_step { keys_expire > 0 && name[0] != NIL &&
            (rec[name[0]].st == complete || rec[name[0]].st == failed) ->
            keys_expire--; name[0] = NIL; told[0] = 0; clean() }
    :: d_step { keys_expire > 0 && name[1] != NIL &&
            (rec[name[1]].st == complete || rec[name[1]].st == failed) ->
            keys_expire--; name[1] = NIL; told[1] = 0; clean() }
    :: d_step { value_expires > 0 && held && (holder.st == complete ||
            (M == M_OPENEND && (holder.st == live || holder.st == lapsed ||
                                holder.st == unknown))) ->
            value_expires--; name[VALUE] = NIL; life++; clean() }
    :: d_step { forgets > 0 && held ->
            forgets--; life++;
            if :: name[0] == name[VALUE] -> told[0] = 0 :: else fi;
            if :: name[1] == name[VALUE] -> told[1] = 0 :: else fi;
            end_holder(); clean() }
    od
}

init {
    atomic {
        name[0] = NIL; name[1] = NIL; name[VALUE] = NIL;
        n = 0;
        do
        :: n < ATTEMPTS -> try[n].phase = idle; try[n].slot = NIL; n++
        :: else -> break
        od;
        n = 1;
        do
        :: n < T -> run Request(n); n++
        :: else -> break
        od;
        n = 0;
        do
        :: n < SLOTS -> run Operator(n); n++
        :: else -> break
        od;
        n = 0;
        run Attempt(0, 0, 0);
        run Attempt(1, 1, OTHER);
        run Attempt(2, 0, 0);
        run Others()
    }
}
