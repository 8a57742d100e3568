/*
 * found.pml - the first start of a cluster (coordinator.md, section 6; coordinator/founding.c): who may found, and that nobody does so twice.
 *
 * Three listed voters, node 0 is the founder. Whatever was said may arrive late, again, at a later life of whom it was meant for, or never. A node may lose its directory (wipe) and comes
 * back blank with another one; the founder may stop at any time. The first value is elected and accepted as publish.pml has it, with terms, votes and directories only.
 *
 * Checked: F1 once a first value is chosen, no other one is as long as one of the nodes that founded has its directory; F2 nobody follows two clusters.
 *
 * Bounds: MAXT terms, MAXW directories lost, MAXC stops of the founder.
 */
#include "seeded.h"
#define N 3
#ifndef MAXT
#define MAXT 2
#endif
#ifndef MAXW
#define MAXW 2
#endif
#ifndef MAXC
#define MAXC 1
#endif
#define MAXF 3
#define BUG_MAJORITY 1        /* blank nodes found by majority */
#define BUG_PROMISEAGAIN 2    /* who promised to one cluster and has no value of it yet promises to another one */
#define BUG_JOINED 3          /* who joined a cluster founds it once more, or promises to whoever does */
#define BUG_PUBFIRST 4        /* the first value goes out before it is on the founder's own disk */
#define CNT(m) (((m)&1)+(((m)>>1)&1)+(((m)>>2)&1))
#define MOST(m) (CNT(m) >= 2)
#define BIT(n) (1<<(n))

/* on disk */
byte dir[N], fmt[N], cur[N], at[N], st[N]; bit jn[N];
/* in memory: of the founder, and the term that a node leads */
bit founded; byte fd[N], lead[N];
/* said: promised to a cluster (by which directories), asked to (by its founder), there is such a cluster */
byte prom[(MAXW+2)*N]; bit asked[MAXW+2], known[MAXW+2];
byte votes[MAXT+1], pub[MAXT+1], acc[MAXT+1];
/* values: of which cluster, of which directories; the one that was chosen */
byte vals, clu[MAXF+1], vdir[(MAXF+1)*N], chosen, wipes, stops;

#define WANTED(c,n) (st[c] != 0 -> vdir[st[c]*N+(n)] : fd[n])
#define IS(c,n) (dir[n] == WANTED(c,n))
#define JOINED(n) (jn[n] && bug != BUG_JOINED)
#define ANYCLUSTER if :: d = 1 :: d = 2 :: d = MAXW+1 fi

inline forget(n) { lead[n] = 0; if :: n == 0 -> founded = 0; fd[0] = 0; fd[1] = 0; fd[2] = 0 :: else fi }
inline take(n, t, v) {
  cur[n] = t; at[n] = t; st[n] = v; known[clu[v]] = 1;
  if :: lead[n] != t -> lead[n] = 0 :: else fi;
  if :: n == 0 && lead[n] == 0 -> forget(n) :: else fi;
  if :: dir[n] == vdir[v*N+n] -> acc[t] = acc[t] | BIT(n) :: else fi;
  if
  :: MOST(acc[t]) ->
     assert(chosen == 0 || chosen == v || (dir[0] != vdir[chosen*N] && dir[1] != vdir[chosen*N+1] && dir[2] != vdir[chosen*N+2]));     /* F1 */
     chosen = v
  :: else
  fi
}

proctype Node(byte n) {
  byte t, d;
  do
  /* blank, and somebody has a value of a cluster: it follows that one */
  :: atomic { fmt[n] == 0 -> ANYCLUSTER; if :: known[d] -> fmt[n] = d; jn[n] = 1 :: else fi; d = 0 }
  /* asked for a promise: a blank node gives it and is of that cluster from then on; one that promised to it and has nothing yet says so again */
  :: atomic { n != 0 -> ANYCLUSTER;
       if
       :: asked[d] && (fmt[n] == 0 || ((fmt[n] == d || bug == BUG_PROMISEAGAIN) && st[n] == 0 && !JOINED(n))) ->
          fmt[n] = d; prom[d*N+n] = prom[d*N+n] | BIT(dir[n])
       :: else
       fi; d = 0 }
  /* stand: who has a value, and the founder once all promised. Its own vote is on its disk */
  :: atomic { lead[n] == 0 && (st[n] != 0 || (n == 0 && founded)) && IS(n,n) && cur[n] < MAXT ->
       t = cur[n]+1; do :: t < MAXT && votes[t] != 0 -> t++ :: else -> break od;
       if :: votes[t] == 0 -> cur[n] = t; lead[n] = t; votes[t] = BIT(n) :: else fi; t = 0 }
  /* a vote: of the same cluster, for nobody who knows less */
  :: atomic { if :: d = 0 :: d = 1 :: d = 2 fi;
       t = lead[d];
       if
       :: d != n && t != 0 && cur[n] < t && fmt[n] == fmt[d] && fmt[n] != 0 ->
          cur[n] = t; lead[n] = 0;
          if :: at[n] <= at[d] && pub[t] == 0 && IS(d,n) -> votes[t] = votes[t] | BIT(n) :: else fi
       :: else
       fi; t = 0; d = 0 }
  /* won: it publishes what it has, or the first value, once that is on its own disk */
  :: atomic { lead[n] != 0 && pub[lead[n]] == 0 && MOST(votes[lead[n]]) && (st[n] != 0 || vals < MAXF) ->
       t = lead[n]; votes[t] = 7;
       if
       :: st[n] != 0 -> pub[t] = st[n]; take(n, t, st[n])
       :: else -> vals++; clu[vals] = fmt[n]; vdir[vals*N] = fd[0]; vdir[vals*N+1] = fd[1]; vdir[vals*N+2] = fd[2]; pub[t] = vals;
          if :: bug == BUG_PUBFIRST :: else -> take(n, t, vals) fi
       fi; t = 0 }
  /* accept it */
  :: atomic { fmt[n] != 0 -> if :: t = 1 :: t = 2 :: t = MAXT fi;
       if
       :: pub[t] != 0 && cur[n] <= t && at[n] < t && clu[pub[t]] == fmt[n] ->
          assert(st[n] == 0 || clu[st[n]] == clu[pub[t]]);               /* F2 */
          take(n, t, pub[t])
       :: else
       fi; t = 0 }
  /* the directory is gone */
  :: atomic { wipes < MAXW && fmt[n] != 0 -> wipes++; dir[n]++; fmt[n] = 0; jn[n] = 0; cur[n] = 0; at[n] = 0; st[n] = 0; forget(n) }
  od
}

proctype Founder() {
  byte d, e;
  do
  /* blank. Others' word that they are blank too proves nothing when it may be old: it is left out here */
  :: atomic { fmt[0] == 0 && !asked[1+dir[0]] -> fmt[0] = 1+dir[0]; asked[fmt[0]] = 1 }
  /* of a cluster that has no value yet, as far as it knows: asks for promises, and counts them with their directories */
  :: atomic { fmt[0] != 0 && st[0] == 0 && !JOINED(0) && !founded ->
       asked[fmt[0]] = 1;
       d = 0; do :: d < MAXW -> d++ :: break od;
       e = 0; do :: e < MAXW -> e++ :: break od;
       if
       :: (prom[fmt[0]*N+1] & BIT(d)) && (prom[fmt[0]*N+2] & BIT(e)) -> founded = 1; fd[0] = dir[0]; fd[1] = d; fd[2] = e
       :: bug == BUG_MAJORITY && (prom[fmt[0]*N+1] & BIT(d)) -> founded = 1; fd[0] = dir[0]; fd[1] = d; fd[2] = e
       :: else
       fi; d = 0; e = 0 }
  :: atomic { stops < MAXC && (founded || lead[0] != 0) -> stops++; forget(0) }
  od
}

init { seed(); atomic { run Founder(); run Node(0); run Node(1); run Node(2) } }
