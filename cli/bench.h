/* `ottla bench …`: bounded load on a cluster over the Kafka protocol, with throughput, percentiles, and the command line that does the same again. */
#ifndef OT_CLI_BENCH_H
#define OT_CLI_BENCH_H

#include "cli/command.h"

extern const struct cli_flag cli_bench_produce_flags[], cli_bench_consume_flags[], cli_bench_latency_flags[], cli_bench_replicate_flags[];
int cli_bench_produce_run(const struct cli_args *args);
int cli_bench_consume_run(const struct cli_args *args);
int cli_bench_latency_run(const struct cli_args *args);
int cli_bench_replicate_run(const struct cli_args *args);

#endif
