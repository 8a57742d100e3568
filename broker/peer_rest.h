/* Requests of the REST API that one broker passes on to another: between the peer listener, which brings them, and the REST door, which answers.
 *
 * thread  serve and cancel are called on the loop of the connection that brought the request, under a mutex: they may only post. */
#ifndef OT_BROKER_PEER_REST_H
#define OT_BROKER_PEER_REST_H

#include "base/wire/peer_rest_request.h"
#include "base/wire/peer_rest_response.h"
#include "broker/call.h"

struct broker;

struct broker_peer_rest {
    struct broker_call call;
    int32_t peer; const struct ot_peer_rest_request *in;       /* lives until release */
    struct ot_peer_rest_response out;          /* answered; what it points to lives until release */
    void (*release)(struct broker_peer_rest *rest);            /* of whoever answered, after the answer was made: any thread. NULL: nothing is to be let go */
    void *own;                                 /* of the door */
};
struct broker_rest_door {
    void *arg;
    void (*serve)(void *arg, struct broker_peer_rest *rest);   /* done on home, later */
    void (*cancel)(void *arg, struct broker_peer_rest *rest);  /* who asked is gone: hurry */
};
/* What answers from now on; NULL: nothing does. Once this returns nobody is inside the door of before. */
void broker_rest_door(struct broker *broker, const struct broker_rest_door *door);
void broker_peer_rest(struct broker *broker, struct broker_peer_rest *rest);   /* done never runs before this returns. Status 0: this broker has no REST door (open) */
void broker_peer_rest_cancel(struct broker *broker, struct broker_peer_rest *rest);

#endif
