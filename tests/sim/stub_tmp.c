/* Stand-ins until broker.c and the last functions of the log are there; weak, so that the real ones win. */
#include "broker/core.h"
#pragma GCC diagnostic ignored "-Wmissing-prototypes"
__attribute__((weak)) struct ot_exec *broker_io_exec(struct broker *broker) { return broker_core_of(broker)->io_exec; }
__attribute__((weak)) const struct broker_config *broker_config(struct broker *broker) { return broker_config_current(broker_core_of(broker)->config); }
__attribute__((weak)) enum ot_err eng_log_add_aborted(struct eng_log *log, const struct eng_completed_txn *txn) { (void)log; (void)txn; return OT_OK; }
__attribute__((weak)) bool eng_log_has_aborted(const struct eng_log *log) { (void)log; return false; }
__attribute__((weak)) enum ot_err eng_log_retire(struct eng_log *log) { (void)log; return OT_OK; }
