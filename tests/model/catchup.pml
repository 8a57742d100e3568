/*
 * catchup.pml - a voter that is behind: publications by delta, changes and whole values that were committed, the one pending delta, and restarts (coordinator.md, section 5; coordinator/publish.c,
 * coordinator/catchup.c).
 *
 * A value is a set of updates; its content stands for the state hash, its (term, version) is only a name: a new coordinator publishes what it had accepted once more under its own. Every voter
 * keeps its committed value and at most one accepted delta on it. What was said is a set: it arrives late, again, out of order, or never; what anybody has committed may be sent by
 * somebody at any later time. A whole value is on the disk only after a while, in which heartbeats go on. COMMIT records are lazy: a restart may know less.
 *
 * Checked: C1 what is committed anywhere is one chain, and C2 every value that is published later holds it (in terms not older); C3 nobody's committed value goes back or sideways, but for a restart
 * that forgets one step; C4 a delta leads to the content that was meant; C5 a version that was committed is one content.
 *
 * Bounds: MAXT terms (node 0 stands in the first, node MAXT-1 in the last: symmetry), MAXV versions, MAXREBOOT.
 */
#include "seeded.h"
#define N 3
#ifndef MAXT
#define MAXT 2
#endif
#ifndef MAXV
#define MAXV 3
#endif
#ifndef MAXREBOOT
#define MAXREBOOT 1
#endif
#define BUG_GIVESUP 1         /* changes that end below what is accepted replace it */
#define BUG_OLDERROWS 2       /* whole values are taken though they are older */
#define BUG_FORGETS 3         /* the first publication of a term is not what was accepted before */
#define BUG_COMMITALONE 4     /* a commit is known by its version, without its term */
#define BUG_UNCHECKED 5       /* a delta is put on whatever is there, and the result is not compared */
#define BUG_STOREDANYHOW 6    /* a whole value becomes the committed one when it is on the disk, whatever was committed meanwhile */
#define BUG_ROWSGIVEUP 7      /* a whole value below what is accepted replaces it */
#define IX(t,v) ((t)*(MAXV+1)+(v))
#define SZ ((MAXT+1)*(MAXV+1))
#define CNT(m) (((m)&1)+(((m)>>1)&1)+(((m)>>2)&1))
#define MOST(m) (CNT(m) >= 2)
#define BIT(n) (1<<(n))
#define SUB(a,b) (((a) & ~(b)) == 0)
#define BELOW(t1,v1,t2,v2) ((t1) < (t2) || ((t1) == (t2) && (v1) < (v2)))

/* committed, as in memory; accepted on it (aT 0: nothing); what the disk surely knows as committed */
byte cT[N], cV[N], cS[N], aT[N], aV[N], aS[N], dT[N], dV[N], dS[N], cur[N], voted[N];
/* a whole value on its way to the disk */
byte wT[N], wV[N], wS[N];
byte lead[N], votes[N];
/* said: publications with base and content, acceptances, commits */
bit pX[SZ], com[SZ]; byte pB[SZ], pS[SZ], acc[SZ];
byte used, reboots, gS, gT;

#define HAVET(n) (aT[n] != 0 -> aT[n] : cT[n])
#define HAVEV(n) (aT[n] != 0 -> aV[n] : cV[n])
#define HAVES(n) (aT[n] != 0 -> aS[n] : cS[n])
#define BUSY(n) (wT[n] != 0)
#define STANDS(n,t) ((t) == 1 -> (n) == 0 : (n) <= 1)

inline stepdown(n) { lead[n] = 0; votes[n] = 0 }
inline drop(n) { aT[n] = 0; aV[n] = 0; aS[n] = 0 }
inline commits(n, t, v, s) {
  assert(SUB(cS[n], s) && v > cV[n]);                                    /* C3 */
  cT[n] = t; cV[n] = v; cS[n] = s
}
inline commitaccepted(n) { commits(n, aT[n], aV[n], aS[n]); drop(n) }
/* on disk as accepted in (t, v) */
inline accepted(n, t, v, s) { aT[n] = t; aV[n] = v; aS[n] = s; dT[n] = cT[n]; dV[n] = cV[n]; dS[n] = cS[n]; acc[IX(t,v)] = acc[IX(t,v)] | BIT(n) }
inline isknown(t, v) {
  if
  :: !com[IX(t,v)] ->
     com[IX(t,v)] = 1;
     assert(SUB(pS[IX(t,v)], gS) || SUB(gS, pS[IX(t,v)]));               /* C1 */
     if :: SUB(gS, pS[IX(t,v)]) -> gS = pS[IX(t,v)]; if :: t > gT -> gT = t :: else fi :: else fi
  :: else
  fi
}
inline publish(n, v, s) {
  assert(!pX[IX(cur[n],v)]);
  pX[IX(cur[n],v)] = 1; pB[IX(cur[n],v)] = cS[n]; pS[IX(cur[n],v)] = s;
  assert(cur[n] < gT || SUB(gS, s));                                     /* C2 */
  accepted(n, cur[n], v, s)
}
/* what a publication, or changes, rest on is put on the committed value */
#define DELTA(n,base,s) (cS[n] | ((s) & ~(base)))
inline joinsterm(n, t) { if :: t > cur[n] -> cur[n] = t; voted[n] = 0; stepdown(n) :: else fi }

proctype Node(byte n) {
  byte t, v, s, b;
  do
  /* stand */
  :: atomic { !BUSY(n) && cur[n] < MAXT && lead[n] == 0 -> t = cur[n]+1;
       if
       :: STANDS(n,t) -> cur[n] = t; voted[n] = n+1; stepdown(n); votes[n] = BIT(n); lead[n] = 1
       :: else
       fi; t = 0 }
  /* vote: for who stands in a term, once in it */
  :: atomic { !BUSY(n) -> if :: b = 0 :: b = 1 fi;
       t = cur[b];
       if
       :: b != n && lead[b] == 1 && (t > cur[n] || (t == cur[n] && voted[n] == 0)) ->
          if :: t > cur[n] -> stepdown(n) :: else fi;
          cur[n] = t; voted[n] = b+1;
          if :: !BELOW(HAVET(b),HAVEV(b),HAVET(n),HAVEV(n)) -> votes[b] = votes[b] | BIT(n) :: else fi
       :: else
       fi; b = 0; t = 0 }
  /* won: what an earlier term accepted goes first, unchanged, on the same base */
  :: atomic { lead[n] == 1 && !BUSY(n) && MOST(votes[n]) && HAVEV(n) < MAXV ->
       lead[n] = 2; votes[n] = 0;
       v = HAVEV(n)+1; s = HAVES(n);
       if :: bug == BUG_FORGETS -> s = cS[n] :: else fi;
       if :: aT[n] != 0 -> publish(n, v, s) :: else -> publish(n, v, cS[n]) fi; v = 0; s = 0 }
  /* the next publication, when the one before is committed */
  :: atomic { lead[n] == 2 && aT[n] == 0 && !BUSY(n) && cV[n] < MAXV && cT[n] == cur[n] && used < 4 ->
       v = cV[n]+1; s = cS[n] | BIT(used); used++;
       publish(n, v, s); v = 0; s = 0 }
  /* commit */
  :: atomic { lead[n] == 2 && aT[n] == cur[n] && MOST(acc[IX(aT[n],aV[n])]) -> isknown(aT[n], aV[n]); commitaccepted(n) }
  /* a publication: of this term or a later one, which is joined first */
  :: atomic { !BUSY(n) && (lead[n] == 0 || lead[n] == 1) -> if :: t = 1 :: t = MAXT fi; if :: v = 1 :: v = 2 :: v = MAXV fi;
       if
       :: pX[IX(t,v)] && t >= cur[n] && BELOW(HAVET(n),HAVEV(n),t,v) && v > cV[n] && (t > cur[n] || lead[n] == 0 || voted[n] != n+1) ->
          joinsterm(n, t);
          b = pB[IX(t,v)]; s = pS[IX(t,v)];
          /* what it rests on is accepted here: committed by that name (a publication names its base: the committed value before it) */
          if
          :: aT[n] == t && aV[n] < v && aS[n] == b && com[IX(aT[n],aV[n])] -> commitaccepted(n)
          :: else
          fi;
          if
          :: cS[n] == s -> accepted(n, t, v, s)                              /* a new name for what is committed here */
          :: cS[n] != s && cS[n] == b -> assert(DELTA(n,b,s) == s); accepted(n, t, v, s)
          :: cS[n] != s && cS[n] != b && bug == BUG_UNCHECKED ->
             assert(DELTA(n,b,s) == s);                                      /* C4 */
             accepted(n, t, v, s)
          :: else                                                            /* it asks for what it lacks */
          fi
       :: else
       fi; t = 0; v = 0; s = 0; b = 0 }
  /* a heartbeat names what is committed */
  :: atomic { aT[n] != 0 && lead[n] != 2 -> if :: t = 1 :: t = MAXT fi;
       if
       :: com[IX(aT[n],aV[n])] -> commitaccepted(n)
       :: bug == BUG_COMMITALONE && com[IX(t,aV[n])] -> commitaccepted(n)
       :: else
       fi; t = 0 }
  /* committed changes since what is committed here, of whoever has them; what is accepted here and may be chosen is not given up for less */
  :: atomic { !BUSY(n) && lead[n] != 2 -> if :: t = 1 :: t = MAXT fi; if :: v = 1 :: v = 2 :: v = MAXV fi;
       if
       :: com[IX(t,v)] && BELOW(cT[n],cV[n],t,v) && v > cV[n] && SUB(cS[n],pS[IX(t,v)]) && (bug == BUG_GIVESUP || !BELOW(t,v,HAVET(n),HAVEV(n))) ->
          joinsterm(n, t);
          if
          :: aT[n] == t && aV[n] == v -> commitaccepted(n)
          :: else -> s = pS[IX(t,v)]; drop(n); commits(n, t, v, s); dT[n] = t; dV[n] = v; dS[n] = s
          fi
       :: else
       fi; t = 0; v = 0; s = 0 }
  /* a whole value: checked when it came, written, and become what is committed when that is done */
  :: atomic { !BUSY(n) && lead[n] != 2 -> if :: t = 1 :: t = MAXT fi; if :: v = 1 :: v = 2 :: v = MAXV fi;
       if
       :: com[IX(t,v)] && (bug == BUG_OLDERROWS || (BELOW(cT[n],cV[n],t,v) && v > cV[n] && (bug == BUG_ROWSGIVEUP || !BELOW(t,v,HAVET(n),HAVEV(n))))) ->
          joinsterm(n, t);
          wT[n] = t; wV[n] = v; wS[n] = pS[IX(t,v)]
       :: else
       fi; t = 0; v = 0 }
  :: atomic { BUSY(n) ->
       if
       :: BELOW(cT[n],cV[n],wT[n],wV[n]) || bug == BUG_STOREDANYHOW || bug == BUG_OLDERROWS ->
          drop(n);
          t = wT[n]; v = wV[n]; s = wS[n];
          commits(n, t, v, s); dT[n] = t; dV[n] = v; dS[n] = s
       :: else
       fi; wT[n] = 0; wV[n] = 0; wS[n] = 0; t = 0; v = 0; s = 0 }
  /* restart: a COMMIT record may be missing, and then what it named is accepted only; a whole value may be on the disk or not */
  :: atomic { reboots < MAXREBOOT -> reboots++; stepdown(n);
       if
       :: BUSY(n) && BELOW(cT[n],cV[n],wT[n],wV[n]) -> drop(n); cT[n] = wT[n]; cV[n] = wV[n]; cS[n] = wS[n]; dT[n] = cT[n]; dV[n] = cV[n]; dS[n] = cS[n]
       :: aT[n] == 0 && BELOW(dT[n],dV[n],cT[n],cV[n]) -> aT[n] = cT[n]; aV[n] = cV[n]; aS[n] = cS[n]; cT[n] = dT[n]; cV[n] = dV[n]; cS[n] = dS[n]
       :: skip
       fi;
       wT[n] = 0; wV[n] = 0; wS[n] = 0 }
  od
}

init { seed(); atomic { run Node(0); run Node(1); run Node(2) } }
