/* Lock order and thread rules of the whole server, written once.
 *
 * Threads: reactors (base/net, no locks held across turns, no blocking call), the coordinator thread (steps coordinator/, applies committed states), the I/O pool
 * (appends, cold reads, decoding, fsync, recovery), background work (retention, deletion, checkpoints), jobs that
 * somebody asked for (one at a time; blocks on the disk and in its throttle), REST's and gRPC's own threads.
 *
 * Locks, outermost first; never take one to the left of one that is held:
 *   checkpoint files  >  fetch session shard  >  registry of partitions (rwlock)  >  partition mutex  >  epochs, file cache, segment list of the engine (each a leaf)
 * Only the first, and the engine's own locks of a writer (of a log, of its epochs), are held across I/O; a post to another executor is fine under any.
 *
 * A waiter belongs to the executor that made it; whoever satisfies it posts. Completions never run callbacks of a door under a lock. */
#ifndef OT_BROKER_THREADS_H
#define OT_BROKER_THREADS_H
#endif
