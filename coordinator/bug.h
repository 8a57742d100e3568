/* A rule left out on purpose, for tests of the tests: the simulator's build of coordinator/ (OT_COORD_BUGS) can choose one, every other build has none. */
#ifndef OT_COORDINATOR_BUG_H
#define OT_COORDINATOR_BUG_H

#define COORD_BUGS(X) \
    X(MINORITY, "minority")                    /* half the votes are enough */ \
    X(OLDER_WINS, "older-wins")                /* a vote for somebody who knows less */ \
    X(SECOND_VOTE, "second-vote")              /* a vote in a term where another one was given */ \
    X(LEADS_AGAIN, "leads-again")              /* a process leads a term that it stood for before its restart */ \
    X(SEND_FIRST, "send-first")                /* a vote is sent before it is on the disk */ \
    X(STALE_PUBLICATION, "stale-publication")  /* a publication of an older term is accepted */ \
    X(VERSION_ALONE, "version-alone")          /* acceptances are matched without their term */ \
    X(COMMIT_ALONE, "commit-alone")            /* a commit is known by its version, without its term */ \
    X(FORGETS_ACCEPTED, "forgets-accepted")    /* what an earlier term accepted is not published again */ \
    X(NEW_SET_ONLY, "new-set-only")            /* a change of voters commits without the old ones */ \
    X(NO_VOTE_PROOF, "no-vote-proof")          /* a set of voters is published without their votes */ \
    X(UNSURE_VOTES, "unsure-votes")            /* a vote in doubt counts like any other */ \
    X(DOUBT_ENDS_EARLY, "doubt-ends-early")    /* any acceptance ends the doubt */ \
    X(GIVES_UP_ACCEPTED, "gives-up-accepted")  /* changes that end below what is accepted replace it */ \
    X(ANY_DIRECTORY, "any-directory")          /* a voter is known by its number alone */ \
    X(FOUND_BY_MAJORITY, "found-by-majority")  /* a majority of blank nodes founds */ \
    X(READ_AT_ONCE, "read-at-once")            /* reads are answered without asking whether one still leads */ \
    X(BEAT_AT_ONCE, "beat-at-once")            /* and so is who says that it lives */ \
    X(FETCH_ANY_EPOCH, "fetch-any-epoch")      /* a fetch of another leader epoch counts */ \
    X(ALTER_ANY_EPOCH, "alter-any-epoch")      /* an isr is changed whatever the partition epoch */ \
    X(MEMBER_ANY_EPOCH, "member-any-epoch")    /* a member joins the isr whatever its broker epoch */ \
    X(MATCH_ANYTHING, "match-anything")        /* a follower's end counts before the logs match */ \
    X(COMMITTED_ISR_ONLY, "committed-isr-only") /* the high watermark does not wait for who is proposed */ \
    X(SMALL_ISR, "small-isr")                  /* it moves below min.insync.replicas */ \
    X(TIMEOUT_CLEARS, "timeout-clears")        /* a proposal is forgotten while it may still be taken */ \
    X(ANY_REFUSAL_ENDS, "any-refusal-ends")    /* a refusal for its epoch ends a proposal that an earlier copy may have put through */ \
    X(ALTER_REORDERED, "alter-reordered")      /* an older copy of a proposal is taken after a younger one was refused */ \
    X(ANSWER_BY_END, "answer-by-end")          /* an answer is for this log if its end is the same, whatever its last epoch */ \
    X(READDED_AS_BEFORE, "readded-as-before")  /* a replica that comes back is believed what it said before it went */ \
    X(JOINS_BEHIND, "joins-behind")            /* a follower joins the isr below the high watermark */ \
    X(JOINS_BELOW_START, "joins-below-start")  /* or below the start of the leader's epoch */ \
    X(ELECT_OUTSIDER, "elect-outsider")        /* somebody outside isr and elr leads */ \
    X(ELR_KEPT, "elr-kept")                    /* who lost data stays eligible */ \
    X(FLUSH_IGNORED, "flush-ignored")          /* the fsync classes do not wait for the disk */ \
    X(FOLLOWERS_UNFLUSHED, "followers-unflushed") /* replicated+fsync waits for the leader's disk alone */ \
    X(CLASS_LEFT_EARLY, "class-left-early")    /* an fsync class ends while durable_since still vouches for it */ \
    X(DELTA_UNCHECKED, "delta-unchecked")      /* a delta is put on whatever is there, and the result is not compared */ \
    X(OLDER_ROWS, "older-rows")                /* rows of a value are taken though they are older than what is applied */ \
    X(TWO_CHANGES, "two-changes")              /* a publication may change several voters */ \
    X(ELR_STAYS, "elr-stays")                  /* elr is not emptied when the isr is large enough again */ \
    X(SAME_LEADER_EPOCH, "same-leader-epoch")  /* another leader gets the epoch of the last one */ \
    X(WATERMARK_BACK, "watermark-back")        /* the high watermark follows the least end down */ \
    X(LONG_LEASE, "long-lease")                /* a lease lasts as long as the session, though clocks differ */ \
    X(MOVES_AT_ONCE, "moves-at-once")          /* a leader that lives is replaced at an operator's word without handing over */ \
    X(HANDS_OVER_EARLY, "hands-over-early")    /* it hands over before its successor has everything */ \
    X(ACKS_WHILE_MOVING, "acks-while-moving")  /* while it hands over, acks=1 is answered as ever */ \
    X(REFUSAL_LOST, "refusal-lost")            /* a refused proposal is asked for ever */ \
    X(NEVER_RESENT, "never-resent")            /* a publication that got lost is not sent again */ \
    X(NEVER_SNAPSHOTS, "never-snapshots")      /* the journal grows and grows */ \
    X(NEWEST_ROWS, "newest-rows")              /* rows are written in the newest version, whatever level is final */ \
    X(TAKES_ANY_LEVEL, "takes-any-level")      /* a value is taken whatever its feature level */ \
    X(RAISES_BLINDLY, "raises-blindly")        /* a feature level is raised without asking who knows it */ \
    X(HIDDEN_COUNTER, "hidden-counter")        /* chance that the seed does not decide */ \
    X(COMMIT_ANY_GENERATION, "commit-any-generation")  /* a classic group takes commits of a generation that is over */ \
    X(SYNC_ANY_GENERATION, "sync-any-generation")      /* and hands out what the leader of such a one says */ \
    X(SILENT_STAY, "silent-stay")              /* a silent member stays */ \
    /* of the broker (tests/sim/whole/mutations.c) */ \
    X(FOLLOWER_FORGETS, "follower-forgets")    /* a follower does not note what its leader's producers have written */ \
    X(STOPS_AT_ONCE, "stops-at-once")          /* a broker that stops does not wait until the others have what acks=1 acknowledged */ \
    X(LEASE_LOOKED_AT_ONCE, "lease-looked-at-once")    /* a lease is looked at when a request comes, and not when it was written */ \
    X(START_NOT_FOLLOWED, "start-not-followed")        /* a follower keeps what its leader deleted */ \
    X(DELETED_COMES_BACK, "deleted-comes-back")        /* DeleteRecords is answered before the log start is on the disk */

#ifdef OT_COORD_BUGS
#include <stdint.h>
enum coord_bug { COORD_BUG_NONE,
#define X(name, text) COORD_BUG_##name,
    COORD_BUGS(X)
#undef X
};
extern enum coord_bug coord_bug;
extern uint64_t coord_bug_counter;             /* survives what is made anew */
#define COORD_BUG(name) (coord_bug == COORD_BUG_##name)
#define COORD_BUG_CHANCE (COORD_BUG(HIDDEN_COUNTER) ? ++coord_bug_counter : 0)
#else
#define COORD_BUG(name) false
#define COORD_BUG_CHANCE 0
#endif

#endif
