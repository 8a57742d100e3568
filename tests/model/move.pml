/*
 * move.pml - a leader that lives is moved: it hands over, so that nothing that acks=1 acknowledged is lost (coordinator/replica.c, coordinator/replicas.c).
 *
 * Two brokers, one partition, min_isr 1. The coordinator is one register whose states each broker follows one by one; all that it knows of a move is the row, so another coordinator is the same
 * register. What a leader says to it waits in a slot: it arrives late, or is dropped (MAXDROP) and said again. Either broker dies or is fenced while it lives, the ISR shrinks and grows, in
 * the middle of it all.
 *
 * Checked: M1 what acks=1 acknowledged is in the log of whoever a move made leader, and is cut off nowhere, unless a leader was replaced because it was taken for dead since; M2 nothing
 * blocks for ever: every step is progress of something bounded, and where no step is left no successor is named, the leader has answered all that it took, and whoever lives is in the ISR.
 *
 * Bounds: MAXLEN offsets, MAXREC records, MAXMOVE moves, MAXFENCE fencings, MAXCRASH deaths, MAXSHRINK, MAXDROP.
 */
#include "seeded.h"
#ifndef MAXLEN
#define MAXLEN 2
#endif
#ifndef MAXREC
#define MAXREC 2
#endif
#ifndef MAXMOVE
#define MAXMOVE 1
#endif
#ifndef MAXFENCE
#define MAXFENCE 1
#endif
#ifndef MAXCRASH
#define MAXCRASH 0
#endif
#ifndef MAXSHRINK
#define MAXSHRINK 0
#endif
#ifndef MAXDROP
#define MAXDROP 1
#endif
#define MAXPE (2+3*MAXMOVE+4*(MAXFENCE+MAXCRASH)+2*MAXSHRINK)
#define BUG_ATONCE 1          /* the leader is replaced without handing over */
#define BUG_EARLY 2           /* it hands over before its successor has everything */
#define BUG_ACKS 3            /* while it hands over, acks=1 is answered as ever */
#define BUG_YIELDENDS 4       /* having said that it hands over, it gives up and goes on */
#define BUG_ANYPE 5           /* a handover of an older row counts */
#define NONE 2
#define KEEPS 0
#define WAITS 1
#define YIELDS 2
#define STAYS 3
#define BIT(n) (1<<(n))
#define HAS(m,r) (((m)>>(r))&1)
#define LG(r,o) log[(r)*MAXLEN+(o)]
#define EP(x) ((x)>>3)
#define ID(x) ((x)&7)
#define OTHER(r) (1-(r))

byte cpe = 1, hL[MAXPE+1], hE[MAXPE+1], hI[MAXPE+1], hS[MAXPE+1], cX;
bit fenced[2], alive[2]; byte vp[2], le[2], log[2*MAXLEN], k[2], start[2], a1[2], pI[2], ho[2], hend[2];
/* said to the coordinator, for which partition epoch: hands over, gives up, an isr */
byte rqH[2], rqG[2], rqA[2], rqI[2];
/* acknowledged records; epochs whose leader came unplanned */
byte am, un, rec, moves, fences, crashes, shrinks, drops;
byte i_, j_, nI, nL, nS;

#define VL(r) hL[vp[r]]
#define VE(r) hE[vp[r]]
#define VI(r) hI[vp[r]]
#define LEADS(r) (alive[r] && VL(r) == (r))
#define MAXI(r) (VI(r) | pI[r])
#define AFTER(e) ((un >> ((e)+1)) != 0)
/* a fetch of f would change something */
#define USEFUL(f,l) (k[f] != le[f] || le[f] != le[l] || (le[f] > 0 && LG(f,le[f]-1) != LG(l,le[f]-1)))
#define CAS(l,pe) (hL[cpe] == l && (pe) == cpe)

/* M1: the new leader has what was acknowledged */
inline has_all(r) {
  for (i_ : 0 .. MAXLEN-1) {
    if
    :: i_ < le[OTHER(r)] && HAS(am,ID(LG(OTHER(r),i_))) && !AFTER(EP(LG(OTHER(r),i_))) -> assert(i_ < le[r] && LG(r,i_) == LG(OTHER(r),i_))
    :: else
    fi }; i_ = 0
}
inline next(planned) {
  assert(cpe < MAXPE);
  cpe++; hL[cpe] = nL; hI[cpe] = nI; hE[cpe] = hE[cpe-1] + (nL != hL[cpe-1]); hS[cpe] = 0;
  if
  :: nL != hL[cpe-1] -> if :: planned :: else -> un = un | BIT(hE[cpe]) fi
  :: nL == hL[cpe-1] && nS != NONE && HAS(nI,nS) -> hS[cpe] = nS+1
  :: else
  fi;
  nI = 0; nL = 0; nS = 0
}
inline recompute() {                                             /* nI given: the leader stays if it is in it and not fenced */
  nS = (hS[cpe] != 0 -> hS[cpe]-1 : NONE); nL = NONE;
  if :: nI == 0 -> cX = cX | hI[cpe] :: else -> cX = 0 fi;
  if
  :: hL[cpe] != NONE && HAS(nI,hL[cpe]) && !fenced[hL[cpe]] -> nL = hL[cpe]
  :: else ->
     if
     :: HAS(nI,0) && !fenced[0] -> nL = 0
     :: HAS(nI,1) && !fenced[1] -> nL = 1
     :: nI == 0 && HAS(cX,0) && !fenced[0] -> nL = 0; nI = 1; cX = 0
     :: nI == 0 && HAS(cX,1) && !fenced[1] -> nL = 1; nI = 2; cX = 0
     :: else
     fi
  fi;
  if :: nI != hI[cpe] || nL != hL[cpe] -> next(0) :: else -> nI = 0; nL = 0; nS = 0 fi
}
inline cut(r, n) {
  for (i_ : 0 .. MAXLEN-1) {
    if
    :: i_ >= n && i_ < le[r] -> assert(!HAS(am,ID(LG(r,i_))) || AFTER(EP(LG(r,i_)))); am = am & ~BIT(ID(LG(r,i_))); LG(r,i_) = 0      /* M1 */
    :: else
    fi }; i_ = 0;
  le[r] = n
}

proctype Broker(byte r) {
  byte n;
end: do
  :: atomic { alive[r] && vp[r] < cpe ->
       n = VE(r); vp[r]++; pI[r] = 0;
       if :: VE(r) != n -> k[OTHER(r)] = (VL(r) == r -> 0 : k[OTHER(r)]); if :: VL(r) == r -> start[r] = le[r]; a1[r] = le[r] :: else fi :: else fi;
       if
       :: VL(r) != r || hS[vp[r]] == 0 -> ho[r] = KEEPS; hend[r] = 0
       :: VL(r) == r && hS[vp[r]] != 0 && (VE(r) != n || ho[r] == KEEPS) -> ho[r] = WAITS; hend[r] = le[r]
       :: else
       fi; n = 0 }
  :: atomic { LEADS(r) && le[r] < MAXLEN && rec < MAXREC -> rec++; LG(r,le[r]) = (VE(r)<<3) | rec; le[r]++ }
  /* acks=1 is answered: at once, or, while it hands over, when all in sync have it */
  :: atomic { LEADS(r) && a1[r] < le[r] && (ho[r] == KEEPS || ho[r] == STAYS || bug == BUG_ACKS || !HAS(MAXI(r),OTHER(r)) || k[OTHER(r)] > a1[r]) ->
       am = am | BIT(ID(LG(r,a1[r]))); a1[r]++ }
  :: atomic { LEADS(r) && ho[r] == WAITS && (k[OTHER(r)] >= hend[r] || bug == BUG_EARLY) -> ho[r] = YIELDS }
  :: atomic { LEADS(r) && (ho[r] == WAITS || (ho[r] == YIELDS && bug == BUG_YIELDENDS)) -> ho[r] = STAYS }
  :: atomic { LEADS(r) && pI[r] == 0 && ho[r] == YIELDS && rqH[r] != vp[r] -> rqH[r] = vp[r] }
  :: atomic { LEADS(r) && pI[r] == 0 && ho[r] == STAYS && rqG[r] != vp[r] -> rqG[r] = vp[r] }
  /* who is in sync */
  :: atomic { LEADS(r) && pI[r] == 0 && HAS(VI(r),OTHER(r)) && shrinks < MAXSHRINK -> shrinks++; pI[r] = BIT(r); rqA[r] = vp[r]; rqI[r] = pI[r] }
  :: atomic { LEADS(r) && pI[r] == 0 && !HAS(VI(r),OTHER(r)) && alive[OTHER(r)] && !fenced[OTHER(r)] && vp[OTHER(r)] == cpe && vp[r] == cpe && le[OTHER(r)] >= start[r] &&
       k[OTHER(r)] >= start[r] && k[OTHER(r)] == le[OTHER(r)] -> pI[r] = 3; rqA[r] = vp[r]; rqI[r] = 3 }
  :: atomic { alive[r] && pI[r] != 0 && rqA[r] != vp[r] -> rqA[r] = vp[r]; rqI[r] = pI[r] }
  /* follow */
  :: atomic { alive[r] && VL(r) == OTHER(r) && LEADS(OTHER(r)) && VE(OTHER(r)) == VE(r) && USEFUL(r,OTHER(r)) ->
       n = 0; do :: n < MAXLEN && n < le[r] && n < le[OTHER(r)] && LG(r,n) == LG(OTHER(r),n) -> n++ :: else -> break od;
       if
       :: n < le[r] -> cut(r, n)
       :: n == le[r] && n < le[OTHER(r)] -> k[r] = n; LG(r,n) = LG(OTHER(r),n); le[r]++
       :: n == le[r] && n == le[OTHER(r)] && k[r] != n -> k[r] = n
       fi; n = 0 }
  :: atomic { alive[r] && crashes < MAXCRASH -> crashes++; alive[r] = 0; pI[r] = 0; ho[r] = KEEPS; hend[r] = 0; k[OTHER(r)] = 0 }
  /* it registers again: fenced, out of the isr, and another one leads if it did */
  :: atomic { !alive[r] -> fenced[r] = 1; nI = hI[cpe] & ~BIT(r) & 3; recompute(); vp[r] = cpe; alive[r] = 1; start[r] = le[r] }
  od
}

proctype Coordinator() {
  byte r;
end: do
  :: atomic { moves < MAXMOVE && hL[cpe] != NONE && hS[cpe] == 0 && hI[cpe] == 3 && !fenced[OTHER(hL[cpe])] ->
       moves++; nI = 3; nL = hL[cpe]; nS = OTHER(nL);
       if :: bug == BUG_ATONCE -> nL = nS; nS = NONE; has_all(nL); next(1) :: else -> next(1) fi }
  :: atomic { rqH[0] != 0 || rqH[1] != 0 -> r = (rqH[0] != 0 -> 0 : 1);
       if
       :: hS[cpe] != 0 && (CAS(r,rqH[r]) || (bug == BUG_ANYPE && hL[cpe] == r)) ->
          nL = hS[cpe]-1; nI = hI[cpe]; nS = NONE; has_all(nL); next(1)
       :: else
       fi; rqH[r] = 0; r = 0 }
  :: atomic { rqG[0] != 0 || rqG[1] != 0 -> r = (rqG[0] != 0 -> 0 : 1);
       if :: hS[cpe] != 0 && CAS(r,rqG[r]) -> nL = r; nI = hI[cpe]; nS = NONE; next(1) :: else fi; rqG[r] = 0; r = 0 }
  :: atomic { rqA[0] != 0 || rqA[1] != 0 -> r = (rqA[0] != 0 -> 0 : 1);
       if
       :: CAS(r,rqA[r]) && (!HAS(rqI[r] & ~hI[cpe],OTHER(r)) || !fenced[OTHER(r)]) -> nI = rqI[r]; recompute()
       :: CAS(r,rqA[r]) && HAS(rqI[r] & ~hI[cpe],OTHER(r)) && fenced[OTHER(r)] -> if :: alive[r] && vp[r] == rqA[r] -> pI[r] = 0 :: else fi      /* refused for good */
       :: else
       fi; rqA[r] = 0; rqI[r] = 0; r = 0 }
  :: atomic { drops < MAXDROP && (rqH[0] | rqH[1] | rqG[0] | rqG[1]) != 0 -> drops++; rqH[0] = 0; rqH[1] = 0; rqG[0] = 0; rqG[1] = 0 }
  :: atomic { fences < MAXFENCE -> if :: r = 0 :: r = 1 fi;
       if :: !fenced[r] -> fences++; fenced[r] = 1; nI = hI[cpe] & ~BIT(r) & 3; recompute() :: else fi; r = 0 }
  :: atomic { fenced[0] && alive[0] && vp[0] == cpe -> fenced[0] = 0; if :: hL[cpe] == NONE -> nI = hI[cpe]; recompute() :: else fi }
  :: atomic { fenced[1] && alive[1] && vp[1] == cpe -> fenced[1] = 0; if :: hL[cpe] == NONE -> nI = hI[cpe]; recompute() :: else fi }
  /* M2 */
  :: timeout -> assert(hS[cpe] == 0); assert(hL[cpe] != NONE && a1[hL[cpe]] == le[hL[cpe]]); assert(hI[cpe] == 3); break
  od
}

init {
  d_step { hL[1] = 0; hE[1] = 1; hI[1] = 3; vp[0] = 1; vp[1] = 1; alive[0] = 1; alive[1] = 1 };
  seed();
  atomic { run Coordinator(); run Broker(0); run Broker(1) }
}
